"""Lines of a gradient joined: what begins a sum, and what stands in a branch."""

from __future__ import annotations

import numpy as np

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

HEAD = "def f(float(N,M) X, float(M) w, int32(N) T) -> "
TEXTS = {  # and what the gradient has, in this order
    "a scatter and all": (
        "(Y) { Y(n) = X(n, T(n))  Y(n) += X(n, m) * X(n, m) }",
        ("d_X(n, m) +=! 2.0", "d_X(n, T(n)) += "),
    ),
    "a column and all": (
        "(Y, Z) { Z(n, m) = X(n, m) * w(m)  Y(n) = X(n, 0) * X(n, 1) }",
        ("d_X(n, m) +=! ", "d_X(n, 0) += "),
    ),
    "two scatters and a product": (
        """(Y, Z) { Z(n, j) +=! X(n, m) * X(j, m) where j in 0:N
            Y(n) = X(n, T(n)) * X(T(n), 0) }""",
        ("d_X(", "+=! ", "d_X(T(n), 0) += ", "d_X(n, T(n)) += "),
    ),
    "a scatter alone": ("(Y) { Y(n) = X(n, T(n)) * w(0) }", ("d_X(n, T(n)) +=! ",)),
    "parts that are no box": (
        "(Y) { Y(n) = X(n, 0) + X(n, T(n)) * X(n, 1) }",
        ("d_X(n,", "+=! "),
    ),
    "a temporary in a branch": (
        """(Y) { E(n, m) = m <= n ? exp(0.5 * X(n, m)) : 0.0
            s(n) +=! E(n, m)  Y(n, m) = E(n, m) * s(n) }""",
        ("d_", "m <= n ? ("),
    ),
}


@sampled("name", TEXTS, keep=3)
def test_gradients_of_any_order_are_right(name: str, rng: np.random.Generator) -> None:
    text, parts = TEXTS[name]
    d = differentiated(HEAD + text)
    at = 0
    for part in parts:
        at = d.gradient.text.find(part, at)
        assert at >= 0, f"{part}\n{d.gradient.text}"
    args = drawn(d.checked, {"N": 3, "M": 4}, rng)
    assert_gradient(d, args, rng)
    args += seeds_of(d.checked, args, rng)
    both = differentiated_def(check(whole(d.gradient), d.gradient.name))
    assert_gradient(both, args, rng, step=1e-7, tolerance=1e-4)
