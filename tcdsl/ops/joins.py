"""Tensors joined to one: along a dimension, or along a new one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial

from tcdsl.core import GRAD, Op, Recipe, Tensor, made_by, record, set_grad_enabled
from tcdsl.core.dtypes import DType
from tcdsl.ops.internal import copy_
from tcdsl.ops.on_device import empty_beside
from tcdsl.ops.rules import Operands, promote
from tcdsl.ops.strides import Laid, Strides, laid, laid_out, says_channels_last, strides_of_images
from tcdsl.ops.table import op_of_text, publish
from tcdsl.ops.views import dim_of, no_vjp

_MOST = 60  # operands of a recorded call: the core tells them by the bits of a word
_FEW = 8  # operands that one kernel joins


def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Join tensors along a dimension: each is copied into its part of the result.

    Parameters
    ----------
    tensors : sequence of Tensor, shapes equal but in `dim`
        An empty one of rank 1 gives nothing but its type.
    dim : int

    Raises
    ------
    RuntimeError
        If there is none, or shapes differ elsewhere.
    """
    if isinstance(tensors, Tensor):
        _check_tensors("cat", tensors)
    try:
        count = len(tensors)
        if 1 < count <= _FEW and out is None and (rank := tensors[0].ndim):
            made: Tensor = _joining(rank, dim, count)(*tensors)
            return made
    except (_OtherRankError, IndexError):
        pass  # an empty row may stand first, and has no such dimension
    except (AttributeError, TypeError):
        _check_tensors("cat", tensors)
        raise
    return _copied_together(tensors, dim, out)


def _check_tensors(name: str, tensors: object) -> None:
    """Refuse what is no sequence of tensors."""
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got {type(t).__name__}"
            )


@lru_cache(maxsize=1024, typed=True)
def _joining(rank: int, dim: int, count: int) -> Op:
    """Return the op that joins a few tensors of a rank in one kernel."""
    at = dim_of(dim, rank)
    sizes, index = [f"D{d}" for d in range(rank)], [f"i{d}" for d in range(rank)]

    def placed(names: list[str], name: str) -> str:
        return ", ".join((*names[:at], name, *names[at + 1 :]))

    params = ", ".join(f"T({placed(sizes, f'N{k}')}) x{k}" for k in range(count))
    extents = [f"N{k}" for k in range(count)]
    statements = "".join(
        f"  out({placed(index, ' + '.join((*extents[:k], f'n{k}')))}) "
        f"= x{k}({placed(index, f'n{k}')})\n"
        for k in range(count)
    )
    whole = placed(sizes, " + ".join(extents))
    return op_of_text(
        f"def cat<T>({params}) -> (T({whole}) out) {{\n{statements}}}",
        types=promote,
        shape=partial(_check_parts, at),
        vjp=partial(_cut, at),
        saves=tuple(f"like:x{k}" for k in range(count)),
        order=_strides_together,
    )


def _strides_together(shape: tuple[int, ...], operands: Sequence[Laid]) -> Strides | None:
    """Return the strides of what is joined: channels last where they are so in all parts."""
    return strides_of_images(shape, operands) if all(map(says_channels_last, operands)) else None


class _OtherRankError(Exception):
    """One of a few tensors has another rank than the first, as an empty row may have."""


def _check_parts(at: int, operands: Operands) -> None:
    _check_tensors("cat", operands)
    first = tuple(operands[0].shape)
    if any(t.ndim != len(first) for t in operands):
        raise _OtherRankError
    for number, t in enumerate(operands):
        if tuple(t.shape) != first and (t.numel() or t.ndim != 1):
            _check_joined(first, tuple(t.shape), number, at)


def _cut(at: int, needs: int, gradient: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
    """Return the parts of a gradient, views of it."""
    return _parted(at, tuple(t.shape[at] for t in parts), gradient)


def _copied_together(tensors: Sequence[Tensor], dim: int, out: Tensor | None) -> Tensor:
    """Join tensors of any number, rank and type: each is copied by itself."""
    _check_tensors("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    dtype = promote(tensors)
    parts = [t if t.dtype is dtype else t.to(dtype) for t in tensors if t.numel() or t.ndim != 1]
    if not parts:
        return tensors[0].to(dtype).clone()  # type: ignore[no-any-return]
    if len(parts) > _MOST:
        rows = [cat(parts[i : i + _MOST], dim) for i in range(0, len(parts), _MOST)]
        return cat(rows, dim, out=out)
    for i, t in enumerate(parts):
        if not t.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    first = tuple(parts[0].shape)
    at = dim_of(dim, len(first))
    lengths, needs = [], 0
    for i, t in enumerate(parts):
        shape = tuple(t.shape)
        if shape != first:
            _check_joined(first, shape, i, at)
        lengths.append(shape[at])
        needs |= t.requires_grad << i
    whole = (*first[:at], sum(lengths), *first[at + 1 :])
    made = _empty_together(parts, whole, dtype) if out is None else out
    if out is not None and out.shape != whole:
        out.resize_(whole)
    old = set_grad_enabled(False)
    try:
        _written_one_by_one(made, at, lengths, parts)
    finally:
        set_grad_enabled(old)
    if needs and old and out is None:
        recipe = Recipe(no_vjp, (GRAD,), tuple(range(len(parts))))
        vjp = partial(_parted, at, tuple(lengths))
        record("CatBackward0", recipe, vjp, tuple(parts), (made,), needs)
    return made


def _empty_together(parts: Sequence[Tensor], whole: tuple[int, ...], dtype: DType) -> Tensor:
    """Return a tensor of undefined contents that lies as what is joined does."""
    strides = _strides_together(whole, [laid(t) for t in parts])
    if strides is None:
        return empty_beside(parts[0], whole, dtype)
    return laid_out(empty_beside(parts[0], (math.prod(whole),), dtype), whole, strides)


def _written_one_by_one(
    made: Tensor, at: int, lengths: Sequence[int], parts: Sequence[Tensor]
) -> None:
    """Copy tensors into parts of a dimension, a few by one kernel where that is there."""
    begin, each = 0, 1 if made._device else _FEW
    for i in range(0, len(parts), each):
        some, extent = parts[i : i + each], sum(lengths[i : i + each])
        part = made.narrow(at, begin, extent)
        if len(some) == 1:
            copy_(part, some[0])
        else:
            _joining(made.ndim, at, len(some))(*some, out=part)
        begin += extent


def _check_joined(first: tuple[int, ...], shape: tuple[int, ...], number: int, at: int) -> None:
    """Refuse a shape that differs from the first elsewhere than where they are joined."""
    if len(shape) != len(first):
        raise RuntimeError(
            f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
        )
    for d, (a, b) in enumerate(zip(first, shape, strict=True)):
        if d != at and a != b:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {at}. Expected size {a} but "
                f"got size {b} for tensor number {number} in the list."
            )


def _parted(at: int, lengths: tuple[int, ...], gradient: Tensor) -> tuple[Tensor, ...]:
    """Return the parts of a gradient, views of it."""
    found, begin = [], 0
    for n in lengths:
        found.append(gradient.narrow(at, begin, n))
        begin += n
    return tuple(found)


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Join tensors of one shape along a new dimension."""
    if not isinstance(tensors, list | tuple):
        _check_tensors("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    try:
        rank = tensors[0].ndim
        if 1 < len(tensors) <= _FEW and out is None:
            made: Tensor = _stacking(rank, dim, len(tensors))(*tensors)
            return made
    except (AttributeError, TypeError):
        _check_tensors("stack", tensors)
        raise
    _check_alike(tensors)
    at = dim_of(dim, rank + 1)
    return made_by(cat([t.unsqueeze(at) for t in tensors], at, out=out), "StackBackward0")


def _check_alike(tensors: Operands) -> None:
    """Refuse what is no tensor, and shapes that differ."""
    _check_tensors("stack", tensors)
    first = tensors[0].shape
    for i, t in enumerate(tensors):
        if t.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(t.shape)} at entry {i}"
            )


@lru_cache(maxsize=1024, typed=True)
def _stacking(rank: int, dim: int, count: int) -> Op:
    """Return the op that stacks a few tensors of a rank in one kernel."""
    at = dim_of(dim, rank + 1)
    sizes, index = [f"D{d}" for d in range(rank)], [f"i{d}" for d in range(rank)]

    def placed(names: list[str], between: int) -> str:
        return ", ".join((*names[:at], str(between), *names[at:]))

    of_one = f"({', '.join(sizes)})" if rank else ""
    read = f"({', '.join(index)})" if rank else ""
    params = ", ".join(f"T{of_one} x{k}" for k in range(count))
    statements = "".join(f"  out({placed(index, k)}) = x{k}{read}\n" for k in range(count))
    return op_of_text(
        f"def stack<T>({params}) -> (T({placed(sizes, count)}) out) {{\n{statements}}}",
        types=promote,
        shape=_check_alike,
        vjp=partial(_apart, at, count),
    )


def _apart(at: int, count: int, needs: int, gradient: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients of what was stacked, views of that of the stack."""
    return tuple(gradient.select(at, k) for k in range(count))


publish(cat, ("cat",), on=("torch",))
publish(stack, ("stack",), on=("torch",))
