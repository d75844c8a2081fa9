"""A definition with all that it calls and its generics, as text: what records find it by."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tcdsl.calls.process.bounded import thinned
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.format import format_def
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types.dtypes import DType

_MOST = 4096
_printed: dict[int, tuple[nodes.Def, str]] = {}  # by the id of what is kept beside


def identity_of(
    program: nodes.Program,
    definition: nodes.Def,
    generics: Mapping[str, int | DType],
    ranked: str,
) -> str:
    """Return the text; ranked: that of a definition that was bound to ranks."""
    defs = {d.name: d for d in program.defs} | {definition.name: definition}
    texts = {definition.name: ranked or printed(definition)}
    todo = [*texts.values()] if len(defs) > 1 else []
    while todo:
        named = {*re.findall(r"[A-Za-z_][A-Za-z0-9_]*", todo.pop())}
        called = {n: printed(defs[n]) for n in named if n in defs and n not in texts}
        texts |= called
        todo += called.values()
    return "\n".join(
        [
            definition.name,
            *(f"{n} = {v!r}" for n, v in sorted(generics.items())),
            *(texts[n] for n in sorted(texts)),
        ]
    )


def printed(definition: nodes.Def) -> str:
    """Return a definition as `format_def` prints it, which is done once."""
    found = _printed.get(id(definition))
    if found is not None:
        return found[1]
    text = _print(definition)
    keep_printed(definition, text)
    return text


def keep_printed(definition: nodes.Def, text: str) -> None:
    """Keep what `printed` is to return: somebody has printed the definition before."""
    global _printed
    _printed = thinned(_printed, _MOST)
    _printed[id(definition)] = definition, text  # the id stays the definition's


@on_own_stack
def _print(definition: nodes.Def) -> str:
    return format_def(definition)
