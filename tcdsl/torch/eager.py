"""Calls that autograd records, where no transform is active."""

from __future__ import annotations

from typing import Any

import torch

from tcdsl import kernel
from tcdsl.call import Arguments
from tcdsl.grammar.errors import TCTypeError


def call(of: kernel.Kernel, given: Arguments) -> Any:
    """Call a kernel such that autograd sees it.

    Raises
    ------
    TCTypeError
        If ``out=`` is given: autograd records no outputs that were there before.
    """
    if given.outputs is not None:
        raise TCTypeError(
            f"{of.name}: a call that autograd records takes no out=\n"
            "  leave it away, or call under torch.no_grad()"
        )
    results: Any = _Recorded.apply(  # type: ignore[no-untyped-call]
        of, given.generics, *given.values
    )
    return results[0] if len(of.returns) == 1 else of.result(results)


class _Recorded(torch.autograd.Function):
    """A call and its way back."""

    @staticmethod
    def forward(ctx: Any, of: kernel.Kernel, generics: Any, *values: Any) -> Any:
        plain = tuple(v.detach() if isinstance(v, torch.Tensor) else v for v in values)
        outputs, ctx.pull = of.vjp(*plain, **generics)
        ctx.params = of.params
        return outputs if isinstance(outputs, tuple) else (outputs,)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *adjoints: Any) -> Any:
        found = ctx.pull(*adjoints)
        names = ctx.pull._made.backward.returns
        listed = found if isinstance(found, tuple) else (found,)
        by_name = dict(zip(names, listed, strict=True))
        return (None, None, *(by_name.get(f"d_{p}") for p in ctx.params))
