"""The executables of a definition that is pointwise or along rows: of all ranks and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from tcdsl.calls.bindings.executables import Compiled, Executables
from tcdsl.calls.bindings.index import Index
from tcdsl.calls.bindings.signature import Signature
from tcdsl.calls.operands.arguments import contiguous
from tcdsl.calls.operands.collapse import Strides, View, collapsed, in_c_order, walked
from tcdsl.calls.operands.collapse_rows import RowView, collapsed_rows
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.program.pointwise import size_names
from tcdsl.codegen.program.rowwise import kind_of, row_sizes
from tcdsl.codegen.toolchain.cachedir import usable_folder

if TYPE_CHECKING:
    from tcdsl.codegen.program.pointwise import Pointwise
    from tcdsl.codegen.program.program import Program
    from tcdsl.codegen.program.rowwise import Rowwise

_MAX_LAYOUTS = 3  # of operands along rows without unit steps, that have executables of their own
_MOST_GENERAL = 2048
_MOST_POINTS = 1 << 31  # of a row, whose number is an int32 in programs


class RankFree:
    """What serves the calls of definitions that differ in nothing but ranks.

    Of pointwise ones, flat operands, as most are once their dimensions are joined, have an
    executable of one dimension, all steps 1. Others share one of four dimensions (8, 16, .. where
    those are too few) with every stride at run time; but a definition of a user has one for its
    first sizes where rows are short or an operand is turned around.

    Definitions along rows have one for rows one after the other and one for rows side by side, of
    operands with unit steps along them (further ones where dimensions cannot be joined); for other
    layouts, one each of the first `_MAX_LAYOUTS`, then one with every stride at run time.

    Parameters
    ----------
    signature : Signature
        Of the definition at any of the ranks; it is pointwise or along rows.
    machine, threads
        See `Variant`.
    is_kept : bool
        Whether later processes find what is compiled.
    is_general : bool
        Whether it serves the very first call too, whatever it is of.
    """

    def __init__(
        self,
        signature: Signature,
        machine: Machine,
        threads: int,
        *,
        is_kept: bool,
        is_general: bool,
    ) -> None:
        self._name = signature.name
        self._key = key_of(signature)
        self._operands = [bool(t.shape) for t in signature.params]
        self._operands += [True] * len(signature.returns)
        tensors = (t.name for t in (*signature.params, *signature.returns))
        self._taken = (*tensors, *(name for name, _, _ in signature.temporaries))
        self._program: Callable[[], Program] | None = None  # that of the call at hand
        self._machine = machine
        self._threads = threads
        self._is_kept = is_kept
        self._lock = Lock()
        self._by_ranks: dict[tuple[int, ...], Executables] = {}
        self._layouts: dict[tuple[int, ...], set[tuple[Layout, ...]]] = {}
        self.is_general = is_general
        self._first: object = None

    @property
    def executables(self) -> tuple[Compiled, ...]:
        """What was compiled so far."""
        return tuple(c for made in self._by_ranks.values() for c in made.compiled.values())

    def executable(self, view: View | RowView, program: Callable[[], Program]) -> Compiled:
        """Return the executable for operands of this view, compiled if it has to be.

        program: gives that of any of the ranks. It is the caller's own: another one's may be locked
        by whoever waits for this.
        """
        with self._lock:
            if isinstance(view, View):
                rank = len(view.extents)
                any_steps = Layout(rank, contiguous=False, unit=None)
                ranks: tuple[int, ...] = (rank,)
                names = size_names(self._taken, rank)
                each = [contiguous(1) if view.is_flat else any_steps] * len(view.strides)
            else:
                ranks = view.ranks
                names = row_sizes(self._taken, *ranks)
                each = [*self._layouts_for(view)]
            layouts = tuple(each.pop(0) if walked else contiguous(0) for walked in self._operands)
            spec = Spec(None, layouts, self._threads)
            sizes = dict(zip(names, view.extents, strict=True))
            self._program = program
            made = self._of_ranks(ranks)
            return made.at_hand(spec, sizes, names) or made.for_all(spec, sizes)

    def serves_first(self, view: View | RowView) -> bool:
        """Whether a first call of this view has no executable for its sizes."""
        return self.is_general or (isinstance(view, View) and not view.is_slow)

    def is_first(self, call: object, view: View | RowView) -> bool:
        """Whether no other call than this one, equal where it is the same, came before.

        It has an executable for its sizes then, which short rows are the faster for, and what is
        pointwise where the shared one is slow.
        """
        if self.is_general:
            return False
        with self._lock:
            if self._first is None:
                self._first = call
            return self._first == call and not self.serves_first(view)

    def is_served_alike(self, compiled: Compiled, extents: Sequence[Any]) -> bool:
        """Whether extents that are walked alike get this executable: see `Variant.served_alike`."""
        with self._lock:
            for ranks, made in self._by_ranks.items():
                if made.compiled.get((compiled.spec, compiled.config)) is compiled:
                    of = size_names if len(ranks) == 1 else row_sizes
                    names = of(self._taken, *ranks)
                    return made.is_served_alike(compiled, dict(zip(names, extents, strict=True)))
            return False

    def forget_choices(self) -> None:
        """Choose anew; what was compiled stays."""
        with self._lock:
            for made in self._by_ranks.values():
                made.forget_choices()

    def _layouts_for(self, view: RowView) -> tuple[Layout, ...]:
        """Return what is taken for granted: unit steps, one of the first others, or nothing."""
        if view.is_dense:
            return view.layouts
        known = self._layouts.setdefault(view.ranks, set())
        if len(known) < _MAX_LAYOUTS:
            known.add(view.layouts)
        return view.layouts if view.layouts in known else view.any_layouts

    def _of_ranks(self, ranks: tuple[int, ...]) -> Executables:
        found = self._by_ranks.get(ranks)
        if found is None:
            index = None
            if self._is_kept:
                kind = "pointwise" if len(ranks) == 1 else "along rows"
                over = " and ".join(map(str, ranks))
                identity = f"{self._name}, {kind} over {over} dimensions: {self._key}"
                index = Index(identity, self._name, self._machine)
            program = partial(self._at_ranks, ranks)
            found = Executables(self._name, program, self._machine, index, is_collapsed=True)
            self._by_ranks[ranks] = found
        return found

    def _at_ranks(self, ranks: tuple[int, ...]) -> Program:
        from tcdsl.codegen.program import collapse, collapse_rows  # on use

        assert self._program is not None, "a call asks"
        of = collapse.at_rank if len(ranks) == 1 else collapse_rows.at_ranks
        return of(self._program(), *ranks)


_general: dict[tuple[object, ...], RankFree] = {}  # of settings that are general
_general_lock = Lock()


def general(signature: Signature, machine: Machine, threads: int, *, is_kept: bool) -> RankFree:
    """Return the executables of a definition that texts of this process share."""
    global _general
    key = signature.name, key_of(signature), machine, threads, is_kept and usable_folder()
    with _general_lock:
        found = _general.get(key)
        if found is None:
            found = RankFree(signature, machine, threads, is_kept=is_kept, is_general=True)
            _general = thinned(_general, _MOST_GENERAL)
            _general[key] = found
        return found


def key_of(signature: Signature) -> str:
    """Return what definitions share that differ in nothing but ranks."""
    found = signature.pointwise or signature.rowwise
    assert found is not None, "it is neither pointwise nor along rows"
    return found.key


def view_of(
    signature: Signature,
    sizes: Mapping[str, int],
    inputs: Sequence[Strides] | None = None,
    outs: Sequence[Strides] | None = None,
    shapes: Sequence[Sequence[int]] | None = None,
) -> View | RowView | None:
    """Return the operands of a call with their dimensions collapsed; None where it has no such.

    These are calls of what is neither pointwise nor along rows; of what has constant extents, which
    executables of its own have in them; and those in which what is dear to compute is repeated
    along rows: an executable for this layout computes it once a row.

    Parameters
    ----------
    signature : Signature
    sizes : mapping of str to int
        Values of the size symbols.
    inputs, outs : sequence of tuple of int, optional
        Strides of the parameters, () for numbers, and of the results, in elements; C order where
        they are left out.
    shapes : sequence of tuple of int, optional
        Of the results, where they are known.
    """
    if signature.pointwise is None and signature.rowwise is None:
        return None
    if shapes is None:
        shapes = [[n.evaluate(sizes) for n in t.shape] for t in signature.returns]
    if inputs is None:
        inputs = [in_c_order([n.evaluate(sizes) for n in t.shape]) for t in signature.params]
    written = [in_c_order(shape) for shape in shapes] if outs is None else [*outs]
    if signature.rowwise is not None:
        return _row_view(signature, signature.rowwise, sizes, (*inputs, *written))
    assert signature.pointwise is not None
    return _pointwise_view(signature, signature.pointwise, shapes[0], inputs, written)


def _pointwise_view(
    signature: Signature,
    found: Pointwise,
    box: Sequence[int],
    inputs: Sequence[Strides],
    written: Sequence[Strides],
) -> View | None:
    if not signature.sizes and prod(box) > 1:
        return None
    arrays = [i for i, t in enumerate(signature.params) if t.shape]
    places = [found.places[i] for i in arrays]
    read = [
        written[0] if p is None else walked(p, inputs[i], len(box))
        for i, p in zip(arrays, places, strict=True)
    ]
    view = collapsed(box, (*read, *written), len(written))
    if not view.is_flat:
        still = {i for i, strides in zip(arrays, view.strides, strict=False) if strides[-1] == 0}
        if any(still.issuperset(one) for one in found.costly):
            return None
    return view


def _row_view(
    signature: Signature, found: Rowwise, sizes: Mapping[str, int], strides: Sequence[Strides]
) -> RowView | None:
    extents = [n.evaluate(sizes) for n in found.extents]
    if not signature.sizes or prod(extents[found.kept :]) >= _MOST_POINTS:
        return None
    arrays = [i for i, t in enumerate(signature.params) if t.shape]
    arrays += range(len(signature.params), len(strides))
    places = [found.places[i] for i in arrays]
    read = [
        walked(p or (), strides[i] if p else (), len(extents))
        for i, p in zip(arrays, places, strict=True)
    ]
    kinds = [kind_of(p, found.kept) for p in places]
    return collapsed_rows(extents, found.kept, read, kinds, is_ordered=found.is_ordered)
