"""Calls are inlined: names fresh, sizes and types from the arguments, faults shown at both ends."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import FLOAT16, FLOAT32, FLOAT64
from tcdsl.grammar.types.typed import CheckedDef

MOMENTS = """
def moments(float(N, K) I) -> (mean, var) {
  mean(n) +=! I(n, k) / K
  var(n) +=! (I(n, k) - mean(n)) * (I(n, k) - mean(n)) / K
}
"""
CONV = """
def conv<SH=1>(float(C, H) I, float(M, C, KH) W) -> (O) {
  O(m, h) +=! I(c, SH * h + kh) * W(m, c, kh)
}
"""


def checked(text: str, name: str, **generics: Any) -> CheckedDef:
    return check(parse(text, "f.tc"), name, generics=generics)


def codes(text: str, name: str, **generics: Any) -> list[str]:
    with pytest.raises(TCError) as caught:
        checked(text, name, **generics)
    return [d.code for d in caught.value.diagnostics]


def shapes(definition: CheckedDef) -> dict[str, list[str]]:
    tensors = (*definition.returns, *definition.temps)
    return {x.name: [str(d) for d in x.shape] for x in tensors}


def test_a_call_with_several_results_is_inlined_under_the_callers_names() -> None:
    caller = "def norm(float(B, D) X) -> (O) { m, v = moments(X)  O(i, j) = X(i, j) - m(i) * v(i) }"
    definition = checked(MOMENTS + caller, "norm")
    assert [s.target for s in definition.body if isinstance(s, t.Statement)] == ["m", "v", "O"]
    assert shapes(definition) == {"O": ["B", "D"], "m": ["B"], "v": ["B"]}
    assert definition.sizes == ("B", "D")


def test_generics_are_given_by_keyword_and_defs_may_come_in_any_order() -> None:
    caller = """def net<S>(float(C, H) x, float(M, C, 3) w) -> (y) {
      t = conv(x, w, SH=2*S)
      y(m, h) = relu(t(m, h))
    }"""
    definition = checked(caller + CONV, "net", S=2)
    assert shapes(definition)["y"] == ["M", "(H + 1) / 4"]


def test_the_default_of_a_generic_holds_where_no_value_is_given() -> None:
    caller = "def net(float(C, H) x, float(M, C, 3) w) -> (y) { y = conv(x, w) }"
    definition = checked(CONV + caller, "net")
    assert shapes(definition) == {"y": ["M", "H - 2"]}


def test_type_variables_come_from_the_arguments() -> None:
    text = """
    def add<T>(T(N) A, T(N) B) -> (C) { C(i) = A(i) + T(0.5) * B(i) }
    def f(double(N) A) -> (O) { O = add(A, A) }
    def g(double(N) A, float(N) B) -> (O) { O = add(A, B) }
    """
    assert checked(text, "f").returns[0].dtype == FLOAT64
    assert codes(text, "g") == ["TC305"]


def test_a_temporary_of_a_half_type_is_kept_in_float32() -> None:
    text = """
    def twice<T>(T(N) A) -> (C) { C(i) = A(i) + A(i) }
    def f(float16(N) A) -> (O) { t = twice(A)  O(i) = t(i) * t(i) }
    """
    definition = checked(text, "f")
    assert definition.returns[0].dtype == FLOAT16
    assert definition.temps[0].dtype == FLOAT32


def test_equal_sizes_of_a_callee_are_checked_at_the_call_of_the_caller() -> None:
    text = """
    def dot(float(N) a, float(N) b) -> (s) { s +=! a(i) * b(i) }
    def f(float(P) x, float(Q) y) -> (s) { s = dot(x, y) }
    """
    (constraint,) = checked(text, "f").constraints
    assert constraint.relation == "==0"
    assert constraint.message == "dimension 0 of 'y' is Q, but 'N' of 'dot' is P"


def test_constant_extents_that_differ_are_an_error_of_the_text() -> None:
    text = """
    def dot(float(N) a, float(N) b) -> (s) { s +=! a(i) * b(i) }
    def f(float(3) x, float(4) y) -> (s) { s = dot(x, y) }
    """
    assert codes(text, "f") == ["TC210"]


def test_a_scalar_argument_may_be_an_expression_and_stand_in_bounds() -> None:
    text = """
    def head(float(N) x, int32 n, float a) -> (y) { y(i) = a * x(i) where i in 0:n }
    def f(float(N) x) -> (y) { y = head(x, N / 2, 2.5) }
    """
    definition = checked(text, "f")
    assert shapes(definition)["y"] == ["N / 2"]


def test_a_target_that_is_an_argument_gets_the_result_by_a_copy() -> None:
    text = """
    def twice(float(N) A) -> (C) { C(i) = A(i) + A(i) }
    def f(float(N) A) -> (O) { O(i) = A(i)  O = twice(O) }
    """
    definition = checked(text, "f")
    written = [s.target for s in definition.body if isinstance(s, t.Statement)]
    assert written == ["O", "twice_C", "O"]


def test_names_of_the_callee_do_not_meet_those_of_the_caller() -> None:
    text = """
    def twice(float(N) A) -> (C) { t(i) = A(i) + A(i)  C(i) = t(i) }
    def f(float(i) t) -> (O) { O = twice(t) }
    """
    definition = checked(text, "f")
    assert [x.name for x in definition.temps] == ["twice_t"]
    names = {r.name for s in definition.body if isinstance(s, t.Statement) for r in s.ranges}
    assert "i" not in names  # a size of the caller


def test_a_reduction_onto_a_fresh_result_starts_from_the_identity() -> None:
    text = """
    def total(float(N) A) -> (s) { s += A(i) }
    def f(float(N) A) -> (s) { s = total(A) }
    """
    definition = checked(text, "f")
    assert [s.op for s in definition.body if isinstance(s, t.Statement)] == ["+=!"]
    assert not definition.returns[0].is_updated
    assert [w.code for w in definition.warnings] == ["TC150"]


def test_recursion_shows_its_cycle() -> None:
    text = """def g(float(N) x) -> (y) { y = h(x) }
def h(float(N) x) -> (y) { y = g(x) }"""
    with pytest.raises(TCError) as caught:
        checked(text, "g")
    assert str(caught.value) == (
        "f.tc:2:28: error[TC123]: 'g' calls itself\n"
        "  |\n"
        "2 | def h(float(N) x) -> (y) { y = g(x) }\n"
        "  |                            ^^^^^^^^\n"
        "  note: the cycle: g -> h -> g\n"
        "  note: in the call of 'h' here\n"
        "  |\n"
        "1 | def g(float(N) x) -> (y) { y = h(x) }\n"
        "  |                            --------"
    )


def test_many_calls_of_calls_are_refused_before_they_fill_the_memory() -> None:
    levels = "\n".join(
        f"def f{i}(float(N) x) -> (y) {{ t = f{i + 1}(x)  y = f{i + 1}(t) }}" for i in range(30)
    )
    text = levels + "\ndef f30(float(N) x) -> (y) { y(i) = x(i) }"
    assert codes(text, "f0") == ["TC130"]
    chain = "\n".join(f"def f{i}(float(N) x) -> (y) {{ y = f{i + 1}(x) }}" for i in range(300))
    text = chain + "\ndef f300(float(N) x) -> (y) { y(i) = x(i) }"
    assert codes(text, "f0") == ["TC130"]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("y = conv(x)", "TC121"),
        ("y = conv(x, w, SW=1)", "TC125"),
        ("y = conv(x, w, SH=1, SH=2)", "TC125"),
        ("y = conv(x, w, SH=H)", "TC125"),
        ("y = conv(w, x)", "TC103"),
        ("y = conv(x, x(c, h))", "TC122"),
        ("y += conv(x, w)", "TC122"),
        ("y(m, h) = conv(x, w)", "TC122"),
        ("y = conv(x, w) where m in 0:3", "TC122"),
        ("y(m, h) = 2.0 * conv(x, w)", "TC122"),
        ("y, z = conv(x, w)", "TC124"),
        ("y, z = kernel(x, w)", "TC120"),
        ("y, y = moments(x)", "TC101"),
        ("x = conv(x, w)", "TC109"),
        ("y = conv(x, v)", "TC122"),
    ],
)
def test_faults_of_calls(call: str, code: str) -> None:
    caller = f"def net(float(C, H) x, float(M, C, 3) w) -> (y) {{ {call} }}"
    assert code in codes(MOMENTS + CONV + caller, "net")


def test_results_that_nobody_reads_are_not_computed() -> None:
    text = (
        MOMENTS + "def centre(float(N, K) X) -> (Y) { m, v = moments(X) Y(n, k) = X(n, k) - m(n) }"
    )
    d = checked(text, "centre")
    assert [s.target for s in d.body if isinstance(s, t.Statement)] == ["m", "Y"]
    assert [x.name for x in d.temps] == ["m"]
    loop = """def sums(float(N) X) -> (S, P) {
      S(0) = X(0)
      P(0) = X(0)
      for i in 1:N { S(i) = S(i - 1) + X(i) }
      for i in 1:N { P(i) = P(i - 1) * X(i) }
    }
    def last(float(N) X) -> (y) { s, p = sums(X) y = p(N - 1) }"""
    assert [type(s) for s in checked(loop, "last").body] == [t.Statement, t.Loop, t.Statement]


def test_definitions_that_calls_make_too_large_are_refused_before_they_are_made() -> None:
    text = "def f0(float(N) A) -> (O) { O(i) = A(i) + 1 }"
    for k in range(1, 41):
        text += f"\ndef f{k}(float(N) A) -> (O) {{ t = f{k - 1}(A) O = f{k - 1}(t) }}"
    with pytest.raises(TCError) as caught:
        checked(text, "f40")  # were they made, 2 ** 40 statements would not end
    assert str(caught.value).startswith(
        "f.tc:41:30: error[TC130]: calls make the definition too large"
    )
    assert len(checked(text, "f4").body) == 16
    ring = "def a(float(N) A) -> (O) { O = b(A) } def b(float(N) A) -> (O) { O = a(A) }"
    assert codes(ring, "a") == ["TC123"]
