"""Derivatives of the operators and builtin functions.

`partials` gives, for a function at its arguments, the derivative by each of them as an expression;
None stands for zero. Where a function is not smooth: `max(a, b)` half to each at a tie,
`fmax(a, b)` all to `a`, `relu` 0 at 0, `clamp` as the identity at its ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tcdsl.codegen.gradient import build as g
from tcdsl.grammar.dtypes import BOOL
from tcdsl.grammar.typed import Builtin, Expr, Lit

Partials = tuple[Expr | None, ...]

_SQRT_PI = math.sqrt(math.pi)
_ROOT_2PI = math.sqrt(2 * math.pi)

# No derivative that the language can say; asked for only where a gradient passes through.
WITHOUT = frozenset({"lgamma", "tgamma", "nextafter"})

# Constant between jumps.
_STEPS = frozenset({"ceil", "floor", "logb", "round", "sign", "trunc"})


def partials(e: Builtin) -> Partials | None:
    """Return the derivatives of a builtin by its arguments, or None if it has none."""
    if e.name in WITHOUT:
        return None
    if e.name in _STEPS or e.name == "rand":
        return (None,) * len(e.args)
    if e.name in _UNARY:
        return (_UNARY[e.name](e.args[0], e),)
    return _SEVERAL[e.name](e.args, e)


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


def _less_over(name: str, x: Expr, e: Expr) -> Expr:
    """Return name(x) - e / x, which is 1/2 at 0: of the Bessel functions of order 1."""
    at_zero = g.compare("==", x, g.number(0, x.dtype))
    return g.choose(at_zero, g.number(0.5, x.dtype), g.sub(g.call(name, x), _over(e, x)))


# By x and e = f(x): what the function gave is used again where that is shorter.
_UNARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "abs": lambda x, e: g.call("sign", x),
    "acos": lambda x, e: g.neg(g.call("rsqrt", g.sub(_one(x), g.square(x)))),
    "acosh": lambda x, e: g.call("rsqrt", g.sub(g.square(x), _one(x))),
    "asin": lambda x, e: g.call("rsqrt", g.sub(_one(x), g.square(x))),
    "asinh": lambda x, e: g.call("rsqrt", g.add(_one(x), g.square(x))),
    "atan": lambda x, e: _over(_one(x), g.add(_one(x), g.square(x))),
    "atanh": lambda x, e: _over(_one(x), g.sub(_one(x), g.square(x))),
    "cbrt": lambda x, e: _over(_one(x), _scaled(3, g.square(e))),
    "cos": lambda x, e: g.neg(g.call("sin", x)),
    "cosh": lambda x, e: g.call("sinh", x),
    "cospi": lambda x, e: _scaled(-math.pi, g.call("sinpi", x)),
    "cyl_bessel_i0": lambda x, e: g.call("cyl_bessel_i1", x),
    "cyl_bessel_i1": lambda x, e: _less_over("cyl_bessel_i0", x, e),
    "erf": lambda x, e: _scaled(2 / _SQRT_PI, _gauss(x)),
    "erfc": lambda x, e: _scaled(-2 / _SQRT_PI, _gauss(x)),
    "erfcinv": lambda x, e: _scaled(-_SQRT_PI / 2, g.call("exp", g.square(e))),
    "erfcx": lambda x, e: g.sub(_scaled(2, g.mul(x, e)), g.number(2 / _SQRT_PI, x.dtype)),
    "erfinv": lambda x, e: _scaled(_SQRT_PI / 2, g.call("exp", g.square(e))),
    "exp": lambda x, e: e,
    "exp10": lambda x, e: _scaled(math.log(10), e),
    "exp2": lambda x, e: _scaled(math.log(2), e),
    "expm1": lambda x, e: g.call("exp", x),
    "fabs": lambda x, e: g.call("sign", x),
    "gelu": lambda x, e: g.add(g.call("normcdf", x), g.mul(x, _bell(x))),
    "j0": lambda x, e: g.neg(g.call("j1", x)),
    "j1": lambda x, e: _less_over("j0", x, e),
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
    "sin": lambda x, e: g.call("cos", x),
    "sinh": lambda x, e: g.call("cosh", x),
    "sinpi": lambda x, e: _scaled(math.pi, g.call("cospi", x)),
    "softplus": lambda x, e: g.call("sigmoid", x),
    "sqrt": lambda x, e: _over(g.number(0.5, x.dtype), e),
    "tan": lambda x, e: g.add(_one(x), g.square(e)),
    "tanh": lambda x, e: g.sub(_one(x), g.square(e)),
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


def _pow(args: tuple[Expr, ...], e: Expr) -> Partials:
    x, y = args
    zero = g.number(0, x.dtype)
    by_x = g.mul(y, g.call("pow", x, g.sub(y, _one(y))))
    positive = g.compare(">", x, zero)
    flat = g.compare("==", y, zero)
    return (
        g.choose(flat, zero, by_x),
        g.choose(positive, g.mul(e, g.call("log", x)), zero),
    )


def _norm(args: tuple[Expr, ...], e: Expr) -> Partials:
    return tuple(_over(a, e) for a in args)


def _rnorm(args: tuple[Expr, ...], e: Expr) -> Partials:
    return tuple(g.neg(g.mul(a, g.mul(e, g.square(e)))) for a in args)


def _atan2(args: tuple[Expr, ...], e: Expr) -> Partials:
    y, x = args
    both = g.add(g.square(x), g.square(y))
    return _over(x, both), g.neg(_over(y, both))


_SEVERAL: dict[str, Callable[[tuple[Expr, ...], Expr], Partials]] = {
    "atan2": _atan2,
    "clamp": _clamp,
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
    "fmod": lambda a, e: (_one(e), g.neg(g.call("trunc", _over(a[0], a[1])))),
    "hypot": _norm,
    "max": _extreme(">", halves=True),
    "min": _extreme("<", halves=True),
    "norm3d": _norm,
    "norm4d": _norm,
    "pow": _pow,
    "remainder": lambda a, e: (_one(e), _over(g.sub(e, a[0]), a[1])),
    "rhypot": _rnorm,
    "rnorm3d": _rnorm,
    "rnorm4d": _rnorm,
}  # fmt: skip
