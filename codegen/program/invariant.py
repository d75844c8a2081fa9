"""Factors of a sum of products that are the same for all its terms, behind the sum.

    O(i, j) +=! -(s(i) * A(i, k) * B(k, j))   ->   S(i, j) +=! A(i, k) * B(k, j)
                                                   O(i, j) = -S(i, j) * s(i)

So the sum is a product of two plain accesses with register tiles, and the factors are its epilogue:
no scaled copy of an operand. Integers wrap the same way; floats round once more where the sum is
multiplied and not its terms, as in an einsum. A sum without terms stays 0 whatever the factors are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from tcdsl.codegen.program.expressions import (
    from_lowest,
    indices_of,
    reads_of,
    walk_typed,
)
from tcdsl.codegen.program.guards import Bounds, stands_alone
from tcdsl.codegen.program.subscripts import injective_in
from tcdsl.grammar.proofs.ranges import Interval
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64
from tcdsl.grammar.types.typed import Expr


@dataclass
class _Product:
    """A value as a product: what multiplies, what divides, and its sign."""

    times: list[Expr] = field(default_factory=list)
    over: list[Expr] = field(default_factory=list)
    is_negative: bool = False

    def take(self, e: Expr) -> None:
        """Multiply by an expression."""
        match e:
            case typed.Binary("*", lhs, rhs):
                self.take(lhs)
                self.take(rhs)
            case typed.Binary("/", lhs, rhs, dtype) if dtype.is_float:
                self.take(lhs)
                self.over.append(rhs)
            case typed.Unary("-", operand):
                self.is_negative = not self.is_negative
                self.take(operand)
            case _:
                self.times.append(e)


def hoisted(
    s: typed.Statement,
    target: typed.Tensor,
    bounds: Bounds,
    turns: Mapping[str, Interval],
    fresh: Callable[[str], str],
    constraints: Sequence[typed.Constraint] = (),
) -> tuple[typed.Statement, typed.Statement, typed.Tensor] | None:
    """Return the sum, what multiplies it and the temporary between them; None where s stays.

    Parameters
    ----------
    bounds
        Of a tensor: low and high by dimension.
    turns
        The variables of the loops around the statement.
    fresh
        Gives a tensor a name.
    constraints
        What each call has checked.
    """
    dtype = s.value.dtype
    if s.op not in ("+=", "+=!") or s.is_ragged or dtype == BOOL:
        return None
    if dtype.computed != target.dtype.computed or any(s.subs_checked):
        return None
    outputs = tuple(r for r in s.ranges if r.kind == "output")
    reductions = [r for r in s.ranges if r.kind == "reduction"]
    summed = {r.name for r in reductions}
    if not summed or len(injective_in(s.subs, outputs)) < len(outputs):
        return None
    shape = tuple(r.extent for r in outputs)
    if any(not turns.keys().isdisjoint(x.symbols()) for x in shape):
        return None
    product = _Product()
    product.take(s.value)
    inside = [f for f in product.times if indices_of(f) & summed]
    over = [f for f in product.over if indices_of(f) & summed]
    outside = [f for f in product.times if f not in inside]
    if over or len(inside) < 2 or not (outside or product.over or product.is_negative):
        return None
    if any(any(r.checked) for f in (*outside, *product.over) for r in reads_of(f)):
        return None
    parts = (*outside, *product.over)
    if not all(stands_alone(f, outputs, s, bounds, turns, constraints) for f in parts):
        return None  # a sum may have no terms

    name = fresh(f"{s.target}_sum")
    at = tuple(from_lowest(typed.IndexValue(r.name, INT64), r.low) for r in outputs)
    unchecked = (False,) * len(at)
    temp = typed.Tensor(name, dtype, shape, (Size(),) * len(shape), "temp")
    value = inside[0]
    for f in inside[1:]:
        value = typed.Binary("*", value, f, dtype)
    total = replace(s, target=name, subs=at, op="+=!", value=value, subs_checked=unchecked)

    scaled: Expr = typed.Read(name, at, dtype, unchecked)
    if product.is_negative:
        scaled = typed.Unary("-", scaled, dtype)
    for f in outside:
        scaled = typed.Binary("*", scaled, f, dtype)
    for f in product.over:
        scaled = typed.Binary("/", scaled, f, dtype)
    if dtype.is_float and any(map(_may_be_infinite, (*outside, *product.over))):
        for r in reductions:
            if not is_nonnegative(r.extent - 1):
                terms = typed.SizeValue(r.extent, INT64)
                has_terms = typed.Binary(">", terms, typed.Lit(0, INT64), BOOL)
                scaled = typed.Select(has_terms, scaled, typed.Lit(0.0, dtype), dtype)
    is_set = s.op == "+=!"
    if is_set and target.dtype.is_half:
        scaled = typed.Cast(scaled, target.dtype)
    behind = replace(s, op="=" if is_set else "+=", value=scaled, ranges=outputs)
    return total, behind, temp


def _may_be_infinite(e: Expr) -> bool:
    """Whether 0 times e, or 0 over it, is not known to be 0."""
    return any(not isinstance(x, typed.Lit) or x.value == 0 for x in walk_typed(e))
