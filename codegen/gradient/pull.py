"""What one statement's right side hands back to each element that it reads.

For `O(i) = f(A(g(i)))` and the adjoint a(i) of O: to `A(g(i))` the expression a(i) * f'(A(g(i))).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import assert_never

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.rules import partials, refuse, turns_of
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL
from tcdsl.grammar.types.typed import Expr


@dataclass(frozen=True, slots=True)
class Share:
    """What is added to the adjoint of read; guard: where alone the read is evaluated."""

    read: typed.Read
    value: Expr
    guard: Expr | None = None


def pull(e: Expr, adjoint: Expr, active: Collection[str]) -> list[Share]:
    """Return the shares of the reads of active tensors; those of one element are one share.

    Raises
    ------
    TCTypeError
        If a gradient has to pass a function that has none.
    """
    shares = _Pull(active).of(e, adjoint)
    return _merged([s if s.guard is None else replace(s, guard=_flat(s.guard)) for s in shares])


class _Pull:
    """Goes down an expression, as far as there are active tensors in it."""

    def __init__(self, active: Collection[str]) -> None:
        self.active = active

    def of(self, e: Expr, a: Expr) -> list[Share]:
        """Return the shares of the reads in e under the adjoint a."""
        if not e.dtype.is_float or g.is_number(a, 0):
            return []
        match e:
            case typed.Lit() | typed.IndexValue() | typed.SizeValue():
                return []
            case typed.Read(tensor):
                return [Share(e, a)] if tensor in self.active else []
            case typed.Unary(_, operand):
                return self.of(operand, g.neg(a))
            case typed.Cast(operand, _):
                return (
                    self.of(operand, g.convert(a, operand.dtype.computed))
                    if operand.dtype.is_float
                    else []
                )
            case typed.Binary():
                return self._chain(e, a)
            case typed.Select(cond, then, other):
                return _joined(cond, self.of(then, a), self.of(other, a))
            case typed.Builtin():
                return self._function(e, a)
            case _:
                assert_never(e)

    def _function(self, e: typed.Builtin, a: Expr) -> list[Share]:
        asked = [any(r.tensor in self.active for r in reads_of(x)) for x in e.args]
        if not any(asked):
            return []
        found = partials(e)
        if found is None:
            refuse(e)
        shares = []
        for arg, d, is_asked in zip(e.args, found, asked, strict=True):
            if d is not None and is_asked:
                shares += self.of(arg, g.mul(a, d))
        return shares

    def _chain(self, e: typed.Binary, a: Expr) -> list[Share]:
        """Go down a chain of operators, which may be thousands long, without recursion."""
        first, chain = typed.spine(e)
        shares: list[Share] = []
        for node in reversed(chain):
            match node.op:
                case "+":
                    shares += self.of(node.rhs, a)
                case "-":
                    shares += self.of(node.rhs, g.neg(a))
                case "*":
                    shares += self.of(node.rhs, g.mul(a, node.lhs))
                    a = g.mul(a, node.rhs)
                case "/":
                    a = g.div(a, node.rhs)
                    shares += self.of(node.rhs, g.neg(g.mul(a, g.div(node.lhs, node.rhs))))
                case "%":
                    turns = turns_of(node, node.lhs, node.rhs)
                    shares += self.of(node.rhs, g.neg(g.mul(a, turns)))
                case _:
                    return shares
        return shares + self.of(first, a)


def _merged(shares: Sequence[Share]) -> list[Share]:
    """Return one share for those of one element under one guard."""
    merged: dict[tuple[str, tuple[Expr, ...], Expr | None], Share] = {}
    for share in shares:
        key = share.read.tensor, share.read.subs, share.guard
        known = merged.get(key)
        if known is not None:
            share = replace(known, value=g.add(known.value, share.value))
        merged[key] = share
    return list(merged.values())


def _joined(cond: Expr, then: Sequence[Share], other: Sequence[Share]) -> list[Share]:
    """Return the shares of `cond ? .. : ..`; two of one element are one, so that cond stands once.

    c ? a : b, both of A(i)   ->   one share of A(i), c ? share_a : share_b
    """
    no = typed.Unary("!", cond, cond.dtype)
    partners: dict[tuple[str, tuple[Expr, ...]], list[Share]] = {}
    for b in _sums(other):
        partners.setdefault((b.read.tensor, b.read.subs), []).append(b)
    shares = []
    for a in _sums(then):
        its = partners.get((a.read.tensor, a.read.subs))
        if its:
            b = its.pop(0)
            value = a.value if a.value == b.value else g.choose(cond, a.value, b.value)
            shares.append(Share(a.read, value, _either(cond, a.guard, b.guard)))
        else:
            shares.append(replace(a, guard=_and(cond, a.guard)))
    rest = [b for its in partners.values() for b in its]
    return shares + [replace(b, guard=_and(no, b.guard)) for b in rest]


def _sums(shares: Sequence[Share]) -> list[Share]:
    """Return one share for those of one element without guards; the rest as they are."""
    plain = [s for s in shares if s.guard is None]
    return _merged(plain) + [s for s in shares if s.guard is not None]


def _and(cond: Expr, guard: Expr | None) -> Expr:
    """Return `cond && guard`, which leans to the right until `_flat`: each step is one node."""
    return cond if guard is None else typed.Binary("&&", cond, guard, BOOL)


def _either(cond: Expr, a: Expr | None, b: Expr | None) -> Expr | None:
    """Return `cond ? a : b` of guards; None is true."""
    if a is not None and b is not None:
        return typed.Select(cond, a, b, BOOL)
    if a is not None:
        return typed.Binary("||", typed.Unary("!", cond, BOOL), a, BOOL)
    return None if b is None else typed.Binary("||", cond, b, BOOL)


def _flat(guard: Expr) -> Expr:
    """Return a guard with its chains as text has them without parentheses: leaning to the left."""
    match guard:
        case typed.Binary("&&" | "||" as op):
            parts: list[Expr] = []
            todo: list[Expr] = [guard]
            while todo:
                e = todo.pop()
                if isinstance(e, typed.Binary) and e.op == op:
                    todo += [e.rhs, e.lhs]
                else:
                    parts.append(_flat(e))
            out = parts[0]
            for part in parts[1:]:
                out = typed.Binary(op, out, part, BOOL)
            return out
        case typed.Select(_, then, other):
            return replace(guard, then=_flat(then), other=_flat(other))
        case _:
            return guard
