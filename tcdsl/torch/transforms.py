"""Calls under torch.func and forward-mode AD.

A call becomes one node (`_Call`) that each transform takes apart by calls of further kernels:

    grad, vjp    the training forward, with what the way back needs as further outputs; the way back
    jvp          the tangents of the outputs
    vmap         the text with one more index

These calls are such nodes again, so transforms compose in any order and to any depth. What a
training forward keeps is an output like others: derivatives of higher order have an adjoint or a
tangent for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch._C._functorch import (
    TransformType,
    peek_interpreter_stack,
)

from tcdsl.calls.arguments import Arguments
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.torch import operator
from tcdsl.torch.arguments import (
    batch,
    form,
    numbers_of_elements,
    with_float_numbers,
)
from tcdsl.torch.blank import Blank, blank, zeros
from tcdsl.torch.differentiable import DifferentiableKernel
from tcdsl.torch.over_batch import over_batch

if TYPE_CHECKING:
    from tcdsl.calls.bindings.variant import Variant
    from tcdsl.torch.derivatives import Derivative

Tensor = torch.Tensor


def call(of: DifferentiableKernel, given: Arguments) -> Any:
    """Call a kernel such that torch.func and forward-mode AD see it.

    Raises
    ------
    TCTypeError
        If ``out=`` is given: transforms do not see what is written into it; or if vmap gives a
        batch of a number that ranges depend on.
    """
    if given.outputs is not None:
        raise TCTypeError(
            f"{of.name}: a call inside torch.func or forward-mode AD takes no out=\n"
            "  leave it away: what such a call gives is fresh"
        )
    if _innermost() == TransformType.Functionalize:
        return operator.call(of, given)
    results = _outputs(of, given.generics, with_float_numbers(of.definition, given))
    return results[0] if len(results) == 1 else of.result(results)


def _outputs(
    of: DifferentiableKernel, generics: Mapping[str, Any], values: Sequence[Any]
) -> tuple[Tensor, ...]:
    """Return the outputs of a call whose values are as the innermost transform sees them."""
    step = _Step(of, generics)
    needs = tuple(map(_is_recorded, values))
    if of.derivatives.is_by_hand:  # whoever records it: the text alone would be another way back
        step = step.training(values, tuple(isinstance(v, Tensor) for v in values))
    elif any(needs) and of.whole is of:
        step = step.training(values, needs)
    return _applied(step, values)[: len(of.returns)]


def _applied(step: _Step, values: Sequence[Any]) -> tuple[Tensor, ...]:
    results: tuple[Tensor, ...] = _Call.apply(step, *values)  # type: ignore[no-untyped-call]
    return results


def _innermost() -> TransformType | None:
    """Return the transform that sees a call first."""
    interpreter = peek_interpreter_stack()
    return None if interpreter is None else interpreter.key()


def _is_recorded(value: object) -> bool:
    """Whether the innermost transform, or autograd where there is none, records what a value does.

    The others get the same node, and its way back without what the training forward keeps.
    """
    if not isinstance(value, Tensor) or not (value.requires_grad and torch.is_grad_enabled()):
        return False
    return _innermost() in (None, TransformType.Grad)


class _Call(torch.autograd.Function):
    """A call of a kernel, as each transform takes it apart."""

    @staticmethod
    def forward(step: _Step, *values: Any) -> Any:
        return step.run(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        step, *values = inputs
        tensors = [v for v in values if isinstance(v, Tensor)]
        ctx.step = step
        ctx.numbers = [None if isinstance(v, Tensor) else v for v in values]
        ctx.outputs = [*map(blank, output)]
        ctx.save_for_backward(*tensors, *step.kept(output))
        ctx.save_for_forward(*tensors, *step.kept(output))
        ctx.mark_non_differentiable(*(o for o in output if not o.is_floating_point()))
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor | None) -> Any:
        values, kept = _saved(ctx)
        if all(a is None for a in adjoints):
            return (None, *(None for _ in values))
        needs = ctx.needs_input_grad[1:]
        found = ctx.step.pulled(values, kept, adjoints, ctx.outputs, needs)
        return (None, *(g if w else None for g, w in zip(found, needs, strict=True)))

    @staticmethod
    def jvp(ctx: Any, _step: None, *tangents: Tensor | None) -> Any:
        values, _kept = _saved(ctx)
        return ctx.step.pushed(values, tangents)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], step: _Step, *values: Any) -> Any:
        return step.mapped(values, in_dims[1:], info.randomness)


def _saved(ctx: Any) -> tuple[list[Any], list[Tensor]]:
    """Return the arguments of a call, and what was kept of it."""
    saved = [*ctx.saved_tensors]
    values = [saved.pop(0) if n is None else n for n in ctx.numbers]
    return values, saved


@dataclass(frozen=True, eq=False)
class _Step:
    """What one node calls.

    Attributes
    ----------
    kernel : DifferentiableKernel
    generics : mapping
        Of the call.
    derivative : Derivative, optional
        Where kernel is its training forward.
    """

    kernel: DifferentiableKernel
    generics: Mapping[str, Any]
    derivative: Derivative | None = None

    def training(self, values: Sequence[Any], needs: tuple[bool, ...]) -> _Step:
        """Return the same with what the way back to some parameters needs as further outputs."""
        found = self._derivative(values, needs)
        if found is None:  # no output is a float
            return self
        generics = self.generics if found.made is None else {}
        return _Step(cast(DifferentiableKernel, found.forward), generics, found)

    def _bound(self, values: Sequence[Any]) -> tuple[Variant, Mapping[str, int]]:
        """Return the definition bound to such values, and the sizes that they bring.

        Of a gradient it is the whole one, which takes nothing of its forward pass.
        """
        of, generics = self.kernel.whole, self.generics
        taken = zip(self._asked(values), of.definition.params, strict=True)
        forms = [form(v, p, generics) for v, p in taken]
        each = numbers_of_elements(of, forms)
        variant, sizes = of.session.bind(of.definition, forms, generics, each=each)
        return variant, sizes

    def _derivative(self, values: Sequence[Any], needs: Sequence[bool]) -> Derivative | None:
        """Return the training forward and the way back for such values."""
        variant, sizes = self._bound(values)
        return self.kernel.derivatives.of_bound(
            variant, sizes, self.generics, tuple(self._asked(needs))
        )

    def _asked(self, values: Sequence[Any]) -> list[Any]:
        """Return of the arguments those that a gradient does not take of its forward pass."""
        by_name = dict(zip(self.kernel.params, values, strict=True))
        return [by_name[p] for p in self.kernel.whole.params]

    def run(self, values: Sequence[Any]) -> tuple[Tensor, ...]:
        """Return the outputs, where no transform is active any more."""
        results = self.kernel(*values, **self.generics)
        return tuple(results) if len(self.kernel.returns) > 1 else (results,)

    def kept(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Return those outputs that the way back takes."""
        return [] if self.derivative is None else [outputs[r] for r in self.derivative.kept]

    def pulled(
        self,
        values: Sequence[Any],
        kept: Sequence[Tensor],
        adjoints: Sequence[Tensor | None],
        outputs: Sequence[Blank],
        needs: Sequence[bool],
    ) -> list[Tensor | None]:
        """Return the adjoint of each parameter that needs one, given those of the outputs."""
        found = self.derivative
        if found is not None and self._serves(found, adjoints, needs):
            back, way, names = found.backward, [*values, *kept], self.kernel.params
        else:
            found = self._derivative(values, needs)
            if found is None:  # only what is kept needs one, for which the arguments have it
                return [None] * len(values)
            assert found.again is not None, "a way back by hand serves always"
            back, way, names = found.again, self._asked(values), self.kernel.whole.params
        for r in found.floats:
            adjoint = adjoints[r]
            way.append(zeros(outputs[r]) if adjoint is None else adjoint)
        # torch.func records every way back: what a further one would keep of it waits until it runs
        results = _applied(_Step(cast(DifferentiableKernel, back), found.given), way)
        found.check(results, values)
        by_name = {names[p]: d for p, d in zip(found.wrt, results, strict=True)}
        return [*map(by_name.get, self.kernel.params)]

    def _serves(
        self, found: Derivative, adjoints: Sequence[Tensor | None], needs: Sequence[bool]
    ) -> bool:
        """Whether the way back that was made with the training forward gives what is asked.

        Not where what is kept has an adjoint, nor where an outer transform asks for parameters that
        the innermost had not recorded.
        """
        if found.made is None:
            return True
        missing = any(w and p not in found.wrt for p, w in enumerate(needs))
        return not missing and all(a is None for a in adjoints[found.outputs :])

    def pushed(
        self, values: Sequence[Any], tangents: Sequence[Tensor | None]
    ) -> tuple[Tensor | None, ...]:
        """Return the tangent of each output, given those of the arguments.

        Raises
        ------
        TCTypeError
            If the way back was written by hand, of which no tangents follow.
        """
        of = self.kernel.whole
        if of.derivatives.is_by_hand:
            raise TCTypeError(
                f"{of.name}: forward-mode AD of a kernel whose way back is written by hand\n"
                "  leave backward= away, and it is derived in both directions"
            )
        along = dict(zip(of.params, self._asked(tangents), strict=True))
        wrt = tuple(n for n, t in along.items() if t is not None)
        if not wrt:
            return (None,) * len(self.kernel.returns)
        variant, _ = self._bound(values)
        made = of.with_tangents().of(variant, wrt)
        given = [*self._asked(values), *(along[n] for n in wrt)]
        results, returns = _outputs(made.kernel, {}, given), variant.signature.returns
        rest = iter(results[len(returns) :])
        return tuple(next(rest) if t.dtype.is_float else None for t in returns)

    def mapped(
        self, values: Sequence[Any], dims: Sequence[int | None], randomness: str
    ) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
        """Return the outputs for batches of some arguments, and where they have the batch."""
        of = self.kernel
        places = {p: 0 for p, d in zip(of.params, dims, strict=True) if d is not None}
        over = over_batch(of, places, randomness)
        given = zip(values, dims, of.definition.params, strict=True)
        batches = [v if d is None else batch(v.movedim(d, 0), p) for v, d, p in given]
        return _outputs(over, self.generics, batches), over.out_dims
