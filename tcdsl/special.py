"""Special functions, under the names of PyTorch's `torch.special`."""

from __future__ import annotations

from tcdsl.calls.process.places import found_in
from tcdsl.ops.along import log_softmax, softmax
from tcdsl.ops.bessel import (
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    erfcx,
    log_ndtr,
    modified_bessel_k0,
    modified_bessel_k1,
    ndtr,
    ndtri,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
)
from tcdsl.ops.functions import (
    digamma,
    entr,
    exp2,
    i0,
    i0e,
    i1,
    i1e,
    lgamma,
    logit,
    multigammaln,
    sinc,
    xlog1py,
    xlogy,
)
from tcdsl.ops.gammas import igamma as gammainc
from tcdsl.ops.gammas import igammac as gammaincc
from tcdsl.ops.gammas import polygamma, zeta
from tcdsl.ops.into import taking_out
from tcdsl.ops.pointwise import erf, erfc, erfinv, expm1, log1p, round, sigmoid
from tcdsl.ops.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from tcdsl.ops.reductions import logsumexp
from tcdsl.ops.table import PUBLIC, found_at

__all__ = [
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

expit, gammaln, psi = sigmoid, lgamma, digamma
modified_bessel_i0, modified_bessel_i1 = i0, i1

for _name in __all__:
    if "polynomial" in _name or _name in ("logit", "logsumexp", "multigammaln", "polygamma"):
        globals()[_name] = taking_out(_name, globals()[_name])
    if globals()[_name] not in PUBLIC.values():
        found_at(globals()[_name], "tcdsl.special", _name)
found_in(__name__)
