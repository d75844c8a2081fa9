"""Special functions, under the names of PyTorch's `torch.special`."""

from __future__ import annotations

import math
from typing import Any

from tcdsl.ops.functions import (
    digamma,
    exp2,
    i0,
    i0e,
    i1,
    i1e,
    lgamma,
    logit,
    multigammaln,
    polygamma,
    sinc,
    xlogy,
)
from tcdsl.ops.pointwise import erf, erfc, erfinv, expm1, log1p, round, sigmoid, where
from tcdsl.ops.reductions import log_softmax, logsumexp, softmax

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
]

expit, gammaln, psi = sigmoid, lgamma, digamma


def entr(input: Any) -> Any:
    """Return ``-x log(x)``, 0 at 0 and -inf below."""
    return where(input < 0, -math.inf, -xlogy(input, input))


def ndtr(input: Any) -> Any:
    """Return the probability of a normal number below each element."""
    return 0.5 * erfc(-input / math.sqrt(2))


def ndtri(input: Any) -> Any:
    """Return below what a normal number is with each probability."""
    return math.sqrt(2) * erfinv(2 * input - 1)


def xlog1py(input: Any, other: Any) -> Any:
    """Return ``input * log1p(other)``, 0 where the factor is 0 and other no NaN."""
    return where((input == 0) & (other == other), 0.0, input * log1p(other))
