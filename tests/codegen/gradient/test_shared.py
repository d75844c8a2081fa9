"""Sums of the same terms but for factors: added up once, where they are the same."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.gradient.whole import whole
from tcdsl.grammar.check.definition import check
from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated,
    differentiated_def,
    drawn,
    seeds_of,
)
from tests.tiers import sampled

HEAD = "def f(float(N,M) X, float(N,M) B, float(M) w, float(M) b, float(N) u) -> (float(N,M) Y) {"
SHARED = {  # and the sums over n that are left
    "a factor and a term": ("Y(n, m) = X(n, m) * w(m) + b(m)", 2),
    "a factor of two": ("Y(n, m) = X(n, m) * w(m) * b(m)", 2),
    "a factor squared": ("Y(n, m) = B(n, m) * w(m) * w(m) - 3.0 * b(m)", 2),
    "one of a sum of another": (
        "s(m) = sin(w(m))  Y(n, m) = B(n, m) * s(m) + b(m) - 0.5 * s(m)",
        2,
    ),
    "batch norm": (
        """mu(m) +=! X(n, m) / float(N)  v(m) +=! (X(n, m) - mu(m)) * (X(n, m) - mu(m)) / float(N)
        Y(n, m) = (X(n, m) - mu(m)) * rsqrt(v(m) + 0.5) * w(m) + b(m)""",
        2,
    ),
    "a bias twice": ("s(m) = cos(w(m)) * u(0)  Y(n, m) = X(n, m) + s(m) - b(m)", 1),
}
OTHERS = {
    "of rows and of columns": ("Y(n, m) = X(n, m) * w(m) + u(n)", 1),
    "other terms": ("Y(n, m) = X(n, m) * w(m) + B(n, m) * b(m)", 2),
    "a part": (
        "Y(n, m) = b(m) where n in 0:N, m in 0:M  Y(n, m) += w(m) * X(n, m) where n in 1:N",
        2,
    ),
    "other elements": ("Y(n, m) = X(n, m) * w(m) + X(n, M - 1 - m) * b(m)", 2),
}


@sampled("name", [*SHARED, *OTHERS], keep=3)
def test_gradients_of_any_order_are_right(name: str, rng: np.random.Generator) -> None:
    text, sums = {**SHARED, **OTHERS}[name]
    d = differentiated(f"{HEAD} {text} }}")
    assert _sums(d.gradient.text) == sums, d.gradient.text
    for sizes in ({"N": 3, "M": 4}, {"N": 1, "M": 1}):
        args = drawn(d.checked, sizes, rng)
        assert_gradient(d, args, rng)
    args += seeds_of(d.checked, args, rng)
    both = differentiated_def(check(whole(d.gradient), d.gradient.name))
    assert_gradient(both, args, rng, step=1e-7, tolerance=1e-4)


def _sums(text: str) -> int:
    """Return how many lines add up columns."""
    lines = [x.strip() for x in text.splitlines()]
    return sum("(m) +=" in x and "(n, m)" in x for x in lines)


def test_of_no_rows_nothing_is_added_up(rng: np.random.Generator) -> None:
    for text, _ in SHARED.values():
        d = differentiated(f"{HEAD} {text} }}")
        args = drawn(d.checked, {"N": 0, "M": 3}, rng)
        if "u(0)" not in text:
            found = d.pull(args, seeds_of(d.checked, args, rng))
            assert all((x == 0).all() for x in found)


DIVIDED = {
    "by nothing": "Y(n, m) = X(n, m) + b(m) / z(m) + w(m)",
    "overflown": "Y(n, m) = X(n, m) + b(m) * exp(1000.0 + z(m)) + w(m)",
    "by the rows": "Y(n, m) = X(n, m) + b(m) / float(N) + w(m)",
}


@pytest.mark.parametrize("name", DIVIDED)
def test_a_sum_of_nothing_is_0_whatever_divides_it(name: str, rng: np.random.Generator) -> None:
    head = "def f(float(N,M) X, float(M) w, float(M) b, float(M) z) -> (Y) {"
    d = differentiated(f"{head} {DIVIDED[name]} }}")
    assert "N > 0 ?" in d.gradient.text
    args = drawn(d.checked, {"N": 0, "M": 3}, rng)
    args[3][:] = 0
    assert all((x == 0).all() for x in d.pull(args, seeds_of(d.checked, args, rng)))
    if name != "overflown":
        args = drawn(d.checked, {"N": 3, "M": 2}, rng)
        assert_gradient(d, args, rng)


def test_who_reads_only_where_there_are_rows_asks_for_none() -> None:
    assert " > 0 ?" not in differentiated(f"{HEAD} {SHARED['batch norm'][0]} }}").gradient.text
