"""Definitions that a program made and checked: whoever is handed their text does neither again.

A derivative is tried as text until the check infers of it what it should. What calls it parses the
text and checks it, mostly the same process a moment later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import DType

_MOST = 64  # which a program makes before it is handed the first

_made: dict[tuple[str, str], tuple[n.Program, t.CheckedDef]] = {}  # by text and its name


def keep(program: n.Program, checked: t.CheckedDef) -> None:
    """Keep a program of one definition without generics, and what the check found."""
    assert program.span is not None
    source = program.span.source
    if len(_made) >= _MOST:
        _made.clear()
    _made[source.text, source.name] = program, checked


def tree_of(text: str, name: str) -> n.Program | None:
    """Return the tree of a text that was made under a name, None if it was not."""
    found = _made.get((text, name))
    return None if found is None else found[0]


def checked_of(program: n.Program, generics: Mapping[str, int | DType]) -> t.CheckedDef | None:
    """Return what the check found of a definition, whatever it is called now; None if unknown."""
    match program:
        case n.Program((definition,), span=span) if span is not None and not generics:
            found = _made.get((span.source.text, span.source.name))
        case _:
            return None
    if found is None:
        return None
    (made,), checked = found[0].defs, found[1]
    parts = ("params", "returns", "body")
    if any(getattr(made, part) is not getattr(definition, part) for part in parts):
        return None
    return checked if checked.name == definition.name else replace(checked, name=definition.name)
