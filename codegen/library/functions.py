"""The functions of the library in this process: by name, each from an object of its own.

One is compiled when an executable first imports it, once on a machine: its object is found by a
record, so that a later process lowers nothing. A name is looked up in that object alone, never
among those of the process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

from tcdsl.codegen.library.shared import address_in, opened
from tcdsl.codegen.toolchain import records
from tcdsl.codegen.toolchain.cc import Compiler, find_compiler
from tcdsl.codegen.toolchain.host import tiles_are_granted
from tcdsl.codegen.toolchain.objects import compile_many, file_name, named, use_object
from tcdsl.codegen.toolchain.source import Source

_KIND = "library"
_TILED = "_tiled"  # what names of products of tiles have
_PLAN = "tc_plan_"  # what names of plans begin with
_KERNELS = ("tc_tile_", "tc_dot_", "tc_stream_")  # and those of kernels, which are all vectors

_Of = tuple[str, Compiler]  # what decides an object

_loaded: dict[_Of, int] = {}  # two threads write the same


def addresses(names: Sequence[str]) -> list[int]:
    """Return the addresses of functions, compiled where this machine has not got them.

    Raises
    ------
    CompileError
        If there is no compiler, or it refuses a text.
    KeyError
        If no function is called so.
    """
    if not names:
        return []
    compiler = find_compiler()
    if any(_TILED in name for name in names):
        tiles_are_granted()  # asked for before anything runs, by whichever process runs it
    if all((n, compiler) in _loaded for n in names):  # mostly, and quickly told
        return [_loaded[n, compiler] for n in names]
    sources = missing_sources(names)
    if len(sources) > 1:
        compile_many(sources)  # side by side; what is refused is met again below
    for source in sources:
        name = source.name
        _loaded[name, compiler], file = use_object(source, partial(_made, name))
        records.write(_KIND, _parts(name, compiler), file, name)
    return [_loaded[n, compiler] for n in names]


def missing(names: Sequence[str]) -> list[str]:
    """Return those of them that this machine has not got."""
    if not names:
        return []
    compiler = find_compiler()
    return [n for n in dict.fromkeys(names) if not _is_at_hand(n, compiler)]


def missing_sources(names: Sequence[str]) -> list[Source]:
    """Return what is compiled when these are asked for."""
    return [_source(n) for n in missing(names)]


def _is_at_hand(name: str, compiler: Compiler) -> bool:
    """Load a function that was compiled before; return whether it was."""
    of = name, compiler
    if of in _loaded:
        return True
    known = records.read_all(_KIND, _parts(name, compiler), file_name)
    for path in filter(None, map(named, known)):
        with contextlib.suppress(OSError, ValueError):  # pruned meanwhile; another's object
            _loaded[of] = _address(path, name)
            return True
    return of in _loaded  # by another thread


@lru_cache(maxsize=16)
def _source(name: str) -> Source:
    from tcdsl.codegen.choose import compiler  # on use: where all is there nothing is lowered

    return _as_source(name, compiler.emit_c(compiler.lower_library(name)))


def _as_source(name: str, text: str) -> Source:
    """Return what is compiled of a function: a plan runs once for each new size."""
    if name.startswith(_PLAN):
        return Source(name, text, "-O1")  # which takes a compiler three fifths of the time
    if name.startswith(_KERNELS):
        return Source(name, text, is_spelled_out=True)
    return Source(name, text)


def _made(name: str, path: Path) -> tuple[int, str]:
    return _address(path, name), path.name


def _address(path: Path, name: str) -> int:
    address = address_in(opened(path), name)
    if not address:
        raise ValueError(f"'{path}' has no function '{name}'")
    return address


def _parts(name: str, compiler: Compiler) -> Sequence[str]:
    flags = _as_source(name, "").all_flags(compiler)
    return name, compiler.kind, compiler.version, compiler.isa_key, *flags
