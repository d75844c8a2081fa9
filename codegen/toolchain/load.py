"""C text becomes an executable in this process."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

from tcdsl.codegen.toolchain.cc import Source
from tcdsl.codegen.toolchain.contentfile import key_in
from tcdsl.codegen.toolchain.objects import use_object


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded executable: the address of its `tc_executable`, and what keeps it there."""

    address: int
    library: ctypes.CDLL
    path: Path

    @property
    def key(self) -> str:
        """What the object is found by in the cache."""
        return key_in(self.path)


def load(path: Path, name: str) -> Loaded:
    """Return the executable `tc_exe_NAME` of a shared object."""
    library = ctypes.CDLL(str(path))
    symbol = ctypes.c_char.in_dll(library, f"tc_exe_{name}")
    return Loaded(ctypes.addressof(symbol), library, path)


def compile_and_load(text: str, name: str) -> Loaded:
    """Compile a unit, unless the cache has it, and load it.

    Raises
    ------
    CompileError
        If there is no compiler, or it refuses the text.
    """
    return use_object(Source(name, text), lambda path: load(path, name))
