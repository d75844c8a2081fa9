"""Operands of a call along rows with as few dimensions as their strides allow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tcdsl.calls.operands.arguments import contiguous
from tcdsl.calls.operands.collapse import Strides
from tcdsl.codegen.machine.spec import Layout
from tcdsl.codegen.program.rowwise import Kind
from tcdsl.grammar.text.dataclass import dataclass

_LEAST_COLUMNS = 4  # rows walked side by side: of fewer a vector would hold little


@dataclass(frozen=True, slots=True)
class RowView:
    """The extents that all operands have, the strides of each, and what is known of them.

    extents: of the kept dimensions, so many as kept says, then of a row's. strides: per operand, in
    elements, along those of them that it has. layouts: what an executable may take for granted: the
    operands with unit steps, or steps of 0, along the dimension that is walked. is_dense: all that
    lie along it have unit steps.
    """

    extents: tuple[int, ...]
    kept: int
    strides: tuple[Strides, ...]
    layouts: tuple[Layout, ...]
    is_dense: bool

    @property
    def ranks(self) -> tuple[int, int]:
        """How many dimensions are kept, and how many a row has."""
        return self.kept, len(self.extents) - self.kept

    @property
    def any_layouts(self) -> tuple[Layout, ...]:
        """The layouts of which nothing is known."""
        return tuple(_any(x.rank) for x in self.layouts)


def collapsed_rows(
    extents: Sequence[int],
    kept: int,
    operands: Sequence[Strides],
    kinds: Sequence[Kind],
    *,
    is_ordered: bool,
) -> RowView:
    """Return operands along rows with their dimensions dropped, sorted and joined.

    Dimensions of extent 1 go. The others of the kept ones, and those of a row, are sorted by their
    steps, the smallest last, and neighbours become one where that is a step of the outer in all
    operands. Where the last of the kept ones is nearer in memory, rows lie side by side, and are
    walked so.

    Parameters
    ----------
    extents : sequence of int
        Of the kept dimensions, then of a row's.
    kept : int
        How many of them are kept.
    operands : sequence of tuple of int
        Strides in elements along these dimensions, 0 where an operand is repeated.
    kinds : sequence of Kind
        Which of them each operand has in the executable.
    is_ordered : bool
        Whether the order of a row's dimensions has to stay.

    Examples
    --------
    >>> from tcdsl.calls.operands.collapse_rows import collapsed_rows
    >>> view = collapsed_rows((2, 3, 4), 2, [(12, 4, 1), (3, 1, 0)], ["whole", "kept"],
    ...                       is_ordered=False)  # sums over the last of three dimensions
    >>> view.extents, view.kept, view.strides
    ((6, 4), 1, ((4, 1), (1,)))
    """
    dims = [d for d, n in enumerate(extents) if n != 1]
    outer = _joined(extents, [d for d in dims if d < kept], operands, is_ordered=False)
    inner = _joined(extents, [d for d in dims if d >= kept], operands, is_ordered=is_ordered)
    few = bool(outer) and outer[-1][0] < _LEAST_COLUMNS
    near = bool(outer) and (not inner or (not few and _steps(outer[-1]) < _steps(inner[-1])))
    least = 0 if not kept else 2 if near else 1
    outer = _filled(outer, least, len(operands), 0)
    inner = _filled(inner, 1, len(operands), 0 if near else 1)
    order = [*range(len(outer) + len(inner))]
    parts = {"whole": order, "kept": order[: len(outer)], "row": order[len(outer) :]}
    walked, across = order[-1], len(outer) - 1
    if near:
        walked, across = across, walked
    elif few:  # what is known of them would have them walked side by side
        across = -1
    both = (*outer, *inner)
    strides, layouts = [], []
    for i, kind in enumerate(kinds):
        dims = parts[kind]
        steps = [both[d][1][i] for d in dims]
        strides.append(tuple(steps))
        layouts.append(_layout(dims, steps, walked, across))
    along = [both[walked][1][i] for i, kind in enumerate(kinds) if walked in parts[kind]]
    is_dense = all(step == 1 for step in along)
    extents = tuple(n for n, _ in both)
    return RowView(extents, len(outer), tuple(strides), tuple(layouts), is_dense)


_Dim = tuple[int, tuple[int, ...]]  # an extent, and the steps of all operands


def _steps(dim: _Dim) -> int:
    return sum(map(abs, dim[1]))


def _joined(
    extents: Sequence[int], dims: Sequence[int], operands: Sequence[Strides], *, is_ordered: bool
) -> list[_Dim]:
    found = [(extents[d], tuple([s[d] for s in operands])) for d in dims]
    if not is_ordered and len(found) > 1:
        found.sort(key=_steps, reverse=True)
    joined: list[_Dim] = []
    for extent, steps in found:
        if joined and joined[-1][1] == tuple([s * extent for s in steps]):
            joined[-1] = joined[-1][0] * extent, steps
        else:
            joined.append((extent, steps))
    return joined


def _filled(dims: list[_Dim], least: int, operands: int, step: int) -> list[_Dim]:
    """Return as many dimensions as an executable has, with ones in front."""
    if not least:
        return []
    rank = least
    while rank < len(dims):
        rank *= 2
    return [(1, (step,) * operands)] * (rank - len(dims)) + dims


def _any(rank: int) -> Layout:
    return Layout(rank, contiguous=False, unit=None) if rank else contiguous(0)


def _layout(dims: Sequence[int], steps: Sequence[int], walked: int, across: int) -> Layout:
    """Return what is known of an operand: steps of 1 or 0 where it is walked, or of 1 across."""
    rank, unit = len(dims), None
    if walked not in dims:
        return _any(rank)
    for at, (d, step) in enumerate(zip(dims, steps, strict=True)):
        if d == walked and step == 0:
            return _known(rank, None, (at,))
        if step == 1 and (d == walked or (d == across and unit is None)):
            unit = at
    return _known(rank, unit, ())


@cache
def _known(rank: int, unit: int | None, zeros: tuple[int, ...]) -> Layout:
    return Layout(rank, False, unit, zeros)
