"""A text to be compiled: its flags and libraries."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tcdsl.codegen.toolchain.cc import Compiler, Kind
from tcdsl.codegen.toolchain.contentfile import stem
from tcdsl.grammar.text.dataclass import dataclass

# What finds nothing in kernels that are all vectors in unrolled loops, but takes gcc a third of the
# time for them: their loops have the same instructions without it. `prelude.h` has this list too,
# but for ranges of values.
SPARED: Mapping[Kind, tuple[str, ...]] = {
    "gcc": (
        "-fno-schedule-insns2",
        "-fno-tree-vrp",
        "-fno-tree-pre",
        "-fno-gcse",
        "-fno-code-hoisting",
        "-fno-rerun-cse-after-loop",
        "-fno-tree-loop-vectorize",
    ),
}
_LITTLE = '#pragma GCC optimize ("O1")\n'
# Objects are small and many: one of two segments, none of which is protected behind the loader, is
# opened in half the time. What would be protected points to functions, as slots of imports do.
_BARE = (
    "-nostdlib",
    "-fno-use-linker-plugin",
    "-Wl,-z,noseparate-code",
    "-Wl,-z,norelro",
    "-Wl,--build-id=none",
)
# What libm has, by its name or as a builtin, but for what is an instruction anywhere.
_LIBM = re.compile(
    r"\b(?:__builtin_)?(?:a?(?:sin|cos|tan)h?|atan2|cbrt|ceil|erfc?|exp(?:2|10|m1)?|fdim"
    r"|floor|fma|fmax|fmin|fmod|frexp|hypot|ilogb|j[01n]|ldexp|lgamma(?:_r)?|l?l?rint|l?l?round"
    r"|log(?:2|10|1p|b)?|modf|nearbyint|next(?:after|toward)|pow|remainder|remquo|roundeven|scalbl?n"
    r"|significand|sincos|[lt]gamma|trunc|y[01n])[fl]?\b"
)
_INSTRUCTIONS = re.compile(r"__builtin_(?:ceil|floor|fma|nearbyint|rint|trunc)f?\b")  # of AVX2, FMA


@dataclass(frozen=True, slots=True)
class Source:
    """Text to be made a shared object: C, or C++ by the same compiler.

    name: for files and messages. flags stand after the compiler's own, which C++ has none of.
    include: another folder, beside the one of the prelude, for `#include "..."`. libraries stand
    behind the text. is_spelled_out: all that takes time in it is vectors in loops that say how they
    are unrolled, so that a compiler need not look for more.
    """

    name: str
    text: str
    opt: str = "-O3"
    flags: tuple[str, ...] = ()
    include: Path | None = None
    language: Literal["c", "c++"] = "c"
    libraries: tuple[str, ...] = ()
    is_spelled_out: bool = False

    @property
    def file(self) -> str:
        """The name of the file that is compiled; its ending tells the language."""
        return f"{stem(self.name)}.{'c' if self.language == 'c' else 'cpp'}"

    def all_flags(self, compiler: Compiler) -> tuple[str, ...]:
        """Return all flags of a compiler for this text."""
        own = compiler.flags if self.language == "c" else ()  # they speak of C
        spared = SPARED.get(compiler.kind, ()) if self.is_spelled_out else ()
        bare = _BARE if self.is_bare(compiler) else ()
        return (*own, self.opt, *spared, *self.flags, *bare)

    def all_libraries(self, compiler: Compiler, text: str | None = None) -> tuple[str, ...]:
        """Return all libraries that it is linked with.

        text: all that is compiled, headers too, where that is known. A linker takes as long to look
        into libm as for all else, and most kernels call none of it.
        """
        if not self.is_bare(compiler):
            return (*self.libraries, "-lm")
        return ("-lm", "-lgcc") if text is None or _needs_libm(text, compiler) else ("-lgcc",)

    def is_bare(self, compiler: Compiler) -> bool:
        """Whether it is linked without what a program needs to start: half of what linking takes.

        It calls libm at most, and memcpy, which the process has. What a person's own flags of a
        compiler ask for (sanitizers) comes with the usual libraries.
        """
        is_ours = self.language == "c" and not self.libraries and self.include is None
        is_plain = not any(word.startswith("-") for word in compiler.command)
        return is_ours and is_plain and compiler.kind == "gcc" and sys.platform == "linux"


def with_little_effort(text: str, compiler: Compiler) -> str:
    """Return a text of calls and integers for a compiler that need not look for what they gain.

    The text itself says so, since a compiler that waits for it has its flags (`early.py`).
    """
    return f"{_LITTLE}{text}" if compiler.kind == "gcc" else text  # others were not measured


def _needs_libm(text: str, compiler: Compiler) -> bool:
    if {"__AVX2__", "__FMA__"} <= set(compiler.macros):
        text = _INSTRUCTIONS.sub("", text)
    return _LIBM.search(text) is not None
