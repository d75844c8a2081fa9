"""Triangles of zeros in adjoints: a product with them is 0, whatever the other factor is.

    a(i, j) +=! j - i < 1 ? b(i, d) * V(j, d) : 0.0
    c(i, j) = a(i, j) * E(i, j)                       ->   c(i, j) = j - i < 1 ? .. : 0.0
    d_K(j, e) +=! c(i, j) * Q(i, e)

Nobody has read E where a is 0, so it may be infinite there: then the product was NaN, and so were
all sums that it is a term of. That is told of adjoints alone: a product of the forward pass has
read both of its factors, and what is computed again is what it was. Refused: sums over the triangle
alone, which have no register tiles on a GPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.lines import Line, Part
from tcdsl.codegen.program.affine import affine_of
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64
from tcdsl.grammar.types.typed import Expr


@dataclass(frozen=True, slots=True)
class _Edge:
    """A value is 0 unless `column - row < limit`, two indices by name."""

    column: str
    row: str
    limit: int


_Dims = tuple[int, int, int]  # of a tensor: the dimension of the column, of the row; the limit


def with_zeros(parts: Sequence[Part], forward: Collection[str]) -> list[Part]:
    """Return parts in which products with what is 0 are 0; of loops it is not told.

    forward: tensors of the forward pass.
    """
    if not all(isinstance(p, Line) for p in parts):
        return [*parts]
    out: list[Part] = []
    edges: dict[str, _Dims | None] = {}  # None: it has elements on both sides
    for line in [p for p in parts if isinstance(p, Line)]:
        if line.target in forward:
            out.append(line)
            continue
        short = _shortened(line, edges)
        out.append(short)
        begins = short.op in ("=", "+=!") and short.target not in edges
        own = _own(short)
        edges[short.target] = own if begins or edges.get(short.target) == own else None
    return out


def _shortened(line: Line, edges: dict[str, _Dims | None]) -> Line:
    """Return a line that is 0 where a factor is."""
    if line.op not in ("=", "+=!") or not line.value.dtype.is_float or line.is_ragged:
        return line
    edge = next(_met(line, edges), None)
    if edge is None:
        return line
    plain = {e.name for e in line.subs if isinstance(e, typed.IndexValue)}
    if not {r.name for r in line.ranges} <= plain:
        return line  # a sum
    apart = typed.Binary("-", g.index(edge.column), g.index(edge.row), INT64)
    cond = typed.Binary("<", apart, typed.Lit(edge.limit, INT64), BOOL)
    zero = typed.Lit(0.0, line.value.dtype)
    return replace(line, value=typed.Select(cond, line.value, zero, line.value.dtype))


def _met(line: Line, edges: dict[str, _Dims | None]) -> Iterator[_Edge]:
    """Yield the edges of a line's factors, by the names of its indices."""
    for factor in _factors(line.value):
        if not isinstance(factor, typed.Read) or (edge := edges.get(factor.tensor)) is None:
            continue
        ends = factor.subs[edge[0]], factor.subs[edge[1]]
        names = [e.name for e in ends if isinstance(e, typed.IndexValue)]
        ranges = {r.name for r in line.ranges}
        if len(set(names)) == 2 and {*names} <= ranges:
            yield _Edge(names[0], names[1], edge[2])


def _factors(e: Expr) -> Iterator[Expr]:
    """Yield what multiplies a value."""
    match e:
        case typed.Binary("*", lhs, rhs):
            yield from _factors(lhs)
            yield from _factors(rhs)
        case typed.Binary("/", lhs, _):
            yield from _factors(lhs)
        case typed.Unary("-", operand):
            yield from _factors(operand)
        case _:
            yield e


def _own(line: Line) -> _Dims | None:
    """Return the edge of what a line writes, by dimensions."""
    value = line.value
    if not isinstance(value, typed.Select) or not isinstance(value.other, typed.Lit):
        return None
    at = [e.name if isinstance(e, typed.IndexValue) else "" for e in line.subs]
    cond = value.cond
    if value.other.value != 0 or not isinstance(cond, typed.Binary) or cond.op not in ("<", "<="):
        return None
    low, high = affine_of(cond.lhs), affine_of(cond.rhs)
    if low is None or high is None:
        return None
    terms = dict(low.terms)
    for name, k in high.terms:
        terms[name] = terms.get(name, 0) - k
    const = (high.const - low.const).constant
    by_sign = {k: name for name, k in terms.items() if k}
    if const is None or sum(1 for k in terms.values() if k) != 2 or {*by_sign} != {1, -1}:
        return None
    column, row = by_sign[1], by_sign[-1]
    if at.count(column) != 1 or at.count(row) != 1:
        return None
    return at.index(column), at.index(row), const + (cond.op == "<=")
