"""Distributions that are made of gamma numbers, a class each."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library as tc
from tcdsl.autograd import Function
from tcdsl.distributions import constraints as c
from tcdsl.distributions.distribution import Distribution, broadcast_all
from tcdsl.ops.rates import gamma_below, gamma_slope, standard_gamma

__all__ = ["Beta", "Chi2", "Gamma", "StudentT"]


class _GammaDraw(Function):
    """Draws of the gamma distribution of rate 1, which move with the shape."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        z = standard_gamma(a)
        ctx.save_for_backward(a, z)
        return z

    @staticmethod
    def backward(ctx: Any, d_z: Any) -> Any:
        a, z = ctx.saved_tensors
        return d_z * gamma_slope(a, z)


def gamma_draw(a: Any) -> Any:
    """Draw numbers of the gamma distribution of shape a and rate 1, above 0, with gradients."""
    return _GammaDraw.apply(a).clamp(min=tc.finfo(a.dtype).tiny)


def shares(a: Any) -> Any:
    """Draw gamma numbers over their sum along the last dimension, between 0 and 1."""
    z = gamma_draw(a.double())
    limits = tc.finfo(a.dtype)
    return (z / z.sum(-1, True)).to(a.dtype).clamp(limits.tiny, 1 - limits.eps / 2)


class Gamma(Distribution):
    """Times until the `concentration`-th event of a `rate`."""

    arg_constraints = {"concentration": c.positive, "rate": c.positive}
    support = c.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        concentration, rate = broadcast_all(concentration, rate)
        self._have(validate_args, concentration=concentration, rate=rate)

    concentration: Any
    rate: Any

    def rsample(self, sample_shape: Any = ()) -> Any:
        return gamma_draw(self.concentration.expand(self._shape(sample_shape))) / self.rate

    def log_prob(self, value: Any) -> Any:
        a, value = self.concentration, self._checked(value)
        density = tc.xlogy(a, self.rate) + tc.xlogy(a - 1, value)
        return density - self.rate * value - tc.lgamma(a)

    def cdf(self, value: Any) -> Any:
        return gamma_below(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + tc.lgamma(a) + (1 - a) * tc.digamma(a)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate**2)


class Chi2(Gamma):
    """Sums of the squares of `df` normal numbers."""

    arg_constraints = {"df": c.positive}
    _shown = False

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        self._have(validate_args, df=df)

    df: Any
    concentration = property(lambda self: self.df / 2)
    rate = property(lambda self: tc.full_like(self.df, 0.5))


class Beta(Distribution):
    """Shares: the first of two gamma numbers in their sum."""

    arg_constraints = {"concentration1": c.positive, "concentration0": c.positive}
    support = c.unit_interval
    has_rsample = True
    _shown = False

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        a, b = broadcast_all(concentration1, concentration0)
        self._have(validate_args, concentration1=a, concentration0=b)

    concentration1: Any
    concentration0: Any

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._shape(sample_shape)
        both = tc.stack([a.expand(shape) for a in self._both()], -1)
        return shares(both).select(-1, 0)

    def _both(self) -> tuple[Any, Any]:
        return self.concentration1, self.concentration0

    def log_prob(self, value: Any) -> Any:
        a, b = self._both()
        value = self._checked(value)
        return tc.xlogy(a - 1, value) + tc.xlogy(b - 1, 1 - value) - _log_beta(a, b)

    def entropy(self) -> Any:
        a, b = self._both()
        made = _log_beta(a, b) - (a - 1) * tc.digamma(a) - (b - 1) * tc.digamma(b)
        return made + (a + b - 2) * tc.digamma(a + b)

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))

    @property
    def mode(self) -> Any:
        """The likeliest share; where both concentrations are below 1, one of two."""
        a, b = ((v - 1).clamp(min=0) for v in self._both())
        is_corner = (self.concentration1 < 1) & (self.concentration0 < 1)
        return tc.where(is_corner, 1.0, a / (a + b))

    @property
    def variance(self) -> Any:
        a, b = self._both()
        return a * b / ((a + b) ** 2 * (a + b + 1))


def _log_beta(a: Any, b: Any) -> Any:
    return tc.lgamma(a) + tc.lgamma(b) - tc.lgamma(a + b)


class StudentT(Distribution):
    """Normal numbers over the root of the mean of `df` squares, moved and stretched."""

    arg_constraints = {"df": c.positive, "loc": c.real, "scale": c.positive}
    support = c.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        df, loc, scale = broadcast_all(df, loc, scale)
        self._have(validate_args, df=df, loc=loc, scale=scale)

    df: Any
    loc: Any
    scale: Any

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._shape(sample_shape)
        z = tc.randn(shape, dtype=self.df.dtype, device=self.df.device)
        squares = 2 * gamma_draw((self.df / 2).expand(shape))
        return self.loc + self.scale * z * (self.df / squares).sqrt()

    def _log_whole(self) -> Any:
        n = self.df
        made = tc.lgamma(0.5 * n) - tc.lgamma(0.5 * (n + 1))
        return self.scale.log() + 0.5 * (n.log() + math.log(math.pi)) + made

    def log_prob(self, value: Any) -> Any:
        z = (self._checked(value) - self.loc) / self.scale
        return -0.5 * (self.df + 1) * tc.log1p(z * z / self.df) - self._log_whole()

    def entropy(self) -> Any:
        n = self.df
        two = tc.digamma(0.5 * (n + 1)) - tc.digamma(0.5 * n)
        beta = tc.lgamma(0.5 * n) + math.lgamma(0.5) - tc.lgamma(0.5 * (n + 1))
        return self.scale.log() + 0.5 * (n + 1) * two + 0.5 * n.log() + beta

    mode = property(lambda self: self.loc)
    mean = property(lambda self: tc.where(self.df <= 1, math.nan, self.loc))

    @property
    def variance(self) -> Any:
        n = self.df
        made = self.scale**2 * n / (n - 2)
        return tc.where(n > 2, made, tc.where(n > 1, math.inf, tc.full_like(n, math.nan)))
