"""What one statement's right side hands back to each element that it reads.

For `O(i) = f(A(g(i)))` and the adjoint a(i) of O: to `A(g(i))` the expression a(i) * f'(A(g(i))).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.rules import partials
from tcdsl.grammar import typed
from tcdsl.grammar.errors import TCTypeError
from tcdsl.grammar.typed import Expr


@dataclass(frozen=True, slots=True)
class Share:
    """What is added to the adjoint of read; guard: where alone the read is evaluated."""

    read: typed.Read
    value: Expr
    guard: Expr | None = None


def pull(e: Expr, adjoint: Expr) -> list[Share]:
    """Return the shares of the reads in e; those of one element are one share.

    Raises
    ------
    TCTypeError
        If a gradient has to pass a function that has none.
    """
    merged: dict[tuple[str, tuple[Expr, ...], Expr | None], Share] = {}
    for share in _pull(e, adjoint):
        key = share.read.tensor, share.read.subs, share.guard
        known = merged.get(key)
        if known is not None:
            share = replace(known, value=g.add(known.value, share.value))
        merged[key] = share
    return list(merged.values())


def _pull(e: Expr, a: Expr) -> list[Share]:
    if not e.dtype.is_float or g.is_number(a, 0):
        return []
    match e:
        case typed.Lit() | typed.IndexValue() | typed.SizeValue():
            return []
        case typed.Read():
            return [Share(e, a)]
        case typed.Unary(_, operand):
            return _pull(operand, g.neg(a))
        case typed.Cast(operand, _):
            return _pull(operand, g.convert(a, operand.dtype)) if operand.dtype.is_float else []
        case typed.Binary():
            return _chain(e, a)
        case typed.Select(cond, then, other):
            no = typed.Unary("!", cond, cond.dtype)
            return _under(cond, _pull(then, a)) + _under(no, _pull(other, a))
        case typed.Builtin(name, args):
            found = partials(e)
            if found is None:
                place = e.span.source.line_col(e.span.start) if e.span is not None else None
                where = f" at {place[0]}:{place[1]}" if place else ""
                raise TCTypeError(f"the gradient passes '{name}'{where}, whose derivative is none")
            shares = []
            for arg, d in zip(args, found, strict=True):
                if d is not None:
                    shares += _pull(arg, g.mul(a, d))
            return shares
        case _:
            assert_never(e)


def _chain(e: typed.Binary, a: Expr) -> list[Share]:
    """Go down a chain of operators, which may be thousands long, without recursion."""
    first, chain = typed.spine(e)
    shares: list[Share] = []
    for node in reversed(chain):
        match node.op:
            case "+":
                shares += _pull(node.rhs, a)
            case "-":
                shares += _pull(node.rhs, g.neg(a))
            case "*":
                shares += _pull(node.rhs, g.mul(a, node.lhs))
                a = g.mul(a, node.rhs)
            case "/":
                a = g.div(a, node.rhs)
                shares += _pull(node.rhs, g.neg(g.mul(a, g.div(node.lhs, node.rhs))))
            case "%":
                turns = g.call("floor", g.div(node.lhs, node.rhs))
                shares += _pull(node.rhs, g.neg(g.mul(a, turns)))
            case _:
                return shares
    return shares + _pull(first, a)


def _under(guard: Expr, shares: list[Share]) -> list[Share]:
    return [replace(s, guard=g.both(guard, s.guard)) for s in shares]
