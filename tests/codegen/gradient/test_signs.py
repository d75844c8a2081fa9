"""Signs that leave sums, and temporaries that results copy: texts, and what they compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tcdsl.codegen.gradient import vjp
from tcdsl.codegen.gradient.lines import Part
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.gradient.whole import whole
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.differences import (
    Array,
    assert_gradient,
    differentiated,
    differentiated_def,
    drawn,
    floats,
    results,
    seeds_of,
)
from tests.codegen.gradient.random_signs import random_signs
from tests.tiers import sampled

ENOUGH, ONE, NONE = {"N": 3, "M": 4}, {"N": 1, "M": 1}, ({"N": 0, "M": 2}, {"N": 2, "M": 0})

TEXTS = {
    "read with the other sign": (
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))
            Y(n, m) = exp(X(n, m) - mx(n)) / s(n)
        }""",
        "- a_s(n)",
    ),
    "a difference turned": (
        "def f(float(N,D) A, float(M,D) B) -> (Y) { Y(n, m) +=! abs(A(n, d) - B(m, d)) }",
        "",
    ),
    "a difference turned in a product": (
        """def f(float(N,D) A, float(M,D) B) -> (Y) {
            Y(n, m) +=! (A(n, d) - B(m, d)) * (A(n, d) - B(m, d))
        }""",
        "(B(m, d) - A(n, d))",
    ),
    "readers of a sum that has lost its sign": (
        """def f(float(N,D) X, float(M,D) C, float(M) W) -> (Y) {
            T(n, m) +=! (X(n, d) - C(m, d)) * (X(n, d) - C(m, d))
            Y(n, m) = exp(-W(m) * W(m) * T(n, m))
        }""",
        "(C(m, d) - X(n, d))",
    ),
    "a sum that windows read": (
        """def f(float(N,M) X, float(D) W) -> (Y) {
            T(n, m) +=! -(pad(X(n, m + j - 1), 0) * W(j)) where m in 0:M
            Y(n, m) +=! -(pad(T(n, m + j - 1), 0) * W(j)) where m in 0:M
        }""",
        "pad(a_T(",
    ),
    "a result that is its adjoint": (
        """def f(float(N) X, float(N) T) -> (L) {
            D(n) = X(n) - T(n)  L +=! sin(D(n)) * D(n)
        }""",
        "-d_X(n)",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_gradients_are_right(name: str, rng: np.random.Generator) -> None:
    text, part = TEXTS[name]
    assert part in gradient(check(parse(text))).text
    d = differentiated(text)
    assert_gradient(d, drawn(d.checked, {"N": 3, "M": 4, "D": 2}, rng), rng)


def test_a_temporary_that_loops_or_others_write_stays() -> None:
    text = """def f(float(N) X, float(N) W) -> (float(N) Y) {
        Y(n) = W(n) * X(n)  for t in 0:3 { Y(n) = sin(Y(n)) * X(n) }
    }"""
    made = gradient(check(parse(text)))
    assert "for " in made.text
    check(parse(made.text))


def is_tame(values: Sequence[Array]) -> bool:
    """Whether differences of results say anything."""
    return all(np.isfinite(v).all() and np.abs(v).max(initial=0) < 1e5 for v in values)


@sampled("seeds", [range(b, b + 4) for b in range(0, 600, 4)], keep=1, wide=3, ids=str)
def test_gradients_of_random_programs_are_right(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        d = differentiated(random_signs(rng))
        for sizes in (ENOUGH, ONE):
            args = drawn(d.checked, sizes, rng)
            if is_tame(results(d.checked, args)):
                assert_gradient(d, args, rng, step=1e-7, tolerance=1e-4)


@sampled("seeds", [range(b, b + 4) for b in range(1000, 1600, 4)], keep=0, wide=3, ids=str)
def test_gradients_are_those_without_these_rewrites(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left(parts: Sequence[Part], *_: object) -> list[Part]:
        return [*parts]

    for seed in seeds:
        rng = np.random.default_rng(seed)
        d = differentiated(random_signs(rng))
        with monkeypatch.context() as m:
            m.setattr(vjp, "without_signs", left)
            m.setattr(vjp, "without_copied", left)
            plain = differentiated_def(d.checked)
        for sizes in (ENOUGH, *NONE):
            args = drawn(d.checked, sizes, rng)
            if not is_tame(results(d.checked, args)):
                continue
            given = seeds_of(d.checked, args, rng)
            pairs = zip(d.pull(args, given), plain.pull(args, given), strict=True)
            for i, (got, want) in zip(floats(d.checked), pairs, strict=True):
                assert got.shape == args[i].shape
                scale = np.abs(want).max(initial=1)
                np.testing.assert_allclose(
                    got, want, rtol=1e-9, atol=1e-10 * scale, err_msg=d.gradient.text
                )


@sampled("seed", range(2000, 2100), keep=1, wide=4)
def test_second_derivatives_of_random_programs_are_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = differentiated(random_signs(rng))
    args = drawn(d.checked, {"N": 2, "M": 3}, rng)
    args += seeds_of(d.checked, args, rng)
    both = differentiated_def(check(whole(d.gradient), d.gradient.name))
    if is_tame(results(both.checked, args)):
        assert_gradient(both, args, rng, step=1e-7, tolerance=1e-4)
