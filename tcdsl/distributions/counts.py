"""Distributions of counts, a class each: its parameters, and its formulas."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library as tc
from tcdsl.autograd import modes
from tcdsl.distributions import constraints as c
from tcdsl.distributions.distribution import Distribution, broadcast_all
from tcdsl.distributions.eitherway import SaidEitherWay, inner, softplus
from tcdsl.ops import rates

__all__ = [
    "Bernoulli",
    "Binomial",
    "ByOdds",
    "ContinuousBernoulli",
    "Geometric",
    "NegativeBinomial",
    "Poisson",
]


class ByOdds(SaidEitherWay):
    """What is said by a probability or by the logarithm of its odds; the other follows from it."""

    arg_constraints = {"probs": c.unit_interval, "logits": c.real}

    def _have_odds(
        self, probs: Any, logits: Any, validate_args: bool | None, **further: Any
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("logits", logits) if probs is None else ("probs", probs)
        value, *others = broadcast_all(value, *further.values())
        self._have(validate_args, **{name: value}, **dict(zip(further, others, strict=True)))

    def _probs(self, logits: Any) -> Any:
        return tc.sigmoid(logits)

    def _logits(self, probs: Any) -> Any:
        p = inner(probs)
        return p.log() - tc.log1p(-p)


class Bernoulli(ByOdds):
    """1 by a probability, else 0."""

    support = c.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._have_odds(probs, logits, validate_args)

    def sample(self, sample_shape: Any = ()) -> Any:
        with modes.no_grad():
            return tc.bernoulli(self.probs.expand(self._shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        return value * self.logits - softplus(self.logits)

    def entropy(self) -> Any:
        return softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Any:
        said = self._said()
        values = tc.arange(2, dtype=said.dtype).view(-1, *[1] * len(self.batch_shape))
        return values.expand(2, *self.batch_shape) if expand else values

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self) -> Any:
        """The likelier one; NaN if both are as likely."""
        made = (self.probs >= 0.5).to(self.probs.dtype)
        return tc.where(self.probs == 0.5, math.nan, made)


class Geometric(ByOdds):
    """Failures before the first success."""

    support = c.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._have_odds(probs, logits, validate_args)

    def sample(self, sample_shape: Any = ()) -> Any:
        with modes.no_grad():
            p = self.probs.expand(self._shape(sample_shape))
            u = tc.empty(p.shape, dtype=p.dtype, device=p.device)
            u.uniform_(tc.finfo(p.dtype).tiny, 1)
            return (u.log() / tc.log1p(-p)).floor()

    def log_prob(self, value: Any) -> Any:
        value, p = self._checked(value), self.probs
        return value * tc.log1p(-tc.where((p == 1) & (value == 0), 0.0, p)) + p.log()

    def entropy(self) -> Any:
        return (softplus(self.logits) - self.probs * self.logits) / self.probs

    mean = property(lambda self: 1 / self.probs - 1)
    mode = property(lambda self: tc.zeros_like(self.probs))
    variance = property(lambda self: (1 / self.probs - 1) / self.probs)


class Poisson(Distribution):
    """Numbers of events by a rate."""

    arg_constraints = {"rate": c.nonnegative}
    support = c.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (rate,) = broadcast_all(rate)
        self._have(validate_args, rate=rate)

    rate: Any

    def sample(self, sample_shape: Any = ()) -> Any:
        with modes.no_grad():
            return rates.poisson(self.rate.expand(self._shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        return tc.xlogy(value, self.rate) - self.rate - tc.lgamma(value + 1)

    mean = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())
    variance = property(lambda self: self.rate)


class ContinuousBernoulli(ByOdds):
    """Numbers from 0 to 1 of density ``p ** x * (1 - p) ** (1 - x)``, times what makes it whole.

    `lims` are the ends of the range of p about 0.5 in which series stand for formulas that are
    0 / 0 there.

    References
    ----------
    Loaiza-Ganem, Cunningham, "The continuous Bernoulli: fixing a pervasive error in variational
    autoencoders", 2019.
    """

    support = c.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        self._have_odds(probs, logits, validate_args)

    def _parts(self) -> tuple[Any, Any, Any, Any]:
        """Return p, the same moved away from 0.5, whether it was, and its distance from 0.5."""
        p = inner(self.probs)
        is_near = (p > self._lims[0]) & (p <= self._lims[1])
        return p, tc.where(is_near, self._lims[0], p), is_near, p - 0.5

    def _log_whole(self) -> Any:
        _, far, is_near, d = self._parts()
        made = (tc.log1p(-far) - far.log()).abs().log() - tc.log(tc.abs(1 - 2 * far))
        return tc.where(is_near, math.log(2) + (4 / 3 + 104 / 45 * d**2) * d**2, made)

    @property
    def mean(self) -> Any:
        _, far, is_near, d = self._parts()
        made = far / (2 * far - 1) + 1 / (tc.log1p(-far) - far.log())
        return tc.where(is_near, 0.5 + (1 / 3 + 16 / 45 * d**2) * d, made)

    @property
    def variance(self) -> Any:
        _, far, is_near, d = self._parts()
        made = far * (far - 1) / (1 - 2 * far) ** 2 + 1 / (tc.log1p(-far) - far.log()) ** 2
        return tc.where(is_near, 1 / 12 - (1 / 15 - 128 / 945 * d**2) * d**2, made)

    def rsample(self, sample_shape: Any = ()) -> Any:
        like = self._said()
        u = tc.rand(self._shape(sample_shape), dtype=like.dtype, device=like.device)
        return self.icdf(u)

    def log_prob(self, value: Any) -> Any:
        p, value = inner(self.probs), self._checked(value)
        return value * p.log() + (1 - value) * tc.log1p(-p) + self._log_whole()

    def cdf(self, value: Any) -> Any:
        """Return the probability of a number below a value."""
        _, far, is_near, _ = self._parts()
        value = self._checked(value)
        made = (far**value * (1 - far) ** (1 - value) + far - 1) / (2 * far - 1)
        inside = tc.where(is_near, value, made)
        return tc.where(value <= 0, 0.0, tc.where(value >= 1, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        """Return what numbers are below by a probability."""
        _, far, is_near, _ = self._parts()
        low = tc.log1p(-far)
        made = (tc.log1p(-far + value * (2 * far - 1)) - low) / (far.log() - low)
        return tc.where(is_near, value, made)

    def entropy(self) -> Any:
        p = inner(self.probs)
        low = tc.log1p(-p)
        return self.mean * (low - p.log()) - self._log_whole() - low


class Binomial(ByOdds):
    """Successes in `total_count` trials."""

    arg_constraints = {
        "total_count": c.nonnegative_integer,
        "probs": c.unit_interval,
        "logits": c.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._have_odds(probs, logits, validate_args, total_count=total_count)

    total_count: Any
    support = property(lambda self: c.integer_interval(0, self.total_count))

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._shape(sample_shape)
        with modes.no_grad():
            return rates.binomial(
                self.total_count.to(self.probs.dtype).expand(shape), self.probs.expand(shape)
            )

    def log_prob(self, value: Any) -> Any:
        n, value = self.total_count, self._checked(value)
        ways = tc.lgamma(n + 1) - tc.lgamma(value + 1) - tc.lgamma(n - value + 1)
        return ways + value * self.logits - n * softplus(self.logits)

    def entropy(self) -> Any:
        log_prob = self.log_prob(self._counts("entropy"))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = self._counts("enumerate_support")
        return values.expand(-1, *self.batch_shape) if expand else values

    def _counts(self, name: str) -> Any:
        total = int(self.total_count.max().item())
        if not (self.total_count == total).all().item():
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{name}`.")
        values = tc.arange(total + 1, dtype=self._said().dtype)
        return values.view(-1, *[1] * len(self.batch_shape))

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))


class NegativeBinomial(ByOdds):
    """Successes before the `total_count`-th failure."""

    arg_constraints = {
        "total_count": c.nonnegative,
        "probs": c.unit_interval,
        "logits": c.real,
    }
    support = c.nonnegative_integer

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._have_odds(probs, logits, validate_args, total_count=total_count)

    total_count: Any

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._shape(sample_shape)
        with modes.no_grad():
            rate = rates.standard_gamma(self.total_count.expand(shape)) * self.logits.exp()
            return rates.poisson(rate)

    def log_prob(self, value: Any) -> Any:
        n, value = self.total_count, self._checked(value)
        ways = tc.lgamma(n + value) - tc.lgamma(1 + value) - tc.lgamma(n)
        ways = tc.where(n + value == 0, 0.0, ways)
        return ways - n * softplus(self.logits) - value * softplus(-self.logits)

    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0))
    variance = property(lambda self: self.mean / tc.sigmoid(-self.logits))
