"""Products of matrices, vectors and batches of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tcdsl.core import Tensor, made_by, operator
from tcdsl.grammar.text.errors import ShapeError
from tcdsl.ops.casting import lower
from tcdsl.ops.product_rules import (
    MM,
    of_bmm,
    of_dot,
    of_ger,
    of_linear,
    of_mm,
    of_mv,
    types_of_dot,
    types_of_linear,
)
from tcdsl.ops.rules import broadcast_shape, promote
from tcdsl.ops.table import Family, publish

ops = Family(__file__)

dot = ops.row("dot", types=types_of_dot, shape=of_dot)
mv = ops.row("mv", shape=of_mv)
mm = lower(ops.row("mm", types=MM, shape=of_mm))
bmm = lower(ops.row("bmm", shape=of_bmm))
ger = ops.row("ger", types=promote, shape=of_ger, aliases=("outer",))
_matmul = lower(ops.op("matmul"))
# dot and mv themselves are not lowered
_dot_of_matmul = lower(ops.op("dot", types=types_of_dot, shape=of_dot))
_mv_of_matmul = lower(ops.op("mv", shape=of_mv))
_linear = lower(ops.op("linear", types=types_of_linear, shape=of_linear))
_linear_bias = lower(ops.op("linear_bias", types=types_of_linear, shape=of_linear))
_bilinear = ops.op("bilinear")
_FLATTENED = "UnsafeViewBackward0"  # what PyTorch makes last of products of batches


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Multiply vectors, matrices or batches of matrices, by NumPy's rules.

    Parameters
    ----------
    input : Tensor, shape (..., M, K) or (K,)
    other : Tensor, shape (..., K, N) or (K,)

    Returns
    -------
    Tensor, shape (..., M, N), without M or N where that operand is a vector
    """
    try:
        a, b = input.ndim, other.ndim
    except AttributeError:
        wrong = other if isinstance(input, Tensor) else input
        raise TypeError(
            f"matmul(): argument '{'other' if wrong is other else 'input'}' must be Tensor, not "
            f"{type(wrong).__name__}"
        ) from None
    if a == 2 and b == 2:
        found: Tensor = mm(input, other)
        return found
    if a == 0 or b == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"
        )
    if a == 1 and b == 1:
        found = _dot_of_matmul(input, other)
    elif a == 2 and b == 1:
        found = _mv_of_matmul(input, other)
    elif a == 1:
        found = made_by(matmul(input.unsqueeze(0), other).squeeze(-2), _FLATTENED)
    elif b == 1:
        if input.shape[-1] != other.shape[0]:
            of_mv((_Shaped(_as_matrix(input.shape)), other))
        found = made_by(matmul(input, other.unsqueeze(1)).squeeze(-1), _FLATTENED)
    else:
        if b == 2 and input.shape[-1] != other.shape[0]:
            of_mm([_Shaped(_as_matrix(input.shape)), other])
        batch = broadcast_shape([tuple(input.shape[:-2]), tuple(other.shape[:-2])])
        if input.shape[-1] != other.shape[-2]:
            count = math.prod(batch)
            of_bmm([_Shaped((count, *x.shape[-2:])) for x in (input, other)])
        if b == 2:  # one product of a tall matrix
            rows = input.reshape(-1, input.shape[-1]) if input.numel() else None
            if rows is not None and input.is_contiguous():
                tall = mm(rows, other).view(*input.shape[:-1], other.shape[-1])
                return made_by(tall, _FLATTENED)
        found = _matmul(input, other)
    return found


class _Shaped:
    """What a rule of shapes asks of an operand."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape, self.ndim = tuple(shape), len(shape)


def _as_matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Return a shape with all dimensions but the last as one."""
    return math.prod(shape[:-1]), shape[-1]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Apply an affine map to the last dimension: ``sum(input * weight[o]) + bias[o]``.

    Parameters
    ----------
    input : Tensor, shape (..., I)
    weight : Tensor, shape (O, I)
    bias : Tensor, shape (O,) or one that broadcasts to that of the result, optional

    Returns
    -------
    Tensor, shape (..., O)
    """
    found: Tensor
    if bias is None:
        found = _linear(input, weight)
        return found
    try:
        found = _linear_bias(input, weight, bias)
    except ShapeError:  # no bias a column
        found = _linear(input, weight)
        found = found + bias.expand(found.shape)
    return found


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``sum(input1[i] * weight[o, i, j] * input2[j]) + bias[o]``."""
    for d, x in enumerate((input1, input2), 1):
        if x.shape[-1] != weight.shape[d]:
            raise RuntimeError(
                f"bilinear(): input{d} size does not match weight size: got {x.shape[-1]} but "
                f"expected {weight.shape[d]}"
            )
    for d, (a, b) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=False)):
        if a != b:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {d}: got {a} and {b}"
            )
    found: Tensor = _bilinear(input1, input2, weight)
    return found if bias is None else found + bias


publish(matmul, ("matmul",))
operator("__matmul__", matmul)
