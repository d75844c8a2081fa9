"""Nodes to text and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import TCSyntaxError
from tcdsl.grammar.text.format import expr_pieces, format_program
from tcdsl.grammar.text.lines import WIDTH
from tcdsl.grammar.text.parser import parse
from tests.tiers import drawn, sampled

CATALOG = json.loads((Path(__file__).parents[2] / "data" / "tc_catalog.json").read_text())


def expression(text: str) -> n.Expr:
    made = parse(f"def f(float(N) A) -> (B) {{ B = {text} }}").defs[0].body[0]
    assert isinstance(made, n.Comprehension)
    return made.value


def text_of(expr: n.Expr) -> str:
    return "".join(expr_pieces(expr))


# ---- programs at random; no name has two roles

indices = st.sampled_from(["i", "for", "argmin", "nan"])
tensors = st.sampled_from(["A", "B"])
sizes = st.sampled_from(["N", "M0"])
callees = st.sampled_from(["exp", "relu", "f0"])
anything = indices | tensors | sizes | st.sampled_from(["v", "t", "S"])

integers = st.sampled_from([0, 1, 7, 2**63 - 1, -1, -(2**63)])
floats = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
dots = st.builds(n.Dots)
leaves = st.one_of(
    st.builds(n.Name, anything),
    st.builds(n.IntLit, integers),
    st.builds(n.FloatLit, floats),
    st.builds(n.Extent, tensors, integers),
)
binary_ops = ["||", "&&", "<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "%"]
assign_ops = [
    "=",
    "+=",
    "*=",
    "min=",
    "max=",
    "+=!",
    "*=!",
    "min=!",
    "max=!",
    "argmin=!",
    "argmax=!",
]


def tuples(items: st.SearchStrategy[object], high: int, low: int = 0) -> st.SearchStrategy[object]:
    return st.lists(items, min_size=low, max_size=high).map(tuple)


def arguments(inner: st.SearchStrategy[n.Expr]) -> st.SearchStrategy[tuple[n.Arg, ...]]:
    keywords = st.lists(st.builds(n.Keyword, st.just("SH"), inner), max_size=1)
    positional = st.lists(inner | dots, max_size=2)
    return st.builds(lambda first, last: (*first, *last), positional, keywords)


def compound(inner: st.SearchStrategy[n.Expr]) -> st.SearchStrategy[n.Expr]:
    return st.one_of(
        st.builds(n.Binary, st.sampled_from(binary_ops), inner, inner),
        st.builds(n.Unary, st.sampled_from("-!"), inner),
        st.builds(n.Ternary, inner, inner, inner),
        st.builds(n.MinMax, st.sampled_from(["min", "max"]), inner, inner),
        st.builds(n.Cast, st.sampled_from(["float", "int8", "bfloat16", "bool"]), inner),
        st.builds(n.Apply, tensors | callees, arguments(inner)),
    )


expressions = st.recursive(leaves, compound, max_leaves=8)
targets = st.builds(n.Target, tensors, st.none() | tuples(leaves | dots, 2))
clauses = st.one_of(
    st.builds(n.RangeClause, indices, leaves, expressions),
    st.builds(n.Let, st.just("v"), expressions),
    st.builds(n.Exists, expressions),
)
equivalents = st.none() | st.builds(n.Equivalent, callees, arguments(leaves))
comprehensions = st.builds(
    n.Comprehension,
    targets,
    st.sampled_from(assign_ops),
    expressions,
    equivalents,
    tuples(clauses, 2),
)
results = tuples(st.builds(n.Target, tensors, st.none()), 3, 2)
statements = st.recursive(
    comprehensions | st.builds(n.MultiCall, results, callees, arguments(leaves)),
    lambda inner: st.builds(n.ForLoop, st.just("t"), leaves, expressions, tuples(inner, 2)),
    max_leaves=3,
)
type_names = st.sampled_from(["float", "uint64", "double", "T"])
dims = tuples(st.builds(n.Name, sizes) | st.builds(n.IntLit, st.integers(0, 9)) | dots, 2)
inferred = st.none() | st.builds(n.TypeRef, type_names, st.none() | tuples(expressions | dots, 2))
definitions = st.builds(
    n.Def,
    st.sampled_from(["f", "g"]),
    tuples(st.builds(n.Generic, st.sampled_from(["S", "T"]), st.none() | integers), 2),
    tuples(st.builds(n.Param, tensors, st.builds(n.TypeRef, type_names, st.none() | dims)), 2),
    tuples(st.builds(n.Param, tensors, inferred), 2),
    tuples(statements, 3),
)
programs = st.builds(n.Program, tuples(definitions, 2, 1))


@drawn(25, 250, programs)
def test_parsing_the_text_of_a_program_gives_the_program(program: n.Program) -> None:
    text = format_program(program)
    again = parse(text)
    assert again == program
    assert hash(again) == hash(program)
    assert format_program(again) == text


def without_parentheses_at(text: str, start: int) -> str:
    """Return a text without the parenthesis at start and its partner."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return f"{text[:start]} {text[start + 1 : i]} {text[i + 1 :]}"
    raise AssertionError("unbalanced")


@drawn(50, 300, expressions)
def test_no_parentheses_can_be_left_out(value: n.Expr) -> None:
    text = text_of(value)
    for group in re.finditer(r"(?<![A-Za-z0-9_])\(", text):
        shorter = without_parentheses_at(text, group.start())
        try:
            made = parse(f"def f() -> (B) {{ B = {shorter} }}").defs[0].body[0]
        except TCSyntaxError:
            continue
        assert not isinstance(made, n.Comprehension) or made.value != value


def expression_nodes(root: object) -> Iterator[n.Expr]:
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            todo += item
        elif isinstance(item, n.Node):
            if isinstance(item, n.Expr):
                yield item
            todo += [getattr(item, field.name) for field in fields(item)]


@drawn(12, 120, programs)
def test_the_place_of_an_expression_holds_the_expression(program: n.Program) -> None:
    for node in expression_nodes(parse(format_program(program))):
        assert node.span is not None
        assert expression(node.span.text) == node


@sampled("entry", CATALOG, ids=lambda entry: entry["name"], keep=30)
def test_a_text_of_the_original_survives_formatting(entry: dict[str, str]) -> None:
    program = parse(entry["tc"])
    assert parse(format_program(program)) == program


@pytest.mark.parametrize(
    ("typed", "formatted"),
    [
        ("((a)+(b*c))", "a + b * c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)-d", "a - (b - c) - d"),
        ("(a*b)/(c%d)", "a * b / (c % d)"),
        ("(a<b)==(c<d)", "a < b == (c < d)"),
        ("a||b&&c", "a || b && c"),
        ("(a||b)&&!c", "(a || b) && !c"),
        ("!(a&&b)", "!(a && b)"),
        ("-(a+b)*c", "-(a + b) * c"),
        ("- 1-(1)- -1", "-1 - 1 - -1"),
        ("-(1)", "-(1)"),
        ("- -x", "--x"),
        ("-A.-1", "-A.-1"),
        ("a?b:c?d:e", "a ? b : c ? d : e"),
        ("(a?b:c)?(d?e:f):g", "(a ? b : c) ? d ? e : f : g"),
        ("a+(b?c:d)", "a + (b ? c : d)"),
        ("max(a,min(b,(c)))", "max(a, min(b, c))"),
        ("float((x))", "float(x)"),
        ("f(...,x,N=2)", "f(..., x, N=2)"),
        ("T()", "T()"),
        ("0x1F+010 - -0XfF", "0x1F + 10 - -0XfF"),
        ("3E-5*.50", "3E-5 * .50"),
    ],
)
def test_an_expression_has_the_fewest_parentheses(typed: str, formatted: str) -> None:
    assert text_of(expression(typed)) == formatted
    assert expression(formatted) == expression(typed)


def test_a_float_without_typed_text_has_the_fewest_digits() -> None:
    assert text_of(n.FloatLit(0.1)) == "0.1"
    assert text_of(n.FloatLit(1e300)) == "1e+300"
    assert text_of(n.FloatLit(0.5, text="0.1")) == "0.5"  # a value that a pass has changed
    assert text_of(n.IntLit(3, text="0x1F")) == "3"


def test_layout_of_a_program() -> None:
    text = """\
def conv<SH=1, SW=-1, T>(T(N, C, H, W) I, float(M, ..., 3) W1, int32 s) -> (O, float(M, N / 2) P) {
  O(n, m) +=! I(n, c, SH * h + kh, w) * W1(m, c) <=> gemm(I, W1) where h in 0:H, w in 0 : W - 1
  P = 0
  Q() max=! s where k in 0:s, v = I(k), exists W1(k)
  for t in 1:s {
    a, b = moments(I, SH=SH)
    for u in t : t + 1 {
    }
  }
}

def empty() -> () {}
"""
    assert format_program(parse(text)) == text


def test_long_lines_break_between_parameters_clauses_and_terms() -> None:
    params = ", ".join(f"float(N) parameter_{i}" for i in range(8))
    terms = " + ".join(f"parameter_{i}(i) * 2" for i in range(8))
    clauses = ", ".join(f"v{i} = parameter_{i}(i)" for i in range(8))
    program = parse(f"def f({params}) -> (O) {{ O(i) = {terms} where {clauses} }}")
    text = format_program(program)
    assert parse(text) == program
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert len(text.splitlines()) == 8
    assert "\n      + parameter_" in text
    assert "\n      where v0 = " in text


@pytest.mark.wide
def test_a_long_sum_formats_compares_and_hashes() -> None:
    terms = " + ".join(f"A({i})" for i in range(10_000))
    program = parse(f"def f(float(N) A) -> (B) {{ B = {terms} }}")
    again = parse(format_program(program))
    assert again == program
    assert hash(again) == hash(program)
