"""C text becomes an executable in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from tcdsl.codegen.library.functions import addresses, missing_sources
from tcdsl.codegen.library.shared import address_in, opened
from tcdsl.codegen.preludes.abi import VERSION, TcExecutable
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.objects import compile_many, use_object
from tcdsl.codegen.toolchain.source import Source, with_little_effort
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded executable: the address of its `tc_executable`, and the handle of its object."""

    address: int
    library: int
    path: Path

    @property
    def file(self) -> str:
        """What its file in the cache is called."""
        return self.path.name


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
    library = opened(path)
    address = address_in(library, f"tc_exe_{name}")
    if not address:
        raise ValueError(f"'{path}' has no executable of '{name}'")
    executable = TcExecutable.from_address(address)
    if executable.abi == VERSION:  # else the runtime says so
        bind(executable)
    return Loaded(address, library, path)


def bind(executable: TcExecutable) -> None:
    """Give an executable the functions that it imports; the same ones however often."""
    if not executable.imports:
        return
    imports = executable.import_[: executable.imports]
    names = [x.name.decode() for x in imports]
    for one, address in zip(imports, addresses(names), strict=True):
        ctypes.c_void_p.from_address(one.slot).value = address


def compile_and_load(
    text: str, name: str, imports: Sequence[str] = (), only_walks: bool = False
) -> Loaded:
    """Compile a unit, unless the cache has it, and load it.

    imports: what it imports, compiled side by side with it where it has to be. only_walks: all that
    computes on elements is imported.

    Raises
    ------
    CompileError
        If there is no compiler, or it refuses the text.
    """
    source = Source(name, with_little_effort(text, find_compiler()) if only_walks else text)
    if others := missing_sources(imports):
        compile_many([source, *others])  # what is refused is met again below
    return use_object(source, lambda path: load(path, name))
