"""A call's shapes, types and scalars: what fits gives sizes, what does not is explained."""

from __future__ import annotations

import pytest

from tcdsl.grammar.check.bind import bind, bind_generics
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import ShapeError, TCError, TCTypeError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT32
from tcdsl.grammar.types.typed import CheckedDef, Statement

MM = "def mm(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"


def checked(text: str) -> CheckedDef:
    return check(parse(text, "f.tc"))


def message(text: str, *args: object, **kwargs: object) -> str:
    with pytest.raises(TCError) as caught:
        bind(checked(text), *args, **kwargs)  # type: ignore[arg-type]
    return str(caught.value)


def test_sizes_come_in_the_order_of_the_parameters() -> None:
    assert bind(checked(MM), [(3, 4), (4, 5)]) == {"M": 3, "K": 4, "N": 5}


def test_an_extent_that_differs_names_where_the_size_came_from() -> None:
    assert message(MM, [(128, 64), (32, 10)]) == (
        "mm(A, B): expected B of shape (K, N) with K = 64, got (32, 10)\n"
        "  K = 64 comes from A, shape (128, 64), declared float(M, K)"
    )


def test_a_size_used_twice_in_one_parameter_is_an_equality() -> None:
    assert message("def t(float(N, N) A) -> (d) { d(i) = A(i, i) }", [(3, 4)]) == (
        "t(A): expected A of shape (N, N) with N = 3, got (3, 4)\n"
        "  N = 3 comes from A, shape (3, 4), declared float(N, N)"
    )


def test_a_constant_dimension_is_checked() -> None:
    assert message("def f(float(10) A) -> (B) { B(i) = A(i) }", [(12,)]) == (
        "f(A): expected A of shape (10,), got (12,)\n  declared float(10)"
    )


def test_the_rank_is_checked() -> None:
    assert message("def f(float(1) a) -> (b) { b(i) = a(i) }", [(1, 1)]) == (
        "f(a): expected a with 1 dimension, got shape (1, 1)\n  declared float(1)"
    )


def test_the_type_is_checked() -> None:
    text = "def f(int32 a) -> (b) { b(i) = a where i in 0:10 }"
    assert message(text, [()], [FLOAT32]) == (
        "f(a): expected a of type int32, got float32\n  declared int32"
    )


def test_the_number_of_arguments_is_checked() -> None:
    assert message(MM, [(3, 4)]) == "mm(A, B): expected 2 arguments, got 1"


def test_a_leftover_constraint_among_sizes_is_checked_at_the_call() -> None:
    text = "def fun(float(A, B, C) I) -> (O) {\n  O(i) +=! I(i, i + j, j)\n}"
    assert bind(checked(text), [(2, 4, 3)]) == {"A": 2, "B": 4, "C": 3}
    assert message(text, [(2, 3, 3)]) == (
        "fun(I): subscript 'i + j' runs from 0 to A + C - 2, "
        "but dimension 1 of 'I' holds 0 to B - 1\n"
        "  A = 2 comes from I, shape (2, 3, 3), declared float(A, B, C)\n"
        "  B = 3 comes from I, shape (2, 3, 3), declared float(A, B, C)\n"
        "  C = 3 comes from I, shape (2, 3, 3), declared float(A, B, C)\n"
        "  asked for by f.tc:2:17: i + j"
    )


def test_a_constraint_of_a_statement_without_points_does_not_refuse() -> None:
    text = "def f(float(N) A, float(M) X) -> (b) { b(i) = A(0) where i in 0:M }"
    assert bind(checked(text), [(0,), (0,)]) == {"N": 0, "M": 0}
    with pytest.raises(ShapeError):
        bind(checked(text), [(0,), (1,)])


@pytest.mark.parametrize("op", ["+=!", "+=", "max="])
def test_elements_are_inside_though_nothing_is_reduced_into_them(op: str) -> None:
    """Kernels start them, or read and write them, before they look whether there is anything."""
    start = "" if op == "+=!" else "H(i) = G(i) "
    text = f"def f(float(T, K) V, float(N) G) -> (float(N) H) {{ {start}H(t) {op} V(t, k) }}"
    for points in (2, 0):
        assert "is written from 0 to T - 1, but has N elements" in message(
            text, [(7, points), (5,)]
        )
    for shape in ((5, 0), (0, 2)):
        assert bind(checked(text), [shape, (5,)])["N"] == 5


def test_what_proves_that_a_range_is_not_empty_is_on_the_left() -> None:
    """k in 0:E says nothing of E where a sum of no terms is added to element E - 1."""
    text = (
        "def f(float(T, E) V, float(E) G) -> (float(E) H)"
        " { H(i) = G(i) H(clamp(t, 0, E - 1)) += V(t, k) }"
    )
    added = checked(text).body[1]
    assert isinstance(added, Statement)
    assert added.subs_checked == (True,)  # by the kernel, where it begins with an element


def test_a_negative_extent_is_an_error_at_the_call() -> None:
    text = "def c(float(H) I, float(KH) W) -> (O) { O(h) +=! I(h + k) * W(k) }"
    assert bind(checked(text), [(4,), (5,)]) == {"H": 4, "KH": 5}  # extent 0 is legal
    assert message(text, [(4,), (6,)]).startswith(
        "c(I, W): the range of 'h' would have H - KH + 1 values\n"
        "  H = 4 comes from I, shape (4,), declared float(H)\n"
    )
    assert "\n  so H - KH + 1 is -1\n" in message(text, [(4,), (6,)])


def test_scalars_in_bounds_are_sizes_of_the_call() -> None:
    text = "def f(int32 a, float(N) b) -> (c) { c(i) +=! b(i + j) where j in 0:a, i in 0:10 }"
    assert checked(text).scalars == ("a",)
    assert bind(checked(text), [(), (12,)], scalars={"a": 3}) == {"N": 12, "a": 3}
    assert "a = 4 is the scalar argument" in message(text, [(), (12,)], scalars={"a": 4})
    assert message(text, [(), (12,)]) == (
        "f(a, b): the value of a is needed, it is used in a bound"
    )


def test_a_size_used_as_a_value_has_to_fit_int32() -> None:
    text = "def mean(float(N) A) -> (m) { m +=! A(i) / N }"
    assert message(text, [(2**31,)]).startswith(
        "mean(A): 'N' does not fit int32, as which it is used: write int64(N)"
    )
    bind(checked(text.replace("/ N", "/ int64(N)")), [(2**31,)])


def test_an_index_used_as_a_value_has_to_fit_int32_whatever_the_sizes() -> None:
    text = "def f(float(N) A) -> (O) { O(i) = i where i in 2147483640:2147483650, exists A(0) }"
    assert message(text, [(3,)]).startswith(
        "f(A): 'i' does not fit int32, as which it is used: write int64(i)"
    )
    bind(checked(text.replace("= i", "= int64(i)")), [(3,)])
    below = text.replace("2147483640:2147483650", "-2147483650:-2147483640")
    assert "'i' does not fit int32" in message(below, [(3,)])


def test_what_a_condition_compares_has_to_fit_where_calls_can_check_it() -> None:
    text = "def f(float(N) A) -> (O) { O(i) = i * 3 < N ? A(i * 3) : 0 where i in 0:N }"
    assert message(text, [(2**30,)]).startswith(
        "f(A): 'i * 3' does not fit int32: convert its indices, as in int64(i)"
    )
    bind(checked(text.replace("i * 3 < N", "int64(i) * 3 < N")), [(2**30,)])


def test_no_dimension_is_longer_than_memory() -> None:
    assert message("def f(float(N) A) -> (O) { O +=! A(i) }", [(2**48 + 1,)]) == (
        "f(A): A has shape (281474976710657,), but a dimension holds at most 2**48 elements\n"
        "  declared float(N)"
    )


def test_generics_are_int64() -> None:
    text = "def f<S=1>(float(N) A) -> (O) { O(i) = A(i) * S }"
    with pytest.raises(TCTypeError, match="the generic 'S' is 9223372036854775808, which is out"):
        check(parse(text), generics={"S": 2**63})


def test_type_variables_come_from_the_arguments() -> None:
    definition = parse("def add<T>(T(N) A, T(N) B) -> (C) { C(i) = A(i) + B(i) }").defs[0]
    assert bind_generics(definition, [BFLOAT16, BFLOAT16], {}) == {"T": BFLOAT16}
    with pytest.raises(TCTypeError) as caught:
        bind_generics(definition, [FLOAT32, FLOAT64], {})
    assert str(caught.value) == (
        "add(A, B): expected B of type float32, got float64\n"
        "  T = float32 from A; one type variable has one type"
    )


def test_integer_generics_pass_through() -> None:
    definition = parse("def f<S=1>(int32(N) A) -> (C) { C(i) = A(S*i) }").defs[0]
    assert bind_generics(definition, [INT32], {"S": 2}) == {"S": 2}


def test_a_generic_named_like_a_size_fixes_the_extent() -> None:
    program = parse("def f<K>(float(K) A) -> (C) { C(i) = A(i) where i in 0:K }")
    assert bind(check(program), [(7,)]) == {"K": 7}
    assert bind(check(program, generics={"K": 3}), [(3,)]) == {}
    with pytest.raises(ShapeError):
        bind(check(program, generics={"K": 3}), [(7,)])
