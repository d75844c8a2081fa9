"""Ranges and boxes: the results the language promises, and the truth of bounds and solutions."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.proofs.ranges import Bound, Interval, interval, is_exact, solve
from tcdsl.grammar.proofs.signs import maximum, minimum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.typed import CheckedDef


def checked(text: str, **generics: Any) -> CheckedDef:
    return check(parse(text), generics=generics)


def ranges(text: str, statement: int = 0) -> dict[str, str]:
    body = checked(text).body
    found = body[statement]
    assert isinstance(found, t.Statement)
    return {r.name: f"{r.low}:{r.high}" for r in found.ranges}


def box(text: str, name: str = "O") -> list[str]:
    """Return `low + extent` of each dimension of a return."""
    tensor = checked(text).tensor(name)
    return [f"{lo} + {n}" for lo, n in zip(tensor.low, tensor.shape, strict=True)]


CONV = "float(N,C,H,W) I, float(M,C,KH,KW) K"


@pytest.mark.parametrize(
    ("params", "body", "expected"),
    [
        ("float(N) I", "O(i) = I(123*i)", ["0 + (N + 122) / 123"]),
        ("float(N) I", "O(i) = I(i-1)", ["1 + N"]),
        ("float(N) I", "O(i) = I(i+5)", ["-5 + N"]),
        ("float(N) I", "O(i) = I(10-i)", ["-N + 11 + N"]),
        ("float(N) I", "O(i) = I(2*i) + I(2*i+1)", ["0 + N / 2"]),
        ("float(N) I", "O(i) +=! I(2*i+k) where k in 0:2", ["0 + N / 2"]),
        ("float(N) I", "O(i) = I(i) where i in 3:N-1", ["3 + N - 4"]),
        ("float(N) I", "O(i) = I(i / 2)", ["0 + 2 * N"]),
        ("float(N) I", "O(i) = I((i + 1) / 3 - 1)", ["2 + 3 * N"]),
        ("float(A,B,C) I", "O(i) +=! I(j,i+j,k)", ["0 + B - A + 1"]),
        (
            CONV,
            "O(n,m,h,w) +=! I(n,c,h+kh,w+kw) * K(m,c,kh,kw)",
            ["0 + N", "0 + M", "0 + H - KH + 1", "0 + W - KW + 1"],
        ),
        (
            CONV,
            "O(n,m,h,w) +=! I(n,c,2*h+kh,2*w+kw) * K(m,c,kh,kw)",
            ["0 + N", "0 + M", "0 + (H - KH) / 2 + 1", "0 + (W - KW) / 2 + 1"],
        ),
        (
            CONV,
            "O(n,m,h,w) +=! I(n,c,2*h+3*w+kh,2*w+kw) * K(m,c,kh,kw)",
            ["0 + N", "0 + M", "0 + (H - KH - 3 * ((W - KW) / 2)) / 2 + 1", "0 + (W - KW) / 2 + 1"],
        ),
        ("float(N) I", "O(i + N) = I(i)", ["0 + 2 * N"]),
        ("float(N) I", "O(i) = I(i) O(i + N) = I(i)", ["0 + 2 * N"]),
        ("float(N) I", "O(N - 1 - i) = I(i)", ["0 + N"]),
        ("float(N) I", "O(i, i) = I(i)", ["0 + N", "0 + N"]),
        ("float(N) I", "O(3) = I(0)", ["0 + 4"]),
        ("float(N) I", "O(N) = I(0)", ["0 + N + 1"]),
        ("float(N) I", "O(i - 2) = I(i)", ["-2 + N"]),
        ("float(N) I, float(M) J", "O(i) = I(i) O(i) = J(i)", ["0 + max(M, N)"]),
        ("float(N) I, float(M) J", "O(i) = I(i) + J(i)", ["0 + min(M, N)"]),
        (
            "float(N) I, float(M) J",
            "O(i, j) = I(i) + J.0 where j in 0:I.0+1",
            ["0 + N", "0 + N + 1"],
        ),
        ("float(N,M) I", "O(i) = i where i in 0:I.-1", ["0 + M"]),
        ("float(N) I", "O(i) = 1.0 where exists I(i + 1)", ["-1 + N"]),
        ("float(N) I", "O(i) = I(i)  O(i) = 2.0 * O(i)", ["0 + N"]),
        ("float(N) I", "O(i) = I(i % 3) where i in 0:N", ["0 + N"]),
        ("float(H,W) I", "O(n) = I(n / W, n % W) where n in 0:H*W", ["0 + H * W"]),
    ],
)
def test_box_of_a_return(params: str, body: str, expected: list[str]) -> None:
    assert box(f"def f({params}) -> (O) {{ {body} }}") == expected


def test_a_box_with_min_and_max_as_the_original_infers_it() -> None:
    text = "def f(float(A,B) I) -> (O) { O(j) +=! I(10+i-j, i+j) where i in 0:10 }"
    tensor = checked(text).returns[0]
    for a, b in product(range(1, 30, 4), repeat=2):
        sizes = {"A": a, "B": b}
        assert tensor.low[0].evaluate(sizes) == 20 - min(a, 20)
        assert tensor.shape[0].evaluate(sizes) == min(b - 10, 10) + min(a, 20) - 19


def test_gradients_of_a_convolution_as_the_original_infers_them() -> None:
    text = """def f(float(N,M,OH) D, float(M,C,KH) W, float(N,C,H) I) -> (A, B) {
      A(n,c,h) +=! D(n,m,h-kh) * W(m,c,kh)
      B(m,c,kh) +=! D(n,m,h-kh) * I(n,c,h)
    }"""
    assert box(text, "A") == ["0 + N", "0 + C", "KH - 1 + OH - KH + 1"]
    assert box(text, "B") == ["0 + M", "0 + C", "H - OH + OH - H + 1"]


def test_indices_stand_in_the_order_of_their_appearance() -> None:
    text = (
        "def f(float(A,B,C) I, float(C) V) -> (O) { O(j, i) +=! V(l) * I(i, j, k) where r in 0:2 }"
    )
    statement = checked(text).body[0]
    assert isinstance(statement, t.Statement)
    assert [(r.name, r.kind) for r in statement.ranges] == [
        ("j", "output"),
        ("i", "output"),
        ("l", "reduction"),
        ("k", "reduction"),
        ("r", "reduction"),
    ]


def test_a_read_is_judged_by_the_box_of_the_statements_before_it() -> None:
    text = """def f(float(N) A) -> (O, P) {
      O(i) = A(i) where i in 0:3
      P(i) = O(i)
      O(i) = A(i)
    }"""
    assert ranges(text, 1) == {"i": "0:3"}
    assert box(text, "O") == ["0 + max(3, N)"]


def test_a_guarded_read_bounds_an_index_only_if_nothing_else_does() -> None:
    head = "def f(float(N) A, float(M) B, float s) -> (O)"
    assert ranges(f"{head} {{ O(i) = s > 0.0 ? A(i) : B(i) }}") == {"i": "0:min(M, N)"}
    assert ranges(f"{head} {{ O(i) = i < M ? B(i) + A(i) : A(i) }}") == {"i": "0:N"}
    assert ranges(f"{head} {{ O(i) = A(i) + (i < M ? B(i) : s) }}") == {"i": "0:N"}
    assert ranges(f"{head} {{ O(i) = A(i) > s && B(i) > s ? s : 0.0 }}") == {"i": "0:N"}


def test_a_guard_that_ensures_a_subscript_leaves_the_index_to_the_others() -> None:
    text = """def halo(float(H) I, float(K) Q) -> (O) {
      O(h) +=! (h + k - 1 >= 0 && h + k - 1 < H) ? I(h + k - 1) * Q(k) : 0 where h in 0:H
    }"""
    assert ranges(text) == {"h": "0:H", "k": "0:K"}


def test_unsigned_data_and_clamps_bound_an_index() -> None:
    head = "def f(float(N) A, uint8(M) U, int32(M) V) -> (O)"
    assert ranges(f"{head} {{ O(i, m) = A(i + U(m)) }}")["i"] == "0:N - 255"
    clamp = f"{head} {{ O(i, m) = A(i + max(min(V(m), 3), 0)) }}"
    assert ranges(clamp)["i"] == "0:N - 3"


def test_an_annotated_return_has_exactly_its_box_and_bounds_what_is_free() -> None:
    text = "def f(float(N) A) -> (float(N+2) O) { O(i) = 1.0  O(i+1) = A(i) }"
    assert box(text) == ["0 + N + 2"]
    assert ranges(text) == {"i": "0:N + 2"}


def test_scalars_are_symbols_that_may_be_negative() -> None:
    definition = checked(
        "def f(float(N) A, int32 a, uint8 b) -> (O) { O(i) = A(i) where i in a:b }"
    )
    assert definition.scalars == ("a", "b")
    assert definition.sizes == ("N", "a", "b")
    asked = [str(c.size) for c in definition.constraints]
    assert "b - a" in asked
    assert any("a" in c and "max" in c for c in asked)  # A(a) is inside, unless there is no i


# ---- properties

SIZES = ("N", "M")
INDICES = ("i", "j")
small = st.integers(-3, 3)


def _value(draw: st.DrawFn) -> Size:
    value = Size.const(draw(st.integers(-4, 4)))
    for name in INDICES:
        value = value + Size.symbol(name, signed=True) * draw(small)
    for name in SIZES:
        value = value + Size.symbol(name) * draw(st.integers(-1, 1))
    match draw(st.integers(0, 4)):
        case 0:
            return value // draw(st.integers(1, 4))
        case 1:
            return value % draw(st.integers(1, 4))
        case 2:
            return minimum(value, Size.symbol("i", signed=True))
        case 3:
            return maximum(value, Size.const(draw(small)))
        case _:
            return value


symbolic_values = st.composite(_value)()
sizes = st.fixed_dictionaries({"N": st.integers(0, 5), "M": st.integers(0, 5)})


@settings(max_examples=300)
@given(symbolic_values, sizes, st.integers(-2, 2), st.integers(0, 3), st.integers(0, 3))
def test_bounds_over_a_box_hold_and_exact_ones_are_attained(
    value: Size, values: dict[str, int], low: int, p: int, q: int
) -> None:
    domain = {
        "i": Interval(Size.const(low), Size.const(low + p)),
        "j": Interval(Size(), Size.symbol("M") + q),
    }
    at = interval(value, domain)
    points = [
        value.evaluate(values | {"i": i, "j": j})
        for i, j in product(range(low, low + p + 1), range(values["M"] + q + 1))
    ]
    if at.low is not None:
        assert at.low.evaluate(values) <= min(points)
    if at.high is not None:
        assert at.high.evaluate(values) >= max(points)
    if is_exact(value, domain):
        assert at.low is not None
        assert at.low.evaluate(values) == min(points)


@settings(max_examples=200)
@given(st.integers(-4, 4).filter(bool), small, st.integers(-5, 5), st.integers(0, 20))
def test_a_solved_range_is_the_largest_that_is_inside(a: int, b: int, c: int, extent: int) -> None:
    value = Size.symbol("i", signed=True) * a + Size.symbol("j", signed=True) * b + c
    domain = {"j": Interval(Size(), Size.const(2))}
    found = solve(["i"], [Bound(value, Size(), Size.const(extent))], domain)["i"]
    assert found.low is not None
    assert found.high is not None
    first, last = found.low.evaluate({}), found.high.evaluate({})
    inside = [i for i in range(-60, 60) if all(0 <= a * i + b * j + c < extent for j in range(3))]
    assert inside == list(range(first, last + 1))


def test_the_order_of_conditions_does_not_matter() -> None:
    i, j, n = Size.symbol("i", signed=True), Size.symbol("j", signed=True), Size.symbol("N")
    bounds = [Bound(i + j, Size(), n), Bound(j, Size(), Size.const(3)), Bound(i * 2, Size(), n)]
    first = solve(["i", "j"], bounds, {})
    assert solve(["j", "i"], bounds[::-1], {}) == first


def checks(text: str) -> list[tuple[bool, ...]]:
    """Return which subscripts of the reads of A are checked at run time."""
    (found,) = checked(text).body
    assert isinstance(found, t.Statement)
    reads: list[tuple[bool, ...]] = []
    todo: list[object] = [found.value]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            todo += item
        elif isinstance(item, t.Node):
            if isinstance(item, t.Read) and item.tensor == "A":
                reads.append(item.checked)
            todo += [getattr(item, name) for name in item.__slots__ if name != "span"]
    return reads


@pytest.mark.parametrize(
    ("value", "is_checked"),
    [
        ("A(i)", False),
        ("A(I(i))", True),
        ("A(max(min(I(i), N - 1), 0))", False),
        ("A(clamp(I(i), 0, N - 1))", False),
        ("(I(i) >= 0 && I(i) < N) ? A(I(i)) : 0", False),
        ("(I(i) < 0 || I(i) >= N) ? 0 : A(I(i))", False),
        ("(I(i) >= 0) ? A(I(i)) : 0", True),
        ("(i > 0) ? A(i - 1) : 0", False),
        ("(i > 1) ? A(i - 1) : 0", False),
        ("(i > 0) ? A(i - 2) : 0", True),
        ("(i == 3) ? A(3) : 0", False),
        ("(i < N / 2) ? A(2 * i) : 0", False),
        ("A(i % N)", False),
        ("A(N - 1 - i)", False),
        ("A(i) + (I(0) > 2 ? A(2) : 0)", True),
    ],
)
def test_what_is_proved_inside_is_not_checked_at_run_time(value: str, is_checked: bool) -> None:
    text = f"def f(float(N) A, int32(N) I) -> (O) {{ O(i) = {value} where i in 0:N }}"
    assert any(any(flags) for flags in checks(text)) == is_checked


def test_bytes_are_inside_a_table_of_256() -> None:
    text = "def f(float(256) A, uint8(N) U, int8(N) S) -> (O) { O(i) = A(U(i)) + A(128 + S(i)) }"
    assert checks(text) == [(False,), (False,)]
