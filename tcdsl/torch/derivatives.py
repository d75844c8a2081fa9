"""What a recorded call runs on its way and back: kernels of the compiler, chosen once a form.

The eager route, the operator and the transforms call the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tcdsl.calls.operands.abstract import abstract_of
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.heads import has_any_rank
from tcdsl.reverse_mode import Differentiated

if TYPE_CHECKING:
    from tcdsl import kernel
    from tcdsl.calls.bindings.signature import Signature
    from tcdsl.calls.bindings.variant import Variant

_MAX_FORMS = 512

Needs = tuple[bool, ...]  # per parameter, whether somebody asks for its gradient


@dataclass(frozen=True)
class Derivative:
    """A kernel bound to types, with its way back.

    A call is ``forward(*values)``: its first results are the outputs; those at `kept` are what the
    way back takes. The way back is ``backward(*values, *kept, *adjoints)``, an adjoint for each
    output at `floats`; its results are the gradients by the parameters at `wrt`.

    Attributes
    ----------
    forward, backward : Kernel
    outputs : int
        How many of forward's results are the kernel's own.
    kept, floats, wrt : tuple of int
    reads : tuple of bool
        Per parameter, whether a derivative of some order reads its values, and not its shape only.
    again : Kernel or None
        ``again(*values, *adjoints)`` is the way back as a function of these alone, of which
        further derivatives are; None where backward itself is.
    """

    forward: kernel.Kernel
    backward: kernel.Kernel
    outputs: int
    kept: tuple[int, ...]
    floats: tuple[int, ...]
    wrt: tuple[int, ...]
    reads: tuple[bool, ...]
    made: Differentiated[kernel.Kernel] | None = None

    @cached_property
    def again(self) -> kernel.Kernel | None:
        """The way back without kept values; see the class."""
        return None if self.made is None else self.made.whole

    @property
    def given(self) -> Mapping[str, Any]:
        """The generics that the way back takes."""
        return {}

    @cached_property
    def integers(self) -> tuple[int, ...]:
        """The outputs that have no derivative."""
        return tuple(r for r in range(self.outputs) if r not in self.floats)

    @cached_property
    def is_simple(self) -> bool:
        """Whether a call has one output, and tensors only, all of which are saved."""
        is_one = self.outputs == len(self.floats) == 1
        return is_one and all(self.reads) and self.made is not None and not self.has_scalars

    @cached_property
    def unread(self) -> tuple[bool, ...]:
        """The opposite of `reads`."""
        return tuple(not is_read for is_read in self.reads)

    @cached_property
    def launch(self) -> Callable[..., Any]:
        """What a call runs, given its values."""
        return self.forward

    @cached_property
    def is_one_result(self) -> bool:
        """Whether forward gives one tensor, and no tuple of them."""
        return len(self.forward.returns) == 1

    @cached_property
    def has_scalars(self) -> bool:
        """Whether an argument may be a number."""
        return not all(p.type and p.type.dims for p in self.forward.definition.params)

    @cached_property
    def is_by_all(self) -> bool:
        """Whether every parameter has a gradient, in their order."""
        return self.wrt == tuple(range(len(self.reads)))

    def run(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the outputs of a call, and what is kept of it."""
        results = self.launch(*values)
        if self.is_one_result:
            results = (results,)
        return tuple(results[: self.outputs]), tuple(results[r] for r in self.kept)

    def pull(
        self, values: Sequence[Any], kept: Sequence[Any], adjoints: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Return the gradients by the parameters at `wrt`."""
        results = self.backward(*values, *kept, *adjoints)
        return (results,) if len(self.backward.returns) == 1 else tuple(results)

    def check(self, gradients: Sequence[Any], values: Sequence[Any]) -> None:
        """Refuse gradients at `wrt` that have not the shapes of these values, if any may."""

    def placed(self, gradients: Sequence[Any]) -> list[Any]:
        """Return a gradient or None for each parameter."""
        if self.is_by_all:
            return [*gradients]
        found: list[Any] = [None] * len(self.reads)
        for p, gradient in zip(self.wrt, gradients, strict=True):
            found[p] = gradient
        return found


ByHand = Callable[["Signature", Mapping[str, Any], Needs], Derivative]


class Derivatives:
    """The derivatives of one kernel, by the types of a call and by who asks for a gradient.

    Parameters
    ----------
    of : Kernel
    by_hand : callable, optional
        Gives the derivative of a call from the definition bound to types, the generics and the
        parameters that need a gradient, where somebody wrote the way back: its forward is the
        kernel, its kept are outputs that the way back reads, `made` is None.
    """

    def __init__(self, of: kernel.Kernel, by_hand: ByHand | None = None) -> None:
        self._by_hand = by_hand
        self.is_by_hand = by_hand is not None  # and nobody may take what is derived for it
        self._whole = of.whole  # a gradient's kept values are functions of the others
        self._with_gradient = self._whole.with_grad(copy=False)  # torch checks versions
        self._known: dict[Any, Derivative | None] = {}
        self._of_made: dict[int, Derivative] = {}
        self._lock = Lock()
        definition = self._whole.definition
        self._is_one = not (definition.generics or any(map(has_any_rank, definition.params)))
        self._has_loops = False  # it is seen at the first call

    def of(
        self, values: Sequence[Any], generics: Mapping[str, Any], needs: Needs
    ) -> Derivative | None:
        """Return the derivative of a call by the parameters that need it, made at its first use.

        None: there is none, of integers and bool or by them.

        Raises
        ------
        TCTypeError, ShapeError
            If the arguments fit no call.
        """
        key = needs if self._is_one else self._key(values, generics, needs)
        known = self._known.get(key, _MISSING)
        return self._made(values, generics, needs) if known is _MISSING else known

    def _key(self, values: Sequence[Any], generics: Mapping[str, Any], needs: Needs) -> Any:
        """Return what decides which derivative serves a call."""
        if self._is_one:
            return needs
        look = _look_with_turns if self._has_loops else _look
        return needs, tuple(map(look, values)), tuple(sorted(generics.items(), key=str))

    def _made(
        self, values: Sequence[Any], generics: Mapping[str, Any], needs: Needs
    ) -> Derivative | None:
        variant, sizes = self._bound(values, generics)
        made = self.of_bound(variant, sizes, generics, needs)
        with self._lock:
            # the turns of loops decide what is kept
            if variant.signature.has_loops:
                self._is_one, self._has_loops = False, True
            self._known = thinned(self._known, _MAX_FORMS)
            self._known[self._key(values, generics, needs)] = made
        return made

    def _bound(
        self, values: Sequence[Any], generics: Mapping[str, Any]
    ) -> tuple[Variant, Mapping[str, int]]:
        whole = self._whole
        if not any(isinstance(v, torch.Tensor) and v.is_meta for v in values):
            call = whole.call(*map(_shown, values), **generics)
            return call.variant, call.sizes
        params = whole.definition.params  # there is no memory that a call could mean
        forms = [abstract_of(v, p, generics) for v, p in zip(values, params, strict=True)]
        variant, sizes = whole.session.bind(whole.definition, forms, generics)
        return variant, sizes

    def of_bound(
        self,
        variant: Variant,
        sizes: Mapping[str, int] | None,
        generics: Mapping[str, Any],
        needs: Needs,
    ) -> Derivative | None:
        """Return the derivative of the kernel bound to types; sizes are None where symbols are."""
        if self._by_hand is not None:
            return self._by_hand(variant.signature, generics, needs)
        if any(t.dtype.is_float for t in variant.signature.returns):
            return self._derived(variant, sizes, needs)
        return None

    def _derived(
        self, variant: Variant, sizes: Mapping[str, int] | None, needs: Needs
    ) -> Derivative | None:
        checked = variant.signature
        wrt = tuple(i for i, t in enumerate(checked.params) if needs[i] and t.dtype.is_float)
        if not wrt:
            return None
        names = tuple(checked.params[i].name for i in wrt)
        made = self._with_gradient.of(variant, sizes, names)
        with self._lock:
            known = self._of_made.get(id(made))  # it keeps made, so that the id stays its own
            if known is None:
                self._of_made = thinned(self._of_made, _MAX_FORMS)
                known = self._of_made[id(made)] = derived(made, checked, wrt)
            return known


def derived(
    made: Differentiated[kernel.Kernel], checked: Signature, wrt: tuple[int, ...]
) -> Derivative:
    """Return the derivative of a kernel bound to types by the parameters at wrt."""
    results = made.forward.returns
    whole = made.whole.variant().signature  # its parameters may have other names
    return Derivative(
        made.forward,
        made.backward,
        len(checked.returns),
        tuple(results.index(name) for name in made.gradient.kept),
        tuple(i for i, t in enumerate(checked.returns) if t.dtype.is_float),
        wrt,
        tuple(t.name in whole.read for t in whole.params[: len(checked.params)]),
        made,
    )


_MISSING: Any = object()


def _look(value: Any) -> Any:
    """Return what of an argument decides which derivative serves it."""
    return (value.dtype, value.shape) if isinstance(value, torch.Tensor) else type(value)


def _look_with_turns(value: Any) -> Any:
    """Return the same of a text with loops, whose bounds may be integers among the arguments."""
    if isinstance(value, int) or not getattr(value, "ndim", 1):
        return _look(value), float(value)
    return _look(value)


def _shown(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value
