"""Which dimensions of a program are those of rows: what is folded, numbers the points, or is left.

    S(a, b) +=! X(a, k, b)    O(a, k, b) = X(a, k, b) / S(a, b)    kept: a, b    a row: k

Where nothing is folded and no value of a size or an index says which they are, a row has those
that some statements do not run along: `T(a) = exp(B(a))  O(a, k) = X(a, k) * T(a)`.

Dimensions of tensors and indices of statements are the same where one is the subscript of the
other (union-find), whatever they are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import operands_of, reads_of
from tcdsl.codegen.program.pointwise import Places
from tcdsl.codegen.program.program import Buffer, Program, Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT32, INT64
from tcdsl.grammar.types.typed import Expr

_ZERO, _ONE = Size.const(0), Size.const(1)
_WIDE = (INT32, INT64)  # in which a product of sizes is what it is, up to 2**31
_Place = tuple[str, int, str]  # a dimension of a memory, or an index of a statement


class _Classes:
    """Which dimensions of tensors and which indices of statements are the same (union-find)."""

    def __init__(self) -> None:
        self._above: dict[_Place, _Place] = {}

    def of(self, x: _Place) -> _Place:
        """Return what stands for all that are the same."""
        while (above := self._above.get(x, x)) != x:
            x = above
        return x

    def unite(self, a: _Place, b: _Place) -> None:
        """Let two be the same."""
        self._above[self.of(a)] = self.of(b)


@dataclass(frozen=True, slots=True)
class RowDims:
    """The dimensions of a program along rows.

    All but dims are those of a `Rowwise`. dims: which of them each index of a statement is, by the
    number of the statement and its name.
    """

    extents: tuple[Size, ...]
    kept: int
    places: tuple[Places | None, ...]
    is_ordered: bool
    dims: Mapping[tuple[int, str], int]


def row_dims(program: Program) -> RowDims | None:
    """Return the dimensions of a program along rows, None where it is not one."""
    if program.loops or not program.statements or {*program.sizes} & {*program.scalars}:
        return None
    classes = _Classes()
    at_zero: set[_Place] = set()  # dimensions of tensors that are read or written at 0
    walked: set[_Place] = set()
    for n, s in enumerate(program.statements):
        if not _is_plain(program, s):
            return None
        for tensor, subs in _accesses(s):
            home = program.buffer(tensor).home
            for d, e in enumerate(subs):
                a = affine_of(e)
                if a is None or not (a.plain or (not a.terms and a.const == _ZERO)):
                    return None
                place = ("dim", d, home)
                if a.plain is None:
                    at_zero.add(place)
                else:
                    walked.add(place)
                    classes.unite(place, ("index", n, a.plain))
    if at_zero & walked:
        return None  # as in A(i) + A(0)
    if len({(home, classes.of(p)) for p in walked for _, _, home in [p]}) != len(walked):
        return None  # as in A(i, i)
    extents: dict[_Place, Size] = {}
    outputs: list[set[_Place]] = []
    folded: list[tuple[_Place, ...]] = []
    for n, s in enumerate(program.statements):
        of = {r.name: classes.of(("index", n, r.name)) for r in s.ranges}
        if len({*of.values()}) != len(of):
            return None  # as in A(i, j) + A(j, i)
        if any(extents.setdefault(of[r.name], r.extent) != r.extent for r in s.ranges):
            return None
        outputs.append({of[r.name] for r in s.outputs})
        folded.append(tuple(of[r.name] for r in s.reductions))
    every = {c for one in outputs for c in one}
    row = {c for one in folded for c in one} or _row_of_values(program, classes, extents)
    row = row or {c for c in every if not all(c in one for one in outputs)}
    kept = every - row
    fits = all(
        out == kept and {*fold} == row if fold else out in (kept, kept | row)
        for out, fold in zip(outputs, folded, strict=True)
    )
    if not row or not fits or any(e.constant not in (None, 1) for e in extents.values()):
        return None
    if any(_is_product(program, classes, n, kept, row) for n in range(len(program.statements))):
        return None
    numbered = {fold for s, fold in zip(program.statements, folded, strict=True) if s.is_arg}
    if len(numbered) > 1 or not _values_fit(program, classes, extents, row):
        return None
    order = _in_order(program, classes)
    if numbered:
        order = [*(c for c in order if c in kept), *numbered.pop()]
        is_ordered = True
    else:
        order = [*(c for c in order if c in kept), *(c for c in order if c in row)]
        is_ordered = len(row) == 1
    number = {c: d for d, c in enumerate(order)}
    if not kept and any(_is_repeated(b, walked) for b in map(program.buffer, program.inputs)):
        return None
    read = {tensor for s in program.statements for tensor, _ in _accesses(s)}

    def places(name: str) -> Places | None:
        b = program.buffer(name)
        if name not in read and b.role == "param" and b.shape:
            return None
        dims = [("dim", d, b.home) for d in range(len(b.shape))]
        return tuple(number[classes.of(p)] if p in walked else None for p in dims)

    return RowDims(
        tuple(extents[c] for c in order),
        len(kept),
        tuple(map(places, program.operands)),
        is_ordered,
        {
            (n, r.name): number[classes.of(("index", n, r.name))]
            for n, s in enumerate(program.statements)
            for r in s.ranges
        },
    )


def _is_plain(program: Program, s: Statement) -> bool:
    """Whether a statement writes the whole box of its target, at plain indices from 0 on."""
    ranges = {r.name: r for r in s.ranges}
    if any(r.low != _ZERO or r.bounds is not None for r in s.ranges) or any(s.subs_checked):
        return False
    if any(any(r.checked) for r in reads_of(s.value)):
        return False
    box = program.buffer(s.target).shape
    used = []
    for e, extent in zip(s.subs, box, strict=True):
        a = affine_of(e)
        if a is None:
            return False
        if a.plain is not None:
            used.append(a.plain)
            if ranges[a.plain].extent != extent:
                return False
        elif a.terms or a.const != _ZERO or extent != _ONE:
            return False
    return sorted(used) == sorted(r.name for r in s.outputs)


def _is_repeated(b: Buffer, walked: set[_Place]) -> bool:
    """Whether an array is one value for all points."""
    return bool(b.shape) and all(("dim", d, b.home) not in walked for d in range(len(b.shape)))


def _accesses(s: Statement) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    yield s.target, s.subs
    if s.resumes and s.base is not None:
        yield s.base, s.subs
    yield from ((r.tensor, r.subs) for r in reads_of(s.value))


def _in_order(program: Program, classes: _Classes) -> list[_Place]:
    """Return all classes in the order of the dimensions of operands, those with most of them first.

    Ranks and layouts that collapse alike have no say in it, so that all have one key.
    """
    shapes = [(b.home, len(b.shape)) for b in map(program.buffer, program.operands)]
    order: list[_Place] = []
    for home, rank in sorted(shapes, key=lambda x: -x[1]):
        for d in range(rank):
            c = classes.of(("dim", d, home))
            if c not in order:
                order.append(c)
    for n, s in enumerate(program.statements):
        for r in s.ranges:
            c = classes.of(("index", n, r.name))
            if c not in order:
                order.append(c)
    return order


# ---- values of sizes and indices


def _values(e: Expr) -> Iterator[Expr]:
    """Yield values of indices, and of products of sizes as wholes; not what subscripts are."""
    todo = [e]
    while todo:
        x = todo.pop()
        if isinstance(x, typed.IndexValue) or size_of(x) is not None:
            yield x
        elif not isinstance(x, typed.Read):
            todo += operands_of(x)


def size_of(e: Expr) -> Size | None:
    """Return a product of sizes as one size; None for any other expression."""
    match e:
        case typed.SizeValue(size, dtype) if dtype in _WIDE:
            return size
        case typed.Binary("*", lhs, rhs, dtype) if dtype in _WIDE:
            a, b = size_of(lhs), size_of(rhs)
            return None if a is None or b is None else a * b
        case typed.Cast(inner, dtype) if dtype in _WIDE:
            return size_of(inner)
        case _:
            return None


def _row_of_values(
    program: Program, classes: _Classes, extents: Mapping[_Place, Size]
) -> set[_Place]:
    """Return the dimensions whose extents or indices are values, where nothing is folded."""
    row: set[_Place] = set()
    for n, s in enumerate(program.statements):
        for x in _values(s.value):
            if isinstance(x, typed.IndexValue):
                row.add(classes.of(("index", n, x.name)))
                continue
            size = size_of(x)
            order = [c for c in _in_order(program, classes) if c in extents]
            subsets = (c for k in range(1, len(order) + 1) for c in combinations(order[::-1], k))
            row.update(next((c for c in subsets if _product(extents, c) == size), ()))
    return row


def _product(extents: Mapping[_Place, Size], classes: Sequence[_Place]) -> Size:
    total = _ONE
    for c in classes:
        total = total * extents[c]
    return total


def _values_fit(
    program: Program, classes: _Classes, extents: Mapping[_Place, Size], row: set[_Place]
) -> bool:
    """Whether all values of sizes are the points of a row, and those of indices their numbers."""
    length = _product(extents, tuple(row))
    for n, s in enumerate(program.statements):
        for x in _values(s.value):
            if isinstance(x, typed.IndexValue):
                if row != {classes.of(("index", n, x.name))}:
                    return False
            elif size_of(x) != length:
                return False
    return True


def _is_product(
    program: Program, classes: _Classes, n: int, kept: set[_Place], row: set[_Place]
) -> bool:
    """Whether a statement is a sum of products of which one is repeated: a contraction's forms.

    Squared and absolute differences have register tiles as products have.
    """
    s = program.statements[n]
    if not s.op.startswith("+") or not s.reductions:
        return False
    todo, reads = [s.value], []
    while todo:
        match todo.pop():
            case typed.Binary("*", lhs, rhs):
                todo += (lhs, rhs)
            case typed.Binary("-", typed.Read() as x, typed.Read() as y):
                todo += (x, y)
            case typed.Cast(operand=inner):
                todo.append(inner)
            case typed.Builtin("abs" | "fabs", (typed.Binary("-") as inner,)):
                todo.append(inner)
            case typed.Read() as r if r.subs:
                reads.append(r)
            case typed.Read() | typed.Lit():
                pass
            case _:
                return False
    found = []
    for r in reads:
        plain = (a.plain for a in map(affine_of, r.subs) if a is not None and a.plain)
        found.append({classes.of(("index", n, name)) for name in plain})
    return len(reads) > 1 and any(x & row and x != kept | row for x in found)
