"""Distributions of kinds, a class each: their weights, and what is drawn by these."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library as tc
from tcdsl.autograd import modes
from tcdsl.distributions import constraints as c
from tcdsl.distributions.counts import Binomial
from tcdsl.distributions.eitherway import SaidEitherWay, inner

__all__ = [
    "ByWeights",
    "Categorical",
    "Multinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
]


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
    def _num_events(self) -> int:
        return int(self._said().shape[-1])

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
