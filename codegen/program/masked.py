"""Sums of products under a condition that all terms share: the sum first, then the condition.

    D(i, j) +=! j <= i ? A(i, e) * B(j, e) : 0   ->   S(i, j) +=! A(i, e) * B(j, e)
                                                      D(i, j) = j <= i ? S(i, j) : 0

So it has register tiles, and the condition is its epilogue. Only where all reads are inside without
the condition too. What a triangular sum hands back to its first factor is such a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tcdsl.codegen.program.expressions import indices_of, reads_of, walk_typed
from tcdsl.codegen.program.guards import Bounds, Guards
from tcdsl.codegen.program.subscripts import injective_in
from tcdsl.grammar.proofs.ranges import Interval
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64


def unmasked(
    s: typed.Statement,
    target: typed.Tensor,
    bounds: Bounds,
    turns: Mapping[str, Interval],
    fresh: Callable[[str], str],
) -> tuple[typed.Statement, typed.Statement, typed.Tensor] | None:
    """Return the sum, the condition on it and the temporary between them; None where s stays.

    Parameters
    ----------
    bounds
        Of a tensor: low and high by dimension.
    turns
        The variables of the loops around the statement.
    fresh
        Gives a tensor a name.
    """
    value, dtype = s.value, s.value.dtype
    if s.op not in ("+=", "+=!") or s.is_ragged or target.dtype.is_half or not dtype.is_float:
        return None
    if not isinstance(value, typed.Select) or value.other != typed.Lit(0.0, dtype):
        return None
    outputs = tuple(r for r in s.ranges if r.kind == "output")
    summed = {r.name for r in s.ranges} - {r.name for r in outputs}
    if not summed or indices_of(value.cond) & summed or any(reads_of(value.cond)):
        return None
    if any(isinstance(x, typed.Select) for x in walk_typed(value.then)) or any(s.subs_checked):
        return None
    if len(injective_in(s.subs, outputs)) < len(outputs):
        return None
    guards = Guards(s.ranges, bounds, turns)
    if not all(map(guards.is_inside, reads_of(value.then))):
        return None
    name = fresh(f"{s.target}_sum")
    shape = tuple(r.extent for r in outputs)
    if any(not turns.keys().isdisjoint(x.symbols()) for x in shape):
        return None
    low = (Size(),) * len(shape)
    temp = typed.Tensor(name, dtype, shape, low, "temp")
    at: tuple[typed.Expr, ...] = tuple(
        typed.IndexValue(r.name, INT64)
        if r.low == Size()
        else typed.Binary(
            "-", typed.IndexValue(r.name, INT64), typed.SizeValue(r.low, INT64), INT64
        )
        for r in outputs
    )
    checked = (False,) * len(at)
    total = replace(s, target=name, subs=at, op="+=!", value=value.then, subs_checked=checked)
    held = replace(value, then=typed.Read(name, at, dtype, checked))
    masked = replace(s, op="=" if s.op == "+=!" else "+=", value=held, ranges=outputs)
    return total, masked, temp
