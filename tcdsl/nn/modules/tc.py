"""`TC`: a text as a module; `tcdsl/layers` has what it is. `autotune`: all that a model calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from typing import Any

from tcdsl import autograd, library
from tcdsl.core import Tensor
from tcdsl.definitions import define
from tcdsl.grammar.types.dtypes import DType
from tcdsl.kernel import Kernel
from tcdsl.layers import tuned
from tcdsl.layers.configs import MOST_BYTES
from tcdsl.layers.layer import TextLayer
from tcdsl.layers.library import Library, Texts
from tcdsl.layers.tuned import Tuned
from tcdsl.nn import init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.modules.state import as_tensor
from tcdsl.nn.parameter import Parameter

__all__ = ["TC", "Tuned", "autotune"]


def _type_of(dtype: DType) -> Any:
    return getattr(library, dtype.name)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the values in nested containers."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        yield value
        return
    for part in value:
        yield from _leaves(part)


def _from_bytes(data: bytes) -> Tensor:
    made: Tensor = library.tensor([*data], dtype=library.uint8)
    return made


def _to_bytes(state: Any) -> bytes:
    """Return the bytes of an extra state; one of PyTorch's and one in another type have them too.

    Raises
    ------
    ValueError
        If it has none.
    """
    if not hasattr(state, "numel") or getattr(state, "ndim", None) != 1:
        raise ValueError("expected a tensor of bytes")
    if state.numel() > MOST_BYTES:
        raise ValueError(f"expected at most {MOST_BYTES} bytes")
    try:
        tensor = as_tensor(state)
    except (TypeError, RuntimeError, BufferError) as refusal:
        raise ValueError(f"expected a tensor of bytes: {refusal}") from None
    return bytes(tensor.to(library.uint8).tolist())


def _eager() -> AbstractContextManager[Any]:
    return nullcontext()  # nothing is compiled


LIBRARY = Library(
    tensor=Tensor,
    parameter=Parameter,
    module=Module,
    init=init,
    empty=library.empty,
    default_dtype=library.get_default_dtype,
    dtype=_type_of,
    no_grad=library.no_grad,
    enable_grad=library.enable_grad,
    fork_rng=library.fork_rng,
    eager=_eager,
    grad=autograd.grad,
    randn_like=library.randn_like,
    passes=2,  # a gradient that reads sums of the forward pass has them from the second one on
    leaves=_leaves,
    from_bytes=_from_bytes,
    to_bytes=_to_bytes,
    init_name="torch.nn.init",
    kernels_name="tcdsl",
)


class TC(TextLayer, Module):
    __doc__ = TextLayer.__doc__

    library = LIBRARY
    texts = Texts(define, lambda kernel: type(kernel) is Kernel, "tcdsl.define")


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
    """Tune every kernel of a user's texts that a module calls for these inputs, and keep it.

    The module runs once without gradients, and once with its way back; each kernel is tuned for
    the sizes and strides it had there. Parameters, gradients, buffers and the state of the random
    generator are as before. The library's own operations are as they are.

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
        If no kernel of a user's was called.
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
