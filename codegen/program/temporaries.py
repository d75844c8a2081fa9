"""Temporaries that rewrites add to a program: their names, their buffers, what writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcdsl.codegen.program.program import Buffer, Statement, TurnLoop
from tcdsl.codegen.program.unparse import statement_text
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType
from tcdsl.grammar.types.typed import Expr, Range


def name_of(tensor: str, kind: str, buffers: Iterable[Buffer]) -> str:
    """Return a name that no buffer has, for a temporary of a tensor."""
    taken = {b.name for b in buffers}
    name, number = f"{tensor}.{kind}", 0
    while name in taken:
        number += 1
        name = f"{tensor}.{kind}{number}"
    return name


def new_buffer(name: str, tensor: str, dtype: DType, shape: Sequence[Size]) -> Buffer:
    """Return the buffer of a temporary."""
    return Buffer(name, tensor, dtype, tuple(shape), (Size(),) * len(shape), "temp", name)


def new_statement(
    name: str, subs: tuple[Expr, ...], op: AssignOp, value: Expr, ranges: tuple[Range, ...]
) -> Statement:
    """Return a statement that writes all of a temporary."""
    text = statement_text(typed.Statement(name, subs, op, value, ranges))
    return Statement(name, None, subs, op, value, ranges, True, (False,) * len(subs), text)


def moved(loops: Sequence[TurnLoop], at: Sequence[int]) -> tuple[TurnLoop, ...]:
    """Return loops over statements, each of which now begins at such a place, as does their end."""
    return tuple(TurnLoop(x.var, x.low, x.high, at[x.first], at[x.last]) for x in loops)
