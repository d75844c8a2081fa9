"""Derivatives of the operators and builtin functions.

`partials` gives, for a function at its arguments, the derivative by each of them as an expression;
None stands for zero. Where a function is not smooth: `max(a, b)` half to each at a tie,
`fmax(a, b)` all to `a`, `relu` 0 at 0, `clamp` as the identity at its ends, `hardtanh` not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

from tcdsl.codegen.gradient import build as g
from tcdsl.grammar.text.errors import Diagnostic, Note, raise_one
from tcdsl.grammar.types.builtins import STEPS
from tcdsl.grammar.types.dtypes import BOOL
from tcdsl.grammar.types.typed import Builtin, Expr, Lit

Partials = tuple[Expr | None, ...]

_SQRT_PI = math.sqrt(math.pi)
_ROOT_2PI = math.sqrt(2 * math.pi)

# No derivative that the language can say; asked for only where a gradient passes through.
WITHOUT = frozenset({"nextafter"})


def partials(e: Builtin) -> Partials | None:
    """Return the derivatives of a builtin by its arguments, or None if it has none."""
    if e.name in WITHOUT:
        return None
    if e.name in STEPS or e.name == "rand":
        return (None,) * len(e.args)
    if e.name in _UNARY:
        return (_UNARY[e.name](e.args[0], e),)
    return _SEVERAL[e.name](e.args, e)


def refuse(e: Builtin) -> NoReturn:
    """Raise the error of a derivative that has to pass a function that has none."""
    what = f"the gradient goes through '{e.name}', which has no derivative here"
    note = Note(
        "nothing else of the definition is in its way: give that part a value of its own, "
        "and a derivative by hand"
    )
    raise_one(Diagnostic("TC141", what, e.span, "", (note,)))


def _scaled(value: float, e: Expr) -> Expr:
    return g.mul(g.number(value, e.dtype), e)


def _one(e: Expr) -> Expr:
    return g.number(1, e.dtype)


def _over(a: Expr, b: Expr) -> Expr:
    return g.div(a, b)


def _gauss(x: Expr) -> Expr:
    """Return exp(-x * x)."""
    return g.call("exp", g.neg(g.square(x)))


def _bell(x: Expr) -> Expr:
    """Return the density of the normal distribution."""
    return _scaled(1 / _ROOT_2PI, g.call("exp", _scaled(-0.5, g.square(x))))


def _less_over(name: str, sign: int, x: Expr, e: Expr) -> Expr:
    """Return name(x) - e / x: of the Bessel functions of order 1, e.

    Near 0 that is a difference of large numbers in every higher derivative: there it is its power
    series, of which the terms left out are below the rounding of a double up to the third one.
    """
    terms = [
        sign**k * (2 * k + 1) / (math.factorial(k) * math.factorial(k + 1) * 2.0 ** (2 * k + 1))
        for k in range(6)
    ]
    series: Expr = g.number(terms[0], x.dtype)
    for k, term in enumerate(terms[1:], 1):  # Horner's rule has long derivatives
        series = g.add(series, _scaled(term, g.call("pow", x, g.number(2 * k, x.dtype))))
    is_near = g.compare("<", g.square(x), g.number(1 / 64, x.dtype))
    return g.choose(is_near, series, g.sub(g.call(name, x), _over(e, x)))


def _i1(x: Expr, e: Expr) -> Expr:
    """Return i0(x) - e / x, where e is i1(x); both may be beyond the largest number."""
    is_beyond = Builtin("isinf", (e,), BOOL)
    return g.choose(is_beyond, g.call("cyl_bessel_i0", x), _less_over("cyl_bessel_i0", 1, x, e))


def _erfcx(x: Expr, e: Expr) -> Expr:
    """Return 2 * x * e - 2 / sqrt(pi), where e is erfcx(x).

    From 32 on the two are nearly equal: there it is the asymptotic series of the derivative
    (Abramowitz and Stegun 7.1.23), whose terms left out are below the rounding of a double.
    """
    factor = -1 / _SQRT_PI
    series: Expr = g.number(0, x.dtype)
    for k in range(7):
        series = g.add(series, _scaled(factor, g.call("pow", x, g.number(-2 * k - 2, x.dtype))))
        factor *= -(2 * k + 3) / 2
    is_far = g.compare(">", x, g.number(32, x.dtype))
    difference = g.sub(_scaled(2, g.mul(x, e)), g.number(2 / _SQRT_PI, x.dtype))
    return g.choose(is_far, series, difference)


def _gelu(x: Expr, e: Expr) -> Expr:
    """Return normcdf(x) + x * bell(x); the bell is 0 long before 40, also where x is infinite."""
    forty = g.number(40, x.dtype)
    near = g.call("fmin", g.call("fmax", x, g.neg(forty)), forty)
    return g.add(g.call("normcdf", x), g.mul(near, _bell(x)))


def _silu(x: Expr, e: Expr) -> Expr:
    """Return s + x * s * (1 - s) with s = sigmoid(x); 1 - s is 0 long before 800."""
    limit = g.number(800, x.dtype)
    near, s = g.call("fmin", g.call("fmax", x, g.neg(limit)), limit), g.call("sigmoid", x)
    return g.mul(s, g.add(_one(x), g.mul(near, g.sub(_one(x), s))))


# B(2k) (2k + 1) for k = 1, 2, ..: of the asymptotic series of the second derivative of digamma.
_POLYGAMMA = (1 / 2, -1 / 6, 1 / 6, -3 / 10, 5 / 6, -691 / 210, 35 / 2, -3617 / 30)
_SHIFTED = 12  # up from there that series has all digits of a double, also of the next orders


def _trigamma(x: Expr, e: Expr) -> Expr:
    """Return psi''(x), in powers, whose derivatives are powers: so all orders have a text.

    With y = x, or 1 - x by reflection where x < 0.5: the series (Abramowitz and Stegun 6.4.11) at
    y + 12, and -2 / (y + k)^3 for each step there.
    """
    half = g.number(0.5, x.dtype)
    is_low = g.compare("<", x, half)
    y = g.choose(is_low, g.sub(_one(x), x), x)

    def power(base: Expr, exponent: int) -> Expr:
        return g.call("pow", base, g.number(exponent, x.dtype))

    z = g.add(y, g.number(_SHIFTED, x.dtype))
    total = g.add(power(z, -2), power(z, -3))
    for k, factor in enumerate(_POLYGAMMA, 1):
        total = g.add(total, _scaled(factor, power(z, -2 * k - 2)))
    for k in range(_SHIFTED):
        at = g.add(y, g.number(k, x.dtype)) if k else y
        total = g.add(total, _scaled(2.0, power(at, -3)))
    sine = g.call("sinpi", x)
    turned = _scaled(-2 * math.pi**3, g.mul(g.call("cospi", x), power(sine, -3)))
    return g.choose(is_low, g.sub(turned, total), g.neg(total))


def _below_one(x: Expr) -> Expr:
    """Return 1 - x * x, without loss where x is near 1 or -1."""
    return g.mul(g.sub(_one(x), x), g.add(_one(x), x))


# By x and e = f(x): what the function gave is used again where that is shorter.
_UNARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "abs": lambda x, e: g.call("sign", x),
    "acos": lambda x, e: g.neg(g.call("rsqrt", _below_one(x))),
    "acosh": lambda x, e: g.call("rsqrt", g.mul(g.sub(x, _one(x)), g.add(x, _one(x)))),
    "asin": lambda x, e: g.call("rsqrt", _below_one(x)),
    "asinh": lambda x, e: g.call("rsqrt", g.add(_one(x), g.square(x))),
    "atan": lambda x, e: _over(_one(x), g.add(_one(x), g.square(x))),
    "atanh": lambda x, e: _over(_one(x), _below_one(x)),
    "cbrt": lambda x, e: _scaled(1 / 3, g.square(_over(_one(x), e))),
    "cos": lambda x, e: g.neg(g.call("sin", x)),
    "cosh": lambda x, e: g.call("sinh", x),
    "cospi": lambda x, e: _scaled(-math.pi, g.call("sinpi", x)),
    "cyl_bessel_i0": lambda x, e: g.call("cyl_bessel_i1", x),
    "cyl_bessel_i1": _i1,
    "digamma": lambda x, e: g.call("trigamma", x),
    "erf": lambda x, e: _scaled(2 / _SQRT_PI, _gauss(x)),
    "erfc": lambda x, e: _scaled(-2 / _SQRT_PI, _gauss(x)),
    "erfcinv": lambda x, e: _scaled(-_SQRT_PI / 2, g.call("exp", g.square(e))),
    "erfcx": _erfcx,
    "erfinv": lambda x, e: _scaled(_SQRT_PI / 2, g.call("exp", g.square(e))),
    "exp": lambda x, e: e,
    "exp10": lambda x, e: _scaled(math.log(10), e),
    "exp2": lambda x, e: _scaled(math.log(2), e),
    "expm1": lambda x, e: g.call("exp", x),
    "fabs": lambda x, e: g.call("sign", x),
    "gelu": _gelu,
    "j0": lambda x, e: g.neg(g.call("j1", x)),
    "j1": lambda x, e: _less_over("j0", -1, x, e),
    "lgamma": lambda x, e: g.call("digamma", x),
    "log": lambda x, e: _over(_one(x), x),
    "log10": lambda x, e: _over(g.number(1 / math.log(10), x.dtype), x),
    "log1p": lambda x, e: _over(_one(x), g.add(_one(x), x)),
    "log2": lambda x, e: _over(g.number(1 / math.log(2), x.dtype), x),
    "normcdf": lambda x, e: _bell(x),
    "normcdfinv": lambda x, e: _scaled(_ROOT_2PI, g.call("exp", _scaled(0.5, g.square(e)))),
    "rcbrt": lambda x, e: g.neg(_over(e, _scaled(3, x))),
    "relu": lambda x, e: g.choose(
        g.compare(">", x, g.number(0, x.dtype)), _one(x), g.number(0, x.dtype)
    ),
    "rsqrt": lambda x, e: _scaled(-0.5, _over(e, x)),
    "sigmoid": lambda x, e: g.mul(e, g.sub(_one(x), e)),
    "silu": _silu,
    "sin": lambda x, e: g.call("cos", x),
    "sinh": lambda x, e: g.call("cosh", x),
    "sinpi": lambda x, e: _scaled(math.pi, g.call("cospi", x)),
    "softplus": lambda x, e: g.call("sigmoid", x),
    "sqrt": lambda x, e: _over(g.number(0.5, x.dtype), e),
    "tan": lambda x, e: g.add(_one(x), g.square(e)),
    "tanh": lambda x, e: g.sub(_one(x), g.square(e)),
    "tgamma": lambda x, e: g.mul(e, g.call("digamma", x)),
    "trigamma": _trigamma,
    "y0": lambda x, e: g.neg(g.call("y1", x)),
    "y1": lambda x, e: g.sub(g.call("y0", x), _over(e, x)),
}


def _extreme(op: str, halves: bool) -> Callable[[tuple[Expr, ...], Expr], Partials]:
    """Return the partials of max or min, fmax or fmin: 1 where an argument wins."""

    def rule(args: tuple[Expr, ...], e: Expr) -> Partials:
        a, b = args
        one, zero = _one(a), g.number(0, a.dtype)
        tie = g.compare("==", a, b)
        if halves:
            half = g.number(0.5, a.dtype)
            first = g.choose(tie, half, g.choose(g.compare(op, a, b), one, zero))
            return first, g.choose(tie, half, g.choose(g.compare(op, b, a), one, zero))
        if isinstance(b, Lit):  # of which no gradient is asked
            return g.choose(g.compare(f"{op}=", a, b), one, zero), None
        # NaN loses: what is no number compares false
        b_wins = g.compare(op, b, a)
        is_nan = Builtin("isnan", (a,), BOOL)
        wins = g.choose(is_nan, one, g.choose(b_wins, one, zero))
        return g.sub(one, wins), wins

    return rule


def _clamp(args: tuple[Expr, ...], e: Expr) -> Partials:
    x, low, high = args
    one, zero = _one(x), g.number(0, x.dtype)
    below, above = g.compare("<", x, low), g.compare(">", x, high)
    inside = g.choose(below, zero, g.choose(above, zero, one))
    return inside, g.choose(below, one, zero), g.choose(above, one, zero)


def _hardtanh(args: tuple[Expr, ...], e: Expr) -> Partials:
    x, low, high = args
    one, zero = _one(x), g.number(0, x.dtype)
    below, above = g.compare("<=", x, low), g.compare(">=", x, high)
    inside = g.choose(below, zero, g.choose(above, zero, one))
    return inside, g.choose(below, one, zero), g.choose(above, one, zero)


def _leaky_relu(args: tuple[Expr, ...], e: Expr) -> Partials:
    x, slope = args
    above = g.compare(">", x, g.number(0, x.dtype))
    return g.choose(above, _one(x), slope), g.choose(above, g.number(0, x.dtype), x)


def _elu(args: tuple[Expr, ...], e: Expr) -> Partials:
    x, alpha = args
    above = g.compare(">", x, g.number(0, x.dtype))
    by_alpha = g.choose(above, g.number(0, x.dtype), g.call("expm1", x))
    return g.choose(above, _one(x), g.mul(alpha, g.call("exp", x))), by_alpha


def _logaddexp(args: tuple[Expr, ...], e: Expr) -> Partials:
    """Return the shares of the two powers; of two that are infinite alike, half each."""
    x, y = args
    is_infinite = Builtin("isinf", (x,), BOOL)
    alike = g.both(is_infinite, g.compare("==", x, y))
    assert alike is not None
    half = g.number(0.5, x.dtype)
    return (
        g.choose(alike, half, g.call("sigmoid", g.sub(x, y))),
        g.choose(alike, half, g.call("sigmoid", g.sub(y, x))),
    )


def _pow(args: tuple[Expr, ...], e: Expr) -> Partials:
    x, y = args
    zero = g.number(0, x.dtype)
    if isinstance(y, Lit):
        lower = g.number(y.value - 1, x.dtype)
        return g.mul(y, g.call("pow", x, lower)) if y.value else zero, None
    by_x = g.mul(y, g.call("pow", x, g.sub(y, _one(y))))
    flat = g.compare("==", y, zero)
    stays = g.both(g.compare("==", x, zero), g.compare(">=", y, zero))
    assert stays is not None
    return (
        g.choose(flat, zero, by_x),
        g.choose(stays, zero, g.mul(e, g.call("log", x))),
    )


def _unit(a: Expr, norm: Expr) -> Expr:
    """Return a / norm, which is 1 or -1 where a is infinite."""
    is_infinite = Builtin("isinf", (a,), BOOL)
    return g.choose(is_infinite, g.call("copysign", _one(a), a), _over(a, norm))


def _norm(args: tuple[Expr, ...], e: Expr) -> Partials:
    return tuple(_unit(a, e) for a in args)


def _rnorm(args: tuple[Expr, ...], e: Expr) -> Partials:
    return tuple(
        g.choose(
            Builtin("isinf", (a,), BOOL),
            g.number(0, e.dtype),
            g.neg(g.mul(a, g.mul(e, g.square(e)))),
        )
        for a in args
    )


def _atan2(args: tuple[Expr, ...], e: Expr) -> Partials:
    y, x = args
    norm = g.call("hypot", y, x)  # its square may be 0 or infinite
    return _over(_unit(x, norm), norm), g.neg(_over(_unit(y, norm), norm))


def turns_of(rest: Expr, a: Expr, b: Expr) -> Expr:
    """Return how often b was taken from a; a / b may round to the next integer."""
    return g.call("round", _over(g.sub(a, rest), b))


_SEVERAL: dict[str, Callable[[tuple[Expr, ...], Expr], Partials]] = {
    "atan2": _atan2,
    "clamp": _clamp,
    "elu": _elu,
    "hardtanh": _hardtanh,
    "leaky_relu": _leaky_relu,
    "logaddexp": _logaddexp,
    "copysign": lambda a, e: (
        g.mul(g.call("sign", a[0]), g.call("copysign", _one(a[0]), a[1])), None
    ),
    "fdim": lambda a, e: (
        g.choose(g.compare(">", a[0], a[1]), _one(a[0]), g.number(0, e.dtype)),
        g.choose(g.compare(">", a[0], a[1]), g.number(-1, e.dtype), g.number(0, e.dtype)),
    ),
    "fdivide": lambda a, e: (_over(_one(a[1]), a[1]), g.neg(_over(e, a[1]))),
    "fma": lambda a, e: (a[1], a[0], _one(e)),
    "fmax": _extreme(">", halves=False),
    "fmin": _extreme("<", halves=False),
    "fmod": lambda a, e: (_one(e), g.neg(turns_of(e, *a))),
    "hypot": _norm,
    "max": _extreme(">", halves=True),
    "min": _extreme("<", halves=True),
    "norm3d": _norm,
    "norm4d": _norm,
    "pow": _pow,
    "remainder": lambda a, e: (_one(e), g.neg(turns_of(e, *a))),
    "rhypot": _rnorm,
    "rnorm3d": _rnorm,
    "rnorm4d": _rnorm,
}  # fmt: skip
