"""The functions of the library in this process: by name, each from an object of its own.

One is compiled when an executable first imports it, once on a machine: its object is found by a
record, so that a later process lowers nothing. A name is looked up in that object alone, never
among those of the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

from tcdsl.codegen.toolchain import records
from tcdsl.codegen.toolchain.cc import Source, find_compiler
from tcdsl.codegen.toolchain.contentfile import key_in
from tcdsl.codegen.toolchain.host import tiles_are_granted
from tcdsl.codegen.toolchain.objects import compile_many, lookup, use_object

_KIND = "library"
_TILED = "_tiled"  # what names of products of tiles have
_PLAN = "tc_plan_"  # what names of plans begin with
_OPT, _OPT_OF_PLANS = "-O3", "-O1"  # a compiler takes three fifths of the time for a plan so
_KEY = re.compile(r"[0-9a-f]{32}")

_Parts = tuple[str, ...]  # what decides an object: a name, a compiler

_loaded: dict[_Parts, int] = {}  # two threads write the same


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
    if any(_TILED in name for name in names):
        tiles_are_granted()  # asked for before anything runs, by whichever process runs it
    sources = missing_sources(names)
    if len(sources) > 1:
        compile_many(sources)  # side by side; what is refused is met again below
    for source in sources:
        name = source.name
        _loaded[_parts(name)], key = use_object(source, partial(_made, name))
        records.write(_KIND, _parts(name), key, name)
    return [_loaded[_parts(n)] for n in names]


def missing(names: Sequence[str]) -> list[str]:
    """Return those of them that this machine has not got."""
    return [n for n in dict.fromkeys(names) if not _is_at_hand(n)]


def missing_sources(names: Sequence[str]) -> list[Source]:
    """Return what is compiled when these are asked for."""
    return [_source(n) for n in missing(names)]


def _is_at_hand(name: str) -> bool:
    """Load a function that was compiled before; return whether it was."""
    parts = _parts(name)
    known = records.read_all(_KIND, parts, _object_key) if parts not in _loaded else ()
    for path in filter(None, map(lookup, known)):
        with contextlib.suppress(OSError, AttributeError):  # pruned meanwhile; another's object
            _loaded[parts] = _address(path, name)
            return True
    return parts in _loaded


@lru_cache(maxsize=16)
def _source(name: str) -> Source:
    from tcdsl.codegen.choose import compiler  # on use: where all is there nothing is lowered

    return _as_source(name, compiler.emit_c(compiler.lower_library(name)))


def _as_source(name: str, text: str) -> Source:
    """Return what is compiled of a function: a plan runs once for each new size."""
    return Source(name, text, _OPT_OF_PLANS if name.startswith(_PLAN) else _OPT)


def _made(name: str, path: Path) -> tuple[int, str]:
    return _address(path, name), key_in(path)


def _address(path: Path, name: str) -> int:
    function = getattr(ctypes.CDLL(str(path)), name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _parts(name: str) -> _Parts:
    found = find_compiler()
    flags = _as_source(name, "").all_flags(found)
    return name, found.kind, found.version, found.isa_key, *flags


def _object_key(value: object) -> str:
    if not (isinstance(value, str) and _KEY.fullmatch(value)):
        raise ValueError("it names no object")
    return value
