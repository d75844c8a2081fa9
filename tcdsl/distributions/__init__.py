"""Distributions: samples, densities, moments, entropies, and how far one is from another."""

from tcdsl.calls.process.places import found_in
from tcdsl.distributions import constraints, transforms, utils
from tcdsl.distributions.circular import VonMises
from tcdsl.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Normal,
    Pareto,
    Uniform,
    Weibull,
)
from tcdsl.distributions.counts import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from tcdsl.distributions.distribution import Distribution
from tcdsl.distributions.divergence import kl_divergence, register_kl
from tcdsl.distributions.further import (
    FisherSnedecor,
    InverseGamma,
    Kumaraswamy,
    LowRankMultivariateNormal,
)
from tcdsl.distributions.gammas import Beta, Chi2, Gamma, StudentT
from tcdsl.distributions.joint import (
    Dirichlet,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
)
from tcdsl.distributions.kinds import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from tcdsl.distributions.matrices import LKJCholesky, Wishart
from tcdsl.distributions.registry import biject_to, transform_to
from tcdsl.distributions.shaping import (
    CatTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)
from tcdsl.distributions.transformed import (
    LogisticNormal,
    LogNormal,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    TransformedDistribution,
)
from tcdsl.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "CatTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "IndependentTransform",
    "LKJCholesky",
    "LogisticNormal",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Wishart",
    "biject_to",
    "transform_to",
    "utils",
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "Laplace",
    "LogNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "SigmoidTransform",
    "SoftplusTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "constraints",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transforms",
]

found_in(__name__)
