"""Distributions of matrices: of correlations, by their triangles; of sums of squares of vectors."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library as tc
from tcdsl import linalg
from tcdsl.autograd import modes
from tcdsl.core import Size, Tensor
from tcdsl.distributions import constraints as c
from tcdsl.distributions.covariances import CONSTRAINTS, by_factor, factor_of, the_given
from tcdsl.distributions.distribution import Distribution
from tcdsl.distributions.gammas import Beta, gamma_draw

__all__ = ["LKJCholesky", "Wishart"]


class LKJCholesky(Distribution):
    """Triangles L of matrices of correlations ``L L'``, of density ``det(L L') ** (eta - 1)``.

    Parameters
    ----------
    dim : int
        Rows of L, at least 2.
    concentration : float or Tensor
        eta: at 1 all matrices are as likely, above it those near 1 are likelier.

    References
    ----------
    Lewandowski, Kurowicka, Joe, "Generating random correlation matrices based on vines and extended
    onion method", 2009, section 3: rows are drawn one behind the other.
    """

    arg_constraints = {"concentration": c.positive}
    support = c.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        if not isinstance(concentration, Tensor):
            concentration = tc.tensor(float(concentration))
        self._have(validate_args, concentration=concentration)
        self.event_shape = Size((dim, dim))

    concentration: Any

    def sample(self, sample_shape: Any = ()) -> Any:
        with modes.no_grad():
            eta = self.concentration
            shape = self._shape(sample_shape)
            row = tc.arange(self.dim, dtype=eta.dtype, device=eta.device)
            inside = (row - 1).clamp(min=0)  # in how many dimensions a row was chosen before
            free = (eta + 0.5 * (self.dim - 2)).unsqueeze(-1) - 0.5 * inside
            part = Beta(inside + 0.5, free).sample(sample_shape).unsqueeze(-1)
            z = tc.randn(shape, dtype=eta.dtype, device=eta.device).tril(-1)
            way = z / z.norm(dim=-1, keepdim=True)
            way[..., 0, :] = 0
            lower = part.sqrt() * way
            rest = (1 - lower.square().sum(-1)).clamp(min=tc.finfo(eta.dtype).tiny).sqrt()
            return lower + rest.diag_embed()

    def log_prob(self, value: Any) -> Any:
        value, eta, n = self._checked(value), self.concentration, self.dim
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        order = tc.arange(2, n + 1, device=eta.device)
        order = 2 * (eta - 1).unsqueeze(-1) + n - order
        most = eta + 0.5 * (n - 1)
        whole = 0.5 * (n - 1) * math.log(math.pi) + tc.mvlgamma(most - 0.5, n - 1)
        return (order * diagonal.log()).sum(-1) - whole + tc.lgamma(most) * (n - 1)


class Wishart(Distribution):
    """Sums of the outer squares of `df` normal vectors.

    Parameters
    ----------
    df : float or Tensor
        Above P - 1.
    covariance_matrix, precision_matrix, scale_tril : Tensor, shape (..., P, P)
        One of them: of the vectors, its inverse, its triangle.
    """

    support = c.positive_definite
    arg_constraints = {**CONSTRAINTS, "df": c.greater_than(0)}
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = the_given(AssertionError, covariance_matrix, precision_matrix, scale_tril)
        if matrix.ndim < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        df = tc.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        p = matrix.shape[-1]
        batch = tuple(tc.broadcast_shapes(tuple(df.shape), tuple(matrix.shape[:-2])))
        if (df <= p - 1).any().item():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        self._have(validate_args, 2, **{name: matrix.expand(*batch, p, p)}, df=df.expand(batch))
        self._lower = factor_of(name, matrix).expand(*batch, p, p)

    df: Any

    def expand(self, batch_shape: Any) -> Any:
        made = super().expand(batch_shape)
        made._lower = self._lower.expand(*batch_shape, *self.event_shape)
        return made

    def __getattr__(self, name: str) -> Any:
        return by_factor(self, vars(self).get("_lower"), name)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._shape(sample_shape)
        p = shape[-1]
        free = self.df.unsqueeze(-1) - tc.arange(p, dtype=self.df.dtype, device=self.df.device)
        chi = (2 * gamma_draw((free / 2).expand(shape[:-1]))).sqrt()
        z = tc.randn(shape, dtype=self.df.dtype, device=self.df.device)
        lower = self._lower @ (z.tril(-1) + chi.diag_embed())
        return lower @ lower.mT

    def _log_half(self) -> Any:
        """Return half the logarithm of the determinant of the covariance."""
        return self._lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        value, n, p = self._checked(value), self.df, self.event_shape[-1]
        inside = linalg.solve_triangular(self._lower, value, upper=False)
        trace = linalg.solve_triangular(self._lower.mT, inside, upper=True)
        whole = n * (0.5 * p * math.log(2) + self._log_half()) + tc.mvlgamma(n / 2, p)
        size = linalg.slogdet(value)[1]
        return 0.5 * (n - p - 1) * size - 0.5 * trace.diagonal(dim1=-2, dim2=-1).sum(-1) - whole

    def entropy(self) -> Any:
        n, p = self.df, self.event_shape[-1]
        steps = n.unsqueeze(-1) / 2 - 0.5 * tc.arange(p, dtype=n.dtype, device=n.device)
        digamma = tc.digamma(steps).sum(-1)
        half = self._log_half()
        spread = 0.5 * p * (p + 1) * math.log(2) + (p + 1) * half
        return spread + tc.mvlgamma(n / 2, p) - 0.5 * (n - p - 1) * digamma + 0.5 * n * p

    @property
    def mean(self) -> Any:
        return self.df.view(*self.batch_shape, 1, 1) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """The likeliest matrix; NaN where there is none."""
        factor = self.df - self.event_shape[-1] - 1
        factor = tc.where(factor > 0, factor, math.nan)
        return factor.view(*self.batch_shape, 1, 1) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        whole = self.covariance_matrix
        own = whole.diagonal(dim1=-2, dim2=-1)
        spread = whole**2 + own.unsqueeze(-1) * own.unsqueeze(-2)
        return self.df.view(*self.batch_shape, 1, 1) * spread
