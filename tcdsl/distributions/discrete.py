"""Distributions of counts and kinds, a class each: its parameters, and its formulas."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library as tc
from tcdsl.autograd import modes
from tcdsl.distributions import constraints as c
from tcdsl.distributions.distribution import Distribution, broadcast_all
from tcdsl.ops import rates

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
]


def inner(probs: Any) -> Any:
    """Return probabilities that are neither 0 nor 1: their logarithms are finite."""
    eps = tc.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def softplus(x: Any) -> Any:
    """Return ``log(1 + exp(x))``."""
    return tc.logaddexp(x, tc.zeros_like(x))


class SaidEitherWay(Distribution):
    """What is said by `probs` or by `logits`; the other is kept once it was asked for."""

    def _probs(self, logits: Any) -> Any:
        raise NotImplementedError

    def _logits(self, probs: Any) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        held = vars(self)
        other = {"probs": "logits", "logits": "probs"}.get(name)
        if other not in held:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        with modes.enable_grad():  # for whoever asks next
            held[name] = getattr(self, f"_{name}")(held[other])
        return held[name]


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

    @property
    def param_shape(self) -> Any:
        """The shape of what was said."""
        return self._said().shape

    def _said(self) -> Any:
        held = vars(self)
        return held["probs"] if "probs" in held else held["logits"]


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
            u = tc.rand(p.shape, dtype=p.dtype, device=p.device)
            return (tc.log1p(-u) / tc.log1p(-p)).floor()

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


class ByWeights(SaidEitherWay):
    """What is said by weights of kinds, or by their logarithms, along the last dimension."""

    arg_constraints = {"probs": c.simplex, "logits": c.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._have_weights(probs, logits, validate_args, 0)

    def _have_weights(self, probs: Any, logits: Any, validate_args: Any, event_dim: int) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("logits", logits) if probs is None else ("probs", probs)
        if value.ndim < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            value = value - tc.logsumexp(value, -1, keepdim=True)
        else:
            value = value / value.sum(-1, keepdim=True)
        self._have(validate_args, event_dim, **{name: value})

    def _probs(self, logits: Any) -> Any:
        return tc.softmax(logits, -1)

    def _logits(self, probs: Any) -> Any:
        return inner(probs).log()

    @property
    def param_shape(self) -> Any:
        """The shape of the weights."""
        return self._said().shape

    @property
    def _num_events(self) -> int:
        return int(self._said().shape[-1])

    def _said(self) -> Any:
        held = vars(self)
        return held["probs"] if "probs" in held else held["logits"]

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        """Return kinds by their weights, int64."""
        with modes.no_grad():
            kinds = self._num_events
            rows = self.probs.expand(*self.batch_shape, kinds).reshape(-1, kinds)
            count = math.prod(shape)
            if not count * rows.shape[0]:
                return tc.zeros((*shape, *self.batch_shape), dtype=tc.int64)
            return tc.multinomial(rows, count, True).t().reshape(*shape, *self.batch_shape)

    def _hot(self, kinds: Any) -> Any:
        """Return kinds as vectors with one 1 in them."""
        made = kinds.unsqueeze(-1) == tc.arange(self._num_events)
        return made.to(self.probs.dtype)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=tc.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)


class Categorical(ByWeights):
    """Kinds, from 0 on, by their weights."""

    support = property(lambda self: c.integer_interval(0, self._num_events - 1))

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._drawn(tuple(sample_shape))

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value).to(tc.int64).unsqueeze(-1)
        shape = tc.broadcast_shapes(tuple(value.shape[:-1]), tuple(self.logits.shape[:-1]))
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, value.expand(*shape, 1)).squeeze(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = tc.arange(self._num_events).view(-1, *[1] * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values

    mean = property(lambda self: tc.full(tuple(self.batch_shape), math.nan, dtype=self.probs.dtype))
    variance = mean
    mode = property(lambda self: self.probs.argmax(-1))


class OneHotCategorical(ByWeights):
    """Kinds as vectors with one 1 in them."""

    support = c.one_hot

    _shown = False

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._have_weights(probs, logits, validate_args, 1)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._hot(self._drawn(tuple(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        return tc.where(self._checked(value) == 1, self.logits, 0.0).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self._num_events
        values = tc.eye(n, dtype=self.probs.dtype).view(n, *[1] * len(self.batch_shape), n)
        return values.expand(n, *self.batch_shape, n) if expand else values

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    mode = property(lambda self: self._hot(self.probs.argmax(-1)))


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Kinds as vectors, whose gradient is that of their probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(ByWeights):
    """How often each kind comes in `total_count` draws."""

    has_enumerate_support = False

    _shown = False

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._have_weights(probs, logits, validate_args, 1)

    support = property(lambda self: c.counts(self.total_count))

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._hot(self._drawn((self.total_count, *sample_shape))).sum(0)

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        logits = tc.where((value == 0) & (self.logits == -math.inf), 0.0, self.logits)
        ways = tc.lgamma(value.sum(-1) + 1) - tc.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Any:
        n = tc.tensor(self.total_count, dtype=self.probs.dtype)
        each = Binomial(self.total_count, self.probs, validate_args=False)
        values = tc.arange(1, self.total_count + 1, dtype=self.probs.dtype)
        shaped = values.view(-1, *[1] * (len(self.batch_shape) + 1))
        weights = each.log_prob(shaped).exp()
        term = (weights * tc.lgamma(shaped + 1)).sum((0, -1))
        categorical = Categorical(probs=self.probs, validate_args=False)
        return self.total_count * categorical.entropy() - tc.lgamma(n + 1) + term

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))
