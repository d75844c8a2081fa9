"""Lines of a padded image that a task makes for itself, in the second level of cache.

    for lines y .. y + n of one image:      part[row][channel][column], zeros outside of the image

A padded copy of all images is written to memory and read from there once more. Rows are the
outermost dimension of a part, whatever the image has, so that no stride depends on how many it has.
But where several blocks of columns read it, each would make a part anew: then a phase makes one of
all rows for each image, channel by channel (`Part.planes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.contraction.problem import ONE, ZERO, Index, Operand, Reach
from tcdsl.codegen.forms.contraction.register_tile import intrinsic
from tcdsl.codegen.forms.contraction.roles import operand_of
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Call,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Mask,
    Stmt,
    Var,
    Vector,
)
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.padding import Copied
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class PartDim:
    """A dimension of a part.

    extent: of one row of pixels; `grows` more for each further one. first: where it begins in the
    padded image, beside `terms`, of indices that are the same for a part. low, high: positions
    there from and below which the image has elements. source, step: distances of neighbours in the
    image and in the part.
    """

    extent: Size
    grows: int
    first: Size
    terms: tuple[tuple[str, int], ...]
    low: Size | None
    high: Size | None
    source: Size
    step: Size


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of a padded image: the image, dimensions outer to inner, the part as an operand.

    row: the index of the lines that a part has several of; None: it is for one line. tap: the one
    sum that slides along these.
    """

    image: Operand
    dims: tuple[PartDim, ...]
    operand: Operand
    row: Index | None
    tap: Index | None

    def elements(self, size: Callable[[Size], Expr], rows: Expr) -> Expr:
        """Return the elements of a part of so many rows of pixels."""
        first = self.dims[0]
        more = b.mul(first.grows, b.sub(rows, 1))
        return b.max64(b.mul(b.add(size(first.extent), more), size(first.step)), 0)

    def taps(
        self, size: Callable[[Size], Expr], at: Mapping[str, Expr]
    ) -> tuple[Index, Expr, Expr] | None:
        """Return the tap that slides along rows, the first that exists at a row, and how many.

        None where others may exist between them.
        """
        first = self.dims[0]
        if self.row is None or self.tap is None:
            return None
        step = dict(self.operand.strides)[self.tap.name]
        if first.terms or step not in (first.step, first.step * -1):
            return None
        extent, none = size(self.tap.extent), b.c64(0)
        begin = b.add(size(first.first), b.mul(at[self.row.name], first.grows))
        last = b.add(begin, size(first.extent))  # behind the last position
        low = none if first.low is None else b.max64(b.sub(size(first.low), begin), 0)
        high = none if first.high is None else b.max64(b.sub(last, size(first.high)), 0)
        start, behind = (low, high) if step == first.step else (high, low)
        count = b.max64(b.sub(extent, b.add(start, behind)), 0)
        return self.tap, b.min64(start, extent), count

    @property
    def is_once(self) -> bool:
        """Whether no two images have a line in common: a volume's would, that slide along it."""
        return all(not d.terms or d.extent == ONE for d in self.dims)

    def planes(self, name: Callable[[int], str]) -> tuple[Part, tuple[tuple[Index, Size], ...]]:
        """Return the part of one channel of all rows, and what channels are by indices so named.

        Each index comes with the distance of neighbours in the part.
        """
        first, *between, last = self.dims
        found = tuple((Index(name(n), d.extent), d.step) for n, d in enumerate(between))
        alone = [
            replace(d, extent=ONE, terms=(*d.terms, (i.name, 1)))
            for d, (i, _) in zip(between, found, strict=True)
        ]
        return replace(self, dims=(first, *alone, last)), found

    def most_rows(self, size: Callable[[Size], Expr], elements: int) -> Expr:
        """Return of how many rows of pixels a part of about so many elements is, at least one."""
        if self.row is None:
            return b.c64(1)
        first = self.dims[0]
        lines = b.div(b.c64(elements), b.max64(size(first.step), 1))
        rows = b.add(b.div(b.sub(lines, size(first.extent)), first.grows), 1)
        return b.max64(b.min64(rows, size(self.row.extent)), 1)


def part_of(
    ctx: Context,
    reach: Reach,
    copied: Copied,
    s: Statement,
    a: Operand,
    pixel: Index,
    lines: Sequence[Index],
    panels: Sequence[Index],
) -> Part | None:
    """Return the lines of a padded image that a task may make; None where it cannot.

    s reads the copy as `a`. lines, panels: outer indices, the last line is the fastest.
    """
    padding, read = copied.padding, copied.read
    image = operand_of(reach, padding, read.tensor, read.subs)
    at = next((r.subs for r in s.reads() if r.tensor == padding.target), None)
    if image is None or at is None or ctx.operands.memory_dtype(read.tensor) != a.dtype:
        return None
    names = _plain(reach, padding)
    bounds = _bounds(reach, copied, names)
    if names is None or bounds is None:
        return None
    whole = {r.name: reach.bind(r.extent) for r in padding.ranges}
    extents = {r.name: reach.bind(r.extent) for r in s.ranges}
    outer = {i.name for i in (*lines, *panels)}
    low = {r.name: r.low for r in s.ranges}
    sums = {r.name for r in s.reductions}
    affines = [affine_of(e) for e in at]
    row = lines[-1] if lines else None
    if row is not None and not any(
        x is not None and x.coefficient(row.name) and sums & {n for n, _ in x.terms}
        for x in affines
    ):
        row = None
    found: list[tuple[PartDim, dict[str, int], Size]] = []
    for name, x in zip(names, affines, strict=True):
        if x is None:
            return None
        first = reach.bind(x.at(low))
        inner = {n: k for n, k in x.terms if n not in outer}
        terms = tuple((n, k) for n, k in x.terms if n in outer and (row is None or n != row.name))
        grows = 0 if row is None else x.coefficient(row.name)
        shift, extent = ZERO, ONE  # of what the part begins with
        if pixel.name in inner:
            if terms or grows:
                return None
            shift, extent, first = first, whole[name], ZERO
        else:
            for n, k in inner.items():
                extent = extent + (extents[n] - 1) * abs(k)
                if k < 0:
                    first = first + (extents[n] - 1) * k
                    shift = shift - (extents[n] - 1) * k
        if grows < 0:
            return None
        if row is not None and grows:
            inner[row.name] = grows
        dim = PartDim(extent, grows, first, terms, *bounds[name], image.stride(name), ONE)
        found.append((dim, inner, shift))
    slid = [n for d, inner, _ in found if d.grows for n in inner if n in sums]
    tap = Index(slid[0], extents[slid[0]]) if len(slid) == 1 else None
    return _laid(image, a, found, pixel, row, tap)


def _laid(
    image: Operand,
    a: Operand,
    found: Sequence[tuple[PartDim, dict[str, int], Size]],
    pixel: Index,
    row: Index | None,
    tap: Index | None,
) -> Part | None:
    """Return the dimensions behind each other, that of the rows first."""
    ordered = sorted(found, key=lambda x: not x[0].grows)
    last = ordered[-1]
    if pixel.name not in last[1] or last[0].source != ONE:
        return None
    if sum(bool(d.grows) for d, _, _ in found) != (row is not None):
        return None
    dims: list[PartDim] = []
    strides: dict[str, Size] = {}
    step, offset = ONE, ZERO
    for dim, inner, shift in reversed(ordered):
        dims.insert(0, replace(dim, step=step))
        for n, k in inner.items():
            strides[n] = strides.get(n, ZERO) + step * k
        offset = offset + step * shift
        step = step * dim.extent
    operand = replace(a, offset=offset, strides=tuple(strides.items()))
    return Part(image, tuple(dims), operand, row, tap)


def _plain(reach: Reach, padding: Statement) -> tuple[str, ...] | None:
    """Return the index of each dimension of the copy, which all begin at its first element."""
    low = {r.name: r.low for r in padding.ranges}
    out: list[str] = []
    for sub in padding.subs:
        x = affine_of(sub)
        if x is None or len(x.terms) != 1 or x.terms[0][1] != 1 or reach.bind(x.at(low)) != ZERO:
            return None
        out.append(x.terms[0][0])
    return tuple(out) if len({*out}) == len(out) else None


def _bounds(
    reach: Reach, copied: Copied, names: Sequence[str] | None
) -> dict[str, tuple[Size | None, Size | None]] | None:
    """Return from where on and below where each index of the copy has elements."""
    low = {r.name: r.low for r in copied.padding.ranges}
    out: dict[str, tuple[Size | None, Size | None]] = dict.fromkeys(names or (), (None, None))
    for g in copied.guards:
        if len(g.at.terms) != 1 or g.at.terms[0][1] != 1:
            return None
        name = g.at.terms[0][0]
        if out.get(name) != (None, None):
            return None
        first = reach.bind(g.at.at(low))
        ends = (None if e is None else reach.bind(e) - first for e in (g.low, g.high))
        out[name] = next(ends), next(ends)
    return out


# ---- making a part


def pad_line(name: str, dtype: DType, lanes: int, *, is_apart: bool) -> Function:
    """Return the function that copies a line in whole vectors, zeros beside [low, high).

    is_apart: another thread may make the next line: nothing is stored behind this one.
    """
    vector, mask = Vector(dtype, lanes), Mask(dtype, lanes)
    to = b.pointer("to", dtype, restrict=True)
    source = b.pointer("from", dtype, const=True, restrict=True)
    low, high, width, x = (b.i64(n) for n in ("low", "high", "width", "x"))
    inside = b.all_of(b.compare(">=", x, low), b.compare("<=", b.add(x, lanes), high))
    some = Var("some", mask)

    def store(value: Expr) -> Stmt:
        return Eval(intrinsic("tc_store", vector, b.offset(to, x), value))

    def store_first(value: Expr) -> Stmt:
        first = intrinsic("tc_tail", vector, b.sub(width, x), type=mask)
        return Eval(intrinsic("tc_storet", vector, b.offset(to, x), first, value))

    at = b.offset(source, x)
    chosen = intrinsic("tc_range", vector, b.sub(low, x), b.sub(high, x), type=mask)
    read = intrinsic("tc_loadm", vector, at, some, type=vector)
    part = b.block(Let(some, chosen), store_first(read) if is_apart else store(read))
    whole = store(intrinsic("tc_load", vector, at, type=vector))
    body = b.loop(x, 0, width, If(inside, whole, part), step=lanes)
    return Function(name, (to, source, low, high, width), body, "helper")


def make_part(
    part: Part,
    pad: str,
    to: Expr,
    source: Expr,
    size: Callable[[Size], Expr],
    var: Callable[[str], Var],
    at: Mapping[str, Expr],
    rows: Expr,
) -> Stmt:
    """Return the copying of a part of so many rows of pixels.

    at: the outer indices, those of the first row.
    """
    *outer, last = part.dims
    loops: list[tuple[Var, Expr]] = []
    place: list[Expr] = []
    image: list[Expr] = [size(part.image.offset)]
    conditions: list[Expr] = []
    for n, dim in enumerate(outer):
        extent = size(dim.extent)
        first = [b.mul(at[name], k) for name, k in dim.terms]
        if part.row is not None and dim.grows:
            first.append(b.mul(at[part.row.name], dim.grows))
            extent = b.add(extent, b.mul(b.sub(rows, 1), dim.grows))
        moved: Expr = b.c64(0)
        if b.value_of(extent) != 1:
            moved = var(f"copy{n}")
            loops.append((moved, extent))
        position = b.add(size(dim.first), *first, moved)
        if dim.low is not None:
            conditions.append(b.compare(">=", position, size(dim.low)))
        if dim.high is not None:
            conditions.append(b.compare("<", position, size(dim.high)))
        place.append(b.mul(moved, size(dim.step)))
        image.append(b.mul(position, size(dim.source)))
    width = size(last.extent)
    low = b.c64(0) if last.low is None else size(last.low)
    high = width if last.high is None else b.min64(size(last.high), width)
    target, there = b.offset(to, b.add(*place)), b.add(*image)
    exists: list[Stmt] = []
    if conditions:  # one call, so that a compiler puts the function here
        inside = var("inside")
        exists.append(Let(inside, b.select(b.all_of(*conditions), b.c64(1), b.c64(0))))
        low, high, there = (b.mul(x, inside) for x in (low, high, there))
    copy = Eval(Call(pad, (target, b.offset(source, there), low, high, width), None))
    body = b.block(exists, copy)
    for counter, extent in reversed(loops):
        body = b.loop(counter, 0, extent, body)
    return body
