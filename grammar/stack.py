"""Trees deeper than the stack: passes are recursive, and how deep Python goes is its setting."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tcdsl.grammar.errors import Diagnostic, Note, raise_one


@contextmanager
def stack_for(name: str) -> Iterator[None]:
    """Make an expression of a definition too deep for the stack an error of its text.

    Raises
    ------
    TCSyntaxError
        TC012, with the cure.
    """
    try:
        yield
    except RecursionError:
        what = f"an expression of '{name}' is deeper than the stack of Python"
        cure = Note("split it by temporaries, each a statement: t(i) = ..., then use t(i)")
        limit = Note(f"sys.getrecursionlimit() is {sys.getrecursionlimit()}")
    else:
        return
    raise_one(Diagnostic("TC012", what, notes=(cure, limit)))
