"""Values that two lines compute: stored by one, read by the other.

    d_b(h) +=! Z(n, h) > 0 ? a_R(n, h) : 0           a_Z(n, h) = Z(n, h) > 0 ? a_R(n, h) : 0
    a_Z(n, h) = Z(n, h) > 0 ? a_R(n, h) : 0     ->   d_b(h) +=! a_Z(n, h)

A line that stores a value at elements of its own may move up to the line that reads it there. What
no line stores is not stored for this: lines of one phase have it in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.known import is_trivial, matches
from tcdsl.codegen.gradient.lines import Line, Loop, Part, walk
from tcdsl.codegen.gradient.versions import Version
from tcdsl.codegen.program.expressions import indices_of, map_operands, reads_of, walk_typed
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr

_LONGEST = 60  # nodes of a value that is looked for


def reused(parts: Sequence[Part], values: Mapping[str, Version]) -> list[Part]:
    """Return parts in which no line computes what another one stores, where a read costs less.

    values: all tensors that the parts write, by name.
    """
    now = [
        replace(p, body=tuple(reused(p.body, values))) if isinstance(p, Loop) else p for p in parts
    ]
    order = [*range(len(now))]  # places in now, as the parts follow each other
    readers: dict[str, dict[int, None]] = {}
    for place, part in enumerate(now):
        if isinstance(part, Line):
            for r in reads_of(part.value):
                readers.setdefault(r.tensor, {})[place] = None
    for made, maker in enumerate(now):
        if not isinstance(maker, Line) or not _stores(maker, values):
            continue
        few = min((readers[r.tensor] for r in reads_of(maker.value)), key=len)
        for used in [*few]:
            reader = now[used]
            if not isinstance(reader, Line) or reader.target == maker.target:
                continue
            value = _with_reads(reader.value, reader, maker)
            if value == reader.value or not _pays(reader.value, value):
                continue
            moved = _with_maker_first(order, now, made, used)
            if moved is not None:
                now[used], order = replace(reader, value=value), moved
                readers.setdefault(maker.target, {})[used] = None
    return [now[k] for k in order]


def _stores(line: Line, values: Mapping[str, Version]) -> bool:
    """Whether a line leaves its value, as it computes it, at an element of its own for each point.

    And whether something in it is as large as what it stores: a product of two vectors is cheaper
    than to read a matrix.
    """
    indices = [e.name for e in line.subs if isinstance(e, typed.IndexValue)]
    others = [e for e in line.subs if not isinstance(e, typed.IndexValue)]
    dtype = line.value.dtype
    return (
        line.op in ("=", "+=!")
        and not line.is_ragged
        and values[line.target].dtype == dtype
        and dtype.is_float
        and not dtype.is_half  # which is rounded where it is stored
        and not any(indices_of(e) or reads_of(e) for e in others)
        and sorted(indices) == sorted(r.name for r in line.ranges)
        and not is_trivial(line.value)
        and sum(1 for _ in walk_typed(line.value)) <= _LONGEST
        and any({*indices} <= _all_indices(r.subs) for r in reads_of(line.value))
        and all(r.tensor != line.target for r in line.reads())
    )


def _all_indices(subs: Sequence[Expr]) -> set[str]:
    return {n for e in subs for n in indices_of(e)}


def _with_reads(e: Expr, reader: Line, maker: Line) -> Expr:
    """Return an expression of a line with reads of what another one stores in place of that."""
    read = _read(e, reader, maker)
    if read is not None:
        return read
    if isinstance(e, typed.Read):  # subscripts stay what they are
        return e
    return map_operands(e, lambda x: _with_reads(x, reader, maker))


def _read(e: Expr, reader: Line, maker: Line) -> Expr | None:
    """Return the read of a maker's target that is an expression of a reader, None if none is."""
    by: dict[str, Expr] = {}
    if type(e) is not type(maker.value) or not matches(maker.value, e, by):
        return None
    spans = {r.name: r for r in reader.ranges}
    names: dict[str, str] = {}
    for r in maker.ranges:
        its = by.get(r.name)
        if not isinstance(its, typed.IndexValue) or its.name not in spans:
            return None  # another element, or one of which the value says nothing
        span = spans[its.name]
        if span.bounds is not None or (span.low, span.high) != (r.low, r.high):
            return None  # points that the maker may not have
        names[r.name] = its.name
    subs = tuple(
        typed.IndexValue(names[x.name], INT64) if isinstance(x, typed.IndexValue) else x
        for x in maker.subs
    )
    return typed.Read(maker.target, subs, e.dtype)


def _pays(before: Expr, after: Expr) -> bool:
    """Whether fewer elements are read, or fewer functions called."""
    return len({*reads_of(after)}) < len({*reads_of(before)}) or _work(after) < _work(before)


def _work(e: Expr) -> int:
    """Return how many operations of an expression take longer than a read of the first level."""
    return sum(
        isinstance(x, typed.Builtin) or (isinstance(x, typed.Binary) and x.op in ("/", "%"))
        for x in walk_typed(e)
    )


def _with_maker_first(
    order: Sequence[int], parts: Sequence[Part], made: int, used: int
) -> list[int] | None:
    """Return an order in which a maker stands before a reader, None if it would mean another thing.

    Between the two nothing may write what the maker stores, nor what it reads.
    """
    maker = parts[made]
    assert isinstance(maker, Line)
    at, to = order.index(made), order.index(used)
    read = {r.tensor for r in maker.reads()}
    between = [*walk([parts[k] for k in order[min(at, to) + (at < to) : max(at, to)]])]
    if any(x.target == maker.target or x.target in read for x in between):
        return None
    if at < to:
        return [*order]
    # the maker passes the reader and what follows that
    if any(r.tensor == maker.target for x in between for r in x.reads()):
        return None
    left = [k for k in order if k != made]
    left.insert(to, made)
    return left
