"""How far a distribution is from another, after Kullback and Leibler, by pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tcdsl import library as tc
from tcdsl import linalg
from tcdsl.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    Normal,
    Pareto,
    Uniform,
)
from tcdsl.distributions.counts import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    Poisson,
)
from tcdsl.distributions.gammas import Beta, Gamma
from tcdsl.distributions.joint import Dirichlet, Independent, MultivariateNormal, sum_last
from tcdsl.distributions.kinds import Categorical, OneHotCategorical
from tcdsl.distributions.transformed import LogNormal, TransformedDistribution

__all__ = ["kl_divergence", "register_kl"]

_EULER = 0.5772156649015329

Divergence = Callable[[Any, Any], Any]
_KNOWN: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """Return a decorator: a function is the divergence of two classes and those below them."""

    def register(function: Divergence) -> Divergence:
        _KNOWN[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Any, q: Any) -> Any:
    """Return the mean over p of ``log p(x) - log q(x)``.

    Raises
    ------
    NotImplementedError
        If no function is known for the classes of p and q.
    """
    for above_p in type(p).__mro__:
        for above_q in type(q).__mro__:
            if (above_p, above_q) in _KNOWN:
                return _KNOWN[above_p, above_q](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
        f"{type(q).__name__}: say it by register_kl"
    )


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _of_bases(p: Any, q: Any) -> Any:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(HalfNormal, HalfNormal)
def _of_wholes(p: Any, q: Any) -> Any:
    return kl_divergence(p._of_both(), q._of_both())


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    apart = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return apart.log() - (4 * p.scale * q.scale).log()


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    made = ((q.high - q.low) / (p.high - p.low)).log()
    return tc.where((q.low > p.low) | (q.high < p.high), math.inf, made)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    made = b * (p.rate / q.rate).log() + tc.lgamma(b) - tc.lgamma(a)
    return made + (a - b) * tc.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(_as_dirichlet(p), _as_dirichlet(q))


def _as_dirichlet(beta: Any) -> Any:
    return Dirichlet(tc.stack([beta.concentration1, beta.concentration0], -1), validate_args=False)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    apart = tc.digamma(a) - tc.digamma(a.sum(-1, keepdim=True))
    return q._log_whole() - p._log_whole() + ((a - b) * apart).sum(-1)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    one = tc.xlogy(p.probs, p.probs) - tc.xlogy(p.probs, q.probs)
    other = tc.xlogy(1 - p.probs, 1 - p.probs) - tc.xlogy(1 - p.probs, 1 - q.probs)
    return one + other


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any().item():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    fails = tc.log1p(-p.probs) - tc.log1p(-q.probs)
    made = p.total_count * (p.probs * (p.logits - q.logits) + fails)
    return tc.where(p.total_count > q.total_count, math.inf, made)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - tc.log1p(-q.probs) / p.probs - q.logits


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p: Any, q: Any) -> Any:
    each = p.probs * (p.logits - q.logits)
    each = tc.where((q.probs == 0).expand(each.shape), math.inf, each)
    return tc.where((p.probs == 0).expand(each.shape), 0.0, each).sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be "
            "computed"
        )
    shape = tc.broadcast_shapes(tuple(p.scale_tril.shape), tuple(q.scale_tril.shape))
    lower = q.scale_tril.expand(shape)
    spread = linalg.solve_triangular(lower, p.scale_tril.expand(shape), upper=False)
    apart = (q.loc - p.loc).expand(shape[:-1]).unsqueeze(-1)
    moved = linalg.solve_triangular(lower, apart, upper=False)
    squares = (spread**2).sum((-2, -1)) + (moved**2).sum((-2, -1))
    return q._log_scale() - p._log_scale() + 0.5 * (squares - p.loc.shape[-1])


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    whole = p._log_whole() + tc.log1p(-p.probs) - q._log_whole() - tc.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + whole


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc) / q.scale
    spread = (tc.lgamma(1 + ratio) - apart).exp()
    return -ratio.log() + apart + ratio * _EULER + spread - (1 + _EULER)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return tc.where(p.scale < q.scale, math.inf, found)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape or [*map(repr, p.transforms)] != [*map(repr, q.transforms)]:
        raise NotImplementedError
    dims = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_last(kl_divergence(p.base_dist, q.base_dist), dims)


def _never_there(p: Any, q: Any) -> Any:
    """Return inf: p has numbers where q has none."""
    like = p.mean
    return like.new_full(like.shape, math.inf)


_SHARES = (Beta, ContinuousBernoulli, Uniform)
_BEYOND: dict[type, tuple[type, ...]] = {
    **dict.fromkeys((Normal, Laplace, Gumbel), (*_SHARES, Exponential, Gamma, Pareto)),
    **dict.fromkeys((Exponential, Gamma), (*_SHARES, Pareto)),
    Pareto: _SHARES,
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Poisson: (Bernoulli, Binomial),
}
for _p, _kinds in _BEYOND.items():
    for _q in _kinds:
        register_kl(_p, _q)(_never_there)
