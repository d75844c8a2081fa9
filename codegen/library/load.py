"""C text becomes an executable in this process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from tcdsl.codegen.library.functions import addresses, missing_sources
from tcdsl.codegen.preludes.abi import VERSION, TcExecutable
from tcdsl.codegen.toolchain.cc import Source
from tcdsl.codegen.toolchain.contentfile import key_in
from tcdsl.codegen.toolchain.objects import compile_many, use_object
from tcdsl.grammar.text.dataclass import dataclass

# `ctypes.CDLL` makes classes for each object that it opens, which takes longer than to open it.
_itself = ctypes.CDLL(None)
_open, _find, _why = _itself.dlopen, _itself.dlsym, _itself.dlerror
_open.argtypes, _open.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
_find.argtypes, _find.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_void_p
_why.argtypes, _why.restype = (), ctypes.c_char_p


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded executable: the address of its `tc_executable`, and the handle of its object."""

    address: int
    library: int
    path: Path

    @property
    def key(self) -> str:
        """What the object is found by in the cache."""
        return key_in(self.path)


def load(path: Path, name: str) -> Loaded:
    """Return the executable `tc_exe_NAME` of a shared object, with the functions it imports.

    Raises
    ------
    CompileError
        If one of those has to be compiled, and is refused.
    OSError
        If it is no shared object.
    ValueError
        If it has no such executable.
    """
    library = _open(os.fsencode(path), os.RTLD_NOW)
    if not library:
        raise OSError(f"'{path}' cannot be loaded: {(_why() or b'?').decode(errors='replace')}")
    address = _find(library, f"tc_exe_{name}".encode())
    if not address:
        raise ValueError(f"'{path}' has no executable of '{name}'")
    executable = TcExecutable.from_address(address)
    if executable.abi == VERSION:  # else the runtime says so
        bind(executable)
    return Loaded(address, library, path)


def bind(executable: TcExecutable) -> None:
    """Give an executable the functions that it imports; the same ones however often."""
    imports = executable.import_[: executable.imports]
    names = [x.name.decode() for x in imports]
    for one, address in zip(imports, addresses(names), strict=True):
        ctypes.c_void_p.from_address(one.slot).value = address


def compile_and_load(text: str, name: str, imports: Sequence[str] = ()) -> Loaded:
    """Compile a unit, unless the cache has it, and load it.

    imports: what it imports, compiled side by side with it where it has to be.

    Raises
    ------
    CompileError
        If there is no compiler, or it refuses the text.
    """
    source = Source(name, text)
    if others := missing_sources(imports):
        compile_many([source, *others])  # what is refused is met again below
    return use_object(source, lambda path: load(path, name))
