"""One call of a definition: its operands checked, and bound to an executable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from math import prod
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from tcdsl.calls.bindings.executables import Compiled
from tcdsl.calls.bindings.rankfree import view_of
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.operands.arguments import (
    Array,
    Operand,
    check_number,
    contiguous,
    element_strides,
    is_addressable,
    layout_by,
    layout_of,
)
from tcdsl.calls.operands.collapse import View, in_c_order
from tcdsl.calls.operands.collapse_rows import RowView
from tcdsl.calls.operands.device_arrays import DeviceArray
from tcdsl.calls.operands.overlap import is_same_view, may_share
from tcdsl.calls.outputs import checked_output
from tcdsl.codegen.library.load import Loaded
from tcdsl.codegen.machine.spec import SMALL, Spec
from tcdsl.codegen.program.dtypes import identity, numpy_dtype
from tcdsl.codegen.runtime import ArrayForm, Entry
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import AllocationError, ShapeError

_MOST_BYTES = 1 << 52  # beyond all memory, and far from where counts of bytes wrap

Outputs = tuple[Any, ...]  # arrays, all of the host or all of one device


class Keep(NamedTuple):
    """What an entry holds: the library of its code, and what it is of, for who asks."""

    library: object
    variant: ref[Variant]  # weak: whoever owns a variant owns, by launchers, its entries


@dataclass(frozen=True)
class KernelCall:
    """A definition with all that one call decides.

    operands : per parameter, an array whose elements lie at multiples of their size, or a number.
    All arrays lie on the host, or all on one device: where the variant is for.
    outs : the caller's buffers; None where fresh ones are wanted.
    laid : per return, the strides in elements of a fresh one, None for C order; or None for all.
    """

    variant: Variant
    sizes: Mapping[str, int]
    operands: tuple[Any, ...]
    outs: Outputs | None = None
    laid: tuple[tuple[int, ...] | None, ...] | None = None

    @staticmethod
    def of(
        variant: Variant, sizes: Mapping[str, int], values: Sequence[Any], arrays: Sequence[Operand]
    ) -> KernelCall:
        """Return a call with these arguments, as they came and as arrays.

        Raises
        ------
        NumberError
            If an integer is none of its parameter's type.
        """
        operands: list[Any] = []
        for v, a, t in zip(values, arrays, variant.signature.params, strict=True):
            if t.shape:
                operands.append(a if is_addressable(a) else a.copy())
            else:
                check_number(v, a, t.name, t.dtype)
                operands.append(v)
        call = KernelCall(variant, sizes, tuple(operands))
        call.check_memory()
        return call

    @cached_property
    def return_types(self) -> tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]:
        """Types and shapes of the returns."""
        return tuple(
            (numpy_dtype(t.dtype), tuple([s.evaluate(self.sizes) for s in t.shape]))
            for t in self.variant.signature.returns
        )

    @cached_property
    def spec(self) -> Spec:
        """The exact specialisation for these operands."""
        params = self.variant.signature.params
        layouts = [
            layout_of(o) if t.shape else contiguous(0)
            for o, t in zip(self.operands, params, strict=True)
        ]
        if self.outs is None:
            for (_, shape), strides in self._fresh:
                if strides is None or not prod(shape):
                    layouts.append(contiguous(len(shape)))
                else:
                    layouts.append(layout_by(shape, strides))
        else:
            layouts += [layout_of(o) for o in self.outs]
        return Spec(
            tuple(self.sizes.items()),
            tuple(layouts),
            self.variant.threads,
            is_deterministic=self.variant.is_deterministic,
        )

    @cached_property
    def view(self) -> View | RowView | None:
        """The operands with their dimensions collapsed, where `RankFree` serves them."""
        signature = self.variant.signature
        if self.variant.is_for_gpu or (signature.pointwise or signature.rowwise) is None:
            return None
        inputs = [
            element_strides(o) if t.shape else ()
            for o, t in zip(self.operands, signature.params, strict=True)
        ]
        outs: list[tuple[int, ...]] | None = None
        if self.outs is not None:
            outs = [element_strides(o) for o in self.outs]
        elif self.laid is not None:
            outs = [in_c_order(shape) if s is None else s for (_, shape), s in self._fresh]
        return view_of(signature, self.sizes, inputs, outs, [s for _, s in self.return_types])

    @property
    def _fresh(
        self,
    ) -> Iterable[tuple[tuple[np.dtype[Any], tuple[int, ...]], tuple[int, ...] | None]]:
        """Types, shapes and strides of fresh returns; strides None for C order."""
        laid = (None,) * len(self.return_types) if self.laid is None else self.laid
        return zip(self.return_types, laid, strict=True)

    @property
    def key(self) -> tuple[object, ...]:
        """What tells this call's entry from others of the same definition."""
        places = tuple([(a.shape, a.strides) for a in self._arrays])
        return (self.variant, tuple(self.sizes.values()), places, self.outs is None, self.laid)

    def check_memory(self) -> None:
        """Refuse what no memory holds, and what addresses of 64 bits would not count right.

        Raises
        ------
        AllocationError
            If an output or a temporary would have 2**52 bytes or more.
        """
        for n, (extents, item) in enumerate(self.in_memory()):
            if _elements(extents) * item >= _MOST_BYTES:
                signature = self.variant.signature
                outputs = [(f"output '{t.name}'", t.shape) for t in signature.returns]
                named = *outputs, *((f"'{t}'", shape) for t, _, shape in signature.temporaries)
                raise self._no_memory(*named[n], item)

    def in_memory(self) -> Iterator[tuple[Sequence[int], int]]:
        """Yield extents, and bytes of an element, of the returns and of temporaries."""
        for kind, extents in self.return_types:
            yield extents, kind.itemsize
        for _, dtype, shape in self.variant.signature.temporaries:
            yield [n.evaluate(self.sizes) for n in shape], dtype.size_bytes

    def no_memory(self) -> AllocationError:
        """Return the error where memory ended: it names the largest output and its bytes."""
        return self._no_memory(*max(self._outputs, key=lambda o: self._bytes_of(*o[1:])))

    @property
    def _outputs(self) -> list[tuple[str, tuple[Size, ...], int]]:
        """How messages name the returns, their shapes, and bytes of an element."""
        returns = self.variant.signature.returns
        return [(f"output '{t.name}'", t.shape, t.dtype.size_bytes) for t in returns]

    def _bytes_of(self, shape: tuple[Size, ...], item: int) -> int:
        return _elements([n.evaluate(self.sizes) for n in shape]) * item

    def _no_memory(self, what: str, shape: tuple[Size, ...], item: int) -> AllocationError:
        symbols = ", ".join(map(str, shape))
        extents = tuple(n.evaluate(self.sizes) for n in shape)
        return AllocationError(
            f"{self.variant.name}: no memory for {what} of shape ({symbols}) = {extents}: "
            f"{self._bytes_of(shape, item)} bytes"
        )

    @property
    def _arrays(self) -> list[Operand]:
        given = (*self.operands, *(self.outs or ()))
        return [o for o in given if isinstance(o, np.ndarray | DeviceArray)]

    @property
    def is_small(self) -> bool:
        """Whether a GPU may compute addresses in 32 bits; see `Spec.is_small`."""
        if not self.variant.is_for_gpu:
            return False
        program, sizes = self.variant.program, self.sizes
        spans = [abs(n) for n in sizes.values()]
        for a in self._arrays:
            steps = zip(a.shape, element_strides(a), strict=True)
            spans.append(sum(max(0, n - 1) * abs(s) for n, s in steps))
        boxes = [x.shape for x in program.buffers if x.role != "param"]
        for s in program.statements:
            boxes += [tuple(r.extent for r in rs) for rs in (s.outputs, s.reductions)]
        spans += [prod(max(1, n.evaluate(sizes)) for n in box) for box in boxes]
        return max(spans, default=0) < SMALL

    def entry(self, compiled: Compiled) -> Entry:
        """Return an executable of the CPU bound to these sizes and strides."""
        checked, loaded = self.variant.signature, compiled.loaded
        assert isinstance(loaded, Loaded), "entries are the CPU's"
        params = tuple(
            _form(o) if t.shape else numpy_dtype(t.dtype)
            for o, t in zip(self.operands, checked.params, strict=True)
        )
        if self.outs is None:
            returns: tuple[ArrayForm, ...] = tuple((*form, laid) for form, laid in self._fresh)
        else:
            returns = tuple(map(_form, self.outs))
        sizes, strides = tuple(self.sizes[s] for s in checked.sizes), None
        if compiled.is_collapsed:
            assert self.view is not None, "an executable of all ranks is asked for by a view"
            sizes, strides = self.view.extents, tuple(chain(*self.view.strides))
        return Entry(
            loaded.address,
            sizes,
            params,
            returns,
            self.variant.signature.inplace,
            Keep(loaded.library, ref(self.variant)),
            tuple(  # scalars in bounds: another value is another size
                i for i, t in enumerate(checked.params) if not t.shape and t.name in checked.sizes
            ),
            self.variant.threads,
            strides,
        )

    @property
    def identities(self) -> tuple[Any, ...] | None:
        """Values that fresh outputs begin with, where the definition updates one first.

        `op=` without `!` on a return combines with the caller's buffer; where none is given, with
        the identity of op.
        """
        checked = self.variant.signature
        if not any(t.is_updated for t in checked.returns):
            return None
        values = []
        for op, (dtype, _) in zip(checked.starts, self.return_types, strict=True):
            values.append(identity(op.rstrip("!"), dtype))
        return tuple(values)

    def initial(self) -> Outputs | None:
        """Return fresh outputs of the host that hold `identities`, if there are any."""
        values = self.identities
        if values is None:
            return None
        return tuple(np.full(s, v, d) for v, (d, s) in zip(values, self.return_types, strict=True))

    def check_outputs(self, given: Sequence[Any]) -> Outputs:
        """Return the caller's buffers as arrays that may be written.

        Raises
        ------
        TCTypeError, ShapeError
            If one is not an array of the right type and shape, or cannot be written.
        """
        checked = self.variant.signature
        outs = tuple(
            checked_output(checked.name, value, tensor, dtype, shape)
            for value, tensor, (dtype, shape) in zip(
                given, checked.returns, self.return_types, strict=True
            )
        )
        if any(may_share(a, b) for a, b in combinations(outs, 2)):  # no order would be right
            raise ShapeError(f"{checked.name}: two outputs overlap in memory")
        return outs

    def targets(self, outs: Outputs, copy: Callable[[Any], Any]) -> Outputs:
        """Return where to write: the buffers, or a copy of one that overlaps an input.

        So the result is always that of separate memory. An output may be the very view of an input
        that is read only where it is written. copy gives a copy in C order.
        """
        return tuple(
            out if is_addressable(out) and not self._overlaps(r, out) else copy(out)
            for r, out in enumerate(outs)
        )

    def _overlaps(self, r: int, out: Operand) -> bool:
        return any(
            isinstance(x, np.ndarray | DeviceArray)
            and may_share(out, x)
            and not ((r, p) in self.variant.signature.inplace and is_same_view(out, x))
            for p, x in enumerate(self.operands)
        )


def _elements(extents: Sequence[int]) -> int:
    """Return what has to be addressable of an array: where it is empty, its other extents."""
    return prod([n if n > 1 else 1 for n in extents])


def _form(array: Array) -> ArrayForm:
    return array.dtype, array.shape, element_strides(array)
