"""Extremes that a result does not depend on: shifts that cancel, through which nothing goes back.

    m(n) max=! X(n, k)
    E(n, k) = exp(X(n, k) - m(n))     shrinks by exp(-c) where m(n) grows by c
    s(n) +=! E(n, k)                  so does this
    Y(n, k) = E(n, k) / s(n)          and this stays

Whatever m is, Y is the same: softmax, logsumexp and all that subtracts an extreme so that nothing
overflows. Then m is a constant to the gradient. By the chain rule its adjoint is a sum that cancels
but for rounding, and costs a pass over X and one to look for the place of the extreme.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf

from tcdsl.codegen.gradient.versions import Versions, VersionStep
from tcdsl.codegen.program.expressions import operands_of, reads_of
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr

_Place = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Law:
    """How a value follows where an element of the extreme grows by c.

    It grows by `plus * c` and by a factor of `exp(times * c)`, of which one at most is not 0. at:
    the subscripts of that element.
    """

    plus: float = 0.0
    times: float = 0.0
    at: _Place = ()

    @property
    def stays(self) -> bool:
        """Whether it does not depend on it."""
        return self.plus == self.times == 0


_STAYS = _Law()


@dataclass(frozen=True, slots=True)
class _Held:
    """The law of a tensor's elements; dims: of the extreme's subscripts, its own dimensions."""

    plus: float
    times: float
    dims: tuple[int, ...]


def cancelled(versions: Versions) -> frozenset[str]:
    """Return the versions, each an extreme, on which no return depends."""
    nodes = versions.nodes
    if not all(isinstance(n, VersionStep) for n in nodes):
        return frozenset()  # of turns it is not told
    steps = [n for n in nodes if isinstance(n, VersionStep)]
    finals = set(versions.finals.values())
    return frozenset(
        s.target
        for i, s in enumerate(steps)
        if s.op in ("max=!", "min=!", "max=", "min=")
        and s.base is None
        and s.covers
        and versions.values[s.target].dtype.is_float
        and s.target not in finals
        and _cancels(s, steps[i + 1 :], versions, finals)
    )


def _cancels(
    extreme: VersionStep, later: list[VersionStep], versions: Versions, finals: set[str]
) -> bool:
    rank = len(versions.values[extreme.target].shape)
    held = {extreme.target: _Held(1.0, 0.0, tuple(range(rank)))}
    for s in later:
        bounds = [e for r in s.ranges for e in r.bounds or ()]
        if any(r.tensor in held for e in (*s.subs, *bounds) for r in reads_of(e)):
            return False
        if s.base in held:
            return False
        law = _law(s.value, held)
        if law is None:
            return False
        if law.stays:
            continue
        found = _of_target(s, law)
        if found is None or s.target in finals:
            return False
        held[s.target] = found
    return True


def _of_target(s: VersionStep, law: _Law) -> _Held | None:
    """Return the law of what a statement makes; None where it has none."""
    if s.base is not None or not s.covers:
        return None
    op = s.op.rstrip("!")
    is_sum = op == "+=" and any(r.kind == "reduction" for r in s.ranges)
    if op not in ("=", "+=", "max=", "min=") or (is_sum and law.plus):
        return None
    dims = []
    for e in law.at:  # an element of the extreme for each element of the target
        if not isinstance(e, typed.IndexValue) or e not in s.subs:
            return None
        dims.append(s.subs.index(e))
    return _Held(law.plus, law.times, tuple(dims))


def _law(e: Expr, held: Mapping[str, _Held]) -> _Law | None:
    """Return the law of an expression; None where it has none."""
    if not any(r.tensor in held for r in reads_of(e)):
        return _STAYS
    match e:
        case typed.Read(tensor, subs):
            if any(r.tensor in held for x in subs for r in reads_of(x)):
                return None
            own = held[tensor]
            return _Law(own.plus, own.times, tuple(subs[d] for d in own.dims))
        case typed.Cast(operand, dtype) if dtype.is_float and operand.dtype.is_float:
            return _law(operand, held)
        case typed.Unary("-", operand):
            a = _law(operand, held)
            return None if a is None else _Law(-a.plus, a.times, a.at)
        case typed.Builtin("exp", (operand,)):
            a = _law(operand, held)
            return None if a is None or a.times else _Law(0.0, a.plus, a.at)
        case typed.Builtin("log", (operand,)):
            a = _law(operand, held)
            return None if a is None or a.plus else _Law(a.times, 0.0, a.at)
        case typed.Binary("+" | "-" | "*" | "/" as op, lhs, rhs):
            a, b = _law(lhs, held), _law(rhs, held)
            if a is None or b is None:
                return None
            if a.at and b.at and a.at != b.at:
                return None
            if op == "*" and isinstance(lhs, typed.Lit):
                return _times(b, float(lhs.value))
            if op in "*/" and isinstance(rhs, typed.Lit) and rhs.value:
                return _times(a, float(rhs.value) if op == "*" else 1 / rhs.value)
            return _joined(op, a, b, a.at or b.at)
        case typed.Select(cond, then, other) if _stays(cond, held):
            a, b = _law(then, held), _law(other, held)
            if a is None or b is None:
                return None
            return a if a == b or _absorbs(other, a) else b if _absorbs(then, b) else None
        case _ if all(_stays(x, held) for x in operands_of(e)):
            return _STAYS
        case _:
            return None


def _stays(e: Expr, held: Mapping[str, _Held]) -> bool:
    law = _law(e, held)
    return law is not None and law.stays


def _absorbs(e: Expr, law: _Law) -> bool:
    """Whether a number stays what it is under any c: 0 times a factor, an infinity and a term."""
    if not isinstance(e, typed.Lit):
        return False
    return e.value == 0 if law.times else isinf(e.value)


def _times(law: _Law, number: float) -> _Law:
    """Return the law of a value times a number: what grows by a factor grows by the same."""
    return _Law(law.plus * number, law.times, law.at)


def _joined(op: str, a: _Law, b: _Law, at: _Place) -> _Law | None:
    """Return the law of an operator on two values."""
    if op in "+-":
        if a.times or b.times:  # of a sum only where both grow alike
            return _Law(0.0, a.times, at) if (a.plus, a.times) == (b.plus, b.times) else None
        return _Law(a.plus + b.plus if op == "+" else a.plus - b.plus, 0.0, at)
    if a.plus or b.plus:
        return None
    return _Law(0.0, a.times + b.times if op == "*" else a.times - b.times, at)
