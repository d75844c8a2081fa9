"""Distributions of vectors: several numbers at once, mixed, or independent of each other."""

from __future__ import annotations

import copy
import math
from typing import Any

from tcdsl import library as tc
from tcdsl import linalg
from tcdsl.autograd import modes
from tcdsl.core import Size
from tcdsl.distributions import constraints as c
from tcdsl.distributions.covariances import CONSTRAINTS, by_factor, factor_of, the_given
from tcdsl.distributions.distribution import Distribution
from tcdsl.distributions.gammas import shares

__all__ = ["Dirichlet", "Independent", "MixtureSameFamily", "MultivariateNormal"]


class Dirichlet(Distribution):
    """Shares that add up to 1: gamma numbers over their sum."""

    arg_constraints = {
        "concentration": c.Constraint(
            "IndependentConstraint(GreaterThan(lower_bound=0.0), 1)", lambda x: (x > 0).all(-1), 1
        )
    }
    support = c.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self._have(validate_args, 1, concentration=concentration)

    concentration: Any

    def rsample(self, sample_shape: Any = ()) -> Any:
        return shares(self.concentration.expand(self._shape(sample_shape)))

    def _log_whole(self) -> Any:
        a = self.concentration
        return tc.lgamma(a).sum(-1) - tc.lgamma(a.sum(-1))

    def log_prob(self, value: Any) -> Any:
        powers = tc.xlogy(self.concentration - 1, self._checked(value))
        return powers.sum(-1) - self._log_whole()

    def entropy(self) -> Any:
        a, count = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        made = self._log_whole() - (count - total) * tc.digamma(total)
        return made - ((a - 1) * tc.digamma(a)).sum(-1)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self) -> Any:
        """The likeliest shares; where all concentrations are below 1, a corner."""
        above = (self.concentration - 1).clamp(min=0)
        corner = (tc.arange(above.shape[-1]) == 0).to(above.dtype)
        is_corner = (self.concentration < 1).all(-1).unsqueeze(-1)
        return tc.where(is_corner, corner, above / above.sum(-1, True))

    @property
    def variance(self) -> Any:
        a, total = self.concentration, self.concentration.sum(-1, True)
        return a * (total - a) / (total**2 * (total + 1))


class MultivariateNormal(Distribution):
    """Normal vectors of a mean and a covariance, its inverse, or its triangular factor."""

    arg_constraints = {"loc": c.real_vector, **CONSTRAINTS}
    support = c.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = the_given(ValueError, covariance_matrix, precision_matrix, scale_tril)
        if matrix.ndim < 2:
            raise ValueError(f"{name} must be at least two-dimensional")
        batch = tc.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        matrix = matrix.expand(*batch, *matrix.shape[-2:])
        self._have(validate_args, 1, loc=loc.expand(*batch, loc.shape[-1]), **{name: matrix})
        self._factor = factor_of(name, matrix)

    loc: Any

    def __getattr__(self, name: str) -> Any:
        return by_factor(self, vars(self).get("_factor"), name)

    def expand(self, batch_shape: Any) -> Any:
        made = super().expand(batch_shape)
        made._factor = self._factor.expand(*made.batch_shape, *self._factor.shape[-2:])
        return made

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._shape(sample_shape)
        z = tc.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._factor @ z.unsqueeze(-1)).squeeze(-1)

    def _log_scale(self) -> Any:
        return self._factor.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        apart = (self._checked(value) - self.loc).unsqueeze(-1)
        shape = (*apart.shape[:-2], *self._factor.shape[-2:])
        z = linalg.solve_triangular(self._factor.expand(shape), apart, upper=False)
        squares = (z * z).sum((-2, -1))
        return -0.5 * (self.loc.shape[-1] * math.log(2 * math.pi) + squares) - self._log_scale()

    def entropy(self) -> Any:
        return 0.5 * self.loc.shape[-1] * (1 + math.log(2 * math.pi)) + self._log_scale()

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: (self._factor**2).sum(-1))


class Independent(Distribution):
    """The last dimensions of a batch as those of one sample."""

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = tuple(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        if validate_args is not None:
            self._validate_args = validate_args
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        kept = len(batch) - reinterpreted_batch_ndims
        self.batch_shape = Size(batch[:kept])
        self.event_shape = Size((*batch[kept:], *base_distribution.event_shape))

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @property
    def support(self) -> Any:
        """What samples may be, all of their elements at once."""
        of_each = self.base_dist.support
        more = self.reinterpreted_batch_ndims
        return of_each if of_each is None or not more else c.independent(of_each, more)

    def expand(self, batch_shape: Any) -> Any:
        kept = len(self.batch_shape)
        base = self.base_dist.expand((*batch_shape, *self.base_dist.batch_shape[kept:]))
        return Independent(base, self.reinterpreted_batch_ndims, self._validate_args)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


def sum_last(value: Any, dims: int) -> Any:
    """Sum over the last dimensions."""
    return value.sum(tuple(range(-dims, 0))) if dims else value


class MixtureSameFamily(Distribution):
    """One of several distributions of a family, by weights.

    Parameters
    ----------
    mixture_distribution : Categorical
        The weights of K distributions.
    component_distribution : Distribution
        These: the last dimension of its batch is K.
    """

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        if validate_args is not None:
            self._validate_args = validate_args
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        kinds = mixture_distribution.logits.shape[-1]
        if component_distribution.batch_shape[-1] != kinds:
            raise ValueError(
                f"`mixture_distribution component` ({kinds}) does not equal "
                "`component_distribution.batch_shape[-1]` "
                f"({component_distribution.batch_shape[-1]})"
            )
        self.batch_shape = Size(tuple(component_distribution.batch_shape)[:-1])
        self.event_shape = component_distribution.event_shape

    @property
    def support(self) -> Any:
        """What samples of each component may be."""
        of_each, at = self.component_distribution.support, self._at()
        if of_each is None:
            return None

        def check(value: Any) -> Any:
            found = of_each.check(value.unsqueeze(at))
            return found.all(-1) if found.ndim else found

        shown = f"MixtureSameFamilyConstraint({of_each!r})"
        return c.Constraint(shown, check, of_each.event_dim, of_each.is_discrete)

    def expand(self, batch_shape: Any) -> Any:
        made = copy.copy(self)
        made.batch_shape = Size(tuple(batch_shape))
        kinds = self.component_distribution.batch_shape[-1]
        made.component_distribution = self.component_distribution.expand((*batch_shape, kinds))
        made.mixture_distribution = self.mixture_distribution.expand(batch_shape)
        return made

    def _weights(self) -> Any:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * len(self.event_shape))

    def _at(self) -> int:
        return -1 - len(self.event_shape)

    @property
    def mean(self) -> Any:
        return (self._weights() * self.component_distribution.mean).sum(self._at())

    @property
    def variance(self) -> Any:
        each, at = self.component_distribution, self._at()
        within = (self._weights() * each.variance).sum(at)
        return within + (self._weights() * (each.mean - self.mean.unsqueeze(at)) ** 2).sum(at)

    def sample(self, sample_shape: Any = ()) -> Any:
        with modes.no_grad():
            kinds = self.mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            drawn, at = self.component_distribution.sample(sample_shape), self._at()
            places = kinds.reshape(*kinds.shape, 1, *[1] * len(self.event_shape))
            shape = list(drawn.shape)
            shape[at] = 1
            return drawn.gather(drawn.ndim + at, places.expand(shape)).squeeze(at)

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value).unsqueeze(self._at())
        each = self.component_distribution.log_prob(value)
        weights = tc.log_softmax(self.mixture_distribution.logits, -1)
        return tc.logsumexp(each + weights, -1)

    def cdf(self, value: Any) -> Any:
        below = self.component_distribution.cdf(self._checked(value).unsqueeze(self._at()))
        return (below * self.mixture_distribution.probs).sum(-1)

    def __repr__(self) -> str:
        parts = f"{self.mixture_distribution},\n  {self.component_distribution}"
        return f"MixtureSameFamily(\n  {parts})"
