"""Triangular folds along rows go along whole rows, in one pass with what stands around them."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.base.regime import Regime
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.program.triangles import FAR, limits, masked
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import Array, Case, differential, problem, spec_of

RNG = np.random.default_rng(7)
SIZES = {"P": 2, "N": 40}
CAUSAL = """def f(float(P,N,D) Q, float(P,N,D) K, float(P,N,D) V) -> (O) {
  S(p, i, j) +=! Q(p, i, d) * K(p, j, d)
  M(p, i) max=! 0.125 * S(p, i, j) where j in 0:i + 1
  E(p, i, j) = exp(0.125 * S(p, i, j) - M(p, i))
  Z(p, i) +=! E(p, i, j) where j in 0:i + 1
  O(p, i, d) +=! E(p, i, j) * V(p, j, d) where j in 0:i + 1
  O(p, i, d) = O(p, i, d) / Z(p, i)
}"""
FOLDS = [
    ("+=!", "X(p, i, j)", "0:i + 1", 1),
    ("max=!", "X(p, i, j)", "i:N", 1),
    ("min=!", "X(p, i, j) * c(j)", "0:N - i", 1),
    ("+=!", "exp(X(p, i, j))", "i + 3:N", 1),
    ("*=!", "X(p, i, j)", "0:i", 1),
    ("+=!", "X(p, i, i - j)", "0:i + 1", 0),  # whole rows would leave X
    ("+=!", "c(j)", "0:i + 1", 0),  # the same row for all points: a scan
    ("+=!", "X(p, i, j)", "max(0, i - 2):min(N, i + 3)", 0),  # a band: a few of many
    ("+=!", "X(p, i, j)", "0:(i + 1) / 2", 0),
    ("+=!", "X(p, i, j)", "0:n(i)", 0),  # data
]


def fold(op: str, value: str, span: str) -> str:
    return f"""def f(float(P,N,N) X, float(N) c, int32(N) n) -> (float(P,N) Y) {{
        Y(p, i) {op} {value} where p in 0:P, i in 0:N, j in {span}
    }}"""


def triangles_left(program: Program) -> int:
    return sum(s.is_ragged for s in program.statements)


def floats(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("op", "value", "span", "count"), FOLDS)
def test_triangles_become_conditions(op: str, value: str, span: str, count: int) -> None:
    program = program_of(check(parse(fold(op, value, span))))
    assert triangles_left(masked(program, tuple(SIZES.items()))) == 1 - count


def test_what_a_call_says_is_not_known() -> None:
    text = fold("+=!", "X(p, i, j)", "0:i + m").replace("int32(N) n", "int32(N) n, int32 m")
    program = program_of(check(parse(text)))
    at = (*SIZES.items(), ("m", 1))
    assert triangles_left(masked(program, at)) == 1


@pytest.mark.parametrize(
    ("value", "span", "count"),
    [
        ("X(p, i, j)", "0:i + 1", 1),
        ("X(p, i, j)", "i:N", 1),
        ("X(p, i, j)", "i + 3:N", 0),  # of fewer rows the range would end before it begins
        ("X(p, i, j)", "0:N - i", 0),
        ("X(p, i, i - j)", "0:i + 1", 0),
        ("X(p, i, j)", "0:n(i)", 0),
    ],
)
def test_triangles_of_any_sizes(value: str, span: str, count: int) -> None:
    program = program_of(check(parse(fold("+=!", value, span))))
    assert triangles_left(masked(program, ())) == 1 - count
    assert limits(program, ()) == (Size.symbol("N"),) * count


def test_far_rows_are_a_regime() -> None:
    """Conditions are asked in int32: of that many rows there are none."""
    p = problem(fold("+=!", "X(p, i, j)", "0:i + 1"), floats(1, 5, 5), floats(5), np.ones(5, "i4"))
    spec = spec_of(p, exact=False)

    def choice(n: int) -> tuple[dict[str, object], Regime]:
        at = p.sizes | {"N": n}
        config, regime = compiler.generic_choice(p.program, spec, detect(), at)
        return dict(config.items), regime

    (near, regime), (far, _) = choice(5), choice(FAR)
    assert near["g0.form"] != "nest"
    assert far["g0.form"] == "nest"
    assert regime.holds({"P": 0, "N": FAR - 1})
    assert not regime.holds({"P": 0, "N": FAR})


@pytest.mark.cc
@pytest.mark.wide
def test_folds_are_the_references() -> None:
    cases = []
    for op, value, span, count in FOLDS:
        for p, n in ((2, 40), (1, 17), (3, 5)) if count else ():
            x = floats(p, n, n)
            x[:, 0, -1] = np.nan  # which does not count in most
            x[:, -1, 0] = np.inf
            many = np.zeros(n, np.int32)
            text = problem(fold(op, value, span), x, floats(n), many)
            cases += [Case(text, exact=True), Case(text, exact=False)]
    differential(cases, terms=64)


@pytest.mark.cc
@pytest.mark.wide
@pytest.mark.parametrize("n", [1, 16, 37, 64])
def test_causal_attention_is_the_references(n: int) -> None:
    args = (floats(2, n, 8), floats(2, n, 8), floats(2, n, 8))
    differential([Case(problem(CAUSAL, *args), exact) for exact in (True, False)], terms=256)
