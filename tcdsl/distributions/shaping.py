"""Transforms of vectors and matrices: to shares, to triangles, to other shapes, part by part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tcdsl import library as tc
from tcdsl import linalg
from tcdsl.core import Size
from tcdsl.distributions import constraints as c
from tcdsl.distributions.eitherway import softplus
from tcdsl.distributions.elementwise import Transform
from tcdsl.ops.activations import logsigmoid
from tcdsl.ops.copies import pad

__all__ = [
    "CatTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
]


class IndependentTransform(Transform):
    """A transform whose last dimensions are those of one number: their slopes add up."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.event_dim = base_transform.event_dim + reinterpreted_batch_ndims
        self.out_dim = base_transform.out_dim + reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = c.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = c.independent(base_transform.codomain, reinterpreted_batch_ndims)

    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x: Any) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        return self.base_transform._inverse(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        slope = self.base_transform.log_abs_det_jacobian(x, y)
        return slope.sum(tuple(range(-self.reinterpreted_batch_ndims, 0)))

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """The same numbers in another shape.

    Parameters
    ----------
    in_shape, out_shape : sequence of int
        Of the last dimensions.
    """

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.event_dim, self.out_dim = len(self.in_shape), len(self.out_shape)
        self.domain = c.independent(c.real, self.event_dim)
        self.codomain = c.independent(c.real, self.out_dim)

    def _call(self, x: Any) -> Any:
        return x.reshape(x.shape[: x.ndim - self.event_dim] + self.out_shape)

    def _inverse(self, y: Any) -> Any:
        return y.reshape(y.shape[: y.ndim - self.out_dim] + self.in_shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.ndim - self.event_dim])

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return _other_end(shape, tuple(self.in_shape), tuple(self.out_shape))

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return _other_end(shape, tuple(self.out_shape), tuple(self.in_shape))


def _other_end(
    shape: tuple[int, ...], before: tuple[int, ...], behind: tuple[int, ...]
) -> tuple[int, ...]:
    cut = len(shape) - len(before)
    if cut < 0:
        raise ValueError("Too few dimensions on input")
    if tuple(shape[cut:]) != before:
        raise ValueError(f"Shape mismatch: expected {Size(shape[cut:])} but got {Size(before)}")
    return (*shape[:cut], *behind)


class SoftmaxTransform(Transform):
    """``exp(x)`` over its sum along the last dimension; the inverse is the logarithm."""

    bijective = False
    domain, codomain = c.real_vector, c.simplex

    def _call(self, x: Any) -> Any:
        return tc.softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class StickBreakingTransform(Transform):
    """N numbers to N + 1 shares: each is a part of what those before it left."""

    domain, codomain = c.real_vector, c.simplex

    def _call(self, x: Any) -> Any:
        part = tc.sigmoid(x - _left(x))
        rest = (1 - part).cumprod(-1)
        return pad(part, [0, 1], value=1) * pad(rest, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        head = y[..., :-1]
        rest = (1 - head.cumsum(-1)).clamp(min=tc.finfo(y.dtype).tiny)
        return head.log() - rest.log() + _left(head)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - _left(x)
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)


def _left(like: Any) -> Any:
    """Return the logarithms of how many shares are left behind each: at 0 all are equal."""
    count = like.shape[-1]
    return tc.arange(count, 0, -1, dtype=like.dtype, device=like.device).log()


class LowerCholeskyTransform(Transform):
    """Matrices to triangles of positive diagonals."""

    bijective = False
    domain, codomain = c.independent(c.real, 2), c.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Matrices to positive definite ones, by way of their triangles."""

    bijective = False
    domain, codomain = c.independent(c.real, 2), c.positive_definite

    def _call(self, x: Any) -> Any:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform()._inverse(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """N (N - 1) / 2 numbers to the triangle of a matrix of correlations, whose rows have norm 1.

    Each number is, by its tanh, the part of what the elements before it in its row left.
    """

    domain, codomain = c.real_vector, c.corr_cholesky

    def _call(self, x: Any) -> Any:
        eps = tc.finfo(x.dtype).eps
        count = _rows_of(x.shape[-1])
        part = x.tanh().clamp(-1 + eps, 1 - eps)
        rows, columns = tc.tril_indices(count, count, -1)
        lower = x.new_zeros((*x.shape[:-1], count, count)).index_put(
            _at(x.shape[:-1], rows, columns), part
        )
        rest = (1 - lower**2).sqrt().cumprod(-1)
        one = tc.eye(count, dtype=x.dtype, device=x.device)
        return (lower + one) * pad(rest[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        rest = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        part = _below(y, -1) / _below(rest, -1).sqrt()
        return (tc.log1p(part) - tc.log1p(-part)) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        rest = _below(1 - (y * y).cumsum(-1), -2)
        of_tanh = -2 * (x + softplus(-2 * x) - math.log(2)).sum(-1)
        return 0.5 * rest.log().sum(-1) + of_tanh

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        count = _rows_of(shape[-1])
        return (*shape[:-1], count, count)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if shape[-1] != shape[-2]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _rows_of(numbers: int) -> int:
    count = int((0.25 + 2 * numbers) ** 0.5 + 0.500001)
    if count * (count - 1) // 2 != numbers:
        raise ValueError("Input is not a flattened lower-diagonal number")
    return count


def _below(x: Any, diagonal: int) -> Any:
    """Return the elements on and below a diagonal, row by row."""
    rows, columns = tc.tril_indices(x.shape[-2], x.shape[-1], diagonal)
    return x[..., rows, columns]


def _at(batch: Sequence[int], rows: Any, columns: Any) -> tuple[Any, ...]:
    """Return subscripts of elements of each matrix of a batch."""
    before = [
        tc.arange(n).view(*(-1 if k == d else 1 for k in range(len(batch) + 1)))
        for d, n in enumerate(batch)
    ]
    return (*before, rows, columns)


class CumulativeDistributionTransform(Transform):
    """The probability of numbers below x."""

    codomain = c.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        self.distribution = distribution
        self.domain = distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)


class CatTransform(Transform):
    """Parts of a dimension, one behind the other, each by its own transform.

    Parameters
    ----------
    tseq : sequence of Transform
    dim : int
    lengths : sequence of int, optional
        Of the parts; by default 1 each.
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        self.transforms, self.dim = list(tseq), dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.event_dim = self.out_dim = max(t.event_dim for t in self.transforms)
        self.bijective = all(t.bijective for t in self.transforms)
        self.domain = c.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = c.cat([t.codomain for t in self.transforms], dim, self.lengths)

    def _parts(self, *tensors: Any) -> Any:
        split = (x.split(self.lengths, self.dim) for x in tensors)
        return zip(self.transforms, *split, strict=True)

    def _call(self, x: Any) -> Any:
        return tc.cat([t(part) for t, part in self._parts(x)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return tc.cat([t._inverse(part) for t, part in self._parts(y)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        slopes = []
        for t, a, b in self._parts(x, y):
            slope = t.log_abs_det_jacobian(a, b)
            dims = self.event_dim - t.event_dim
            slopes.append(slope.sum(tuple(range(-dims, 0))) if dims else slope)
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += self.event_dim
        return tc.cat(slopes, dim) if dim < 0 else sum(slopes)


class StackTransform(Transform):
    """Elements of a dimension, each by its own transform.

    Parameters
    ----------
    tseq : sequence of Transform
    dim : int
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        self.transforms, self.dim = list(tseq), dim
        self.bijective = all(t.bijective for t in self.transforms)
        self.domain = c.stack([t.domain for t in self.transforms], dim)
        self.codomain = c.stack([t.codomain for t in self.transforms], dim)

    def _parts(self, *tensors: Any) -> Any:
        return zip(self.transforms, *(x.unbind(self.dim) for x in tensors), strict=True)

    def _call(self, x: Any) -> Any:
        return tc.stack([t(part) for t, part in self._parts(x)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return tc.stack([t._inverse(part) for t, part in self._parts(y)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        slopes = [t.log_abs_det_jacobian(a, b) for t, a, b in self._parts(x, y)]
        return tc.stack(slopes, self.dim)
