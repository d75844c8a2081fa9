"""First to third derivatives of the builtin functions of one argument, against mpmath."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.gradient.whole import whole
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.tiers import sampled

EVERYWHERE = (0.0, 1e-12, 1e-5, 0.003, 0.12, 0.13, 0.9, 1.7, 4.0, 20.0, 45.0, 500.0, 1e6)
BOTH = (*EVERYWHERE, *(-x for x in EVERYWHERE[1:]))
ABOVE = tuple(x for x in EVERYWHERE if x)
NEAR = tuple(x for x in BOTH if abs(x) < 100)
INSIDE = (0.0, 1e-12, -1e-12, 0.3, -0.3, 0.999999, -0.999999)
GAMMA = (1e-5, 0.3, 0.49, 0.51, 1.0, 1.4616, 7.5, 20.0, 3000.0, -1e-5, -0.4, -1.6, -30.3)

Function = Callable[[Any], Any]
FUNCTIONS: dict[str, tuple[Function, tuple[float, ...]]] = {
    "acos": (mp.acos, INSIDE),
    "acosh": (mp.acosh, (1.000001, 1.7, 20.0, 1e6)),
    "asin": (mp.asin, INSIDE),
    "asinh": (mp.asinh, BOTH),
    "atan": (mp.atan, BOTH),
    "atanh": (mp.atanh, INSIDE),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), (*ABOVE, *(-x for x in ABOVE))),
    "cosh": (mp.cosh, NEAR),
    "cospi": (mp.cospi, NEAR),
    "cyl_bessel_i0": (lambda x: mp.besseli(0, x), NEAR),
    "cyl_bessel_i1": (lambda x: mp.besseli(1, x), NEAR),
    "digamma": (mp.digamma, (*GAMMA, 1e6)),
    "erf": (mp.erf, BOTH),
    "erfc": (mp.erfc, BOTH),
    "erfcinv": (lambda x: mp.erfinv(1 - x), (1e-5, 0.2, 1.0, 1.7)),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), (*EVERYWHERE, -1e-5, -0.9, 31.9, 32.1)),
    "erfinv": (mp.erfinv, INSIDE),
    "exp10": (lambda x: mp.mpf(10) ** x, NEAR),
    "exp2": (lambda x: mp.mpf(2) ** x, NEAR),
    "expm1": (mp.expm1, NEAR),
    "gelu": (lambda x: x * mp.ncdf(x), NEAR),
    "j0": (lambda x: mp.besselj(0, x), BOTH),
    "j1": (lambda x: mp.besselj(1, x), BOTH),
    "lgamma": (mp.loggamma, (1e-5, 0.3, 1.0, 1.4616, 2.0, 7.5, 1e6)),
    "log": (mp.log, ABOVE),
    "log10": (mp.log10, ABOVE),
    "log1p": (mp.log1p, (*EVERYWHERE, -1e-12, -0.9, -0.999999)),
    "log2": (lambda x: mp.log(x, 2), ABOVE),
    "normcdf": (mp.ncdf, NEAR),
    "normcdfinv": (lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), (1e-5, 0.5, 0.9)),
    "rcbrt": (lambda x: mp.sign(x) / mp.cbrt(abs(x)), (*ABOVE, *(-x for x in ABOVE))),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), ABOVE),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), NEAR),
    "silu": (lambda x: x / (1 + mp.exp(-x)), NEAR),
    "sinh": (mp.sinh, NEAR),
    "sinpi": (mp.sinpi, NEAR),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), NEAR),
    "sqrt": (mp.sqrt, ABOVE),
    "tan": (mp.tan, (0.0, 1e-5, 0.9, -0.9, 4.0)),
    "tanh": (mp.tanh, BOTH),
    "tgamma": (mp.gamma, (0.3, 1.0, 2.5, 20.0, -0.4, -1.6)),
    "trigamma": (lambda x: mp.psi(1, x), GAMMA),
    "y0": (lambda x: mp.bessely(0, x), (0.003, 0.12, 0.9, 1.7, 4.0, 20.0)),
    "y1": (lambda x: mp.bessely(1, x), (0.003, 0.12, 0.9, 1.7, 4.0, 20.0)),
}  # fmt: skip
OFTEN = ("j1",)


def derivatives(name: str) -> Iterator[CheckedDef]:
    """Yield definitions of the first, second and third derivative of a function."""
    f = check(parse(f"def f(double(N) X) -> (Y) {{ Y(i) = {name}(X(i)) }}"))
    for order in (1, 2, 3):
        made = whole(gradient(f))
        last = made.defs[-1].name
        head = f"def f_{order}(double(N) X) -> (double(N) Y)"
        one = "S(i) = double(1.0) where i in 0:N"
        text = f"{format_program(made)}\n{head} {{ {one}  Y = {last}(X, S) }}"
        f = check(parse(text), f"f_{order}")
        yield f


def exact(f: Function, x: float, order: int) -> float:
    """Return a derivative by central differences of a step so small that it is exact."""
    at = mp.mpf(x)
    with mp.workprec(600 + (4 * int(abs(mp.log(abs(at), 2))) if x else 0)):
        h = mp.mpf(2) ** -90 * (abs(at) if x else 1)
        weights = {1: (-1, 0, 1), 2: (1, -2, 1), 3: (-1, 2, 0, -2, 1)}[order]
        steps = range(-(len(weights) // 2), len(weights) // 2 + 1)
        total = sum(w * f(at + k * h) for w, k in zip(weights, steps, strict=True))
        return float(mp.re(total) / h**order / (1 if order == 2 else 2))


@sampled("name", sorted(FUNCTIONS, key=lambda n: n not in OFTEN), keep=1, wide=8)
def test_first_to_third_derivative(name: str) -> None:
    f, points = FUNCTIONS[name]
    for order, d in enumerate(derivatives(name), 1):
        (found,) = evaluate(d, [np.array(points)], float64=True)
        want = [exact(f, x, order) for x in points]
        np.testing.assert_allclose(
            found, want, rtol=2e-6, atol=1e-13, err_msg=f"order {order} at {points}"
        )


@pytest.mark.parametrize(
    ("name", "at_inf", "at_minus_inf"),
    [("gelu", 1, 0), ("tanh", 0, 0), ("sigmoid", 0, 0), ("softplus", 1, 0), ("erf", 0, 0),
     ("silu", 1, 0),
     ("atan", 0, 0), ("asinh", 0, 0), ("cbrt", 0, 0), ("expm1", np.inf, 0)],
)  # fmt: skip
def test_slopes_at_infinity_are_their_limits(name: str, at_inf: float, at_minus_inf: float) -> None:
    (found,) = evaluate(next(derivatives(name)), [np.array([np.inf, -np.inf])], float64=True)
    assert found.tolist() == [at_inf, at_minus_inf]


def test_beyond_the_largest_number_slopes_are_infinite() -> None:
    (found,) = evaluate(next(derivatives("cyl_bessel_i1")), [np.array([1e4, -1e4])], float64=True)
    assert found.tolist() == [np.inf, np.inf]
