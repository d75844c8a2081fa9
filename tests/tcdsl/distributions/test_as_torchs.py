"""Distributions have PyTorch's densities, moments, entropies, gradients; samples their moments."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from tcdsl import distributions, library
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

OURS = SimpleNamespace(t=library, d=distributions)
THEIRS = SimpleNamespace(t=torch, d=torch.distributions)
PARAMETERS = {"A": [[0.5, 1.2], [2.5, 0.3]], "B": [1.7, 0.8], "P": [0.2, 0.7],
              "W": [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]], "L": [[2.0, 0.0], [-0.7, 0.5]],
              "M": [[2.0, 0.6], [0.6, 1.5]], "N": [4.0, 4.0],
              "X": [[1.0, 0, 0], [0.6, 0.8, 0], [0.48, 0.64, 0.6]]}  # fmt: skip

# What it is, values that samples may have.
CASES = """
d.Exponential(B) | B * 2
d.Normal(A, B) | A
d.LogNormal(A, B) | A
d.Laplace(A, B) | -A
d.Cauchy(A, B) | A * 3
d.Gumbel(A, B) | A * 2
d.HalfNormal(B) | B
d.HalfCauchy(B) | B
d.Uniform(A, A + B) | A + 0.3
d.Gamma(A, B) | A * 2
d.Chi2(B) | P
d.Beta(A, B) | P
d.StudentT(A + 3, B, B) | A
d.InverseGamma(A + 2, B) | A
d.Kumaraswamy(A, B) | P
d.FisherSnedecor(A + 3, B + 4) | A
d.VonMises(A, B * 3) | A
d.LowRankMultivariateNormal(B, A, P) | B * 2
d.Pareto(B, A + 2) | A + 2
d.Weibull(B, A) | A
d.Bernoulli(P) | t.ones_like(P)
d.Bernoulli(logits=A * 0) | t.ones_like(A)
d.Bernoulli(logits=A) | t.zeros_like(A)
d.Geometric(P) | t.ones_like(P) * 3
d.Poisson(A) | A.ceil()
d.Binomial(N, P) | t.ones_like(P) * 3
d.NegativeBinomial(N, P) | t.ones_like(P) * 3
d.Categorical(W) | t.tensor([2, 0])
d.Categorical(logits=W) | t.tensor([[2, 0], [1, 1], [0, 0]])
d.OneHotCategorical(W) | t.eye(3, dtype=t.float64)[:2]
d.Multinomial(4, W) | t.tensor([1.0, 3.0, 0.0], dtype=t.float64)
d.Dirichlet(A) | t.stack([P, 1 - P], -1)
d.MultivariateNormal(A, scale_tril=L.tril().exp().tril()) | A * 2
d.MultivariateNormal(B, M) | B * 2
d.MultivariateNormal(B, precision_matrix=M) | B * 2
d.ContinuousBernoulli(P) | P
d.ContinuousBernoulli(logits=A * 1e-4) | P
d.LKJCholesky(2, B) | t.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=t.float64)
d.Wishart(B + 3, M) | M * 2
d.Wishart(B + 3, scale_tril=M.tril()) | M
d.Wishart(B + 3, precision_matrix=M) | M
d.Independent(d.Normal(A, B), 1) | A * 3
d.LogisticNormal(A, B) | W
d.TransformedDistribution(d.Normal(W, 1.0), d.CorrCholeskyTransform()) | X
d.TransformedDistribution(d.Normal(A, B), [d.TanhTransform()]) | P
d.TransformedDistribution(d.Normal(A, B), [d.AffineTransform(B, 2.0), d.ExpTransform()]) | A
d.TransformedDistribution(d.Normal(A, B), [d.SigmoidTransform().inv, d.ExpTransform()][1:]) | A
d.RelaxedBernoulli(t.tensor(0.7, dtype=t.float64), P) | P
d.RelaxedOneHotCategorical(t.tensor(0.7, dtype=t.float64), W) | W
d.MixtureSameFamily(d.Categorical(W), d.Normal(W * 3, W)) | B
""".strip().splitlines()  # fmt: skip

PAIRS = """
d.Exponential(A) | d.Exponential(B)
d.Normal(A, B) | d.Normal(B, A)
d.LogNormal(A, B) | d.LogNormal(B, A)
d.Laplace(A, B) | d.Laplace(B, A)
d.Cauchy(A, B) | d.Cauchy(B, A)
d.HalfNormal(A) | d.HalfNormal(B)
d.Uniform(A, A + B) | d.Uniform(A - 1, A + B)
d.Gamma(A, B) | d.Gamma(B, A)
d.Beta(A, B) | d.Beta(B, A)
d.Dirichlet(A) | d.Dirichlet(A + 1)
d.Poisson(A) | d.Poisson(B)
d.Bernoulli(P) | d.Bernoulli(1 - P)
d.Binomial(N, P) | d.Binomial(N, 1 - P)
d.Geometric(P) | d.Geometric(1 - P)
d.Categorical(W) | d.Categorical(W.flip(0))
d.OneHotCategorical(W) | d.OneHotCategorical(logits=W)
d.MultivariateNormal(A, M) | d.MultivariateNormal(B, scale_tril=M.tril())
d.Independent(d.Normal(A, B), 1) | d.Independent(d.Normal(B, A), 1)
d.Gumbel(A, B) | d.Gumbel(B, A)
d.Pareto(A, B) | d.Pareto(B, A)
d.ContinuousBernoulli(P) | d.ContinuousBernoulli(1 - P)
d.Normal(A, B) | d.Gamma(A, B)
d.LogisticNormal(A, B) | d.LogisticNormal(B, A)
""".strip().splitlines()

TRANSFORMS = """
CatTransform([T.ExpTransform(), T.AffineTransform(0.0, 2.0)], -1, [1, 2]) | W
StackTransform([T.ExpTransform(), T.AffineTransform(0.0, 2.0), T.ExpTransform()], -1) | W
IndependentTransform(T.ExpTransform(), 1) | W
ComposeTransform([T.StickBreakingTransform(), T.StickBreakingTransform().inv]) | W
ComposeTransform([T.AffineTransform(0.0, 2.0), T.StickBreakingTransform()]) | W
CorrCholeskyTransform() | W
CumulativeDistributionTransform(d.Normal(t.zeros((), dtype=t.float64), 1.0)) | W
LowerCholeskyTransform() | X
PositiveDefiniteTransform() | M
ReshapeTransform((3,), (1, 3)) | W
SoftmaxTransform() | W
StickBreakingTransform() | W
""".strip().splitlines()
CONSTRAINTS = """
real positive nonnegative unit_interval interval(-1.0,3.0) greater_than(2.0) greater_than_eq(2.0)
less_than(1.0) half_open_interval(0.0,1.0) simplex lower_cholesky corr_cholesky positive_definite
positive_semidefinite real_vector independent(c.positive,1) cat([c.real,c.positive],-1,[1,2])
stack([c.real,c.positive,c.real],-1) boolean
"""

REFUSALS = """
d.Normal(B, -B) | d.Normal(A, B).log_prob(A * float("nan")) | d.Bernoulli(P, logits=P)
d.Bernoulli(P + 1) | d.Bernoulli(P).log_prob(P) | d.Categorical(W).log_prob(t.tensor(3))
d.Normal(A, B).log_prob(1.0) | d.Normal(B, B).log_prob(t.zeros(3))
d.MultivariateNormal(B) | d.Independent(d.Normal(B, B), 2) | d.Dirichlet(-B)
d.Exponential(B).log_prob(-B)
""".strip().splitlines()


def _names(u: Any) -> dict[str, Any]:
    made = {n: u.t.tensor(v, dtype=u.t.float64) for n, v in PARAMETERS.items()}
    return {"t": u.t, "d": u.d, **{n: v.requires_grad_(n != "N") for n, v in made.items()}}


def _numbers(tensor: Any) -> Any:
    return torch.tensor(tensor.tolist(), dtype=torch.float64)


def _close(ours: Any, theirs: Any, what: str) -> None:
    found, wanted = _numbers(ours.detach()), theirs.detach().double()
    assert found.shape == wanted.shape, what
    is_rounded = "Multinomial" in what and "entropy" in what  # to float32, by PyTorch
    rtol, atol = (1e-6, 1e-6) if is_rounded else (1e-8, 1e-10)
    assert torch.allclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True), what


def _gradients(names: dict[str, Any], value: Any) -> list[Any]:
    leaves = [v for n, v in names.items() if n in PARAMETERS and n != "N"]
    for leaf in leaves:
        leaf.grad = None
    value.sum().backward()
    return [leaf.grad for leaf in leaves]


def _compare(asked: str, whether_gradients: bool = True) -> None:
    ours, theirs = _names(OURS), _names(THEIRS)
    try:
        wanted = eval(asked, theirs)
    except NotImplementedError:
        return
    found = eval(asked, ours)
    _close(found, wanted, asked)
    if whether_gradients and wanted.requires_grad:
        for mine, real in zip(_gradients(ours, found), _gradients(theirs, wanted), strict=True):
            if real is not None and real.isfinite().all():
                _close(mine, real, f"gradient of {asked}")


@sampled("case", CASES, keep=1, wide=8)
def test_a_distribution_is_pytorchs(case: str) -> None:
    made, value = case.split(" | ")
    ours, theirs = (eval(made, _names(u)) for u in (OURS, THEIRS))
    assert (ours.batch_shape, ours.event_shape) == (theirs.batch_shape, theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample
    asked = [f"log_prob({value})", "entropy()", f"cdf({value})", "mean", "variance", "stddev"]
    if made.startswith(("d.Gamma", "d.InverseGamma")):
        # PyTorch has gradients by the rate and the values only, here neither has one
        asked = [a for a in asked if not a.startswith("cdf")]
        _compare(f"{made}.cdf({value})", False)
    if "Transformed" not in made and "Mixture" not in made:
        asked.append("icdf(P)")
    for what in asked:
        name = what.partition("(")[0]
        if (
            hasattr(theirs, name)
            if name not in ("mean", "variance", "stddev")
            else _has(theirs, name)
        ):
            _compare(f"{made}.{what}", not (name == "cdf" and made.startswith("d.Chi2")))
    wide = (3, *theirs.batch_shape)
    _compare(f"{made}.expand({wide}).log_prob({value})")


def _has(distribution: Any, name: str) -> bool:
    try:
        getattr(distribution, name)
    except NotImplementedError:
        return False
    return True


@sampled("case", CASES, keep=1, wide=6)
def test_samples_have_the_moments(case: str) -> None:
    made = eval(case.split(" | ")[0], _names(OURS))
    library.manual_seed(11)
    drawn = _numbers(made.sample((4000,)).double())
    assert drawn.shape == (4000, *made.batch_shape, *made.event_shape)
    if made.support is not None:
        made.log_prob(made.sample((5,)))  # all are in the support
    if not _has(made, "variance"):
        return
    mean, variance = _numbers(made.mean.detach()), _numbers(made.variance.detach())
    if isinstance(made, distributions.VonMises):  # of directions: sin has 0, cos 1 - variance
        away = drawn - mean
        drawn, mean = torch.stack((away.sin(), away.cos()), -1), 1 - variance
        mean, variance = torch.stack((0 * mean, mean), -1), drawn.var(0)
    if not (mean.isfinite().all() and variance.isfinite().all()):
        return
    error = (drawn.mean(0) - mean).abs() / (variance / 4000).sqrt()
    assert (error < 5).all()
    if made.has_rsample:
        assert made.rsample((2,)).requires_grad


@sampled("made", ["d.Normal(A, B)", "d.Laplace(A, B)", "d.Gamma(A + 1, B)",
                  "d.MultivariateNormal(A, scale_tril=M.tril())"], keep=0, wide=2)  # fmt: skip
def test_gradients_go_through_samples(made: str) -> None:
    """By the mean of samples: d mean / d parameter, by the law of large numbers."""
    names = _names(OURS)
    library.manual_seed(5)
    drawn = eval(made, names).rsample((4000,)).mean(0)
    found = _gradients(names, drawn)
    names = _names(OURS)
    wanted = _gradients(names, eval(made, names).mean)
    for mine, real in zip(found, wanted, strict=True):
        if mine is not None and real is not None:
            assert torch.allclose(_numbers(mine), _numbers(real), atol=0.2)


@sampled("case", PAIRS, keep=1, wide=8)
def test_divergences_are_pytorchs(case: str) -> None:
    p, q = case.split(" | ")
    _compare(f"d.kl_divergence({p}, {q})")


@pytest.mark.parametrize("text", [t for line in REFUSALS for t in line.split(" | ")])
def test_refusals_are_pytorchs(text: str) -> None:
    with pytest.raises(Exception) as wanted:  # noqa: PT011  # whatever PyTorch raises
        eval(text, _names(THEIRS))
    with pytest.raises(wanted.type) as found:
        eval(text, _names(OURS))
    assert str(found.value)[:50] == str(wanted.value)[:50]


@pytest.mark.wide
def test_a_gamma_number_moves_as_its_quantile() -> None:
    from scipy import special

    for a in (0.2, 1.0, 3.7, 40.0):
        shape = library.full((5,), a, dtype=library.float64).requires_grad_()
        drawn = distributions.Gamma(shape, 1.0).rsample()
        drawn.sum().backward()
        for z, slope in zip(drawn.tolist(), shape.grad.tolist(), strict=True):
            p, step = special.gammainc(a, z), 1e-5 * a
            two = [special.gammaincinv(a + s, p) for s in (step, -step)]
            assert slope == pytest.approx((two[0] - two[1]) / (2 * step), rel=1e-4)


def test_all_of_a_gamma_distribution_lies_below_what_is_far_above_it() -> None:
    a = torch.tensor([0.01, 0.5, 3.0, 1e4], dtype=torch.float64)
    of = distributions.Gamma(library.tensor(a.tolist(), dtype=library.float64), 1.0)
    for factor in (0.0, 0.9, 1.0, 1.02, 1e9, float("inf")):
        below = of.cdf(library.tensor((a * factor).tolist(), dtype=library.float64))
        expected = torch.special.gammainc(a, a * factor)
        assert torch.allclose(torch.tensor(below.tolist(), dtype=a.dtype), expected, rtol=1e-9)


TURNED = """
d.TransformedDistribution(d.Normal(B, B), [d.AffineTransform(0.0, A - 1)]).cdf(A)
d.TransformedDistribution(d.Normal(B, B), [d.AffineTransform(0.0, -2.0)]).icdf(P)
d.TransformedDistribution(d.Normal(B, B), d.ComposeTransform([d.AffineTransform(1.0, -2.0)])).cdf(A)
d.TransformedDistribution(d.HalfNormal(B), [d.PowerTransform(t.tensor(-2.0))]).cdf(A)
d.MixtureSameFamily(d.Categorical(W), d.Uniform(W - 1, W + 1)).log_prob(P[:, None] * P)
d.Uniform(A, A + B).mode | d.Pareto(B, A + 2).mode | d.Weibull(B, A + 1).mode
d.Beta(A + 1, B + 1).mode | d.Beta(P, P).mode | d.Dirichlet(A).mode | d.Dirichlet(P).mode
d.Binomial(N, P).mode | d.NegativeBinomial(N, P).mode | d.Binomial(3, P).enumerate_support()
""".strip().splitlines()


@pytest.mark.wide
@sampled("asked", TURNED, keep=1, wide=5)
def test_modes_and_what_turns_a_distribution_round(asked: str) -> None:
    for one in asked.split(" | "):
        _compare(one)


SHOWN = (
    """
d.Beta(A, B) | d.LogNormal(A, B) | d.HalfNormal(B) | d.HalfCauchy(B) | d.Chi2(B) | d.Gamma(A, B)
d.TransformedDistribution(d.Normal(A, B), [d.AffineTransform(0.0, 1.0)]) | d.Gumbel(A, B)
d.MixtureSameFamily(d.Categorical(W), d.Normal(W, W)).component_distribution | d.Uniform(A, A + 1)
d.Independent(d.Normal(A, B), 1) | d.StudentT(B) | d.Poisson(A) | d.MultivariateNormal(B, M)
""".strip()
    .replace("\n", " | ")
    .split(" | ")
)


def test_distributions_are_shown_as_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions.Distribution, "_validate_args", False)  # with many kernels
    for asked in SHOWN:
        ours, theirs = (
            repr(eval(asked, {**vars(lib), **{n: lib.t.tensor(v) for n, v in PARAMETERS.items()}}))
            for lib in (OURS, THEIRS)
        )
        assert ours == theirs
    shown = []
    for lib in (OURS, THEIRS):
        made = lib.d.Categorical(lib.t.tensor([0.2, 0.8]))
        shown.append(repr(made))
        made.log_prob(lib.t.tensor([1]))  # asks for logits, which are kept
        shown.append(repr(made))
        shown.append(
            repr(
                lib.d.MixtureSameFamily(
                    lib.d.Categorical(lib.t.ones(2)), lib.d.Normal(0.0, lib.t.ones(2))
                )
            )
        )
    assert shown[:3] == shown[3:]


@sampled("case", TRANSFORMS, keep=1, wide=4)
def test_a_transform_is_pytorchs(case: str) -> None:
    made, value = case.split(" | ")
    found = []
    for u in (OURS, THEIRS):
        names = {**_names(u), "T": u.d.transforms}
        transform, x = eval(f"T.{made}", names), eval(value, names)
        y = transform(x)
        parts = [y, transform.inv(y)]
        if transform.bijective and "Definite" not in made and "Lower" not in made:
            parts.append(transform.log_abs_det_jacobian(x, y))
        dims = transform.domain.event_dim, transform.codomain.event_dim
        shapes = transform.forward_shape(x.shape), transform.inverse_shape(y.shape)
        found.append((parts, dims, [tuple(s) for s in shapes], transform.bijective))
    for mine, real in zip(found[0][0], found[1][0], strict=True):
        _close(mine, real, case)
    assert found[0][1:] == found[1][1:]


@sampled("said", CONSTRAINTS.split(), keep=1, wide=4)
def test_constraints_know_their_transforms(said: str) -> None:
    x = [[0.3, -0.4, 0.7], [0.1, 0.2, -0.3], [0.5, 0.0, -0.6]]
    found = []
    for u in (OURS, THEIRS):
        c = u.d.constraints
        constraint = eval(f"c.{said}", {"c": c})
        made = [repr(constraint), constraint.event_dim, constraint.is_discrete]
        for onto in (u.d.biject_to, u.d.transform_to):
            try:
                transform = onto(constraint)
            except NotImplementedError as e:
                made.append(str(e))
                continue
            y = transform(u.t.tensor(x, dtype=u.t.float64))
            made += [repr(transform), _numbers(y).round(decimals=9).tolist()]
            made.append(constraint.check(y).tolist())
        found.append(made)
    assert found[0] == found[1]


def test_distributions_of_callers_have_what_they_ask_for() -> None:
    told = []
    for u in (OURS, THEIRS):
        c, distributions_utils = u.d.constraints, u.d.utils

        class Triangle(u.d.Distribution):  # type: ignore[name-defined,misc]
            arg_constraints = {"width": c.positive}  # noqa: RUF012

            def __init__(self, low: Any, width: Any, validate_args: Any = None) -> None:
                self.low, self.width = distributions_utils.broadcast_all(low, width)  # noqa: B023
                super().__init__(self.low.shape, validate_args=validate_args)

            @c.dependent_property(is_discrete=False, event_dim=0)  # type: ignore[untyped-decorator]
            def support(self) -> Any:
                return c.interval(self.low, self.low + self.width)  # noqa: B023

            def log_prob(self, value: Any) -> Any:
                self._validate_sample(value)
                return (2 * (value - self.low) / self.width**2).log()

        made = Triangle(u.t.tensor([0.0, 1.0]), 2.0)
        values = [made.log_prob(u.t.tensor([1.0, 2.0])).tolist(), tuple(made.batch_shape)]
        values.append(tuple(made._extended_shape((3,))))
        for wrong in (
            lambda: made.log_prob(u.t.tensor([5.0, 2.0])),  # noqa: B023
            lambda: Triangle(u.t.tensor(0.0), u.t.tensor(-1.0)),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=r"satisfy the constraint|within the support") as e:
                wrong()
            values.append(str(e.value))
        told.append(values)
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "text", ["Weibull(1.5, 2.0)", "Pareto(1.0, 2.0)", "Cauchy(0.5, 2.0)", "Geometric(0.3)"]
)
def test_samples_of_a_seed_are_pytorchs(text: str) -> None:
    found = []
    for t, places in ((library, distributions), (torch, torch.distributions)):
        t.manual_seed(3)
        drawn = eval(text, vars(places)).sample((5,))
        found.append([*drawn.tolist(), t.rand(1).item()])
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize(
    "what",
    [
        "positive", "simplex", "corr_cholesky", "interval(-1.0, 0.4)", "less_than(0.4)",
        "half_open_interval(0.0, 0.5)", "integer_interval(0, 3)", "multinomial(1.5)",
        "independent(greater_than(0.1), 1)", "cat([positive, real], -1, [1, 2])",
        "stack([positive, real, real], -1)",
    ],
)  # fmt: skip
def test_constraints_and_their_transforms_are_pickled_and_copied(what: str) -> None:
    made, theirs = (
        eval(what, {}, {n: getattr(u.d.constraints, n) for n in dir(u.d.constraints)})
        for u in (OURS, THEIRS)
    )
    x = [[0.25, 0.25, 0.5], [1.0, 2.0, -3.0], [1.0, 0.0, 0.0]]
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert again.event_dim == theirs.event_dim
        assert again.check(library.tensor(x)).tolist() == theirs.check(torch.tensor(x)).tolist()
    for to in (distributions.biject_to, distributions.transform_to):
        assert pickle.loads(pickle.dumps(to)) is to
    if what == "positive":
        onto = pickle.loads(pickle.dumps(distributions.biject_to(made)))
        assert onto(library.zeros(1)).tolist() == [1]


def test_a_constraint_of_ones_own_is_pickled_by_its_parts() -> None:
    made = distributions.constraints.Constraint("Mine(2)", abs, args=(2,))
    again = pickle.loads(pickle.dumps(made))
    assert (again.shown, again.check, again.args) == ("Mine(2)", abs, (2,))
