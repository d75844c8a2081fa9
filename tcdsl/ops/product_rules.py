"""What products ask of their operands, in PyTorch's words, and the types of what they give."""

from __future__ import annotations

from tcdsl.core.dtypes import DType
from tcdsl.ops.rules import NAMES, Operands, same, same_as

MM = same_as("expected m1 and m2 to have the same dtype, but got: {} != {}")


def of_ger(operands: Operands) -> None:
    """Refuse what are not two vectors."""
    for name, vector in zip(("self", "vec2"), operands, strict=True):
        if vector.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {vector.ndim}-D")


def of_mm(operands: Operands) -> None:
    """Refuse what are not two matrices that fit."""
    a, b = operands
    if a.ndim == 2 and b.ndim == 2 and a.shape[1] == b.shape[0]:
        return
    for name, x in (("self", a), ("mat2", b)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )


def of_mv(operands: Operands, given: int | None = None) -> None:
    """Refuse what are no matrix and vector that fit; given: the extent of what is added to them."""
    a, x = operands
    if a.ndim != 2 or x.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {x.ndim}")
    rows, columns = a.shape
    (length,) = x.shape
    if columns != length:
        raise RuntimeError(
            f"size mismatch, got input ({rows if given is None else given}), "
            f"mat ({rows}x{columns}), vec ({length})"
        )


def of_dot(operands: Operands) -> None:
    """Refuse what are not two vectors of one length."""
    a, b = operands
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.shape != b.shape:
        raise RuntimeError(
            "inconsistent tensor size, expected tensor "
            f"{list(a.shape)} and src {list(b.shape)} to have the same number of elements, "
            f"but got {a.numel()} and {b.numel()} elements respectively"
        )


def of_bmm(operands: Operands) -> None:
    """Refuse what are not two batches of as many matrices that fit."""
    a, b = operands
    for name, x in (("batch1", a), ("batch2", b)):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: "
            f"[{a.shape[0]}, {a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]."
        )


def of_linear(operands: Operands) -> None:
    """Refuse a weight that does not fit the last dimension, and a bias that does not broadcast."""
    x, w = operands[:2]
    if w.ndim != 2 or not x.ndim or x.shape[-1] != w.shape[1]:
        rows = x.numel() // x.shape[-1] if x.ndim and x.shape[-1] else 0
        last = x.shape[-1] if x.ndim else 0
        shape = f"{w.shape[1]}x{w.shape[0]}" if w.ndim == 2 else list(w.shape)
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{last} and {shape})")
    for bias in operands[2:]:
        if bias.shape != (w.shape[0],):
            bias.expand(*x.shape[:-1], w.shape[0])  # raises


def types_of_linear(operands: Operands) -> DType:
    """Return the type of an affine map of operands of one type."""
    x, w = operands[:2]
    if len(operands) == 2:
        return MM(operands)
    if x.dtype is not w.dtype:
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {NAMES[x.dtype.name]} and "
            f"{NAMES[w.dtype.name]}"
        )
    return same(operands)


def types_of_dot(operands: Operands) -> DType:
    """Return the type of two vectors of one type."""
    a, b = (x.dtype for x in operands)
    if a is not b:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{NAMES[a.name]} and {NAMES[b.name]}"
        )
    return same(operands)
