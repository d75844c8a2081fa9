"""Tune all that a module or a function of PyTorch calls, forward and backward, for given inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch

from tcdsl.layers import tuned
from tcdsl.layers.tuned import Tuned
from tcdsl.torch.dtypes import torch_type
from tcdsl.torch.face import LIBRARY

if TYPE_CHECKING:
    from tcdsl.kernel import Kernel


def autotune(
    run: Callable[..., Any],
    /,
    *inputs: Any,
    training: bool = True,
    kwargs: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    cache: str | PathLike[str] | None = None,
    quiet: bool = False,
    again: bool = True,
) -> Tuned:
    """Tune every kernel of tcdsl that a module calls for these inputs, and keep what was found.

    The module runs once without gradients, and once with its way back; each kernel is tuned for
    the sizes and strides it had there. Parameters, gradients, buffers and the state of the random
    generators are as before.

    Parameters
    ----------
    run : Module or function
    *inputs, kwargs
        What it is called with. Inputs that require grad get one.
    training : bool, default True
        Tune the way back as well, where something requires grad.
    seconds, trials, seed, quiet
        As for `Kernel.autotune`; the seconds are for all kernels together.
    cache : path, optional
        SQLite file; by default the one that each kernel looks into.
    again : bool, default True
        Whether kernels that were tuned before for such operands are tuned on. Else what was found
        serves, so that a script that tunes tunes once.

    Returns
    -------
    Tuned
        A row for each kernel and form of operands; printed, a table. Ctrl-C ends the search with
        what was found so far.

    Raises
    ------
    TCTypeError
        If nothing of ours was called.
    """
    return tuned.autotune(
        LIBRARY,
        run,
        inputs,
        training=training,
        kwargs=kwargs,
        seconds=seconds,
        trials=trials,
        seed=seed,
        cache=cache,
        quiet=quiet,
        again=again,
    )


def autotune_training(
    kernel: Kernel,
    args: Sequence[Any],
    cache: str | PathLike[str] | None,
    generics: Mapping[str, Any],
    named: Mapping[str, Any],
) -> Tuned:
    """Tune what training runs of a kernel for tensors, or for random ones of shapes.

    named: keywords of `Kernel.autotune`.
    """
    from tcdsl import tuning  # on use: calls do without

    variant, _ = tuning.requested(kernel, args, None, {}, generics)
    given = []
    for value, t in zip(args, variant.signature.params, strict=True):
        if isinstance(value, tuple | list):
            tensor = torch.randn(value) if t.dtype.is_float else torch.zeros(value)
            given.append(tensor.to(torch_type(t.dtype)).requires_grad_(t.dtype.is_float))
        elif isinstance(value, torch.Tensor) and value.is_floating_point():
            given.append(value.detach().requires_grad_())
        else:
            given.append(value)
    options = {k: named[k] for k in ("seconds", "trials", "seed", "quiet") if k in named}
    return autotune(kernel, *given, cache=cache, kwargs=generics, **options)
