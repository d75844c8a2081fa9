"""Definitions over a batch, as texts; what is refused, as whole messages."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tcdsl.grammar.batch.definition import Backward, batched
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.format import format_def, format_program
from tcdsl.grammar.text.parser import parse


def over(
    text: str, in_dims: Mapping[str, int], out_dims: Mapping[str, int | None] | None = None
) -> str:
    """Return the text over a batch, which is one that parses again, with its indented lines."""
    program = parse(text, "f.tc")
    name = program.defs[-1].name
    checked = check(program, name)
    made = format_program(batched(program, name, in_dims, out_dims, checked=checked).program)
    again = parse(made)
    assert format_program(again) == made
    check(again, again.defs[-1].name)
    return made


TEXTS = [
    (
        "def mm(float(M,K) A, float(K,N) W) -> (C) { C(m, n) +=! A(m, k) * W(k, n) }",
        {"A": 0},
        "def batched_mm(float(B, M, K) A, float(K, N) W) -> (C) {\n"
        "  C(b, m, n) +=! A(b, m, k) * W(k, n)\n}\n",
    ),
    (  # what does not depend on the batch is computed once, wherever it stands
        "def f(float(N) x, float(N) w) -> (y, z) { t(i) = exp(w(i))  z +=! t(i) "
        "y(i) = x(i) * t(i) }",
        {"x": 1},
        "def batched_f(float(N, B) x, float(N) w) -> (y, z) {\n"
        "  t(i) = exp(w(i))\n  z +=! t(i)\n  y(b, i) = x(i, b) * t(i)\n}\n",
    ),
    (  # a tensor has the index in all its statements
        "def f(float(N) x, float(N) w) -> (y) { y(i) = w(i)  y(0) += x(0)  y(i) = y(i) * 2 }",
        {"x": 0},
        "def batched_f(float(B, N) x, float(N) w) -> (y) {\n"
        "  y(b, i) = w(i) where b in 0:B\n  y(b, 0) += x(b, 0)\n  y(b, i) = y(b, i) * 2\n}\n",
    ),
    (  # what a tensor is before the batch is computed once, too
        "def f(float(M,K) x, float(N,K) w, float(N) c) -> (o) "
        "{ o(m, n) +=! x(m, k) * w(n, k)  o(m, n) = fmax(o(m, n) + c(n), 0) }",
        {"c": 0},
        "def batched_f(float(M, K) x, float(N, K) w, float(B, N) c) -> (o) {\n"
        "  o_2(m, n) +=! x(m, k) * w(n, k)\n  o(b, m, n) = o_2(m, n) where b in 0:B\n"
        "  o(b, m, n) = fmax(o(b, m, n) + c(b, n), 0)\n}\n",
    ),
    (  # but not where another name would change what it holds: N is no index here
        "def f(float(N,M) w, float(N) x) -> (o) { o(N, i) +=! w(i, j)  o(0, i) = o(N, i) + x(i) }",
        {"x": 0},
        "def batched_f(float(N, M) w, float(B, N) x) -> (o) {\n"
        "  o(b, N, i) +=! w(i, j) where b in 0:B\n  o(b, 0, i) = o(b, N, i) + x(b, i)\n}\n",
    ),
    (  # in a loop what is written below is read above
        "def f(float(T) x, float w) -> (h) { h(0) = w  s = w  for t in 0:T "
        "{ h(t + 1) = h(t) + s  s = x(t) } }",
        {"x": 0},
        "def batched_f(float(B, T) x, float w) -> (h) {\n"
        "  h(b, 0) = w where b in 0:B\n  s(b) = w where b in 0:B\n  for t in 0:T {\n"
        "    h(b, t + 1) = h(b, t) + s(b)\n    s(b) = x(b, t)\n  }\n}\n",
    ),
    (  # scalars, lookups and scatters
        "def f(float(N,D) E, int32(L) I, float a) -> (float(N) h, o) "
        "{ h(I(l)) +=! a  o(l, d) = E(I(l), d) * a }",
        {"I": 0, "a": -1},
        "def batched_f(float(N, D) E, int32(B, L) I, float(B) a) -> (float(B, N) h, o) {\n"
        "  h(b, I(b, l)) +=! a(b)\n  o(b, l, d) = E(I(b, l), d) * a(b)\n}\n",
    ),
    (  # guarded reads bound nothing, so the range is said
        "def f(float(N) x, float(M) w) -> (y) { y(i) = i < N ? x(i) : w(i) }",
        {"x": 0},
        "def batched_f(float(B, N) x, float(M) w) -> (y) {\n"
        "  y(b, i) = i < N ? x(b, i) : w(i) where b in 0:B\n}\n",
    ),
    (  # a let has the index where it is read
        "def f(float(N) x, float(N) w) -> (y) { y(i) = v * v where v = x(i) + x.0, exists w(i) }",
        {"x": 1},
        "def batched_f(float(N, B) x, float(N) w) -> (y) {\n"
        "  y(b, i) = v * v where v = x(i, b) + x.0, exists w(i), b in 0:B\n}\n",
    ),
    (  # `...` stays; the batch is no part of it
        "def f(float(...) x, float(...) w) -> (y, s) { y(...) = x(...) * w(...)  s +=! x(...) }",
        {"x": 0},
        "def batched_f(float(B, ...) x, float(...) w) -> (y, s) {\n"
        "  y(b, ...) = x(b, ...) * w(...)\n  s(b) +=! x(b, ...)\n}\n",
    ),
    (  # names of the user are left to the user
        "def f(float(B) b) -> (b_2) { b_2(B_2) = b(B_2) * B }",
        {"b": 0},
        "def batched_f(float(B_3, B) b) -> (b_2) {\n  b_2(b_3, B_2) = b(b_3, B_2) * B\n}\n",
    ),
    (  # callees have the batch where their arguments have it; others are called as they are
        "def g(float(N) x, float a) -> (y) { y(i) = x(i) * a } "
        "def f(float(N) x, float(N) w, float a) -> (y) "
        "{ v = g(w, 2)  u = g(x, 2 * a)  t = g(w, a)  y(i) = t(i) + u(i) + v(i) }",
        {"a": 0},
        "def g(float(N) x, float a) -> (y) {\n  y(i) = x(i) * a\n}\n\n"
        "def batched_g(float(N) x, float(B) a) -> (y) {\n  y(b, i) = x(i) * a(b)\n}\n\n"
        "def batched_f(float(N) x, float(N) w, float(B) a) -> (y) {\n"
        "  v = g(w, 2)\n  g_a(b) = float(2 * a(b))\n  u = batched_g(x, g_a)\n"
        "  t = batched_g(w, a)\n  y(b, i) = t(b, i) + u(b, i) + v(i)\n}\n",
    ),
]


@pytest.mark.parametrize(("text", "in_dims", "wanted"), TEXTS)
def test_the_text_over_a_batch(text: str, in_dims: dict[str, int], wanted: str) -> None:
    if "float(...)" in text:
        program = parse(text)
        assert format_program(batched(program, "f", in_dims).program) == wanted
    else:
        assert over(text, in_dims) == wanted


def test_returns_have_the_batch_where_it_is_asked_for() -> None:
    text = "def f(float(N,M) x, float w) -> (y, float z) { y(i, j) = x(i, j) * 2  z = w }"
    assert over(text, {"x": 1}, {"y": -1, "z": 0}) == (
        "def batched_f(float(N, B, M) x, float w) -> (y, float(B) z) {\n"
        "  y(i, j, b) = x(i, b, j) * 2\n  z(b) = w where b in 0:B\n}\n"
    )


def test_a_text_whose_parameters_have_ranks_takes_the_batch_anywhere() -> None:
    assert over("def f(float(N,M) x) -> (y) { y(...) = x(...) }", {"x": 1}) == (
        "def batched_f(float(N, B, M) x) -> (y) {\n  y(b, i0, i1) = x(i0, b, i1)\n}\n"
    )


NOTE = """
  note: let all elements share it; or write ranges without it, and let it stand in a condition \
(i < n ? X(i) : 0) or in the subscript of what is read"""

REFUSED = [
    (
        "def f(float(M) x, int32 n) -> (o) { o(i) = x(i) where i in 0:n }",
        {"n": 0},
        {},
        "f.tc:1:25: error[TC160]: 'n' cannot be batched: ranges depend on it\n"
        "  |\n"
        "1 | def f(float(M) x, int32 n) -> (o) { o(i) = x(i) where i in 0:n }\n"
        f"  |                         ^ all elements of a batch have one size{NOTE}",
    ),
    (
        "def f(float(N,M) x) -> (o) { o(i, j) = x(i, j) }",
        {"x": 3},
        {},
        "f.tc:1:18: error[TC161]: 'x' has 2 dimensions, so that of the batch cannot be 3\n"
        "  |\n"
        "1 | def f(float(N,M) x) -> (o) { o(i, j) = x(i, j) }\n"
        "  |                  ^\n"
        "  note: choose from -3 to 2",
    ),
    (
        "def f(float(N,M) x) -> (o) { o(i, j) = x(i, j) }",
        {"x": 0},
        {"o": None},
        "f.tc:1:30: error[TC162]: 'o' depends on the batch, so it has a value for each element\n"
        "  |\n"
        "1 | def f(float(N,M) x) -> (o) { o(i, j) = x(i, j) }\n"
        "  |                              ^\n"
        "  note: let it have the batch at a dimension, as in out_dims={'o': 0}",
    ),
]


@pytest.mark.parametrize(("text", "in_dims", "out_dims", "message"), REFUSED)
def test_what_is_refused(
    text: str, in_dims: dict[str, int], out_dims: dict[str, int | None], message: str
) -> None:
    with pytest.raises(TCTypeError) as caught:
        over(text, in_dims, out_dims)
    assert str(caught.value) == message


def test_a_way_back_gives_sums_over_the_batch_by_what_its_elements_share() -> None:
    text = (
        "def f(float(N) x, float(M,N) w, float(N) c) -> (y) { y(i) +=! w(i, k) * x(k) * c(k) }\n"
        "def back(float(N) x, float(M,N) w, float(N) c, float(M) d_y)\n"
        "    -> (float(N) d_x, d_w, float(N) d_c) {\n"
        "  d_x(k) +=! d_y(i) * w(i, k) * c(k)\n"
        "  d_w(i, k) = d_y(i) * x(k) * c(k)\n"
        "  d_c(k) = d_x(k)\n"
        "  d_c(k) = d_c(k) * x(k)\n"
        "}"
    )
    like = {t: t.removeprefix("d_") for t in ("x", "w", "c", "d_y", "d_x", "d_w", "d_c")}
    found = batched(parse(text), "f", {"x": 1}, back=Backward("back", like))
    assert (found.back, found.out_dims) == ("batched_back", {"y": 0})
    back, forward = (format_def(d).split(" {\n") for d in found.program.defs)
    assert "(float(N, B) x, float(M, N) w, float(N) c, float(B, M) d_y)" in back[0]
    assert back[1:] == [
        "  d_x(k, b) +=! d_y(b, i) * w(i, k) * c(k)\n"
        "  d_w(i, k) +=! d_y(b, i) * x(k, b) * c(k)\n"
        "  d_c_each(b, k) = float(d_x(k, b))\n"
        "  d_c_each(b, k) = float(d_c_each(b, k) * x(k, b))\n"
        "  d_c(i0) +=! d_c_each(b, i0)\n"
        "}"
    ]
    assert forward[1:] == ["  y(b, i) +=! w(i, k) * x(k, b) * c(k)\n}"]


def test_a_callee_without_the_batch_draws_no_numbers_for_each_element() -> None:
    text = (
        "def noise(float(N) w, uint64 seed) -> (y) { y(i) = rand(seed, i) * w(i) }\n"
        "def f(float(N) x, float(N) w, uint64 seed) -> (o) {\n"
        "  u = noise(w, seed)\n"
        "  o(i) = x(i) * u(i)\n"
        "}"
    )
    program = parse(text, "f.tc")
    one = format_program(batched(program, "f", {"x": 0}).program)
    assert "u = noise(w, seed)" in one
    with pytest.raises(TCTypeError) as caught:
        batched(program, "f", {"x": 0}, randomness="different")
    assert str(caught.value) == (
        "f.tc:3:3: error[TC163]: 'noise' draws random numbers of its own for each element, and "
        "none of its arguments has the batch\n"
        "  |\n"
        "3 |   u = noise(w, seed)\n"
        "  |   ^^^^^^^^^^^^^^^^^^ it does not know how many elements there are\n"
        "  note: write its rand here, or give it a seed that has the batch"
    )


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("o(i) = x(i) where i in 0:n", "'i'"),
        ("o(i) = x(i)  for t in 0:n { o(i) = o(i) * 2 }", "the loop"),
    ],
)
def test_lengths_are_found_before_any_type_is_known(body: str, what: str) -> None:
    text = f"def f<T>(T(M) x, int32 n) -> (o) {{ {body} }}"
    program = parse(text, "f.tc")
    column = text.index("0:n") + 3
    with pytest.raises(TCTypeError) as caught:
        batched(program, "f", {"n": 0})
    assert str(caught.value) == (
        f"f.tc:1:{column}: error[TC160]: the extent of {what} depends on the batch\n"
        f"  |\n1 | {text}\n  |{' ' * column}^ all elements of a batch have one size{NOTE}"
    )


def test_the_batch_cannot_be_among_the_dimensions_of_an_ellipsis() -> None:
    program = parse("def f(float(...) x) -> (o) { o(...) = x(...) }", "f.tc")
    with pytest.raises(TCTypeError) as caught:
        batched(program, "f", {"x": 1})
    assert str(caught.value) == (
        "f.tc:1:18: error[TC161]: dimension 1 of 'x', the batch, would be among those of '...'\n"
        "  |\n"
        "1 | def f(float(...) x) -> (o) { o(...) = x(...) }\n"
        "  |                  ^\n"
        "  note: put it first (0) or last (-1), or give '...' a rank: kernel.with_rank(2).batched()"
    )
