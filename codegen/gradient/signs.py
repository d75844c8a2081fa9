"""Signs out of sums: the sum is formed without, and who reads it takes the difference.

    a(n) +=! -(d_Y(n, m) * Y(n, m))                  a(n) +=! d_Y(n, m) * Y(n, m)
    d_X(n, m) = (d_Y(n, m) + a(n)) * Y(n, m)    ->   d_X(n, m) = (d_Y(n, m) - a(n)) * Y(n, m)

    d_B(m, d) +=! -(d_Y(n, m) * (A(n, d) - B(m, d)))  ->  .. d_Y(n, m) * (B(m, d) - A(n, d))

Negation is exact, so no bit changes but the sign of a zero: one operation a point is saved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.lines import Line, Part, walk
from tcdsl.codegen.program.expressions import map_typed, walk_typed
from tcdsl.grammar.types import builtins, typed
from tcdsl.grammar.types.typed import Expr


def without_signs(parts: Sequence[Part], kept: Collection[str]) -> list[Part]:
    """Return parts whose sums are of terms without a sign, where that takes less.

    kept: tensors that have to hold what they do: results, and what loops carry on.
    """
    out = [*parts]
    for at in range(len(parts)):
        line = out[at]  # as the lines before have left it
        if not isinstance(line, Line) or line.op != "+=!" or not line.value.dtype.is_float:
            continue
        if not isinstance(line.value, typed.Unary) or line.value.op != "-":
            continue
        turned = None if line.target in kept else _read_with_sign(out, at)
        if turned is not None:
            out = turned
        elif (value := _turned(line.value.operand)) is not None:
            out[at] = replace(line, value=value)
    return out


def _read_with_sign(parts: Sequence[Part], at: int) -> list[Part] | None:
    """Return parts in which a sum has lost its sign and its readers have it; None for more work."""
    line = parts[at]
    assert isinstance(line, Line)
    assert isinstance(line.value, typed.Unary)
    out = [*parts]
    out[at] = replace(line, value=line.value.operand)
    signs = -1
    for k, other in enumerate(parts):
        lines = [*walk((other,))]
        if k != at and any(x.target == line.target for x in lines):
            return None
        if not any(r.tensor == line.target for x in lines for r in x.reads()):
            continue
        if not isinstance(other, Line) or any(
            r.tensor == line.target for e in other.subs for r in _reads(e)
        ):
            return None
        value = _settled(map_typed(other.value, lambda e: _negative(e, line.target)))
        signs += _signs(value) - _signs(other.value)
        out[k] = replace(other, value=value)
    return out if signs < 0 else None


def _negative(e: Expr, name: str) -> Expr:
    match e:
        case typed.Read(tensor) if tensor == name:
            return typed.Unary("-", e, e.dtype)
        case typed.Builtin(
            builtins.PAD, (typed.Unary("-", typed.Read(tensor) as read), outside)
        ) if tensor == name:  # which takes an element as it is
            is_zero = isinstance(outside, typed.Lit) and outside.value == 0
            turned = replace(e, args=(read, outside if is_zero else g.neg(outside)))
            return typed.Unary("-", turned, e.dtype)
        case _:
            return e


def _reads(e: Expr) -> list[typed.Read]:
    return [x for x in walk_typed(e) if isinstance(x, typed.Read)]


def _signs(e: Expr) -> int:
    return sum(1 for x in walk_typed(e) if isinstance(x, typed.Unary) and x.op == "-")


def _settled(e: Expr) -> Expr:
    """Return e with its signs in sums and differences where they can be."""
    return map_typed(e, _settled_here)


def _settled_here(e: Expr) -> Expr:
    if not e.dtype.is_float:
        return e
    match e:
        case typed.Unary("-", typed.Unary("-", x)):
            return x
        case typed.Binary("*" | "/", typed.Unary("-", a), typed.Unary("-", b)):
            return replace(e, lhs=a, rhs=b)
        case typed.Binary("*" | "/", typed.Unary("-", a), b):
            return typed.Unary("-", replace(e, lhs=a), e.dtype)
        case typed.Binary("*" | "/", a, typed.Unary("-", b)):
            return typed.Unary("-", replace(e, rhs=b), e.dtype)
        case typed.Binary("+", a, typed.Unary("-", b)):
            return typed.Binary("-", a, b, e.dtype)
        case typed.Binary("+", typed.Unary("-", a), b):
            return typed.Binary("-", b, a, e.dtype)
        case typed.Binary("-", a, typed.Unary("-", b)):
            return typed.Binary("+", a, b, e.dtype)
        case _:
            return e


def _turned(e: Expr) -> Expr | None:
    """Return the negative of a product that has a difference as a factor, by turning that."""
    match e:
        case typed.Binary("-", a, b):
            return typed.Binary("-", b, a, e.dtype)
        case typed.Binary("*", a, b):
            if (last := _turned(b)) is not None:
                return replace(e, rhs=last)
            return None if (first := _turned(a)) is None else replace(e, lhs=first)
        case typed.Binary("/", a, _):
            return None if (above := _turned(a)) is None else replace(e, lhs=above)
        case _:
            return None
