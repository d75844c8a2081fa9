"""What reducing operators do to values, scalars or vectors."""

from __future__ import annotations

from tcdsl.codegen.forms.base import vexpr
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Bin, Call, Expr, Scalar, Vector
from tcdsl.codegen.loops.target import short_name
from tcdsl.grammar.text.nodes import AssignOp


def operator(op: AssignOp) -> str:
    """Return the operator of an assignment: `+` of `+=!`."""
    return op.rstrip("!")[:-1]


def combined(op: str, x: Expr, y: Expr) -> Expr:
    """Return x op y, scalars or vectors."""
    t = b.type_of(x)
    if op in ("+", "*"):
        return Bin("+" if op == "+" else "*", x, y, t)
    if isinstance(t, Vector):
        return vexpr.vector_call(op, t, x, y)
    assert isinstance(t, Scalar)
    return Call(f"tc_{op}_{short_name(t.dtype)}", (x, y), t)
