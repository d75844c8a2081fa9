"""Micro-kernels that candidates of a problem have alike, compiled once for all its units.

Half of what a compiler takes for a product goes to its register tiles, and candidates that differ
in blocks have the same ones. They become objects that units are linked with. Only what gcc neither
inlines nor clones, nor knows anything of (`noipa`), is shared: its code, and that of who calls it,
is what each candidate has alone, and after linking so is the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError

_MICRO = re.compile(
    r"^static (?P<head>TC_MICRO [^\n]*?(?P<name>\w+)\([^\n]*)(?P<body> \{\n.*?^\}\n)", re.M | re.S
)
_INCLUDE = re.compile(r"^#include [^\n]*\n", re.M)
_OWN = "@"  # in place of a micro-kernel's name

# Makes a text an object, by further flags or with further objects, as long as it is wanted.
Compile = Callable[[str, Sequence[str], Callable[[], bool]], Path | CompileError]


@dataclass(frozen=True, slots=True)
class _Made:
    name: str
    path: Path


class MicroKernels:
    """What is compiled of a problem so far; `build` may run in several threads.

    Parameters
    ----------
    compile : callable
    """

    def __init__(self, compile: Compile) -> None:
        self._compile = compile
        self._made: dict[str, _Made] = {}  # by text without a name

    def build(
        self, sources: Sequence[Emitted], is_unwanted: Callable[[], bool]
    ) -> Path | CompileError:
        """Return a shared object of candidates; what fails so is tried whole."""
        made = self._made.copy()  # what another thread makes meanwhile is made here too
        new: dict[str, re.Match[str]] = {}
        for source in sources:
            for found in _MICRO.finditer(source.text):
                if (plain := _plain(source, found)) is not None and plain not in made:
                    new.setdefault(plain, found)
        if new:
            includes = dict.fromkeys(i for s in sources for i in _INCLUDE.findall(s.text))
            text = "\n".join(["".join(includes), *(m["head"] + m["body"] for m in new.values())])
            path = self._compile(text, ("-c",), is_unwanted)
            if not isinstance(path, CompileError):
                made |= {plain: _Made(m["name"], path) for plain, m in new.items()}
                self._made |= made
        objects: dict[str, None] = {}
        texts = [_linked(source, made, objects) for source in sources]
        built = self._compile("\n".join(texts), tuple(objects), is_unwanted)
        if isinstance(built, CompileError) and objects:
            return self._compile(whole(sources), (), is_unwanted)
        return built


def whole(sources: Sequence[Emitted]) -> str:
    """Return candidates as one text that is linked with nothing."""
    return "\n".join(source.text for source in sources)


def _plain(source: Emitted, micro: re.Match[str]) -> str | None:
    """Return a micro-kernel without its name; None where it stands on more of its candidate's."""
    plain = re.sub(rf"\b{micro['name']}\b", _OWN, micro[0])
    return None if source.name in plain else plain


def _linked(source: Emitted, made: dict[str, _Made], objects: dict[str, None]) -> str:
    """Return a candidate's text that calls micro-kernels of objects, which are noted."""
    names: dict[str, str] = {}

    def declared(found: re.Match[str]) -> str:
        there = made.get(_plain(source, found) or "")
        if there is None:
            return found[0]
        objects[str(there.path)] = None
        names[found["name"]] = there.name
        return f"{found['head']};\n"

    text = _MICRO.sub(declared, source.text)
    return re.sub(rf"\b{source.name}\w*", lambda m: names.get(m[0], m[0]), text)
