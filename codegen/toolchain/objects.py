"""The object cache: C text in, the path of a shared object out; each text is compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from tcdsl.codegen.toolchain import contentfile
from tcdsl.codegen.toolchain.cachedir import with_room
from tcdsl.codegen.toolchain.cc import INCLUDES, Compiler, find_compiler
from tcdsl.codegen.toolchain.contentfile import OBJECT, hash_of
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.codegen.toolchain.includes import included
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError

T = TypeVar("T")

FORMAT = "1"  # of keys
UNWANTED: ContextVar[Callable[[], bool] | None] = ContextVar("unwanted", default=None)


def compile_source(source: Source, compiler: Compiler | None = None) -> Path:
    """Return the shared object of a source, compiled now or at any time before.

    Raises
    ------
    CompileError
        If there is no compiler or it refuses the text.
    """
    (result,) = compile_many([source], compiler)
    if isinstance(result, CompileError):
        raise result
    return result


def use_object(source: Source, use: Callable[[Path], T]) -> T:
    """Return what is made of the shared object of a source; pruned before that, it is made again.

    So is, once, what cannot be loaded: it is what a compiler wrote and called well, on a bad day.

    Raises
    ------
    CompileError
        If there is no compiler, it refuses the text, or nothing that it makes can be loaded.
    """
    has_failed = False
    while True:
        path = compile_source(source)
        try:
            return use(path)
        except (OSError, ImportError) as error:
            if not path.exists():
                continue
            contentfile.remove(path)  # else it would lie there for ever, whatever is cured
            if has_failed:
                raise CompileError(
                    f"the object of '{source.name}' cannot be loaded: {error}\n"
                    f"  note: it was compiled by {find_compiler()}; if memory is short (ulimit -v)"
                    " free some, else try another compiler (TCDSL_CC)"
                ) from error
            has_failed = True


def compile_many(
    sources: Sequence[Source],
    compiler: Compiler | None = None,
    is_unwanted: Callable[[], bool] | None = None,
) -> tuple[Path | CompileError, ...]:
    """Compile several sources, as many at a time as there are cores; an error stands for its own.

    What another thread or process is compiling is waited for, not compiled again. If the wait is
    interrupted, running compilers are killed and locks given back; so they are when
    is_unwanted, which is asked all the while, says so: `making.UnwantedError`. By default it is
    what `UNWANTED` has for all that a thread compiles.
    """
    chosen = compiler or find_compiler()
    keys = [key_of(s, chosen) for s in sources]
    done: dict[str, Path | CompileError] = {k: p for k in keys if (p := lookup(k))}
    missing = {k: s for k, s in zip(keys, sources, strict=True) if k not in done}  # equal ones once
    if missing:
        from tcdsl.codegen.toolchain.making import make  # on use: a cache that is filled has all

        asked = is_unwanted or UNWANTED.get()
        done |= with_room(lambda: make(missing, chosen, usable_cores(), asked))
    return tuple(done[k] for k in keys)


# ---- keys


def key_of(source: Source, compiler: Compiler) -> str:
    """Return the hash of all that decides an object: text, headers, flags, compiler, processor."""
    parts = [
        FORMAT, compiler.kind, compiler.version, compiler.isa_key, source.language,
        *source.all_flags(compiler), *source.libraries, source.name, source.text,
    ]  # fmt: skip
    folders = [INCLUDES, *([source.include] if source.include else [])]
    return hash_of([*parts, *included(source.text, folders)])


# ---- files


def lookup(key: str) -> Path | None:
    """Return the object of a key, or None."""
    return contentfile.lookup(key, OBJECT)


def named(file: str) -> Path | None:
    """Return the object in the file of this name, as a record says it; None if it is not there."""
    return contentfile.named(file)


def file_name(value: object) -> str:
    """Return what a record says of an object: the name of its file.

    Raises
    ------
    ValueError
        If it may be none.
    """
    if not (isinstance(value, str) and contentfile.is_name(value, OBJECT)):
        raise ValueError("it names no object")
    return value
