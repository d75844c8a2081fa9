"""Values that two lines compute are stored by one and read by the other, where that is the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tcdsl.codegen.gradient.lines import Line, Loop, Part
from tcdsl.codegen.gradient.reuse import reused
from tcdsl.codegen.gradient.text import definition_text, head
from tcdsl.codegen.gradient.versions import Version
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.gradient.differences import drawn
from tests.tiers import sampled

PARAMS = "float(N,M) A, float(N,M) B, float(M) c"
SIZES = {"N": 3, "M": 4}


def parts_of(body: Sequence[typed.Stmt]) -> list[Part]:
    """Return statements as lines."""
    return [
        Loop(x.var, x.low, x.high, tuple(parts_of(x.body)))
        if isinstance(x, typed.Loop)
        else Line(x.target, x.subs, x.op, x.value, x.ranges)
        for x in body
    ]


def shared(checked: CheckedDef) -> str:
    """Return the text of a definition whose lines read what others of them store."""
    tensors = (*checked.params, *checked.returns, *checked.temps)
    values = {t.name: Version(t.name, t.name, t.dtype, t.shape) for t in tensors}
    return _text(checked, reused(parts_of(checked.body), values))


def printed(checked: CheckedDef) -> str:
    """Return the text of a definition as it is."""
    return _text(checked, parts_of(checked.body))


def _text(checked: CheckedDef, parts: Sequence[Part]) -> str:
    params, returns = (
        [head(t.name, t.dtype, t.shape) for t in x] for x in (checked.params, checked.returns)
    )
    return definition_text(checked.name, params, returns, parts, "<text>")


def body_of(lines: str, returns: str = "S, T", params: str = PARAMS) -> list[str]:
    """Return the lines of a definition after the pass, without their ranges."""
    text = shared(check(parse(f"def f({params}) -> ({returns}) {{ {lines} }}")))
    body = text.replace("\n     ", "").split("{\n", 1)[1].rstrip("}\n").split("\n")
    return [x.split(" where ")[0].strip() for x in body]


def test_a_sum_reads_what_another_line_stores() -> None:
    # the line that stores moves up, and names of indices do not count
    assert body_of("S(m) +=! A(n, m) * B(n, m)  T(i, j) = A(i, j) * B(i, j)") == [
        "T(i, j) = A(i, j) * B(i, j)",
        "S(m) +=! T(n, m)",
    ]


def test_a_part_of_a_value_is_read_too() -> None:
    found = body_of("T(n, m) = tanh(A(n, m))  S(n) +=! (1 - tanh(A(n, m))) * c(m)")
    assert found[1] == "S(n) +=! (1.0 - T(n, m)) * c(m)"


def test_a_slice_of_a_turn_is_read() -> None:
    found = body_of(
        """S(n, m) = 0.0 where n in 0:N, m in 0:M
        for t in 0:N { S(n, m) += A(n, m) * B(t, m)  T(t, n, m) = A(n, m) * B(t, m) }""",
        "float(N,M) S, float(N,N,M) T",
    )
    assert found[2:4] == ["T(t, n, m) = A(n, m) * B(t, m)", "S(n, m) += T(t, n, m)"]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("S(m) +=! A(n, m) * B(n, m)  T(n, m) = A(n, m) * B(n, m) where m in 1:M", "other points"),
        ("T(n, m) = B(n, m)  T(n, m) += A(n, m) * B(n, m) S(m) +=! A(n, m) * B(n, m)", "added to"),
        ("T(n) +=! A(n, m) * B(n, m)  S(m) +=! A(n, m) * B(n, m)", "several meet"),
        ("S(n, m) = c(m) * B(n, 0)  T(n, m) = c(m) * B(n, 0)", "cheaper to compute"),
        ("S(m) +=! A(n, m)  T(n, m) = A(n, m)", "what is read already"),
        ("S(m) +=! 2 * A(n, m)  T(n, m) = 2 * A(n, m)", "as much is read"),
        ("U(n, m) = A(n, m)  T(n, m) = U(n, m) * B(n, m)  U(n, m) = B(n, m)"
         "S(m) +=! U(n, m) * B(n, m)", "an operand is written between"),
        ("T(n, m) = A(n, m) * B(n, m)  T(n, m) = 1.0 + T(n, m)"
         "S(m) +=! A(n, m) * B(n, m)", "written again between"),
        ("T(n, m) = A(n, m)  S(m) +=! A(n, m) * B(n, m)  S(m) += T(n, m)"
         "T(n, m) = A(n, m) * B(n, m)", "the reader's way up is barred"),
        ("T(n, m) = A(n, m)  T(n, m) = T(n, m) * B(n, m)  S(m) +=! T(n, m) * B(n, m)", "itself"),
        ("T(n, m) +=! A(n, m) * B(n, m) where r in 0:2  S(m) +=! A(n, m) * B(n, m)", "twice"),
    ],
)  # fmt: skip
def test_values_that_are_not_the_same_are_computed(lines: str, why: str) -> None:
    checked = check(parse(f"def f({PARAMS}) -> (S, T) {{ {lines} }}"))
    assert shared(checked) == printed(checked), why


def test_halves_are_not_shared() -> None:
    params = "float16(N,M) A, float16(N,M) B, float(M) c"
    found = body_of(
        "S(n) +=! float(float16(A(n, m) * B(n, m)))  T(n, m) = A(n, m) * B(n, m)",
        "float(N) S, float16(N,M) T",
        params,
    )
    assert "T(n, m)" not in found[0]


def random_lines(rng: np.random.Generator) -> str:
    """Return a program of few values, which many of its lines have, of few tensors."""

    def pick(options: Sequence[str]) -> str:
        return options[int(rng.integers(len(options)))]

    values = [
        "A({0}) * B({0})", "exp(A({0}))", "T({0}) * B({0})", "T({0}) > 0 ? U({0}) : 0.0",
        "tanh(U({0}))", "A({0}) * B({0}) + tanh(U({0}))", "m <= n ? T({0}) * A({0}) : 0.25",
        "c(m) * B({0})", "S(n) * exp(A({0}))",
    ]  # fmt: skip

    few = [pick(values) for _ in range(3)]

    def line() -> str:
        value = pick(few).format("n, m")
        left = pick(("T(n, m)", "U(n, m)", "V(n, m)", "V(n, m)", "S(n)", "S(n)", "V(n, m)"))
        where = " where n in 0:N, m in 0:M"
        if left == "S(n)":
            value = value.replace("S(n)", "c(0)")
            return f"S(n) {pick(('+=!', '+='))} {value}{where}"
        op = pick(("=", "=", "=", "+=!", "+="))
        if left[0] + "(" in value and op != "=":
            op = "="
        if rng.random() < 0.2:
            where = pick((" where n in 0:N, m in 1:M", " where n in 0:2, m in 0:M"))
        text = f"{left} {op} {value}{where}"
        if rng.random() < 0.3 and "<=" not in value:
            for a, b in (("n", "i"), ("m", "j")):
                text = text.replace(f"({a}", f"({b}").replace(f", {a})", f", {b})")
                text = text.replace(f" {a} in", f" {b} in")
        return text

    def lines(most: int) -> str:
        return " ".join(line() for _ in range(int(rng.integers(2, most))))

    start = (
        "T(n, m) = B(n, m) U(n, m) = A(n, m) * 0.5 V(n, m) = c(m) where n in 0:N, m in 0:M "
        "S(n) = B(n, 0)"
    )
    loop = f"for t in 0:2 {{ {lines(6)} }}" if rng.random() < 0.5 else ""
    return f"def f({PARAMS}) -> (S, T, U, V) {{ {start} {lines(6)} {loop} {lines(4)} }}"


@sampled("seed", range(8), keep=1, wide=3)
def test_random_lines_mean_the_same(seed: int) -> None:
    _hold(range(10 * seed, 10 * seed + 10))


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1, 40))
def test_many_random_lines_mean_the_same(seed: int) -> None:
    _hold(range(100 * seed, 100 * seed + 100))


def _hold(seeds: Sequence[int]) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        checked = check(parse(random_lines(rng)))
        text = shared(checked)
        args = drawn(checked, SIZES, rng)
        wanted = evaluate(checked, args, float64=True)
        for got, want in zip(evaluate(check(parse(text)), args, float64=True), wanted, strict=True):
            message = f"seed {seed}\n{checked.text}\n{text}"
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13, err_msg=message)


def test_biases_sum_what_goes_back_to_weights() -> None:
    text = """def f(float(B,I) X, float(H,I) W, float(H) b) -> (Y) {
        Z(n, h) +=! X(n, i) * W(h, i)  R(n, h) = tanh(Z(n, h) + b(h))  Y(n) +=! R(n, h) * R(n, h)
    }"""
    back = gradient(check(parse(text))).text
    assert "d_b(h) +=! a_Z(n, h)" in back, back
