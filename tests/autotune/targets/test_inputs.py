"""Inputs of a trial, tolerances, and the text in which names do not matter."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.autotune.store.trial import UntunedError
from tcdsl.autotune.targets import tolerance
from tcdsl.autotune.targets.compare import compare
from tcdsl.autotune.targets.inputs import random_inputs, subscript_limits, term_scales
from tcdsl.autotune.targets.structural_text import structural_text
from tcdsl.autotune.worker.case import Case
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.reference.evaluator import evaluate
from tests.autotune.programs import FCRELU, GATHER, SOFTMAX, checked, problem
from tests.tiers import sampled


def test_the_same_seed_gives_the_same_arguments_and_another_others() -> None:
    definition, sizes = checked(FCRELU), {"B": 3, "M": 4, "N": 5}
    first, again, other = (random_inputs(definition, sizes, seed) for seed in (1, 1, 2))
    assert [a.shape for a in first] == [(3, 4), (5, 4), (5,)]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_subscripts_lie_in_what_they_index_and_reach_its_ends() -> None:
    _, index = random_inputs(checked(GATHER), {"V": 5, "D": 2, "N": 1000}, 0)
    assert (index.min(), index.max()) == (0, 4)


@pytest.mark.parametrize(
    ("text", "sizes", "limit"),
    [
        (GATHER, {"V": 7, "D": 1, "N": 1}, 7),
        ("def f(float(V) T, int32(N) I) -> (O) { O(n) = T(2 * I(n) + 1) }", {"V": 10, "N": 3}, 5),
        (
            "def f(float(V) T, int32(N) I) -> (O) { O(n) +=! T(I(n) + k) where k in 0:3 }",
            {"V": 10, "N": 3},
            8,
        ),
    ],
)
def test_the_limit_of_a_subscript_follows_from_the_expression_it_stands_in(
    text: str, sizes: dict[str, int], limit: int
) -> None:
    definition = checked(text)
    assert subscript_limits(definition, sizes) == {"I": limit}
    evaluate(definition, random_inputs(definition, sizes, 0))


def test_integers_that_index_nothing_are_small_and_scalars_positive() -> None:
    definition = checked(
        "def f(int32(N) X, uint8(N) U, float s, bool(N) B) -> (O) {"
        " O(n) = X(n) + U(n) + s + (B(n) ? 1 : 0) }"
    )
    x, u, s, b = random_inputs(definition, {"N": 5000}, 0)
    assert (x.min(), x.max()) == (-8, 8)
    assert (u.min(), u.max()) == (0, 8)
    assert 0.5 <= s <= 1.5
    assert b.dtype == np.bool_


def test_given_arguments_are_taken_as_they_are() -> None:
    definition = checked("def f(float(N) X, float eps) -> (O) { O(n) = X(n) / eps }")
    _, eps = random_inputs(definition, {"N": 3}, 0, {"eps": 1e-5})
    assert eps == np.float32(1e-5)


def test_tolerance_grows_with_the_root_of_the_terms_and_stays_below_one_term() -> None:
    program = program_of(checked(FCRELU))
    (small,), (large,) = (
        tolerance.relative_errors(program, {"B": 2, "M": m, "N": 3}) for m in (64, 6400)
    )
    assert large == pytest.approx(10 * small)
    # of 6400 products of normals the largest sum is about 300: a missing one still shows
    assert 300 * large < 0.1


def test_terms_add_up_along_a_chain() -> None:
    chain = """
    def two(float(B,K) X, float(K,M) V, float(M,N) W) -> (H, Y) {
      H(b, m) +=! X(b, k) * V(k, m)
      Y(b, n) +=! H(b, m) * W(m, n)
    }"""
    program = program_of(checked(chain))
    first, second = tolerance.relative_errors(program, {"B": 1, "K": 50, "M": 50, "N": 1})
    assert second == pytest.approx(first * np.sqrt(2))


def test_integers_have_no_tolerance() -> None:
    program = program_of(checked("def f(int32(N,K) X) -> (O) { O(n) +=! X(n, k) }"))
    assert tolerance.relative_errors(program, {"N": 2, "K": 9}) == (0.0,)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (FCRELU, False),
        (SOFTMAX, False),
        ("def f(float(N) X) -> (O) { O(n) = X(n) > 0 ? X(n) * 2 : X(n) }", True),
        ("def f(float(N) X) -> (O) { O(n) = floor(X(n)) }", True),
        ("def f(float(N) X) -> (O) { O(n) = isfinite(X(n)) }", True),
        ("def f(float(N) X) -> (O) { O(n) = int32(X(n)) }", True),
        ("def f(int32(N) X) -> (O) { O(n) = X(n) > 0 ? 1 : 2 }", False),
    ],
)
def test_it_is_known_where_rounding_can_change_an_answer_by_a_jump(text: str, steps: bool) -> None:
    assert tolerance.is_discontinuous(program_of(checked(text))) is steps


def test_the_structure_is_the_same_where_only_names_differ() -> None:
    renamed = (
        FCRELU.replace("O1", "zz").replace("W1", "a").replace("B1", "M1").replace("(b", "(q")
        .replace(", b", ", q").replace("M)", "Aa)").replace("(B,", "(Zz,").replace("fcrelu", "g")
    )  # fmt: skip
    assert renamed != FCRELU
    assert structural_text(checked(renamed)) == structural_text(checked(FCRELU))


@pytest.mark.parametrize(
    "change",
    [("fmax", "fmin"), ("+ B1", "- B1"), (", 0)", ", 1)"), ("float(", "double(")],
)
def test_the_structure_differs_where_anything_else_does(change: tuple[str, str]) -> None:
    assert structural_text(checked(FCRELU.replace(*change))) != structural_text(checked(FCRELU))


CONV = """
def conv(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n,f,y,x) +=! I(n,c,y+i,x+j) * K(f,c,i,j)
}"""
ATTENTION = """
def scores(float(B,N,D) q, float(B,M,D) k, float(B,M,E) v) -> (S, O) {
  S(b,n,m) +=! q(b,n,d) * k(b,m,d)
  O(b,n,e) +=! exp(S(b,n,m)) * v(b,m,e)
}"""


@pytest.mark.parametrize(
    ("text", "sizes", "scales"),
    [
        (FCRELU, {"B": 3, "M": 64, "N": 5}, {"W1": 1 / 8}),
        (CONV, {"N": 1, "C": 4, "H": 9, "W": 9, "F": 2, "KH": 2, "KW": 2}, {"K": 1 / 4}),
        (ATTENTION, {"B": 2, "N": 3, "M": 5, "D": 16, "E": 3}, {"k": 1 / 4}),
        (SOFTMAX, {"N": 3, "D": 4}, {}),
    ],
)
def test_weights_are_as_small_as_their_sums_are_long(
    text: str, sizes: dict[str, int], scales: dict[str, float]
) -> None:
    definition = checked(text)
    assert term_scales(definition, sizes) == scales
    drawn = zip(definition.params, random_inputs(definition, sizes, 0), strict=True)
    for tensor, values in drawn:
        assert 0.5 < np.std(values) / scales.get(tensor.name, 1.0) < 1.5


# ---- loops: what rounding grows to

LSTM = """
def lstm(float(T,B,I) X, float(B,N) H0, float(B,N) C0, float(4,N,I) W, float(4,N,N) U) -> (H, C) {
  H(0, b, n) = H0(b, n)
  C(0, b, n) = C0(b, n)
  for t in 0:T {
    G(b, k, n) +=! X(t, b, i) * W(k, n, i)
    G(b, k, n) += %s
    C(t + 1, b, n) = sigmoid(G(b, 1, n)) * C(t, b, n) + sigmoid(G(b, 0, n)) * tanh(G(b, 2, n))
    H(t + 1, b, n) = sigmoid(G(b, 3, n)) * %s
  }
}"""
PRODUCT, END = "H(t, b, m) * U(k, n, m)", "tanh(C(t + 1, b, n))"
PLANTED = {
    "a term of a late turn is missing": (f"(t == 100 && m == N - 1 ? 0.0 : {PRODUCT})", END),
    "a term of one gate is missing": (f"(k == 2 && m == 3 ? 0.0 : {PRODUCT})", END),
    "a turn late": (f"(t == 64 ? H(t - 1, b, m) * U(k, n, m) : {PRODUCT})", END),
    "half precision": (PRODUCT, f"float(float16({END}))"),
}
LONG = {"T": 128, "B": 2, "I": 8, "N": 12}


def excess(case: Case, wrong: str) -> float:
    """Return by how much the outputs of another definition exceed the tolerances of a case."""
    args = [a for o, a in zip(case.operands, case.data, strict=True) if o.role != "out"]
    got = evaluate(checked(wrong), args)
    return max(float(compare(g, e)[1].max()) for g, e in zip(got, case.expected, strict=True))


@pytest.fixture(scope="module")
def long_case() -> Case:
    return problem(LSTM % (PRODUCT, END), LONG).case()


@pytest.mark.wide
def test_a_right_lstm_of_128_turns_is_right(long_case: Case) -> None:
    assert excess(long_case, LSTM % (PRODUCT, END)) <= 0
    reordered = (PRODUCT, "tanh(C(t + 1, b, n)) * 1.0000001")  # another rounding of each turn
    assert excess(long_case, LSTM % reordered) <= 0


@sampled("fault", PLANTED, keep=1)
def test_a_wrong_lstm_of_128_turns_is_found(long_case: Case, fault: str) -> None:
    assert excess(long_case, LSTM % PLANTED[fault]) > 0


def test_a_program_whose_results_are_chance_is_not_judged() -> None:
    text = """
    def chaos(float(N) X) -> (Y) {
      Y(0, n) = X(n)
      for t in 0:80 { Y(t + 1, n) = 1 - 2 * Y(t, n) * Y(t, n) }
    }"""
    with pytest.raises(UntunedError, match="cannot be told right from wrong"):
        problem(text, {"N": 5}).case()


def test_a_few_values_that_fall_the_other_way_do_not_make_chance_of_a_loop() -> None:
    wanted = np.linspace(-1, 1, 100)
    got = wanted + 1e-7
    assert tolerance.deviation(got, wanted, may_jump=False) == pytest.approx(1e-7)
    got[3] += 1
    assert tolerance.deviation(got, wanted, may_jump=False) == np.inf
    assert tolerance.deviation(got, wanted, may_jump=True) == pytest.approx(1e-7)
    got[:30] = np.nan
    assert tolerance.deviation(got, wanted, may_jump=True) == np.inf


def test_offsets_of_segments_rise_and_stay_inside() -> None:
    text = (
        "def f(float(V,D) E, int32(L) I, int64(C) off) -> (S) "
        "{ S(b, d) +=! E(I(l), d) where l in off(b):off(b + 1) }"
    )
    _, rows, offsets = random_inputs(checked(text), {"V": 5, "D": 3, "L": 40, "C": 9}, 0)
    assert 0 <= rows.min() <= rows.max() < 5
    assert 0 <= offsets.min() <= offsets.max() <= 40
    assert (np.diff(offsets) >= 0).all()
    assert len({*offsets.tolist()}) > 3
