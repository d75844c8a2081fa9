"""A definition with all that it calls and its generics, as text: what records find it by."""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.format import format_def
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.text.walk import identifiers
from tcdsl.grammar.types.dtypes import DType


def identity_of(
    program: nodes.Program,
    definition: nodes.Def,
    generics: Mapping[str, int | DType],
    ranked: str,
) -> str:
    """Return the text; ranked: that of a definition that was bound to ranks."""
    defs = {d.name: d for d in program.defs} | {definition.name: definition}
    needed = {definition.name: definition}
    todo = [definition] if len(defs) > 1 else []
    while todo:
        called = {n for n in identifiers(todo.pop()) if n in defs and n not in needed}
        needed |= {n: defs[n] for n in called}
        todo += (defs[n] for n in called)
    if ranked:
        del needed[definition.name]
    texts = {definition.name: ranked} | (_printed(needed) if needed else {})
    return "\n".join(
        [
            definition.name,
            *(f"{n} = {v!r}" for n, v in sorted(generics.items())),
            *(texts[n] for n in sorted(texts)),
        ]
    )


@on_own_stack
def _printed(definitions: Mapping[str, nodes.Def]) -> dict[str, str]:
    """Return the texts of definitions, in one thread for all."""
    return {name: format_def(d) for name, d in definitions.items()}
