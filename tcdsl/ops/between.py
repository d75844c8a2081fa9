"""Distances of all rows, and products over dimensions that a call names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from tcdsl.core import Tensor, made_by
from tcdsl.ops.arguments import listed, several
from tcdsl.ops.arranged import movedim
from tcdsl.ops.casting import lower, wide
from tcdsl.ops.copies import flip
from tcdsl.ops.pointwise import mul
from tcdsl.ops.products import linear, matmul
from tcdsl.ops.rules import NAMES, broadcast_shape, widen
from tcdsl.ops.table import Family, publish
from tcdsl.ops.views import dim_of, expand
from tcdsl.ops.writing import any_recorded

ops = Family(__file__)

_NAMED = {
    0.0: ops.op("cdist0", vjp=lambda needs, d_out, x1, x2: (x1 * 0, x2 * 0), saves=("x1", "x2")),
    1.0: ops.op("cdist1"),
    2.0: ops.op("cdist2", vjp="cdist2_vjp"),
    math.inf: ops.op("cdist_inf", vjp="cdist_inf_vjp"),
}
_OF_PAIRS = {
    p: ops.op(name, vjp=None)
    for p, name in ((0.0, "pdist0"), (1.0, "pdist1"), (2.0, "pdist2"), (math.inf, "pdist_inf"))
}
_above_diagonal = ops.op("above_diagonal")
_powers = ops.op("powers", types=widen, integers="powers_of_integers")
_cdist_p = ops.op("cdist_p", vjp="cdist_p_vjp")


@wide
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """Return the norms of the differences of each row of one tensor and each of another.

    Parameters
    ----------
    x1 : Tensor, shape (..., P, M)
    x2 : Tensor, shape (..., R, M)
    p : float
        The order of the norm, not below 0.
    compute_mode : str, optional
        Taken for the sake of programs that say it: differences are always formed, which loses
        nothing.

    Returns
    -------
    Tensor, shape (..., P, R)
    """
    for n, x in enumerate((x1, x2), 1):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{n} got: {x.ndim}D")
        if not x.dtype.is_floating_point:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, X{n} got: {NAMES[x.dtype.name]}"
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    batch = broadcast_shape([tuple(x1.shape[:-2]), tuple(x2.shape[:-2])])
    x1, x2 = (
        x if tuple(x.shape[:-2]) == batch else expand(x, *batch, *x.shape[-2:]) for x in (x1, x2)
    )
    if not x1.shape[-1]:  # sums of nothing, which are recorded
        return x1.sum(-1).unsqueeze(-1) + x2.sum(-1).unsqueeze(-2)  # type: ignore[no-any-return]
    op = _NAMED.get(float(p))
    made: Tensor = _cdist_p(x1, x2, float(p)) if op is None else op(x1, x2)
    return made


@lower
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum products over some dimensions of both.

    Parameters
    ----------
    a, b : Tensor
    dims : int, or two lists of int
        The last so many of a and the first of b, or those of each.
    """
    dims = listed(dims)
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = (list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    one, other = map(several, dims)
    if len(one) != len(other):
        raise RuntimeError("both dimension lists should have same length")
    of_a, of_b = [dim_of(d, a.ndim) for d in one], [dim_of(d, b.ndim) for d in other]
    for i, j in zip(of_a, of_b, strict=True):
        if a.shape[i] != b.shape[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim "
                f"{i} and second has size {b.shape[j]} in dim {j}"
            )
    k = math.prod(a.shape[d] for d in of_a)
    rows = [n for d, n in enumerate(a.shape) if d not in of_a]
    columns = [n for d, n in enumerate(b.shape) if d not in of_b]
    left = _as_matrix(a, of_a, a.ndim - len(of_a), (math.prod(rows), k))
    right = _as_matrix(b, of_b, 0, (k, math.prod(columns)))
    made: Tensor = matmul(left, right).reshape((*rows, *columns))
    return made


def _as_matrix(x: Tensor, dims: list[int], begin: int, shape: tuple[int, int]) -> Tensor:
    """Return a tensor as a matrix, some dimensions of which are brought to where others begin."""
    wanted = list(range(begin, begin + len(dims)))
    moved = x if dims == wanted else movedim(x, dims, wanted)
    return moved if moved.shape == shape else moved.reshape(shape)


@lower
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sum products over the last dimension of both."""
    if not input.ndim or not other.ndim:
        scaled: Tensor = mul(input, other)
        return scaled
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    if other.ndim == 2 and input.dtype is other.dtype:
        return made_by(linear(input, other), "ViewBackward0")
    return tensordot(input, other, ([-1], [-1]))


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return Kronecker's product: each element of one times all of the other, block by block."""
    rank = max(input.ndim, other.ndim)
    a = (1,) * (rank - input.ndim) + tuple(input.shape)
    b = (1,) * (rank - other.ndim) + tuple(other.shape)
    left = input.reshape(*(n for s in a for n in (s, 1)))
    right = other.reshape(*(n for s in b for n in (1, s)))
    made: Tensor = mul(left, right)
    return made.reshape(*(m * n for m, n in zip(a, b, strict=True)))  # type: ignore[no-any-return]


@lower
def chain_matmul(*matrices: Any) -> Tensor:
    """Return the product of several matrices, formed in the order of least work."""
    listed: Sequence[Tensor] = matrices
    if len(listed) == 1 and isinstance(listed[0], list | tuple):
        listed = listed[0]
    if not listed:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    return chained(list(listed))


def chained(matrices: list[Tensor]) -> Tensor:
    """Multiply by the cheapest brackets, which are found for all parts of the chain."""
    if len(matrices) < 2:
        return matrices[0]
    sizes = *[m.shape[0] for m in matrices], matrices[-1].shape[1]
    parts = list(matrices)
    for i, j in _products(sizes):
        parts[i] = matmul(parts[i], parts[j])
    return parts[0]


@lru_cache(maxsize=4096)
def _products(sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return which parts of a chain are multiplied, one product after another.

    A part is known by its first matrix.
    """
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            works = [
                cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            ]
            cost[i, j] = min(works)
            cut[i, j] = i + works.index(cost[i, j])

    def products(i: int, j: int) -> Iterator[tuple[int, int]]:
        if i < j:
            k = cut[i, j]
            yield from products(i, k)
            yield from products(k + 1, j)
            yield i, k + 1

    return tuple(products(0, count - 1))


@wide
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the norms of the differences of all pairs of rows, each pair once.

    Parameters
    ----------
    input : Tensor, shape (N, M)
    p : float
        The order of the norm, not below 0.

    Returns
    -------
    Tensor, shape (N (N - 1) / 2,)
        Of rows (0, 1), (0, 2), ..., (1, 2), ...
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    op = _OF_PAIRS.get(float(p))
    is_plain = input.dtype.is_floating_point and input.shape[1] and not any_recorded((input,))
    if op is not None and is_plain:
        made: Tensor = op(input)
        return made
    return made_by(_above_diagonal(cdist(input, input, p)), "PdistBackward0")


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    """Return the powers of each element of a row, the highest first unless told otherwise."""
    count = x.shape[0] if N is None else N
    if not count:
        return x.new_empty(x.shape[0], 0, dtype=widen((x,)))  # type: ignore[no-any-return]
    powers: Tensor = _powers(x, count)
    return powers if increasing else flip(powers, 1)


def powers(x: Tensor, *, N: int | None = None) -> Tensor:  # noqa: N803
    """Return the powers of each element, the lowest first, as a last dimension."""
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    rows: Tensor = _powers(x.reshape(-1), count)
    return rows.view(*x.shape, count)  # type: ignore[no-any-return]


_FREE: tuple[Any, ...] = (cdist, pdist, tensordot, chain_matmul, vander)
for _function in _FREE:
    publish(_function, (_function.__name__,), on=("torch",))
_BOTH: tuple[Any, ...] = (inner, kron)
for _function in _BOTH:
    publish(_function, (_function.__name__,))
