"""NumPy's side of the language's types, conversions and builtins, for the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.grammar.types.dtypes import DType

Array = np.ndarray[Any, np.dtype[Any]]


def cast(x: Array, to: DType) -> Array:
    """Convert as the language does: float to integer saturates, NaN gives 0; rounded once."""
    dtype = numpy_dtype(to)
    if to.kind == "bool":
        return np.asarray(x != 0)
    if to.is_integer and x.dtype.kind not in "iub":
        info = np.iinfo(dtype)
        wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        low, high = float(info.min), float(info.max) + (to.bits == 64)
        inside = np.where((wide > low) & (wide < high), wide, 0).astype(dtype)
        return np.where(wide >= high, info.max, np.where(wide <= low, info.min, inside)).astype(
            dtype
        )
    if to.name == "bfloat16" and x.dtype.itemsize > 2:
        x = _odd_float32(x)  # ml_dtypes rounds to float32 first, and to nearest
    return np.asarray(x.astype(dtype))


def _odd_float32(x: Array) -> Array:
    """Return float32 that rounds to a shorter type as x does: what is left out makes it odd."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:  # first to what float64 holds
        low = x.dtype.type(0x7FF)
        is_long = (x > 2**53) | ((x < -(2**53)) if x.dtype.kind == "i" else False)
        x = np.where(is_long & ((x & low) != 0), (x & ~low) | (low + x.dtype.type(1)), x)
    wide = x.astype(np.float64)
    near = wide.astype(np.float32)
    bits, back = near.view(np.uint32), near.astype(np.float64)
    moved = np.where((back < wide) == (wide > 0), bits + np.uint32(1), bits - np.uint32(1))
    is_exact = (back == wide) | np.isnan(wide) | ((bits & 1) == 1)
    return np.asarray(np.where(is_exact, bits, moved).view(np.float32))


def arithmetic(op: str, x: Array, y: Array) -> Array:
    """Return x op y; integers divide to floor."""
    if op == "/" and x.dtype.kind == "f":
        return np.asarray(np.divide(x, y))
    return np.asarray(_OPERATORS[op](x, y))


_OPERATORS: dict[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.floor_divide,
    "%": np.remainder,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,  # NumPy's are the language's: by the width or more no bit is left
    ">>": np.right_shift,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def _sp(name: str) -> Callable[..., Any]:
    """Return a function of scipy.special, imported on use."""

    def call(*args: Array) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return call


def _with_limits(name: str, low: float, high: float) -> Callable[..., Any]:
    """Return a function of scipy.special that is right at both infinities too."""

    def call(x: Array) -> Any:
        return np.where(np.isneginf(x), low, np.where(np.isposinf(x), high, _sp(name)(x)))

    return call


def _norm(*args: Array) -> Any:
    """Euclidean norm, scaled so that squares neither overflow nor vanish."""
    a = np.abs(np.stack(np.broadcast_arrays(*args)))
    scale = a.max(axis=0)
    safe = np.where((scale > 0) & np.isfinite(scale), scale, 1).astype(a.dtype)
    norm = safe * np.sqrt(((a / safe) ** 2).sum(axis=0))
    return np.where(np.isinf(a).any(axis=0), np.inf, norm)


def _round(x: Array) -> Any:
    """Half away from zero, as C does."""
    t = np.trunc(x)
    return np.copysign(np.where(np.abs(x - t) >= 0.5, np.abs(t) + 1, np.abs(t)), x)


def _sinpi(x: Array) -> Any:
    r = np.fmod(x, 2)
    exact = np.where(r == np.trunc(r), 0.0, np.sin(np.pi * r))
    return np.where(np.isinf(x), np.nan, np.copysign(exact, np.where(exact == 0, x, exact)))


def _cospi(x: Array) -> Any:
    r = np.abs(np.fmod(x, 2))
    half = r - 0.5
    return np.where(half == np.trunc(half), 0.0, np.cos(np.pi * r))


def _remainder(x: Array, y: Array) -> Any:
    """IEEE remainder: x - n*y, n the integer nearest to x/y, even at ties."""
    r = np.fmod(x, y)
    a, b = np.abs(r), np.abs(y)
    odd = np.fmod(np.trunc(np.fmod(np.abs(x), 2 * b) / b), 2) == 1
    over = (a > b - a) | ((a == b - a) & odd)
    moved = np.where(over, a - b, a)
    return np.where(np.isinf(y) & np.isfinite(x), x, np.copysign(1, x) * moved)


def _gelu(x: Array) -> Any:
    import scipy.special

    return 0.5 * x * (1 + scipy.special.erf(x / np.sqrt(np.asarray(2, x.dtype))))


def _digamma(x: Array) -> Any:
    """Return scipy's, which is inexact where a loop would be long."""
    low = np.where(x < -1, x, -1.5)
    reflected = _sp("digamma")(1 - low) - np.pi * _cospi(low) / _sinpi(low)
    whole = np.where((x < 0) & (x == np.floor(x)), np.nan, _sp("digamma")(np.maximum(x, -1.5)))
    return np.where((x < -1) & (x != np.floor(x)), reflected, whole)


def _trigamma(x: Array) -> Any:
    low = np.where(x < 0.5, x, 0.25)
    reflected = (np.pi / _sinpi(low)) ** 2 - _sp("polygamma")(1, 1 - np.maximum(low, -1e15))
    return np.where(x < 0.5, reflected, _sp("polygamma")(1, np.where(x < 0.5, 1, x)))


def _logaddexp(x: Array, y: Array) -> Any:
    return np.where(x == y, x + np.log(np.asarray(2, x.dtype)), np.logaddexp(x, y))


def _logb(x: Array) -> Any:
    e = np.frexp(x)[1].astype(x.dtype) - 1
    e = np.where(x == 0, -np.inf, e)
    return np.where(np.isinf(x), np.inf, np.where(np.isnan(x), np.nan, e))


def _softplus(x: Array) -> Any:
    return np.logaddexp(x, np.zeros((), x.dtype))


BUILTINS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "cospi": _cospi,
    "cyl_bessel_i0": _with_limits("i0", np.inf, np.inf),
    "cyl_bessel_i1": _with_limits("i1", -np.inf, np.inf),
    "erf": _sp("erf"),
    "erfc": _sp("erfc"),
    "erfcinv": _sp("erfcinv"),
    "erfcx": _sp("erfcx"),
    "erfinv": _sp("erfinv"),
    "exp": np.exp,
    "exp10": lambda x: np.power(np.asarray(10, x.dtype), x),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "floor": np.floor,
    "j0": _with_limits("j0", 0, 0),
    "j1": _with_limits("j1", 0, 0),
    "lgamma": _with_limits("gammaln", np.inf, np.inf),
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logb": _logb,
    "normcdf": _sp("ndtr"),
    "normcdfinv": _sp("ndtri"),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "round": _round,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sinpi": _sinpi,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "tgamma": _sp("gamma"),
    "trunc": np.trunc,
    "y0": _with_limits("y0", np.nan, 0),
    "y1": _with_limits("y1", np.nan, 0),
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0)),
    "fdivide": np.divide,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "nextafter": np.nextafter,
    "pow": np.power,
    "remainder": _remainder,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "fma": lambda x, y, z: (x.astype(np.longdouble) * y + z).astype(x.dtype),
    "norm3d": _norm,
    "rnorm3d": lambda *a: 1 / _norm(*a),
    "norm4d": _norm,
    "rnorm4d": lambda *a: 1 / _norm(*a),
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "sign": np.sign,
    "sigmoid": lambda x: _sp("expit")(x),
    "softplus": _softplus,
    "relu": lambda x: np.where(x > 0, x, np.where(np.isnan(x), x, 0)),
    "gelu": _gelu,
    "silu": lambda x: x * _sp("expit")(x),
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "hardtanh": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "logaddexp": _logaddexp,
    "rint": np.rint,
    "digamma": _digamma,
    "trigamma": _trigamma,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
}
