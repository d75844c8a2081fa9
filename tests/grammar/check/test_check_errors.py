"""What the check says of faulty programs: code, place and the whole text (errors/check.txt)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import RangeError, TCError, TCTypeError, render
from tcdsl.grammar.text.parser import parse

DATA = Path(__file__).parents[2] / "data"
HEAD = "def f(float(N) A, float(M, K) B, int32(N) I, float s) -> (O) {\n"
CALLEE = "def g<S=1>(float(N) x, float(P, N) y, int32 n) -> (z) { z(i) +=! y(p, i) * x(S*i) * n }\n"

# Statements of a body after HEAD, which is line 1; the code of the first fault and its place.
BODIES = [
    # names
    ("TC101", 2, 1, "N(i) = A(i)  O(i) = A(i)"),
    ("TC101", 2, 33, "O(i) = A(i) * x where x = A(i), x = s"),
    ("TC101", 2, 19, "O(i) = A(i) where N = 3"),
    ("TC101", 2, 10, "O(i) = A(f)"),
    ("TC101", 2, 3, "O(t) = A(t)  t(i) = O(i)"),
    ("TC102", 2, 8, "O(i) = AA(i)"),
    ("TC102", 2, 8, "O(i) = sqroot(A(i))"),
    ("TC102", 2, 24, "O(i) = A(i) where i in C.0:N"),
    ("TC103", 2, 8, "O(i) = B(i)"),
    ("TC103", 2, 8, "O(i) = A(i, 0)"),
    ("TC104", 2, 13, "O(i) = B(i, k)"),
    ("TC104", 2, 19, "O(i) = A(i) where r in 0:3"),
    ("TC130", 2, 567, "O(i) = " + " + ".join(f"A(i{n})" for n in range(70))),
    ("TC112", 2, 10, "exp(i) = exp(A(i))  O(i) = exp(i)"),
    ("TC112", 2, 8, "O(i) = exp(A(i))  exp(i) = A(i)"),
    ("TC104", 2, 15, "O(i) = A(i) + exp"),
    ("TC107", 2, 21, "O(i) = A(i) * exp + exp(i) where exp = s"),
    ("TC106", 2, 8, "O(i) = exp(A(i), 2)"),
    ("TC106", 2, 8, "O(i) = norm3d(A(i))"),
    ("TC107", 2, 8, "O(i) = N(i) + A(i)"),
    ("TC107", 2, 15, "O(i) = A(i) + i(3)"),
    ("TC107", 2, 8, "O(i) = x(i) where x = A(i)"),
    ("TC108", 2, 8, "O(i) = A + s"),
    ("TC109", 2, 1, "A(i) = s where i in 0:N  O(i) = A(i)"),
    ("TC112", 2, 8, "O(i) = O(i) + A(i)"),
    ("TC112", 2, 8, "O(i) = t(i)  t(i) = A(i)"),
    ("TC113", 3, 1, "O(i) = A(i)\nO(i, j) = B(i, j)"),
    ("TC114", 2, 26, "O(i) = A(i) where i in 0:NN"),
    ("TC117", 2, 26, "O(i) = A(i) where i in 0:A.1"),
    ("TC118", 2, 19, "O(i) = A(i) where N in 0:3"),
    ("TC118", 2, 19, "O(i) = A(i) where inf in 0:3"),
    ("TC119", 2, 6, "t(i) += A(i) O(i) = t(i)"),
    ("TC125", 2, 12, "O(i) = exp(x=A(i))"),
    ("TC126", 3, 8, "O(i) = A(i)\nO(i) = O(i + 1)"),
    ("TC126", 3, 10, "O(i) = A(i)\nO(i) +=! O(i) * B(i, k)"),
    ("TC127", 2, 27, "O(i) = x where x = A(i) + x"),
    ("TC106", 2, 8, "O(i) = rand(I(i))"),
    ("TC196", 2, 13, "O(i) = rand(2 * i, I(i))"),
    ("TC196", 2, 13, "O(i) = rand(s, I(i))"),
    ("TC301", 2, 16, "O(i) = rand(3, A(i))"),
    ("TC301", 2, 8, "O(i) = A(i) ^ 2"),
    ("TC301", 2, 15, "O(i) = I(i) & 1.5"),
    ("TC301", 2, 10, "O(i) = ~(I(i) > 0) ? 1 : 0"),
    ("TC301", 2, 9, "O(i) = (I(i) > 0) << 1"),
    ("TC191", 2, 8, "O(i) = pad(A(i) + 1.0, 0)"),
    ("TC191", 2, 8, "O(i) = pad(A(i))"),
    ("TC193", 2, 3, "O(I(i)) = A(i)"),
    ("TC192", 2, 1, "O(I(i)) argmax=! B(i, k)"),
    ("TC126", 2, 23, "O(i) = A(i) O(I(i)) = O(I(i)) + 1.0"),
    ("TC192", 2, 1, "O(i + j) = B(i, j)"),
    ("TC192", 2, 1, "O(i / 2) = A(i)"),
    ("TC192", 2, 1, "O(i / 2, i % 3) = A(i)"),
    ("TC193", 2, 3, "O(I(i)) += A(i)"),
    ("TC193", 2, 3, "t(I(i)) +=! A(i)  O(i) = t(i)"),
    ("TC195", 2, 6, "O(i) argmax=! A(i)"),
    # not yet
    # ranges
    ("TC201", 2, 3, "O(i) = s"),
    ("TC201", 2, 6, "O(i, n) = A(i)"),
    ("TC202", 2, 3, "O(i) +=! A(i + j)"),
    ("TC202", 2, 3, "O(i) = A(N * i)"),
    ("TC203", 2, 29, "O(i) = A(i) where i in 0:3, i in 0:N"),
    ("TC203", 2, 45, "O(i) +=! (j < i ? A(j) : 0) where j in 0:N, j in i:N"),
    ("TC204", 2, 36, "O(i) = A(i) + B(i, j) where i in 0:j"),
    ("TC204", 2, 35, "O(i) +=! A(i) * A(j) where j in 0:j"),
    ("TC204", 2, 38, "O(i) +=! B(i, j) * A(k) where j in 0:k, k in 0:N"),
    ("TC201", 2, 3, "O(i) +=! A(j) where j in 0:i"),
    ("TC205", 2, 26, "O(i) = A(i) where i in 0:I(0)"),
    ("TC206", 2, 19, "O(i) = A(i) where i in 8:4"),
    ("TC212", 2, 36, "O argmax=! B(i, j) where i in 0:N, j in 0:I(i)"),
    ("TC207", 2, 10, "O(i) = A(N) + A(i)"),
    ("TC207", 2, 10, "O(i) = A(-1) + A(i)"),
    # types
    ("TC301", 2, 10, "O(i) = A(A(i))"),
    ("TC301", 2, 10, "O(i) = A(1.0) where i in 0:N"),
    ("TC301", 2, 26, "O(i) = A(i) where i in 0:2.5"),
    ("TC302", 2, 8, "O(i) = A(i) && A(i) > 0"),
    ("TC302", 2, 8, "O(i) = I(i) ? A(i) : 0"),
    ("TC302", 2, 9, "O(i) = !I(i)"),
    ("TC303", 3, 8, "O(i) = I(i)\nO(i) = A(i)"),
    ("TC303", 3, 9, "O(i) = I(i)\nO(i) += 0.5"),
]

TEXTS = [
    ("TC101", 1, 28, "def f(float(N) A, float(N) A) -> (O) { O(i) = A(i) }"),
    ("TC101", 1, 13, "def f(float(A) A) -> (O) { O(i) = A(i) }"),
    ("TC101", 1, 23, "def f(float(N) A) -> (A) { A(i) = A(i) }"),
    ("TC101", 2, 5, "def f(float(N) A) -> (O) { O(i) = A(i) }\ndef f(float a) -> (O) { O = a }"),
    ("TC122", 1, 41, "def exp(float(N) A) -> (O) { O(i) = 2 * exp(A(i)) }"),
    ("TC101", 1, 32, "def f(float(exp) A, float(exp) exp) -> (O) { O(i) = A(i) }"),
    ("TC110", 1, 26, "def f(float(N) A) -> (O, P) { O(i) = A(i) }"),
    ("TC111", 1, 40, "def f(float(N) A) -> (O) { O(i) = A(i) P(i) = A(i) }"),
    ("TC113", 1, 40, "def f(float(N) A) -> (float(N, N) O) { O(i) = A(i) }"),
    ("TC114", 1, 29, "def f(float(N) A) -> (float(M) O) { O(i) = A(i) }"),
    ("TC115", 1, 7, "def f<S=1>(float(N) A) -> (O) { O(i) = A(i) }"),
    ("TC116", 1, 7, "def f<S>(float(N) A) -> (O) { O(i) = A(S*i) }"),
    ("TC206", 1, 29, "def f(float(N) A) -> (float(-N-1) O) { O(i) = A(i) }"),
    ("TC207", 1, 37, "def f(float(5) A) -> (O) { O(i) = A(i+5) where i in 0:3 }"),
    ("TC208", 1, 39, "def f(float(5) A) -> (float(4) O) { O(i) = A(i) where i in 0:5 }"),
    ("TC209", 1, 57, "def f(float a, int32 b) -> (O) { O(i) = a where i in 0:(b > 0 ? b : 0) }"),
    (
        "TC211",
        1,
        56,
        "def f(float(N) A, int64(N) n) -> (O) { O(i) +=! A(i) * j where j in 0:n(i) }",
    ),
    ("TC303", 1, 50, "def f(float(M,N) A) -> (int32(M,N) O) { O(m,n) = A(m,n) }"),
    ("TC303", 1, 44, "def f(float(M,N) A) -> (int32(M) O) { O(m) argmax=! A(m,n) }"),
    ("TC304", 1, 23, "def f(float(N) A) -> (half O) { O(i) = A(i) }"),
    ("TC304", 1, 7, "def f(half(N) A) -> (O) { O(i) = A(i) }"),
    ("TC306", 1, 7, "def f<T>(T(N) A) -> (O) { O(i) = A(i) }"),
]

CALLS = [
    ("TC103", 3, 7, "O = g(B, A, 1)"),
    ("TC112", 3, 7, "O = g(t, B, 1)  t(i) = A(i)"),
    ("TC120", 3, 1, "O, P = h(A)"),
    ("TC121", 3, 1, "O = g(A, B)"),
    ("TC122", 3, 14, "O(i) = 2.0 * g(A, B, 1)"),
    ("TC122", 3, 1, "O(i) = g(A, B, 1)"),
    ("TC122", 3, 7, "O = g(A(i), B, 1)"),
    ("TC123", 3, 1, "O = f(A, B, I, s)"),
    ("TC124", 3, 1, "O, P = g(A, B, 1)"),
    ("TC125", 3, 16, "O = g(A, B, 1, T=2)"),
    ("TC125", 3, 18, "O = g(A, B, 1, S=N)"),
    (
        "TC210",
        4,
        10,
        "t(i) = s where i in 0:3  u(p, i) = s where p in 0:2, i in 0:4\nO = g(t, u, 1)",
    ),
    ("TC305", 3, 7, "O = g(I, B, 1)"),
]


ALL = [
    *((c, line, col, f"{HEAD}{t}\n}}") for c, line, col, t in BODIES),
    *TEXTS,
    *((c, line, col, f"{CALLEE}{HEAD}{t}\n}}") for c, line, col, t in CALLS),
]


def refused(text: str) -> TCError:
    with pytest.raises(TCError) as caught:
        check(parse(text, "f.tc"), "f" if "def f" in text else None)
    return caught.value


@pytest.mark.parametrize(("code", "line", "column", "text"), ALL)
def test_a_fault_has_its_code_and_place(code: str, line: int, column: int, text: str) -> None:
    first = refused(text).diagnostics[0]
    assert first.span is not None
    assert (first.code, *first.span.source.line_col(first.span.start)) == (code, line, column)


def test_the_words_of_the_faults(golden: Callable[[str, str], None]) -> None:
    golden("\n\n".join(str(refused(text)) for *_, text in ALL) + "\n", "errors/check.txt")


WARNINGS = [
    ("TC150", 2, 6, "O(i) += A(i)"),
    ("TC150", 2, 3, "O max= A(i)"),
    ("TC151", 2, 19, "O(i) +=! B(i, k)  <=> sums(B(i, k))"),
    ("TC153", 2, 8, "O(i) = 1/2 * A(i)"),
    ("TC153", 2, 19, "O(i) = A(i) * exp(-(i + 1) / (M * 2))"),
]


@pytest.mark.parametrize(("code", "line", "column", "body"), WARNINGS)
def test_a_warning_has_its_code_and_place(code: str, line: int, column: int, body: str) -> None:
    (warning,) = check(parse(f"{HEAD}{body}\n}}", "f.tc")).warnings
    assert warning.span is not None
    place = warning.span.source.line_col(warning.span.start)
    assert (warning.code, warning.severity, *place) == (code, "warning", line, column)


def test_the_words_of_the_warnings(golden: Callable[[str, str], None]) -> None:
    shown = [render(w) for *_, body in WARNINGS for w in check(parse(f"{HEAD}{body}\n}}")).warnings]
    golden("\n\n".join(shown) + "\n", "errors/check_warnings.txt")


def test_the_words_about_the_entry(golden: Callable[[str, str], None]) -> None:
    program = parse("def add(float(N) A) -> (C) { C = A(0) } def sub(float a) -> (C) { C = a }")
    shown = []
    for name in (None, "ad", "mul"):
        with pytest.raises(TCTypeError) as caught:
            check(program, name)
        shown.append(str(caught.value))
    golden("\n\n".join(shown) + "\n", "errors/check_entry.txt")


def test_several_faults_are_shown_together_without_their_consequences() -> None:
    body = "O(i) = B(i, k)\nP(i) = O(i) + A(i, i)\nQ(i) = P(i) + A(i)\nO(j) = AA(j)\nR(j) = s"
    codes = [d.code for d in refused(f"{HEAD}{body}\n}}").diagnostics]
    assert codes == ["TC104", "TC201"]  # what reads or writes 'O' again says nothing


def test_the_class_follows_the_first_fault() -> None:
    assert isinstance(refused(f"{HEAD}O(i) = s\n}}"), RangeError)
    assert isinstance(refused(f"{HEAD}O(i) = s && s\n}}"), TypeError)


# What the original refused: these are legal here; the parser refuses others; the rest is here.
NEGATIVE = {e["name"]: e["tc"] for e in json.loads((DATA / "tc_negative.json").read_text())}
LEGAL = {
    "sum1D_v0": [],
    "E12": ["TC150"],
    "E14_nonaffine_bound": ["TC150"],
    "E20": [],
    "TCC": [],
    "TCE": [],
    "unchecked_indirect": [],
    "uninit_*=": ["TC150"],
    "uninit_min=": ["TC150"],
    "builtin_as_index": [],
    "E8": [],
    "E25": [],
    "unknown_entry_point": [],
    "constant_dim_mismatch": [],
}
REFUSED = {
    "IndirectWhere": "TC205",
    "reduction_without_op": "TC104",
    "3fcrelu_undefined": "TC102",
    "index_with_float": "TC301",
    "average_pool_where": "TC104",
    "output_never_assigned": "TC110",
    "builtin_arity": "TC106",
    "duplicate_param": "TC101",
    "scalar_as_tensor": "TC107",
    "non_bool_and": "TC302",
    "narrowing_output": "TC303",
    "output_rank_mismatch": "TC113",
    "float_range_bound": "TC301",
    "float_index_literal": "TC301",
    "TCB": "TC202",
    "PartialAssignWithoutWhere": "TC201",
    "broadcast_without_where": "TC201",
    "triangular_domain": "TC203",
}


@pytest.mark.parametrize("name", LEGAL)
def test_what_the_original_refused_and_is_legal_here(name: str) -> None:
    assert [w.code for w in check(parse(NEGATIVE[name])).warnings] == LEGAL[name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_original_refused_and_is_refused_here(name: str) -> None:
    with pytest.raises(TCError) as caught:
        check(parse(NEGATIVE[name]))
    assert caught.value.diagnostics[0].code == REFUSED[name]


def test_every_text_the_original_refused_is_accounted_for() -> None:
    bound_first = {"ellipsis_rank"}  # of any rank: legal, see test_ellipsis.py
    for name in NEGATIVE.keys() - REFUSED.keys() - LEGAL.keys() - bound_first:
        with pytest.raises(TCError) as caught:
            parse(NEGATIVE[name])
        assert caught.value.diagnostics[0].code.startswith("TC0"), name
