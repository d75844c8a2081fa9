"""The executables of a pointwise definition: of all ranks, sizes and layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from tcdsl.calls.bindings.executables import Compiled, Executables
from tcdsl.calls.bindings.index import Index
from tcdsl.calls.bindings.signature import Signature
from tcdsl.calls.operands.arguments import contiguous
from tcdsl.calls.operands.collapse import Strides, View, collapsed, in_c_order, walked
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.program.pointwise import size_names

if TYPE_CHECKING:
    from tcdsl.codegen.program.program import Program


class RankFree:
    """What serves the calls of pointwise definitions that differ in nothing but ranks.

    Flat operands, as most are once their dimensions are joined, have an executable of one
    dimension, all steps 1. Others share one of four dimensions (8, 16, .. where those are too few)
    with every stride at run time.

    Parameters
    ----------
    signature : Signature
        Of the definition at any of the ranks; its `pointwise` is not None.
    machine, threads
        See `Variant`.
    is_kept : bool
        Whether later processes find what is compiled.
    """

    def __init__(
        self,
        signature: Signature,
        machine: Machine,
        threads: int,
        *,
        is_kept: bool,
    ) -> None:
        assert signature.pointwise is not None, "it is not pointwise"
        self._name = signature.name
        self._key = signature.pointwise.key
        self._operands = [bool(t.shape) for t in signature.params]
        self._operands += [True] * len(signature.returns)
        tensors = (t.name for t in (*signature.params, *signature.returns))
        self._taken = {*tensors, *(name for name, _, _ in signature.temporaries)}
        self._program: Callable[[], Program] | None = None  # that of the call at hand
        self._machine = machine
        self._threads = threads
        self._is_kept = is_kept
        self._lock = Lock()
        self._by_rank: dict[int, Executables] = {}

    @property
    def executables(self) -> tuple[Compiled, ...]:
        """What was compiled so far."""
        return tuple(c for made in self._by_rank.values() for c in made.compiled.values())

    def executable(self, view: View, program: Callable[[], Program]) -> Compiled:
        """Return the executable for operands of this view, compiled if it has to be.

        program: gives that of any of the ranks. It is the caller's own: another one's may be locked
        by whoever waits for this.
        """
        rank = len(view.extents)
        layout = contiguous(1) if view.is_flat else Layout(rank, contiguous=False, unit=None)
        layouts = tuple(layout if walked else contiguous(0) for walked in self._operands)
        spec = Spec(None, layouts, self._threads)
        names = size_names(self._taken, rank)
        sizes = dict(zip(names, view.extents, strict=True))
        with self._lock:
            self._program = program
            made = self._of_rank(rank)
            return made.at_hand(spec, sizes, names) or made.for_all(spec, sizes)

    def forget_choices(self) -> None:
        """Choose anew; what was compiled stays."""
        with self._lock:
            for made in self._by_rank.values():
                made.forget_choices()

    def _of_rank(self, rank: int) -> Executables:
        found = self._by_rank.get(rank)
        if found is None:
            index = None
            if self._is_kept:
                identity = f"{self._name}, pointwise over {rank} dimensions: {self._key}"
                index = Index(identity, self._name, self._machine)
            program = partial(self._at_rank, rank)
            found = Executables(self._name, program, self._machine, index, is_collapsed=True)
            self._by_rank[rank] = found
        return found

    def _at_rank(self, rank: int) -> Program:
        from tcdsl.codegen.program.collapse import at_rank  # on use

        assert self._program is not None, "a call asks"
        return at_rank(self._program(), rank)


def view_of(
    signature: Signature,
    sizes: Mapping[str, int],
    inputs: Sequence[Strides] | None = None,
    outs: Sequence[Strides] | None = None,
) -> View | None:
    """Return the operands of a call with their dimensions collapsed; None where it has no such.

    These are calls of what is not pointwise; of what has constant extents, which executables of
    its own have in them; and those in which what is dear to compute is repeated along rows: an
    executable for this layout computes it once a row.

    Parameters
    ----------
    signature : Signature
    sizes : mapping of str to int
        Values of the size symbols.
    inputs, outs : sequence of tuple of int, optional
        Strides of the parameters, () for numbers, and of the results, in elements; C order where
        they are left out.
    """
    found = signature.pointwise
    if found is None:
        return None
    box, *_ = shapes = [[n.evaluate(sizes) for n in t.shape] for t in signature.returns]
    if not signature.sizes and prod(box) > 1:
        return None
    if inputs is None:
        inputs = [in_c_order([n.evaluate(sizes) for n in t.shape]) for t in signature.params]
    written = [in_c_order(shape) for shape in shapes] if outs is None else [*outs]
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
