"""`...`: definitions of any rank bound to ranks, as texts; what is refused, as whole messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.ranks.ellipsis import bind_ranks, has_dots
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import ShapeError, TCError
from tcdsl.grammar.text.format import format_def
from tcdsl.grammar.text.heads import shapes_of_rank
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.dtypes import FLOAT32
from tcdsl.grammar.types.typed import CheckedDef
from tests.tiers import drawn

Shapes = Sequence[tuple[int, ...]]
ADD = "def add(float(...) A, float(...) B) -> (C) { C(...) = A(...) + B(...) }"
NORM = """def norm(float(..., D) X) -> (S, Y) {
  S(...) +=! X(..., d) * X(..., d)
  Y(..., d) = X(..., d) * rsqrt(S(...))
}"""


def bound(text: str, *shapes: tuple[int, ...]) -> n.Def:
    program = parse(text, "f.tc")
    return bind_ranks(program, program.defs[0].name, shapes)


def shown(text: str, *shapes: tuple[int, ...]) -> str:
    return format_def(bound(text, *shapes))


def checked(text: str, *shapes: tuple[int, ...]) -> CheckedDef:
    program = parse(text, "f.tc")
    definition = bind_ranks(program, program.defs[0].name, shapes)
    return check(replace(program, defs=(definition, *program.defs[1:])), definition.name)


def extents(text: str, *shapes: tuple[int, ...]) -> list[str]:
    return [", ".join(map(str, r.shape)) for r in checked(text, *shapes).returns]


def refused(text: str, shapes: Shapes) -> TCError:
    with pytest.raises(TCError) as caught:
        checked(text, *shapes)
    return caught.value


BOUND = [
    (
        ADD,
        [(4, 3), (4, 3)],
        "float(D0, D1) A, float(D0, D1) B",
        "C(i0, i1) = A(i0, i1) + B(i0, i1)",
    ),
    (ADD, [(4, 3), (4, 1)], "float(D0, D1) A, float(D0, 1) B", "C(i0, i1) = A(i0, i1) + B(i0, 0)"),
    (ADD, [(4, 1), (1, 3)], "float(D0, 1) A, float(1, D1) B", "C(i0, i1) = A(i0, 0) + B(0, i1)"),
    (ADD, [(3,), (5, 4, 3)], "float(D0) A, float(D1, D2, D0) B", None),
    (ADD, [(3,), (5, 4, 3)], "", "C(i0, i1, i2) = A(i2) + B(i0, i1, i2)"),
    (ADD, [(), (4,)], "float A, float(D0) B", "C(i0) = A + B(i0)"),
    (ADD, [(), ()], "float A, float B", "C = A + B"),
    (ADD, [(1, 1), (1, 1)], "float(D0, D1) A, float(D0, D1) B", None),
    (ADD, [(0, 1), (1, 2)], "float(D0, 1) A, float(1, D1) B", None),
    (NORM, [(2, 5, 4)], "float(D0, D1, D) X", "S(i0, i1) +=! X(i0, i1, d) * X(i0, i1, d)"),
    (NORM, [(4,)], "float(D) X", "Y(d) = X(d) * rsqrt(S)"),
    ("def f(float(...) X) -> (s) { s +=! X(...) }", [(2, 2)], "", "s +=! X(i0, i1)"),
    ("def f(float(...) X) -> (s) { s +=! X(...) }", [()], "float X", "s +=! X"),
    ("def f(float(...) X) -> (O) { O(i) +=! X(i, ...) }", [(2, 2, 2)], "", "O(i) +=! X(i, i0, i1)"),
    (
        "def f(float(...) X) -> (O) { O(j, ..., i) = X(i, ..., j) }",
        [(2, 2, 2, 2)],
        "float(D0, D1, D2, D3) X",
        "O(j, i0, i1, i) = X(i, i0, i1, j)",
    ),
    # names that are taken, and values that the statement has beside accesses
    (
        "def f<D0>(float(...) X) -> (O) { O(i0, ...) = X(i0, ...) + D0 }",
        [(2, 2)],
        "float(DD0, DD1) X",
        "O(i0, ii0) = X(i0, ii0) + D0",
    ),
    (
        "def f(float(...) X) -> (O) { O(...) = X(...) > 0.0 && y ? min(y, X(...)) : -float64(y) "
        "where y = X(...) }",
        [(2,)],
        "",
        "O(i0) = X(i0) > 0.0 && y ? min(y, X(i0)) : -float64(y) where y = X(i0)",
    ),
    # literal and named extents
    (
        "def f(float(1, M) X, float(...) B) -> (O) { O(...) = X(...) * B(...) }",
        [(1, 4), (3, 4)],
        "float(1, M) X, float(D0, M) B",
        "O(i0, i1) = X(0, i1) * B(i0, i1)",
    ),
    (
        "def f(float(N) X, float(K) B) -> (O) { O(...) = X(...) * B(...) }",
        [(4,), (4,)],
        "",
        "O(i0) = X(i0) * B(i0) where i0 in 0 : max(K, N)",
    ),
    # declared returns, temporaries, in-place
    (
        "def f(float(...) X, float(...) B) -> (float64(...) O) { T(...) = X(...)\n"
        "O(...) = T(...) + B(...) O(...) *= T(...) + 1.0 }",
        [(1, 3), (2, 3)],
        "-> (float64(D1, D0) O)",
        "O(i0, i1) *= T(0, i1) + 1.0",
    ),
    (
        "def f(float(...) X) -> (float(...) O) { O(..., d) = X(..., d) O(...) += 1.0 }",
        [(2, 3)],
        "(float(D0, D1) O)",
        "O(i0, i1) += 1.0",
    ),
    ("def f(float(...) X) -> (O) { O(...) = 1.0 where exists X(...) }", [(2,)], "", "O(i0) = 1.0"),
    (
        "def f(float(V, D) W, int32(...) I) -> (O) { O(..., d) = W(I(...), d) }",
        [(2, 2), (2, 2)],
        "",
        "O(i0, i1, d) = W(I(i0, i1), d)",
    ),
    (
        "def f(float(...) X) -> (O) { O(..., i) = pad(X(..., i - 1), 0) }",
        [(2, 2)],
        "",
        "pad(X(i0, i - 1), 0)",
    ),
    ("def f(float(...) X) -> (O) { O(...) = pad(X(...), 0) }", [()], "", "O = pad(X(), 0)"),
    (
        "def f(float(T, ...) X, float(...) h) -> (H) { H(0, ...) = h(...)\n"
        "for t in 1:T { H(t, ...) = H(t - 1, ...) + X(t, ...) } }",
        [(2, 5), (5,)],
        "float(T, D0) X, float(D0) h",
        "H(t, i0) = H(t - 1, i0) + X(t, i0)",
    ),
]


@pytest.mark.parametrize(("text", "shapes", "head", "line"), BOUND)
def test_dots_become_dimensions(text: str, shapes: Shapes, head: str, line: str | None) -> None:
    got = shown(text, *shapes)
    assert head in got.replace("\n    ", " ")
    assert line is None or line.replace("max(K, N)", "max") in got.replace("max(N, K)", "max")
    assert "..." not in got
    assert parse(got).defs[0] == bound(text, *shapes)  # the formatter prints what the check gets


def test_a_definition_without_dots_is_the_same_object() -> None:
    program = parse("def f(float(N) A) -> (B) { B(i) = A(i) }")
    assert bind_ranks(program, "f", [(3,)]) is program.defs[0]


def test_binding_depends_on_ranks_and_on_what_is_repeated_only() -> None:
    def text(*shapes: tuple[int, ...]) -> str:
        return format_def(bound(ADD, *shapes))

    assert (
        text((4, 3), (4, 3)) == text((1, 1), (1, 1)) == text((1, 7), (1, 7)) == text((0, 2), (0, 2))
    )
    assert text((4, 3), (4, 1)) == text((2, 9), (2, 1)) == text((1, 3), (1, 1))
    assert len({text((4, 3), b) for b in [(4, 3), (3,), (1,), (1, 3), (4, 1), (1, 1), ()]}) == 7


@pytest.mark.parametrize(
    "writes", ["for t in 0:T-1 { H(t, ...) = X(t, ...) }", "H(i, ...) = X(i, ...) where i in 0:T-1"]
)
def test_extents_that_need_not_be_equal_are_checked(writes: str) -> None:
    text = f"def f(float(T, ...) X) -> (H, O) {{ {writes} O(...) = H(...) + X(...) }}"
    assert "where i0 in 0 : max(H.0, T)" in shown(text, (4, 2))
    if "for" in writes:  # right for T = 0
        assert any("'H' holds" in c.message for c in checked(text, (4, 2)).constraints)
    else:
        assert refused(text, [(4, 2)]).diagnostics[0].code == "TC207"


def test_results_have_the_shape_of_all_that_is_lined_up() -> None:
    assert extents(ADD, (4, 1), (5, 1, 3)) == ["D1, D0, D2"]
    assert extents(NORM, (2, 5, 4)) == ["D0, D1", "D0, D1, D"]
    text = "def f(float(...) X) -> (M, I) { M(...) max=! X(..., d)  I argmax=! X(...) }"
    assert extents(text, (2, 3)) == ["D0", ""]


# ---- calls in the language

CALLEE = "\ndef scaled<T>(T(...) x, T(...) w) -> (T(...) y) { y(...) = x(...) * w(...) }"


def test_a_callee_gets_the_ranks_of_what_it_is_given() -> None:
    text = (
        "def f(float(...) A, float(K) w) -> (O, P) { a = scaled(A, w)  b = scaled(a, a)\n"
        "O(...) = a(...) + 1.0  p = scaled(w, w)  P(...) = p(...) + b(0, ...) }"
    )
    assert extents(text + CALLEE, (4, 5), (5,)) == ["D0, K", "K"]
    assert "float(D0, K) A" in shown(text + CALLEE, (4, 5), (5,))


def test_a_callee_repeats_what_its_caller_knows_to_be_one() -> None:
    text = "def f(float(...) A, float(...) B) -> (O) { a = scaled(A, B) O(...) = a(...) + B(...) }"
    assert shown(text + CALLEE, (4, 1), (3,)) == (
        "def f(float(D0, 1) A, float(D1) B) -> (O) {\n"
        "  a = scaled(A, B)\n"
        "  O(i0, i1) = a(i0, i1) + B(i1)\n}"
    )
    assert extents(text + CALLEE, (4, 1), (3,)) == ["D0, D1"]
    assert extents(text + CALLEE, (4, 2), (4, 2)) == ["D0, D1"]


def test_a_definition_of_fixed_ranks_may_call_one_of_any() -> None:
    text = "def f(float(N) A, float(1, M) B) -> (O) { t(j, i) = A(i) + A(j)  O = scaled(t, B) }"
    checked_def = check(parse(text + CALLEE), "f")
    assert [*map(str, checked_def.returns[0].shape)] == ["N", "N"]
    assert [c.message for c in checked_def.constraints] == [
        "dimension 1 of 'B' is M, but 'D1' of 'scaled' is N"
    ]


def test_fixed_ranks_with_dots_need_no_call() -> None:
    text = "def f(float(N, M) A) -> (O) { O(...) = A(...) + 1.0 }"
    assert [*map(str, check(parse(text)).returns[0].shape)] == ["N", "M"]
    assert check(parse(text)).text.startswith("def f(float(N, M) A) -> (O) {\n  O(i0, i1)")


def test_chains_of_calls_end_in_a_word_about_it() -> None:
    chain = "".join(f"def g{k}(float(...) x) -> (y) {{ y = g{k - 1}(x) }}\n" for k in range(1, 600))
    text = "def f(float(...) A) -> (O) { O = g599(A) }\n" + chain
    text += "def g0(float(...) x) -> (y) { y(...) = x(...) }"
    (fault,) = refused(text, [(2, 2)]).diagnostics
    assert (fault.code, fault.message) == ("TC130", "calls nested deeper than 50")


# ---- faults

FAULTS: list[tuple[str, int, int, str, Shapes]] = [
    ("TC190", 1, 46, "def f(float(...) A) -> (O) { O(...) = A(..., ...) }", [(2, 2)]),
    ("TC190", 1, 18, "def f(float(..., ...) A) -> (O) { O(i) = A(i) }", [(2, 2)]),
    ("TC190", 1, 35, "def f(float(...) A) -> (O, P) { O(...) = 1.0  P(...) = A(...) }", [(2,)]),
    ("TC190", 1, 43, "def f(float(...) A) -> (O) { O(...) = exp(...) }", [(2,)]),
    (
        "TC190",
        1,
        40,
        "def f(float(...) A) -> (O) { O = f2(A, ...) }\n" + CALLEE.replace("scaled", "f2"),
        [(2,)],
    ),
    (
        "TC190",
        1,
        31,
        "def f(float(...) A) -> (float(...) O) { O(..., 2*i) = A(..., i) }",
        [(2, 2)],
    ),
    ("TC103", 1, 47, "def f(float(...) A) -> (O) { O(...) = A(i, j, ...) }", [(2,)]),
    ("TC103", 1, 39, "def f(float(...) A) -> (O) { O(...) = A(i) + A(...) }", [(2, 2)]),
    ("TC104", 1, 42, "def f(float(...) A) -> (O) { O(i) = A(i, ...) }", [(2, 2)]),
    ("TC104", 1, 36, "def f(float(...) A) -> (O) { O = A(...) }", [()]),
    ("TC113", 1, 25, "def f(float(...) A) -> (float(..., 2, 2) O) { O(...) = A(...) }", [(2,)]),
    (
        "TC197",
        1,
        51,
        "def f(float(...) A) -> (O) { O(i) +=! A(i, ...) O(...) += A(...) }",
        [(2, 3)],
    ),
    (
        "TC197",
        1,
        62,
        "def f(float(...) A, float(...) B) -> (O) { O(...) = A(...) O(...) += B(...) }",
        [(1,), (5,)],
    ),
    (
        "TC197",
        1,
        40,
        "def f(float(3) A, float(4) B) -> (O) { O(...) = A(...) + B(...) }",
        [(3,), (4,)],
    ),
    (
        "TC197",
        1,
        46,
        "def f(float(...) A, float(...) B) -> (O) { O argmax=! A(...) + B(...) }",
        [(3,), (4, 3)],
    ),
    ("TC102", 1, 39, "def f(float(...) A) -> (O) { O(...) = Q(...) + A(...) }", [(3,)]),
    (
        "TC112",
        1,
        39,
        "def f(float(...) A) -> (O) { O(...) = t(...) + A(...) t(...) = O(...) }",
        [(3,)],
    ),
    ("TC110", 1, 28, "def f(float(...) A) -> (O, float(...) P) { O(...) = A(...) }", [(3,)]),
    ("TC122", 1, 30, "def f(float(...) A) -> (O) { O(...) = scaled(A, A) }" + CALLEE, [(3,)]),
    ("TC123", 1, 30, "def f(float(...) A) -> (O) { O = f(A) }", [(3,)]),
    (
        "TC103",
        1,
        34,
        "def f(float A) -> (O) { O = last(A) }\n"
        "def last(float(..., D) x) -> (y) { y(...) +=! x(..., d) }",
        [()],
    ),
    (
        "TC104",
        2,
        39,
        "def f(float(N) A) -> (O) { O = sums(A) }\ndef sums(float(...) x) -> (y) { y = x(...) }",
        [(3,)],
    ),
]


@pytest.mark.parametrize(("code", "line", "column", "text", "shapes"), FAULTS)
def test_a_fault_has_its_code_and_place(
    code: str, line: int, column: int, text: str, shapes: Shapes
) -> None:
    first = refused(text, shapes).diagnostics[0]
    assert first.span is not None
    assert (first.code, *first.span.source.line_col(first.span.start)) == (code, line, column)


def test_the_words_of_the_faults(golden: Callable[[str, str], None]) -> None:
    texts = [str(refused(text, shapes)) for _, _, _, text, shapes in FAULTS]
    with pytest.raises(TCError) as unbound:
        check(parse(ADD, "f.tc"))
    with pytest.raises(ShapeError) as too_small:
        bound(NORM, ())
    texts += [str(unbound.value), str(too_small.value)]
    golden("\n\n".join(texts) + "\n", "errors/ellipsis.txt")


# ---- whatever the shapes


@drawn(
    60,
    200,
    st.lists(st.integers(0, 3), max_size=4).map(tuple),
    st.lists(st.integers(0, 3), max_size=4).map(tuple),
)
def test_shapes_are_those_of_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    from tcdsl.grammar.check.bind import bind

    definition = checked(ADD, a, b)
    try:
        wanted = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="add"):
            bind(definition, [a, b], [FLOAT32, FLOAT32])
        return
    sizes = bind(definition, [a, b], [FLOAT32, FLOAT32])
    assert tuple(e.evaluate(sizes) for e in definition.returns[0].shape) == wanted


def test_shapes_of_a_rank_have_so_many_dimensions_for_each_dots() -> None:
    (definition,) = parse(NORM).defs
    assert has_dots(definition)
    assert shapes_of_rank(definition, 0) == ((2,),)
    assert shapes_of_rank(definition, 2) == ((2, 2, 2),)


WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+(?:\.[0-9]*)?|\.{3}|[-+*/%<>=!&|?:]+|[(),{}]")
SPICE = re.findall(
    r"\S+", "N i d A B X O 0 1 2 ... ... ... , ( ) = += +=! argmax=! where exists in A.-1 two D0 i0"
)
TEXTS = [
    ADD,
    NORM,
    *(text for text, *_ in BOUND[-12:]),
    "def g(float(...) A) -> (O) { O = two(A, A) }",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    words = WORDS.findall(draw(st.sampled_from(TEXTS)) + CALLEE.replace("scaled", "two"))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(words) - 1))
        with_what = draw(st.sampled_from(SPICE))
        words[at : at + draw(st.integers(0, 1))] = [with_what] * draw(st.integers(0, 1))
    return " ".join(words)


@drawn(
    60,
    200,
    mutated(),
    st.lists(st.lists(st.integers(1, 2), max_size=3).map(tuple), min_size=4, max_size=4),
)
def test_mutated_definitions_are_bound_or_refused_in_words(text: str, shapes: Shapes) -> None:
    try:
        program = parse(text)
        name, given_shapes = program.defs[0].name, shapes[: len(program.defs[0].params)]
        definition = bind_ranks(program, name, given_shapes)
        defs = tuple(definition if d.name == name else d for d in program.defs)
        assert bind_ranks(replace(program, defs=defs), name, given_shapes) == definition
        check(replace(program, defs=defs), name)
    except TCError:
        pass
