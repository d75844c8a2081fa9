"""Distributions of real numbers, a class each: its parameters, and its formulas."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library as tc
from tcdsl.distributions import constraints as c
from tcdsl.distributions.distribution import Distribution, broadcast_all

__all__ = [
    "Cauchy",
    "Exponential",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Laplace",
    "Normal",
    "Pareto",
    "Uniform",
    "Weibull",
]

_EULER = 0.5772156649015329
_LOG_2PI = math.log(2 * math.pi)


def _of_kind(like: Any, shape: tuple[int, ...]) -> Any:
    """Return a tensor of a shape to draw into, of the type of a parameter and where that is."""
    return tc.empty(shape, dtype=like.dtype, device=like.device)


def open_uniform(like: Any, shape: tuple[int, ...]) -> Any:
    """Return uniform numbers above 0 and below 1."""
    tiny = tc.finfo(like.dtype).eps / 2
    return tc.rand(shape, dtype=like.dtype, device=like.device).clamp(tiny, 1 - tiny)


class _LocScale(Distribution):
    """A standard distribution, moved and stretched: a subclass says the standard one."""

    arg_constraints = {"loc": c.real, "scale": c.positive}
    support = c.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        loc, scale = broadcast_all(loc, scale)
        self._have(validate_args, loc=loc, scale=scale)

    loc: Any
    scale: Any

    def _standard_draw(self, shape: tuple[int, ...]) -> Any:
        return self._standard_icdf(open_uniform(self.loc, shape))

    def _standard_log_prob(self, z: Any) -> Any:
        raise NotImplementedError

    def _standard_cdf(self, z: Any) -> Any:
        raise NotImplementedError

    def _standard_icdf(self, p: Any) -> Any:
        raise NotImplementedError

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + self.scale * self._standard_draw(self._shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        z = (self._checked(value) - self.loc) / self.scale
        return self._standard_log_prob(z) - self.scale.log()

    def cdf(self, value: Any) -> Any:
        return self._standard_cdf((self._checked(value) - self.loc) / self.scale)

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * self._standard_icdf(value)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)


class Normal(_LocScale):
    """Normal numbers of a mean `loc` and a deviation `scale`."""

    def _standard_draw(self, shape: tuple[int, ...]) -> Any:
        return tc.randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    def _standard_log_prob(self, z: Any) -> Any:
        return -(z * z + _LOG_2PI) / 2

    def _standard_cdf(self, z: Any) -> Any:
        return 0.5 * (1 + tc.erf(z / math.sqrt(2)))

    def _standard_icdf(self, p: Any) -> Any:
        return math.sqrt(2) * tc.erfinv(2 * p - 1)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * _LOG_2PI + self.scale.log()

    variance = property(lambda self: self.scale**2)


class Laplace(_LocScale):
    """Numbers of the density ``exp(-|x - loc| / scale) / (2 scale)``."""

    def _standard_log_prob(self, z: Any) -> Any:
        return -z.abs() - math.log(2)

    def _standard_cdf(self, z: Any) -> Any:
        return 0.5 - 0.5 * z.sign() * tc.expm1(-z.abs())

    def _standard_icdf(self, p: Any) -> Any:
        return -(p - 0.5).sign() * tc.log1p(-2 * (p - 0.5).abs())

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()

    variance = property(lambda self: 2 * self.scale**2)


class Cauchy(_LocScale):
    """Numbers of the density ``1 / (pi scale (1 + ((x - loc) / scale)^2))``, without a mean."""

    def _standard_draw(self, shape: tuple[int, ...]) -> Any:
        return _of_kind(self.loc, shape).cauchy_()

    def _standard_log_prob(self, z: Any) -> Any:
        return -math.log(math.pi) - tc.log1p(z * z)

    def _standard_cdf(self, z: Any) -> Any:
        return tc.atan(z) / math.pi + 0.5

    def _standard_icdf(self, p: Any) -> Any:
        return tc.tan(math.pi * (p - 0.5))

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()

    mean = property(lambda self: tc.full_like(self.loc, math.nan))
    variance = property(lambda self: tc.full_like(self.loc, math.inf))


class Gumbel(_LocScale):
    """The largest of many: ``F(x) = exp(-exp(-(x - loc) / scale))``."""

    def _standard_log_prob(self, z: Any) -> Any:
        return -z - (-z).exp()

    def _standard_cdf(self, z: Any) -> Any:
        return (-(-z).exp()).exp()

    def _standard_icdf(self, p: Any) -> Any:
        return -(-p.log()).log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + _EULER)

    mean = property(lambda self: self.loc + self.scale * _EULER)
    variance = property(lambda self: self.scale**2 * (math.pi**2 / 6))


class _Half(Distribution):
    """The sizes of numbers of a distribution about 0."""

    arg_constraints = {"scale": c.positive}
    support = c.nonnegative
    has_rsample = True
    whole: Any

    _shown = False

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (scale,) = broadcast_all(scale)
        self._have(validate_args, scale=scale)

    scale: Any

    def _of_both(self) -> Any:
        return self.whole(tc.zeros_like(self.scale), self.scale, validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._of_both().rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Any:
        made = self._of_both().log_prob(self._checked(value)) + math.log(2)
        return tc.where(value >= 0, made, -math.inf)

    def cdf(self, value: Any) -> Any:
        return 2 * self._of_both().cdf(self._checked(value)) - 1

    def icdf(self, value: Any) -> Any:
        return self._of_both().icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self._of_both().entropy() - math.log(2)


class HalfNormal(_Half):
    """The sizes of normal numbers about 0."""

    whole = Normal
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    mode = property(lambda self: tc.zeros_like(self.scale))
    variance = property(lambda self: self.scale**2 * (1 - 2 / math.pi))


class HalfCauchy(_Half):
    """The sizes of Cauchy's numbers about 0."""

    whole = Cauchy
    mean = property(lambda self: tc.full_like(self.scale, math.inf))
    mode = property(lambda self: tc.zeros_like(self.scale))
    variance = property(lambda self: self._of_both().variance)


class Uniform(Distribution):
    """Numbers from `low` to below `high`, each as likely."""

    arg_constraints = {"low": c.real, "high": c.real}
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        low, high = broadcast_all(low, high)
        self._have(validate_args, low=low, high=high)
        if self._validate_args and not (low < high).all().item():
            raise ValueError(
                f"Expected parameter low (Tensor of shape {tuple(low.shape)}) of distribution "
                f"{self!r} to satisfy the constraint LessThan(upper_bound={high}), but found "
                f"invalid values:\n{low}"
            )

    low: Any
    high: Any
    support = property(lambda self: c.interval(self.low, self.high))

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = tc.rand(self._shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        inside = ((value >= self.low) & (value < self.high)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Any:
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()

    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: math.nan * self.high)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)


class Exponential(Distribution):
    """Times of the density ``rate exp(-rate x)``."""

    arg_constraints = {"rate": c.positive}
    support = c.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (rate,) = broadcast_all(rate)
        self._have(validate_args, rate=rate)

    rate: Any

    def rsample(self, sample_shape: Any = ()) -> Any:
        return _of_kind(self.rate, self._shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Any) -> Any:
        return 1 - (-self.rate * self._checked(value)).exp()

    def icdf(self, value: Any) -> Any:
        return -tc.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1 - self.rate.log()

    mean = property(lambda self: 1 / self.rate)
    mode = property(lambda self: tc.zeros_like(self.rate))
    variance = property(lambda self: self.rate**-2)


class Pareto(Distribution):
    """Numbers above `scale` of the density ``alpha scale^alpha / x^(alpha + 1)``."""

    arg_constraints = {"alpha": c.positive, "scale": c.positive}
    has_rsample = True

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        scale, alpha = broadcast_all(scale, alpha)
        self._have(validate_args, scale=scale, alpha=alpha)

    alpha: Any
    scale: Any
    support = property(
        lambda self: c.Constraint(f"GreaterThanEq(lower_bound={self.scale})", self.scale.le)
    )

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = _of_kind(self.scale, self._shape(sample_shape)).exponential_()
        return self.scale * (drawn / self.alpha).exp()

    def log_prob(self, value: Any) -> Any:
        a, scale, value = self.alpha, self.scale, self._checked(value)
        return a.log() + a * scale.log() - (a + 1) * value.log()

    def cdf(self, value: Any) -> Any:
        return 1 - (self.scale / self._checked(value)) ** self.alpha

    def icdf(self, value: Any) -> Any:
        return self.scale * (1 - value) ** (-1 / self.alpha)

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha

    mode = property(lambda self: self.scale)

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))


class Weibull(Distribution):
    """Times of ``F(x) = 1 - exp(-(x / scale)^concentration)``."""

    arg_constraints = {"scale": c.positive, "concentration": c.positive}
    support = c.positive
    has_rsample = True

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        scale, concentration = broadcast_all(scale, concentration)
        self._have(validate_args, scale=scale, concentration=concentration)

    scale: Any
    concentration: Any

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = _of_kind(self.scale, self._shape(sample_shape)).exponential_()
        return self.scale * drawn ** (1 / self.concentration)

    def log_prob(self, value: Any) -> Any:
        k, z = self.concentration, self._checked(value) / self.scale
        return (k / self.scale).log() + (k - 1) * z.log() - z**k

    def cdf(self, value: Any) -> Any:
        return -tc.expm1(-((self._checked(value) / self.scale) ** self.concentration))

    def icdf(self, value: Any) -> Any:
        return self.scale * (-tc.log1p(-value)) ** (1 / self.concentration)

    def entropy(self) -> Any:
        k = self.concentration
        return _EULER * (1 - 1 / k) + (self.scale / k).log() + 1

    mean = property(lambda self: self.scale * tc.lgamma(1 + 1 / self.concentration).exp())

    @property
    def mode(self) -> Any:
        k = self.concentration.clamp(min=1)  # below it the density falls from 0 on
        return self.scale * ((k - 1) / k) ** (1 / k)

    @property
    def variance(self) -> Any:
        one, two = (tc.lgamma(1 + n / self.concentration) for n in (1, 2))
        return self.scale**2 * (two.exp() - (2 * one).exp())
