"""Which scalars say how many points statements have and how large tensors are.

They have no batch, nor has a sum over a range that data decides: shapes and bounds of a kernel are
known before it runs. As subscripts and in conditions such scalars may have one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed as t


def lengths(checked: t.CheckedDef) -> frozenset[str]:
    """Return the scalar parameters that ranges, loops and extents depend on.

    One that only a subscript has (`X(n, i)`), or that is a value, is not among them.

    Examples
    --------
    >>> from tcdsl.grammar.check.definition import check
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def f(float(N) x, int32 n, int32 m) -> (y) { y(i) = x(n) * m where i in 0:m }"
    >>> sorted(lengths(check(parse(text))))
    ['m']
    """
    found = {s for size in _sizes(checked) for s in size.symbols()}
    return frozenset(p.name for p in checked.params if not p.shape and p.name in found)


def _sizes(checked: t.CheckedDef) -> Iterator[Size]:
    for tensor in (*checked.returns, *checked.temps):
        yield from (*tensor.shape, *tensor.low)
    yield from _of(checked.body)


def _of(body: Sequence[t.Stmt]) -> Iterator[Size]:
    for s in body:
        if isinstance(s, t.Loop):
            yield from (s.low, s.high)
            yield from _of(s.body)
        else:
            yield from (end for r in s.ranges for end in (r.low, r.high))
