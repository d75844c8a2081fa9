"""Lines joined, so that each pass over memory is worth it.

    a(n, m) +=! d(n, m) / s(n)
    a(n, m) += b(n)                 ->   X(n, m) = (d(n, m) / s(n) + b(n)) * E(n, m)
    X(n, m) = a(n, m) * E(n, m)

What is added to the same elements is one line, and a temporary that is read once, point by point,
stands where it is read. A sum begins with what reaches each element, not with zeros:

    d_X(n, T(n)) +=! -d_L                            d_X(n, m) +=! d_L * Y(n, m)
    d_X(n, m) += d_L * Y(n, m)                  ->   d_X(n, T(n)) += -d_L
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.lines import Line, Part, walk
from tcdsl.codegen.gradient.versions import Version
from tcdsl.codegen.program.expressions import (
    indices_of,
    map_typed,
    operands_of,
    substitute_indices,
    walk_typed,
)
from tcdsl.codegen.program.ssa import covers_box
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.builtins import PAD
from tcdsl.grammar.types.typed import Expr

_LONGEST = 60  # nodes of a line that another is joined to: texts are read


def joined(
    parts: Sequence[Part], values: Mapping[str, Version], kept: Collection[str]
) -> list[Part]:
    """Return parts with fewer lines that do the same.

    kept: tensors that have to be written: results, and what loops carry on.
    """
    out, at = _begun(parts, values), 0
    while at < len(out):
        found = _added(out, at, values)
        at += found is None
        out = out if found is None else found
    return _inlined(out, values, kept)


def _begun(parts: Sequence[Part], values: Mapping[str, Version]) -> list[Part]:
    """Return parts in which no sum begins with some of its elements, where a later line has all."""
    out, begun = [*parts], set[str]()
    for line in [p for p in parts if isinstance(p, Line)]:
        if line.target in begun:
            continue
        begun.add(line.target)
        if line.op == "+=!" and not _reaches_all(line, values):
            out = _behind_all(out, line.target, values)
    return out


def _behind_all(parts: list[Part], name: str, values: Mapping[str, Version]) -> list[Part]:
    """Return parts in which what adds to some elements stands behind what adds to all of them."""
    left: list[Part] = []
    later: list[Line] = []
    for at, part in enumerate(parts):
        lines = [*walk((part,))]
        if not any(x.target == name for x in lines):
            read = {r.tensor for x in later for r in x.reads()}
            if later and any(
                x.target in read or any(r.tensor == name for r in x.reads()) for x in lines
            ):
                return parts
            left.append(part)
            continue
        if not isinstance(part, Line) or part.op != ("+=" if later else "+=!"):
            return parts
        if any(r.tensor == name for r in part.reads()):
            return parts
        if later and _reaches_all(part, values):
            rest = [replace(x, op="+=") for x in later]
            return [*left, replace(part, op="+=!"), *rest, *parts[at + 1 :]]
        later.append(part)
    return parts


def _reaches_all(line: Line, values: Mapping[str, Version]) -> bool:
    return not line.is_ragged and covers_box(line.subs, line.ranges, values[line.target].shape)


def _added(parts: list[Part], at: int, values: Mapping[str, Version]) -> list[Part] | None:
    """Return parts in which a line has moved into the next one that adds to the same elements."""
    first = parts[at]
    if not isinstance(first, Line) or first.op not in ("=", "+=!", "+="):
        return None
    if not _is_whole(first, values):
        return None
    read = {r.tensor for r in first.reads()} | {first.target}
    for later in range(at + 1, len(parts)):
        second = parts[later]
        if isinstance(second, Line) and second.target == first.target:
            if second.op != "+=" or not _is_whole(second, values):
                return None
            if any(r.tensor == first.target for r in second.reads()):
                return None
            by = dict(zip(_names(first), second.subs, strict=True))
            value = g.add(substitute_indices(first.value, by), second.value)
            if first.value.dtype != second.value.dtype or _size(value) > _LONGEST:
                return None
            parts = [*parts]
            parts[later] = replace(second, op=first.op, value=value)
            del parts[at]
            return parts
        lines = [*walk((second,))]
        if any(x.target in read for x in lines):
            return None
        if any(r.tensor == first.target for x in lines for r in x.reads()):
            return None
    return None


def _inlined(parts: list[Part], values: Mapping[str, Version], kept: Collection[str]) -> list[Part]:
    """Return parts without temporaries that one line reads at its own points."""
    writers = Counter(x.target for x in walk(parts))
    reads = Counter(r.tensor for x in walk(parts) for r in x.reads())
    at = len(parts)
    while at:
        at -= 1
        line = parts[at]
        if not isinstance(line, Line) or line.target in kept or line.op not in ("=", "+=!"):
            continue
        if writers[line.target] != 1 or reads[line.target] != 1 or not _is_whole(line, values):
            continue
        found = _reader(parts, at)
        if found is not None:
            later, value = found
            reader = parts[later]
            assert isinstance(reader, Line)
            parts[later] = replace(reader, value=value)
            del parts[at]
    return parts


def _reader(parts: Sequence[Part], at: int) -> tuple[int, Expr] | None:
    """Return which line reads another at each of its points once, and its value without that."""
    line = parts[at]
    assert isinstance(line, Line)
    read = {r.tensor for r in line.reads()}
    for later in range(at + 1, len(parts)):
        reader = parts[later]
        if not isinstance(reader, Line):
            if any(r.tensor == line.target for x in walk((reader,)) for r in x.reads()):
                return None
        elif any(r.tensor == line.target for r in reader.reads()):
            return _with_value(reader, line, later)
        if any(x.target in read for x in walk((reader,))):
            return None
    return None


def _with_value(reader: Line, line: Line, later: int) -> tuple[int, Expr] | None:
    """Return a line's place and its value with another line in place of its one read of it."""
    (read,) = (r for r in reader.reads() if r.tensor == line.target)
    if reader.is_ragged or reader.op.startswith("arg"):
        return None
    if read.dtype != line.value.dtype or read not in _reads(reader.value):
        return None
    if any(isinstance(x, typed.Builtin) and x.name == PAD for x in _around(reader.value, read)):
        return None  # which takes an element
    plain = [e.name for e in read.subs if isinstance(e, typed.IndexValue)]
    is_plain = len(plain) == len(read.subs) == len({*plain})
    if not is_plain or {*plain} != {r.name for r in reader.ranges} or _is_product(reader, read):
        return None  # it would be computed again at other points, or a product has no tiles
    by = dict(zip(_names(line), read.subs, strict=True))
    new = substitute_indices(line.value, by)
    value = map_typed(reader.value, lambda e: new if e == read else e)
    return (later, value) if _size(value) <= _LONGEST else None


def _is_product(reader: Line, read: typed.Read) -> bool:
    """Whether a line sums over what it reads at other indices than one of its reads."""
    told = {n for e in reader.subs for n in indices_of(e)}
    is_sum = any(r.name not in told for r in reader.ranges)
    return is_sum and any(indices_of(x) != indices_of(read) for x in _reads(reader.value))


def _around(e: Expr, read: typed.Read) -> list[Expr]:
    """Return what a read is an operand of."""
    return [x for x in walk_typed(e) if read in operands_of(x)]


def _reads(e: Expr) -> list[typed.Read]:
    return [x for x in walk_typed(e) if isinstance(x, typed.Read)]


def _names(line: Line) -> list[str]:
    return [e.name for e in line.subs if isinstance(e, typed.IndexValue)]


def _is_whole(line: Line, values: Mapping[str, Version]) -> bool:
    """Whether a line writes each element once, each at a point of its own."""
    shape = values[line.target].shape
    spans = {r.name: r for r in line.ranges}
    if line.is_ragged or len(spans) != len(shape) or sorted(_names(line)) != sorted(spans):
        return False
    return all(
        spans[n].low == Size() and spans[n].high == extent
        for n, extent in zip(_names(line), shape, strict=True)
    )


def _size(e: Expr) -> int:
    return sum(1 for _ in walk_typed(e))
