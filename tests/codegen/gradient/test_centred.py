"""Sums of what is centred: dropped where they are 0, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.gradient.whole import whole
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated,
    differentiated_def,
    drawn,
    seeds_of,
)
from tests.tiers import sampled

HEAD = "def f(float(N,M) X, float(N,M) B, float(M) w) -> (Y) {"
CENTRED = {
    "a variance": """mu(n) +=! X(n, m) / float(M)
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n)) / float(M)""",
    "of a total": """s(n) +=! X(n, m)  mu(n) = s(n) / M
        Y(n) +=! (mu(n) - X(n, m)) * (mu(n) - X(n, m)) / (M + 1)""",
    "of columns": """mu(m) +=! X(n, m) / N
        v(m) +=! (X(n, m) - mu(m)) * (X(n, m) - mu(m))  Y(m) = sqrt(v(m) + 0.5)""",
    "of all": """mu +=! X(n, m) / (N * M)
        Y +=! (X(n, m) - mu) * (X(n, m) - mu)""",
    "of what is computed": """mu(n) +=! X(n, m) * B(n, m) / M
        Y(n) +=! (X(n, m) * B(n, m) - mu(n)) * (X(n, m) * B(n, m) - mu(n))""",
}
OTHERS = {
    "one term less": """mu(n) +=! X(n, m) / (M - 1)
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n))""",
    "of a part": """mu(n) +=! X(n, m) / M where m in 1:M
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n))""",
    "over a part": """mu(n) +=! X(n, m) / M
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n)) where m in 1:M""",
    "of something else": """mu(n) +=! B(n, m) / M
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n))""",
    "of another row": """mu(n) +=! X(n, m) / M
        Y(n) +=! (X(n, m) - mu(N - 1 - n)) * (X(n, m) - mu(N - 1 - n))""",
    "weighed": """mu(n) +=! X(n, m) / M
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n)) * w(m)""",
    "cubes": """mu(n) +=! X(n, m) / M
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n)) * (X(n, m) - mu(n))""",
    "a diagonal": """mu(n) +=! X(n, m) * B(n, k) / (M * M)
        Y(n) +=! (X(n, m) * B(n, m) - mu(n)) * (X(n, m) * B(n, m) - mu(n))""",
    "under a condition": """mu(n) +=! X(n, m) / M
        Y(n) +=! m > n ? (X(n, m) - mu(n)) * (X(n, m) - mu(n)) : 0.0""",
    "in a triangle": """mu(n) +=! X(n, m) / M
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n)) where m in 0:M, n in 0:N
        Y(n) += (X(n, m) - mu(n)) * (X(n, m) - mu(n)) where n in 0:N, m in 0:min(n + 1, M)""",
    "written twice": """mu(n) +=! X(n, m) / M  mu(n) += 0.5 * B(n, 0)
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n))""",
    "a sum that begins with others": """mu(n) = w(0) where n in 0:N  mu(n) += X(n, m) / M
        Y(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n))""",
}


@sampled("name", [*CENTRED, *OTHERS], keep=4)
def test_gradients_of_any_order_are_right(name: str, rng: np.random.Generator) -> None:
    d = differentiated(f"{HEAD} {({**CENTRED, **OTHERS})[name]} }}")
    assert ("a_mu" not in d.gradient.text) == (name in CENTRED), d.gradient.text
    args = drawn(d.checked, {"N": 3, "M": 4}, rng)
    assert_gradient(d, args, rng)
    args += seeds_of(d.checked, args, rng)
    both = differentiated_def(check(whole(d.gradient), d.gradient.name))
    assert_gradient(both, args, rng, step=1e-7, tolerance=1e-4)


@pytest.mark.parametrize("sizes", [(1, 1), (0, 3), (3, 0)], ids=str)
def test_rows_of_one_element_and_of_none(sizes: tuple[int, int], rng: np.random.Generator) -> None:
    for text in CENTRED.values():
        d = differentiated(f"{HEAD} {text} }}")
        args = drawn(d.checked, dict(zip("NM", sizes, strict=True)), rng)
        found = d.pull(args, seeds_of(d.checked, args, rng))
        assert [x.shape for x in found] == [x.shape for x in args]
        assert all(np.isfinite(x).all() for x in found)


def test_what_is_no_number_stays_in_its_row(rng: np.random.Generator) -> None:
    d = differentiated(f"{HEAD} {CENTRED['a variance']} }}")
    args = drawn(d.checked, {"N": 4, "M": 5}, rng)
    args[0][1, 2], args[0][2, 3] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        slope = d.pull(args, [np.ones(4)])[0]
    assert np.isfinite(slope[[0, 3]]).all()
    assert np.isnan(slope[1]).all()
    assert np.isnan(slope[2, 3])
    assert np.isneginf(np.delete(slope[2], 3)).all()  # as PyTorch's var has it


def test_what_overflows_leaves_the_others_of_its_row_alone(rng: np.random.Generator) -> None:
    d = differentiated(f"{HEAD} {CENTRED['a variance']} }}")
    args = drawn(d.checked, {"N": 2, "M": 4}, rng)
    args[0][1] = [1.5e308, -1.5e308, 0, 0]
    seeds = [np.full(2, 2.0)]
    with np.errstate(over="ignore", invalid="ignore"):
        slope = d.pull(args, seeds)[0]
    assert np.isfinite(slope[0]).all()
    assert np.isfinite(slope[1, 2:]).all()


def test_a_norm_sums_a_row_of_its_gradient_once() -> None:
    text = gradient(
        check(
            parse("""def f(float(N,M) X) -> (Y) {
        mu(n) +=! X(n, m) / float(M)
        v(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n)) / float(M)
        Y(n, m) = (X(n, m) - mu(n)) * rsqrt(v(n) + 1e-5)
    }""")
        )
    ).text
    assert text.count("a_mu(n) +=") == 1
