"""What each builtin computes, exactly, and how far its float32 and float64 forms may be off.

Bounds are in units of the last place of the result, over the whole domain, denormal results
included; float32 ones with fused multiply-add (without: half a unit more). The float64 bounds of
libm's functions are those of the libms we have met; where they have no bound at all (the Bessel
functions near their zeros, tgamma) the samples keep away from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import scipy.special as sp

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Function:
    """bound32, bound64; near: right to about 1e-14, for float32; exact: to many digits.

    low, high: where float64 is sampled. more: points of interest beside the samples.
    span32: |x| up to which near is right enough.
    """

    bound32: float
    bound64: float
    near: Callable[[Array], Any]
    exact: Callable[[Any], Any]
    low: float = -20
    high: float = 20
    more: tuple[float, ...] = ()
    span32: float = np.inf


def _cospi(x: Array) -> Array:
    x = np.abs(np.fmod(x, 2))
    x = np.where(x > 1, 2 - x, x)
    middle = np.sin(np.pi * (0.5 - x))
    return np.where(
        x < 0.25, np.cos(np.pi * x), np.where(x <= 0.75, middle, -np.cos(np.pi * (1 - x)))
    )


def _sinpi(x: Array) -> Array:
    a = np.abs(np.fmod(x, 2))
    half = np.where(a > 1, a - 1, a)
    half = np.where(half > 0.5, 1 - half, half)
    y = np.where(half < 0.25, np.sin(np.pi * half), np.cos(np.pi * (0.5 - half)))
    return np.copysign(1.0, x) * np.where(a > 1, -y, y)


def _root3(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


def _normcdf(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _erfcinv(y: Any) -> Any:
    if y > 1e-3:
        return mp.erfinv(1 - y)
    start = mp.sqrt(-mp.log(y)) * 0.97
    return mp.findroot(lambda z: mp.log(mp.erfc(z)) - mp.log(y), start)


def _digamma(x: Array) -> Array:
    low = np.where(x < 0, x, -0.5)
    return np.where(
        (x < 0) & (x == np.floor(x)),
        np.nan,
        np.where(x < 0, sp.digamma(1 - low) - np.pi * _cospi(low) / _sinpi(low), sp.digamma(x)),
    )


def _trigamma(x: Array) -> Array:
    low = np.where(x < 0.5, x, 0.25)
    mirrored = (np.pi / _sinpi(low)) ** 2 - sp.polygamma(1, 1 - low)
    return np.asarray(np.where(x < 0.5, mirrored, sp.polygamma(1, np.where(x < 0.5, 1, x))))


def _erfcx(x: Any) -> Any:
    return (
        mp.exp(x * x) * mp.erfc(x) if x < 1e4 else 1 / (x * mp.sqrt(mp.pi)) * (1 - 1 / (2 * x * x))
    )


FUNCTIONS = {
    "acos": Function(0.51, 1, np.arccos, mp.acos, -1, 1),
    "acosh": Function(0.51, 2, np.arccosh, mp.acosh, 1, 50),
    "asin": Function(0.51, 1, np.arcsin, mp.asin, -1, 1),
    "asinh": Function(0.51, 2, np.arcsinh, mp.asinh),
    "atan": Function(0.51, 1, np.arctan, mp.atan),
    "atanh": Function(0.51, 2, np.arctanh, mp.atanh, -1, 1),
    "cbrt": Function(0.51, 4, np.cbrt, _root3),
    "cos": Function(0.9, 1, np.cos, mp.cos),
    "cosh": Function(0.51, 2, np.cosh, mp.cosh),
    "cospi": Function(0.51, 1.5, _cospi, mp.cospi),
    "cyl_bessel_i0": Function(0.51, 6, sp.i0, lambda x: mp.besseli(0, x), -40, 40, (710.0, 1e-5)),
    "cyl_bessel_i1": Function(
        0.51, 6, sp.i1, lambda x: mp.besseli(1, x), -40, 40, (710.0, 1e-5, 1e-300)
    ),
    # below 0 and near a zero the near one is not right to the last digits
    "digamma": Function(0.51, 4, _digamma, mp.digamma, 0.1, 30, (1e-300, 1.4616, 1e10, 1e300)),
    "erf": Function(1.5, 1, sp.erf, mp.erf),
    "erfc": Function(0.8, 3, sp.erfc, mp.erfc, -2, 26),
    "erfcinv": Function(0.51, 4, sp.erfcinv, _erfcinv, 0, 2, (1e-300, 1e-10, 1e-3, 0.01)),
    "erfcx": Function(0.51, 4, sp.erfcx, _erfcx, -5, 30, (1e10, 1e300, -26.0, -26.6)),
    "erfinv": Function(0.8, 4, sp.erfinv, mp.erfinv, -1, 1, (1e-300, 1e-8, 0.9999999)),
    "exp": Function(1.0, 1, np.exp, mp.exp, more=(-740.0, 709.5, -1e-20, 1e-300)),
    "exp10": Function(
        0.51, 1, lambda x: np.power(10.0, x), lambda x: mp.power(10, x), more=(-320.0, 308.0)
    ),
    "exp2": Function(1.0, 1, np.exp2, lambda x: mp.power(2, x)),
    "expm1": Function(1.5, 1, np.expm1, mp.expm1),
    "gelu": Function(
        3.5, 4, lambda x: x * sp.ndtr(x), lambda x: x * _normcdf(x), -38.6, 5, (1e-300,)
    ),
    "j0": Function(0.51, 8, sp.j0, lambda x: mp.besselj(0, x), 0, 2, span32=20),
    "j1": Function(0.51, 8, sp.j1, lambda x: mp.besselj(1, x), 0, 2, span32=20),
    "lgamma": Function(0.51, 6, sp.gammaln, lambda x: mp.log(abs(mp.gamma(x))), 3, 30),
    "log": Function(1.0, 1, np.log, mp.log, 0, 3, (1e-310, 1e300, 1 + 1e-7, 1 - 1e-7, 5e-324)),
    "log10": Function(0.51, 2, np.log10, mp.log10, 0, 3),
    "log1p": Function(1.0, 2, np.log1p, mp.log1p, -1, 3),
    "log2": Function(0.51, 1, np.log2, lambda x: mp.log(x, 2), 0, 3),
    "normcdf": Function(0.51, 3, sp.ndtr, _normcdf, -37, 5),
    "normcdfinv": Function(
        0.51, 4, sp.ndtri, lambda p: -mp.sqrt(2) * _erfcinv(2 * p), 0, 1, (1e-300, 1e-5, 0.4999)
    ),
    "rcbrt": Function(0.51, 4, lambda x: 1 / np.cbrt(x), lambda x: 1 / _root3(x)),
    "rsqrt": Function(1.5, 1.5, lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x), 0, 9),
    "sigmoid": Function(2.5, 2, sp.expit, lambda x: 1 / (1 + mp.exp(-x)), more=(-700.0, 40.0)),
    "silu": Function(
        3.5, 3, lambda x: x * sp.expit(x), lambda x: x / (1 + mp.exp(-x)), more=(-700.0, 40.0)
    ),
    "sin": Function(0.9, 1, np.sin, mp.sin),
    "sinh": Function(0.51, 2, np.sinh, mp.sinh),
    "sinpi": Function(0.51, 1.5, _sinpi, mp.sinpi),
    "softplus": Function(
        2.0, 2, lambda x: np.logaddexp(x, 0), lambda x: mp.log1p(mp.exp(x)), more=(-700.0, 700.0)
    ),
    "sqrt": Function(0.5, 0.5, np.sqrt, mp.sqrt, 0, 9),
    "tan": Function(0.51, 1, np.tan, mp.tan),
    "tanh": Function(2.5, 2, np.tanh, mp.tanh),
    "tgamma": Function(0.51, 12, sp.gamma, mp.gamma, 0.1, 30),
    "trigamma": Function(
        0.51, 4, _trigamma, lambda x: mp.psi(1, x), -20, 30, (1e-100, 1e10, 1e300)
    ),
    "y0": Function(0.51, 8, sp.y0, lambda x: mp.bessely(0, x), 1.5, 3, span32=20),
    "y1": Function(0.51, 8, sp.y1, lambda x: mp.bessely(1, x), 0.1, 1.5, span32=20),
}
