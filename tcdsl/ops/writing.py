"""Results that are written into tensors: what may be, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tcdsl.calls.process.caller import warn
from tcdsl.core import (
    Tensor,
    is_grad_enabled,
    is_inference_mode,
    set_grad_enabled,
    set_inference_mode,
)
from tcdsl.core.dtypes import DType
from tcdsl.ops.rules import NAMES, broadcast_shape


def any_recorded(values: Sequence[Any]) -> bool:
    """Whether a call on these values is recorded."""
    if is_grad_enabled():
        for v in values:
            if isinstance(v, Tensor) and v.requires_grad:
                return True
    return False


def check_castable(made: DType, target: DType) -> None:
    """Refuse to write a result into a tensor of a lower kind."""
    if made.category > target.category:
        raise RuntimeError(
            f"result type {NAMES[made.name]} can't be cast to the desired output type "
            f"{NAMES[target.name]}"
        )


def write_result(target: Tensor, made: Tensor) -> None:
    """Write a result into a tensor that a caller gave, of another type or shape too."""
    check_castable(made.dtype, target.dtype)
    if tuple(target.shape) != tuple(made.shape):
        if target.numel():
            warn(
                "An output with one or more elements was resized since it had shape "
                f"{list(target.shape)}, which does not match the required output shape "
                f"{list(made.shape)}; give one without elements, as t.resize_(0) makes it"
            )
        target.resize_(made.shape)
        if made.stride() != target.stride():  # of a result that lies as operands do
            at = target.storage_offset()
            target.data = target.detach().as_strided(made.shape, made.stride(), at)
    target.copy_(made)


def check_unrecorded(name: str, values: Sequence[Any]) -> None:
    """Refuse a call that was recorded, of a function that writes into the caller's tensors.

    The values are its results, and these tensors: no operand of a comparison is asked.
    """
    if any_recorded(values):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )


def check_target(name: str, values: Sequence[Any], dtype: DType, broadcasts: bool) -> None:
    """Refuse a first operand that cannot hold the result."""
    target = values[0]
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(target).__name__}")
    check_castable(dtype, target.dtype)
    if not broadcasts:
        return  # the text says the shapes
    shape = broadcast_shape([tuple(v.shape) for v in values if isinstance(v, Tensor)])
    if shape != tuple(target.shape):
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(shape)}"
        )


def kept_of(result: Tensor) -> tuple[Any, ...]:
    """Return what the graph keeps of the call that gave a result."""
    return () if result.grad_fn is None else result.grad_fn._kept


@contextmanager
def unrecorded() -> Iterator[None]:
    """Let the body record nothing."""
    before = is_grad_enabled()
    set_grad_enabled(False)
    try:
        yield
    finally:
        set_grad_enabled(before)


@contextmanager
def kept_for_all() -> Iterator[None]:
    """Let the body make tensors that later calls use too: normal ones, also in inference mode."""
    if not is_inference_mode():
        yield
        return
    before = is_grad_enabled()
    set_inference_mode(False)
    try:
        yield
    finally:
        set_inference_mode(True)
        set_grad_enabled(before)


def shares(value: Tensor, outs: Sequence[Tensor]) -> bool:
    """Whether a tensor lies in the memory of one of these."""
    return any(value._storage is o._storage for o in outs)


def lie_alike(value: Any, other: Tensor) -> bool:
    """Whether a value is a tensor of another's elements, each where that has it."""
    return (
        isinstance(value, Tensor)
        and value.data_ptr() == other.data_ptr()
        and value.shape == other.shape
        and value.stride() == other.stride()
    )


def laid_apart(value: Tensor) -> Tensor:
    """Return a copy in memory of its own that lies there as the tensor does, where that can be.

    So a call of the copy has the form of the call itself, which the launcher knows from then on.
    """
    shape, strides = tuple(value.shape), tuple(value.stride())
    taken = 1
    for s, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if s and n > 1):
        if s < taken:  # elements share memory, or lie backwards
            return value.clone()  # type: ignore[no-any-return]
        taken += s * (n - 1)
    if value._device or not value.numel() or any_recorded((value,)):
        return value.clone()  # type: ignore[no-any-return]
    memory, once = value.new_empty((taken,)), without_repeats(value)
    memory.as_strided(once.shape, strides).copy_(once)
    copy: Tensor = memory.as_strided(shape, strides)
    return copy


def without_repeats(tensor: Tensor) -> Tensor:
    """Return a view of a tensor that has once what its strides of 0 repeat."""
    for d, (n, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        tensor = tensor.narrow(d, 0, 1) if n > 1 and not stride else tensor
    return tensor


def may_overlap(
    outs: Sequence[Tensor], values: Sequence[Any], inplace: Collection[tuple[int, int]]
) -> bool:
    """Whether an output lies where an operand is read elsewhere than it is written.

    inplace: the numbers of outputs and operands that may lie in one place.
    """
    for r, out in enumerate(outs):
        for p, v in enumerate(values):
            if not isinstance(v, Tensor) or v._storage is not out._storage:
                continue
            if not ((r, p) in inplace and lie_alike(v, out)):
                return True
    return False
