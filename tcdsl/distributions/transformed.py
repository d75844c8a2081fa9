"""Distributions of transformed numbers, and those that are known by names of their own."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

from tcdsl import library as tc
from tcdsl.autograd import modes
from tcdsl.core import Size
from tcdsl.distributions import constraints as c
from tcdsl.distributions import transforms as t
from tcdsl.distributions.continuous import Normal, open_uniform
from tcdsl.distributions.counts import ByOdds
from tcdsl.distributions.distribution import Distribution
from tcdsl.distributions.joint import Independent, sum_last
from tcdsl.distributions.kinds import ByWeights
from tcdsl.distributions.shaping import StickBreakingTransform

__all__ = [
    "LogNormal",
    "LogisticNormal",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "TransformedDistribution",
]


class TransformedDistribution(Distribution):
    """Samples of a distribution, put through transforms one behind the other.

    Parameters
    ----------
    base_distribution : Distribution
    transforms : Transform or sequence of Transform
    """

    _shown = False

    def __init__(
        self,
        base_distribution: Any,
        transforms: t.Transform | Sequence[t.Transform],
        validate_args: bool | None = None,
    ) -> None:
        if validate_args is not None:
            self._validate_args = validate_args
        self.transforms = [transforms] if isinstance(transforms, t.Transform) else list(transforms)
        whole = t.ComposeTransform(self.transforms)
        inside = len(base_distribution.event_shape)
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        if len(shape) < whole.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.event_dim}, but "
                f"got {Size(shape)}."
            )
        behind = whole.forward_shape(shape)
        before = whole.inverse_shape(behind)
        base = base_distribution.expand(before[: len(before) - inside])
        if (more := whole.event_dim - inside) > 0:
            base = Independent(base, more)
        self.base_dist = base
        event_dim = max(whole.out_dim, inside + whole.out_dim - whole.event_dim)
        cut = len(behind) - event_dim
        self.batch_shape, self.event_shape = Size(behind[:cut]), Size(behind[cut:])
        if self.transforms:
            support = self.transforms[-1].codomain
            more = event_dim - support.event_dim
            self.support = c.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients go through the samples of the base."""
        return bool(self.base_dist.has_rsample)

    def expand(self, batch_shape: Any) -> Any:
        made = copy.copy(self)
        made.batch_shape = Size(tuple(batch_shape))
        whole = t.ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self.event_shape))
        made.base_dist = self.base_dist.expand(
            whole[: len(whole) - len(self.base_dist.event_shape)]
        )
        return made

    def _through(self, x: Any) -> Any:
        for part in self.transforms:
            x = part(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Any:
        with modes.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        y, event_dim = self._checked(value), len(self.event_shape)
        slopes: Any = 0.0
        for part in reversed(self.transforms):
            x = part._inverse(y)
            slope = part.log_abs_det_jacobian(x, y)
            event_dim += part.event_dim - part.out_dim
            slopes = slopes + sum_last(slope, event_dim - part.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return sum_last(base, event_dim - len(self.base_dist.event_shape)) - slopes

    def cdf(self, value: Any) -> Any:
        """Return the probability of samples below values; transforms go up or down."""
        y = self._checked(value)
        for part in reversed(self.transforms):
            y = part._inverse(y)
        return self._turned(self.base_dist.cdf(y))

    def icdf(self, value: Any) -> Any:
        return self._through(self.base_dist.icdf(self._turned(value)))

    def _turned(self, below: Any) -> Any:
        """Return probabilities of one side as of the other where the transforms go down."""
        sign: Any = math.prod(part.sign for part in self.transforms)
        return below if isinstance(sign, int | float) and sign > 0 else sign * (below - 0.5) + 0.5


class LogNormal(TransformedDistribution):
    """Numbers whose logarithm is normal."""

    arg_constraints = {"loc": c.real, "scale": c.positive}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), t.ExpTransform(), validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale**2 / 2).exp())
    mode = property(lambda self: (self.loc - self.scale**2).exp())
    variance = property(lambda self: tc.expm1(self.scale**2) * self.mean**2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Shares whose logarithms are normal but for their sum, which is 1: one more than numbers."""

    arg_constraints = {"loc": c.real, "scale": c.positive}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        base = base if len(base.batch_shape) else base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)


class _LogitRelaxedBernoulli(ByOdds):
    support = c.real
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate_args: Any) -> None:
        self.temperature = temperature
        self._have_odds(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        logits = self.logits
        u = open_uniform(logits, self._shape(sample_shape))
        return (u.log() - tc.log1p(-u) + logits) / self.temperature

    def log_prob(self, value: Any) -> Any:
        apart = self.logits - self._checked(value) * self.temperature
        return tc.as_tensor(self.temperature).log() + apart - 2 * tc.log1p(apart.exp())


class _ExpRelaxedCategorical(ByWeights):
    support = c.real_vector
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate_args: Any) -> None:
        self.temperature = temperature
        self._have_weights(probs, logits, validate_args, 1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = open_uniform(self.logits, self._shape(sample_shape))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - tc.logsumexp(scores, -1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        kinds = self._num_events
        scores = self.logits - self._checked(value) * self.temperature
        scores = (scores - tc.logsumexp(scores, -1, keepdim=True)).sum(-1)
        return scores + math.lgamma(kinds) + (kinds - 1) * tc.as_tensor(self.temperature).log()


class _Relaxed(TransformedDistribution):
    """Continuous numbers in place of kinds, the nearer to them the lower the temperature."""

    base: type[_LogitRelaxedBernoulli | _ExpRelaxedCategorical]
    onto: type[t.Transform]

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = self.base(temperature, probs, logits, validate_args)
        super().__init__(base, self.onto(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)


class RelaxedBernoulli(_Relaxed):
    """Numbers near 0 or 1, the nearer the lower the temperature."""

    base = _LogitRelaxedBernoulli
    onto = t.SigmoidTransform


class RelaxedOneHotCategorical(_Relaxed):
    """Vectors near one with one 1 in it, the nearer the lower the temperature."""

    base = _ExpRelaxedCategorical
    onto = t.ExpTransform

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(temperature, probs, logits, validate_args)
        self.support = c.simplex
