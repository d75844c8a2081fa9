"""The reference evaluator against NumPy written by hand, and its fast way against its slow one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcdsl.codegen.program.dtypes import identity
from tcdsl.codegen.reference import evaluator as reference
from tcdsl.codegen.reference import products
from tcdsl.codegen.reference.arithmetic import BUILTINS, cast
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import BoundsError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types import builtins
from tcdsl.grammar.types.dtypes import ALL, BY_NAME


def run(text: str, *args: Any, **options: Any) -> Any:
    results = evaluate(check(parse(text)), args, **options)
    return results[0] if len(results) == 1 else results


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


MM = "def mm(double(M,K) A, double(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"


def test_a_matrix_product() -> None:
    np.testing.assert_allclose(run(MM, normal(3, 4), normal(4, 5)), normal(3, 4) @ normal(4, 5))


@pytest.mark.parametrize("block_bytes", [1, 100, 10_000, 1 << 26])
def test_blocks_of_any_size_give_the_same_sum(block_bytes: int) -> None:
    text = "def f(int32(M,K) A) -> (s, c) { s +=! A(m, k)  c(k) max=! A(m, k) }"
    a = np.random.default_rng(0).integers(-9, 9, (7, 11)).astype(np.int32)
    total, columns = run(text, a, block_bytes=block_bytes)
    assert total == a.sum()
    np.testing.assert_array_equal(columns, a.max(0))


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (MM, [(3, 4), (4, 5)]),
        (
            "def f(double(B,M,K) A, double(K) w) -> (C) { C(m) +=! A(b, m, k) * w(k) * w(k) }",
            [(2, 3, 4), (4,)],
        ),
        (
            "def f(double(M,K) A, double(K) w) -> (C) "
            "{ C(m) +=! A(m, k) * w(k) where k in 1:3, m in 1:M }",
            [(5, 4), (4,)],
        ),
        (
            "def f(double(N,C,H,W) X, double(O,C,3,3) F) -> (Y) "
            "{ Y(n, o, h, w) +=! X(n, c, 2 * h + i, w + j) * F(o, c, i, j) }",
            [(2, 3, 9, 8), (8, 3, 3, 3)],
        ),
        (
            "def f(double(N,C,W) X, double(O,C,3) F, double(O) s) -> (Y) { Y(n, o, w) +=! "
            "s(o) * pad(X(n, c, w + j - 1), 0) * F(o, c, j) * 0.5 where w in 0:W }",
            [(2, 3, 9), (9, 3, 3), (9,)],
        ),
        (
            "def f(double(N,K) X, double(M,K) F) -> (Y) "
            "{ Y(n, m) +=! exp(X(n, k)) * (k > 2 ? F(m, k - 3) : 1) }",
            [(8, 9), (11, 9)],
        ),
    ],
)
@pytest.mark.parametrize("block_bytes", [64 << 20, 700])
def test_the_library_call_agrees_with_the_blocks(
    text: str,
    shapes: Sequence[tuple[int, ...]],
    block_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    args = [normal(*s) for s in shapes]
    calls: list[int] = []

    def counted(*a: Any) -> None:
        calls.append(1)
        products.add_products(*a)

    monkeypatch.setattr(reference, "add_products", counted)
    called = run(text, *args, float64=True, block_bytes=block_bytes)
    assert calls
    monkeypatch.setattr(reference, "factors_of", lambda stmt: None)
    np.testing.assert_allclose(called, run(text, *args, float64=True), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("float64", [False, True])
@pytest.mark.parametrize("factor", ["T(n, m)", "A(n, m)", "A(1, m)"])
def test_a_factor_is_read_inside_of_its_tensor(factor: str, float64: bool, rows: int) -> None:
    text = f"""def f(double(N,M) A) -> (C) {{
      T(n, m) = 2 * A(n, m)
      C(m) +=! T(n, m) * {factor} where n in 0:2, m in 0:M
    }}"""
    with pytest.raises(BoundsError, match=r"subscript 0 of '[TA]' is"):
        run(text, normal(rows, 3), float64=float64)


def test_the_right_side_sees_the_target_as_it_was() -> None:
    text = "def f(double(N) A) -> (B) { B(i) = A(i)  B(i) = B(i) * B(i) + B(i) }"
    np.testing.assert_allclose(run(text, normal(4)), normal(4) ** 2 + normal(4))


@pytest.mark.parametrize("block_bytes", [64 << 20, 100])
def test_turns_of_a_loop_follow_each_other(block_bytes: int) -> None:
    text = """def f(double(T,N) X) -> (Y) {
      Y(t, i) = X(t, i)
      for t in 1:T { Y(t, i) = Y(t - 1, N - 1 - i) * Y(t, i) where i in 0:N }
    }"""
    x, want = normal(4, 7), normal(4, 7)
    for t in range(1, 4):
        want[t] *= want[t - 1, ::-1]
    np.testing.assert_allclose(run(text, x, block_bytes=block_bytes), want)
    np.testing.assert_array_equal(x, normal(4, 7))


def test_an_update_starts_from_the_buffer_that_is_given() -> None:
    text = "def f(double(N) A) -> (s) { s += A(i) }"
    assert run(text, np.ones(3), out=[np.array(10.0)]) == 13
    assert run(text, np.ones(3)) == 3


def test_a_box_may_begin_below_zero() -> None:
    np.testing.assert_array_equal(
        run("def f(double(N) I) -> (O) { O(i) = I(i - 1) }", normal(4)), normal(4)
    )


def test_a_guard_keeps_a_read_inside() -> None:
    text = "def f(double(N) A) -> (B) { B(i) = i > 0 ? A(i - 1) : 0 where i in 0:N }"
    np.testing.assert_array_equal(run(text, normal(4)), [0, *normal(4)[:3]])


def test_a_subscript_from_data_is_checked() -> None:
    text = "def f(double(N) A, int32(M) I) -> (B) { B(i) = A(I(i)) }"
    index = np.array([3, 0], np.int32)
    np.testing.assert_array_equal(run(text, normal(4), index), normal(4)[index])
    with pytest.raises(BoundsError, match=r"subscript 0 of 'A' is -1, outside \[0, 4\)"):
        run(text, normal(4), np.array([0, -1], np.int32))


def test_empty_reductions_give_the_identity() -> None:
    assert run("def f(double(N) A) -> (s) { s max=! A(i) }", np.zeros(0)) == -np.inf


@pytest.mark.parametrize("block_bytes", [64 << 20, 7 * 32])
def test_a_sum_into_a_half_type_is_rounded_once(block_bytes: int) -> None:
    text = "def f(float16(N,M) A) -> (O, s) { O(n) +=! A(n,m)  s += A(n,m) }"
    start = [None, np.asarray(0.5, np.float16)]
    ones = np.ones((3, 5001), np.float16)
    o, s = evaluate(check(parse(text)), [ones], out=start, block_bytes=block_bytes)
    np.testing.assert_array_equal(o, np.full(3, 5001).astype(np.float16))
    assert s == np.float16(15003.5)


def test_float64_computes_halves_in_float64() -> None:
    text = "def f(float16(N) A) -> (s) { s +=! A(i) }"
    a = np.full(3000, 0.1, np.float16)
    assert run(text, a, float64=True) == pytest.approx(float(a.astype(np.float64).sum()), rel=1e-12)


def test_it_has_every_builtin_of_the_language() -> None:
    assert {"min", "max", *builtins.BUILTINS} == {*BUILTINS}


@pytest.mark.parametrize("name", sorted(builtins.BUILTINS))
def test_a_builtin_has_the_type_that_the_language_gives_it(name: str) -> None:
    args = ", ".join(["A(i)"] * builtins.BUILTINS[name].arity)
    is_bool = builtins.BUILTINS[name].result == "bool"
    for dtype in (np.float32, np.float64):
        text = f"def f<T>(T(N) A) -> (B) {{ B(i) = {name}({args}) }}"
        checked = check(parse(text), generics={"T": BY_NAME[np.dtype(dtype).name]})
        (got,) = evaluate(checked, [np.full(2, 0.5, dtype)])
        assert got.dtype == (bool if is_bool else dtype)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=50)
def test_integer_division_floors_and_by_zero_gives_zero(x: int, y: int) -> None:
    text = "def f(int64(N) A, int64(N) B) -> (q, r) { q(i) = A(i) / B(i)  r(i) = A(i) % B(i) }"
    q, r = run(text, np.array([x]), np.array([y]))
    assert int(q[0]) == (0 if y == 0 else (x // y + 2**63) % 2**64 - 2**63)
    assert int(r[0]) == (0 if y == 0 else x % y)


@given(st.floats(width=32, allow_nan=True), st.sampled_from([d for d in ALL if d.is_integer]))
@settings(max_examples=100)
def test_conversion_to_integers_saturates(x: float, dtype: Any) -> None:
    info = np.iinfo(dtype.name)
    want = 0 if np.isnan(x) else int(np.clip(x, -(2.0**70), 2.0**70))
    got = cast(np.array([x], np.float32), dtype)
    assert int(got[0]) == min(max(want, info.min), info.max)


@pytest.mark.parametrize("op", ["+=", "*=", "min=", "max="])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32"])
def test_identities_change_nothing(op: str, dtype: str) -> None:
    x = np.array([0, 1], dtype)
    start = np.full(2, identity(op, np.dtype(dtype)), dtype)
    ufunc = {"+=": np.add, "*=": np.multiply, "min=": np.minimum, "max=": np.maximum}[op]
    np.testing.assert_array_equal(ufunc(start, x), x)
