"""What one statement's right side has as its tangent, made of the tangents of what it reads.

For `O(i) = f(A(g(i)))` and the tangent t of A: `f'(A(g(i))) * t(g(i))`. The way forwards of
`pull.py`, by the same table of derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.rules import partials, refuse, turns_of
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr


def push(e: Expr, tangents: Mapping[str, str]) -> list[Expr]:
    """Return the terms of the tangent of an expression, each of its type; none where it is 0.

    Terms that are factors of a product stand apart, so that each is a product again.

    Parameters
    ----------
    tangents
        What the tangent of a tensor is called; others are constants.

    Raises
    ------
    TCTypeError
        If the derivative has to pass a function that has none.
    """
    return [t for t in _Push(tangents).of(e) if not g.is_number(t, 0)]


def joined(terms: Sequence[Expr]) -> Expr | None:
    """Return the sum of terms, None if there are none."""
    out: Expr | None = None
    for term in terms:
        out = term if out is None else g.add(out, term)
    return out


class _Push:
    """Goes up an expression, from what it reads."""

    def __init__(self, tangents: Mapping[str, str]) -> None:
        self.tangents = tangents

    def of(self, e: Expr) -> list[Expr]:
        """Return the terms of the tangent of e."""
        if not e.dtype.is_float:
            return []
        match e:
            case typed.Lit() | typed.IndexValue() | typed.SizeValue():
                return []
            case typed.Read(tensor):
                tangent = self.tangents.get(tensor)
                return [] if tangent is None else [replace(e, tensor=tangent)]
            case typed.Unary(_, operand):
                return [g.neg(t) for t in self.of(operand)]
            case typed.Cast(operand, dtype):
                return [g.convert(t, dtype) for t in self._one(operand)]
            case typed.Binary():
                return self._chain(e)
            case typed.Select(cond, then, other):
                a, b = joined(self.of(then)), joined(self.of(other))
                if a is None and b is None:
                    return []
                zero = g.number(0, e.dtype)
                return [g.choose(cond, a or zero, b or zero)]
            case typed.Builtin():
                return self._function(e)
            case _:
                assert_never(e)

    def _one(self, e: Expr) -> list[Expr]:
        """Return the tangent of e as one term, or none."""
        t = joined(self.of(e))
        return [] if t is None else [t]

    def _function(self, e: typed.Builtin) -> list[Expr]:
        asked = [self._one(x) for x in e.args]
        if not any(asked):
            return []
        found = partials(e)
        if found is None:
            refuse(e)
        pairs = zip(asked, found, strict=True)
        terms = [g.mul(t, d) for its, d in pairs if d is not None for t in its]
        return [t for t in terms if not g.is_number(t, 0)]

    def _chain(self, e: typed.Binary) -> list[Expr]:
        """Go up a chain of operators, which may be thousands long, without recursion."""
        first, chain = typed.spine(e)
        terms = self.of(first)
        for node in chain:
            its = self.of(node.rhs)
            match node.op:
                case "+":
                    terms += its
                case "-":
                    terms += [g.neg(t) for t in its]
                case "*" if node.lhs == node.rhs and its:
                    terms = [g.mul(g.mul(g.number(2, node.dtype), node.lhs), *_joined(its))]
                case "*":
                    terms = [g.mul(t, node.rhs) for t in _factors(node.lhs, terms)]
                    terms += [g.mul(node.lhs, t) for t in _factors(node.rhs, its)]
                case "/":
                    terms = [g.div(t, node.rhs) for t in _factors(node.lhs, terms)]
                    terms += [g.neg(g.div(g.mul(node, t), node.rhs)) for t in _joined(its)]
                case "%":
                    turns = turns_of(node, node.lhs, node.rhs)
                    terms += [g.neg(g.mul(t, turns)) for t in _joined(its)]
                case _:
                    return []
        return terms


def _factors(e: Expr, terms: Sequence[Expr]) -> Sequence[Expr]:
    """Return the terms of a factor: of a product apart, of anything else as one."""
    is_product = isinstance(e, typed.Binary) and e.op in ("*", "/")
    return terms if is_product else _joined(terms)


def _joined(terms: Sequence[Expr]) -> list[Expr]:
    t = joined(terms)
    return [] if t is None else [t]
