"""Distributions that are met seldom: inverses, ratios, shares, normal vectors of few factors."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library as tc
from tcdsl import linalg
from tcdsl.distributions import constraints as c
from tcdsl.distributions import transforms as t
from tcdsl.distributions.continuous import Uniform
from tcdsl.distributions.distribution import Distribution, broadcast_all
from tcdsl.distributions.gammas import Gamma, gamma_draw
from tcdsl.distributions.transformed import TransformedDistribution

__all__ = ["FisherSnedecor", "InverseGamma", "Kumaraswamy", "LowRankMultivariateNormal"]

_EULER = 0.5772156649015329


class InverseGamma(TransformedDistribution):
    """Numbers whose reciprocals are gamma numbers."""

    arg_constraints = {"concentration": c.positive, "rate": c.positive}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, t.PowerTransform(-1.0), validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)
    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self) -> Any:
        a = self.concentration
        return tc.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return tc.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + tc.lgamma(a) - (1 + a) * tc.digamma(a)


class Kumaraswamy(TransformedDistribution):
    """Shares x with ``P(x < s) = 1 - (1 - s^a)^b``, of concentrations a (1) and b (0)."""

    arg_constraints = {"concentration1": c.positive, "concentration0": c.positive}

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        a, b = broadcast_all(concentration1, concentration0)
        self.concentration1, self.concentration0 = a, b
        base = Uniform(tc.zeros_like(b.detach()), tc.ones_like(b.detach()), validate_args)
        parts = [
            t.PowerTransform(1 / b),
            t.AffineTransform(1.0, -1.0),
            t.PowerTransform(1 / a),
        ]
        super().__init__(base, parts, validate_args)
        self.support = c.unit_interval

    def expand(self, batch_shape: Any) -> Any:
        made = super().expand(batch_shape)
        made.concentration1 = self.concentration1.expand(tuple(batch_shape))
        made.concentration0 = self.concentration0.expand(tuple(batch_shape))
        return made

    def _moment(self, n: int) -> Any:
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (tc.lgamma(a) + tc.lgamma(b) - tc.lgamma(a + b)).exp()

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self.mean**2)

    @property
    def mode(self) -> Any:
        """The likeliest share; NaN where a concentration is below 1."""
        a, b = self.concentration1, self.concentration0
        found = (tc.log1p(-b) / b - tc.log1p(-a * b)).exp()
        return tc.where((a < 1) | (b < 1), math.nan, found)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = tc.digamma(b + 1) + _EULER
        return 1 - 1 / b + (1 - 1 / a) * harmonic - a.log() - b.log()


class FisherSnedecor(Distribution):
    """Ratios of two means of squared normal numbers, `df1` and `df2` of them."""

    arg_constraints = {"df1": c.positive, "df2": c.positive}
    support = c.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        df1, df2 = broadcast_all(df1, df2)
        self._have(validate_args, df1=df1, df2=df2)

    df1: Any
    df2: Any

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._shape(sample_shape)
        above, below = (gamma_draw((n / 2).expand(shape)) / n for n in (self.df1, self.df2))
        tiny = tc.finfo(below.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Any) -> Any:
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        value = self._checked(value)
        whole = tc.lgamma(a + b) - tc.lgamma(a) - tc.lgamma(b)
        powers = a * ratio.log() + (a - 1) * value.log()
        return whole + powers - (a + b) * tc.log1p(ratio * value)

    @property
    def mean(self) -> Any:
        return tc.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Any:
        """The likeliest ratio; NaN where df1 is not above 2."""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return tc.where(self.df1 > 2, found, math.nan)

    @property
    def variance(self) -> Any:
        n, m = self.df1, self.df2
        found = 2 * m**2 * (n + m - 2) / (n * (m - 2) ** 2 * (m - 4))
        return tc.where(m > 4, found, math.nan)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of the covariance ``W W' + diag(d)``, W of few columns.

    Parameters
    ----------
    loc, cov_diag : Tensor, shape (..., N)
        The mean, and d.
    cov_factor : Tensor, shape (..., N, K)
        W.
    """

    arg_constraints = {
        "loc": c.real_vector,
        "cov_factor": c.independent(c.real, 2),
        "cov_diag": c.independent(c.positive, 1),
    }
    support = c.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.ndim < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if tuple(cov_diag.shape[-1:]) != (n,):
            raise ValueError(f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}")
        shapes = loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
        batch = tc.broadcast_shapes(*(tuple(s) for s in shapes))
        self._have(
            validate_args,
            1,
            loc=loc.expand(*batch, n),
            cov_factor=cov_factor.expand(*batch, *cov_factor.shape[-2:]),
            cov_diag=cov_diag.expand(*batch, n),
        )

    loc: Any
    cov_factor: Any
    cov_diag: Any

    def _scaled(self) -> Any:
        """Return ``W' / d``."""
        return self.cov_factor.transpose(-2, -1) / self.cov_diag.unsqueeze(-2)

    def _inner(self) -> Any:
        """Return the triangle of ``1 + W' diag(1 / d) W``, which is small."""
        k = self.cov_factor.shape[-1]
        one = tc.eye(k, dtype=self.loc.dtype, device=self.loc.device)
        return linalg.cholesky(one + self._scaled() @ self.cov_factor)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._shape(sample_shape)
        how = {"dtype": self.loc.dtype, "device": self.loc.device}
        z = tc.randn((*shape[:-1], self.cov_factor.shape[-1], 1), **how)
        apart = tc.randn(shape, **how)
        return self.loc + (self.cov_factor @ z).squeeze(-1) + self.cov_diag.sqrt() * apart

    def _log_size(self, inner: Any) -> Any:
        """Return the logarithm of the covariance's determinant."""
        return 2 * inner.diagonal(0, -2, -1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        apart, inner = self._checked(value) - self.loc, self._inner()
        across = self._scaled() @ apart.unsqueeze(-1)
        shape = (*across.shape[:-2], *inner.shape[-2:])
        z = linalg.solve_triangular(inner.expand(shape), across, upper=False)
        squares = (apart**2 / self.cov_diag).sum(-1) - (z * z).sum((-2, -1))
        whole = self.loc.shape[-1] * math.log(2 * math.pi) + self._log_size(inner)
        return -0.5 * (whole + squares)

    def entropy(self) -> Any:
        n = self.loc.shape[-1]
        return 0.5 * (n * (1 + math.log(2 * math.pi)) + self._log_size(self._inner()))

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: (self.cov_factor**2).sum(-1) + self.cov_diag)

    @property
    def covariance_matrix(self) -> Any:
        """``W W' + diag(d)``."""
        return self.cov_factor @ self.cov_factor.transpose(-2, -1) + tc.diag_embed(self.cov_diag)

    @property
    def scale_tril(self) -> Any:
        """The triangle of the covariance."""
        return linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        across = linalg.solve_triangular(self._inner(), self._scaled(), upper=False)
        return tc.diag_embed(1 / self.cov_diag) - across.transpose(-2, -1) @ across
