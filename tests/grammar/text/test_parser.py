"""Texts to trees: the whole grammar, places, precedence, the parser's own promises."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from lark.exceptions import UnexpectedInput

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text import tables
from tcdsl.grammar.text.errors import InternalError, TCSyntaxError
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.parser import lark_parser, parse
from tests.tiers import sampled

CATALOG = json.loads((Path(__file__).parents[2] / "data" / "tc_catalog.json").read_text())


def statement(text: str) -> n.Stmt:
    return parse(f"def f(float(N) A) -> (B) {{ {text} }}").defs[0].body[0]


def expression(text: str) -> n.Expr:
    made = statement(f"B = {text}")
    assert isinstance(made, n.Comprehension)
    return made.value


def test_the_grammar_is_strict_lalr() -> None:
    from lark import Lark

    grammar = files("tcdsl.grammar.text").joinpath("tc.lark").read_text(encoding="utf-8")
    Lark(grammar, parser="lalr", strict=True, maybe_placeholders=False)


def test_the_tables_beside_the_grammar_are_its_own() -> None:
    kept, built = tables.read(), tables.built()
    assert kept is not None, f"they are of another Lark or grammar: see {tables.__file__}"
    for entry in (*CATALOG, {"tc": EVERYTHING}):
        assert kept.parse(entry["tc"]) == built.parse(entry["tc"])
    for cut in range(0, len(EVERYTHING), 397):
        for between in ("@", "def", "argmax=!"):
            text = EVERYTHING[:cut] + between + EVERYTHING[cut + 2 :]
            assert told(kept, text) == told(built, text)


def told(parser: Any, text: str) -> object:
    """Return a tree with the places of its tokens; or what is wrong, where, and what may stand."""
    try:
        tree = parser.parse(text)
    except UnexpectedInput as fault:
        allowed: Any = getattr(fault, "allowed", None) or getattr(fault, "expected", ())
        return type(fault), fault.pos_in_stream, sorted(map(str, allowed))
    return tree, [
        (x.type, x.start_pos, x.end_pos, x.line) for x in tree.scan_values(lambda _: True)
    ]


@pytest.mark.parametrize(("what", "other"), [("lark", "0.1"), ("grammar", "0" * 64)])
def test_tables_of_another_lark_or_grammar_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str, other: str
) -> None:
    kept = json.loads((tables.HERE / "tables.json").read_text())
    (tmp_path / "tables.json").write_text(json.dumps({**kept, what: other}))
    (tmp_path / "tc.lark").write_text((tables.HERE / "tc.lark").read_text())
    monkeypatch.setattr(tables, "HERE", tmp_path)
    assert tables.read() is None


@pytest.mark.parametrize("damaged", [None, "", "[]", "{}", '{"lark": "', "\x00" * 9, "[" * 100_000])
def test_damaged_tables_are_told_with_their_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str | None
) -> None:
    if damaged is not None:
        (tmp_path / "tables.json").write_text(damaged)
    monkeypatch.setattr(tables, "HERE", tmp_path)
    with pytest.raises(InternalError, match=r"tables.json', which came .*: install tcdsl again"):
        tables.read()


def test_tables_without_their_content_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = json.loads((tables.HERE / "tables.json").read_text())
    (tmp_path / "tables.json").write_text(json.dumps({**kept, "tables": {"data": [], "memo": {}}}))
    (tmp_path / "tc.lark").write_text((tables.HERE / "tc.lark").read_text())
    monkeypatch.setattr(tables, "HERE", tmp_path)
    with pytest.raises(InternalError, match="install tcdsl again"):
        tables.read()
    assert tables.built().parse(EVERYTHING)


@sampled("entry", CATALOG, ids=lambda entry: entry["name"], keep=30)
def test_a_text_of_the_original_parses(entry: dict[str, str]) -> None:
    names = [definition.name for definition in parse(entry["tc"]).defs]
    assert entry["def_name"] in names


def test_parser_module_loads_no_lark() -> None:
    code = "import sys, tcdsl.grammar.text.parser; sys.exit('lark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


EVERYTHING = """
def conv<SH=1, T>(T(N, C, ..., 3) I, float W) -> (float(N, SH * C - 1) O, P) {
  O(n, ...) +=! (I(n, 0) + 2.5e3) * -W - -7 <=> gemm(I, W) where n in 0:N, v = I.-1, exists I(n)
  P = n < 1 && !(n >= 2) || n != 3 ? min(n, 4) : float64(f(n, ..., SH=SH))
  for t in 1:N { m, v = moments(I, EPS=1)  P(t) argmax=! t / 2 % 3 }
}
"""


def all_nodes(root: object) -> list[n.Node]:
    found, todo = [], [root]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            todo += item
        elif isinstance(item, n.Node):
            found.append(item)
            todo += [getattr(item, field.name) for field in fields(item)]
    return found


def test_the_place_of_each_node_holds_its_text() -> None:
    by_kind: dict[str, list[str]] = {}
    for node in all_nodes(parse(EVERYTHING)):
        assert node.span is not None
        by_kind.setdefault(type(node).__name__, []).append(node.span.text)
    assert by_kind["Program"] == [EVERYTHING.strip()]
    assert by_kind["Def"] == [EVERYTHING.strip()]
    assert set(by_kind["Generic"]) == {"SH=1", "T"}
    assert set(by_kind["Param"]) == {
        "T(N, C, ..., 3) I",
        "float W",
        "float(N, SH * C - 1) O",
        "P",
    }
    assert set(by_kind["TypeRef"]) == {"T(N, C, ..., 3)", "float", "float(N, SH * C - 1)"}
    assert set(by_kind["Comprehension"]) == {
        "O(n, ...) +=! (I(n, 0) + 2.5e3) * -W - -7 <=> gemm(I, W) "
        "where n in 0:N, v = I.-1, exists I(n)",
        "P = n < 1 && !(n >= 2) || n != 3 ? min(n, 4) : float64(f(n, ..., SH=SH))",
        "P(t) argmax=! t / 2 % 3",
    }
    assert set(by_kind["Target"]) == {"O(n, ...)", "P", "m", "v", "P(t)"}
    assert by_kind["Equivalent"] == ["<=> gemm(I, W)"]
    assert by_kind["RangeClause"] == ["n in 0:N"]
    assert by_kind["Let"] == ["v = I.-1"]
    assert by_kind["Exists"] == ["exists I(n)"]
    assert by_kind["MultiCall"] == ["m, v = moments(I, EPS=1)"]
    assert by_kind["ForLoop"] == [
        "for t in 1:N { m, v = moments(I, EPS=1)  P(t) argmax=! t / 2 % 3 }"
    ]
    assert set(by_kind["Binary"]) == {
        "SH * C - 1",
        "SH * C",
        "(I(n, 0) + 2.5e3) * -W - -7",
        "(I(n, 0) + 2.5e3) * -W",
        "I(n, 0) + 2.5e3",
        "n < 1 && !(n >= 2) || n != 3",
        "n < 1 && !(n >= 2)",
        "n < 1",
        "n >= 2",
        "n != 3",
        "t / 2 % 3",
        "t / 2",
    }
    assert set(by_kind["Unary"]) == {"-W", "!(n >= 2)"}
    assert "-7" in by_kind["IntLit"]
    assert by_kind["FloatLit"] == ["2.5e3"]
    assert by_kind["Extent"] == ["I.-1"]
    assert by_kind["MinMax"] == ["min(n, 4)"]
    assert by_kind["Cast"] == ["float64(f(n, ..., SH=SH))"]
    assert set(by_kind["Keyword"]) == {"SH=SH", "EPS=1"}
    assert set(by_kind["Dots"]) == {"..."}
    assert len(by_kind["Ternary"]) == 1


def test_names_and_signs_have_places_of_their_own() -> None:
    for node in all_nodes(parse(EVERYTHING)):
        match node:
            case n.Def() | n.Param() | n.Target() | n.Apply():
                assert node.name_span is not None
                assert node.name_span.text == node.name
            case n.Binary() | n.Comprehension():
                assert node.op_span is not None
                assert node.op_span.text == node.op


N, X = n.Name("N"), n.Name("x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-1", n.IntLit(-1)),
        ("-9223372036854775808", n.IntLit(-(2**63))),
        ("0x7fffffffffffffff", n.IntLit(2**63 - 1)),
        ("-0x10", n.IntLit(-16)),
        ("007", n.IntLit(7)),
        ("0" * 5000 + "7", n.IntLit(7)),
        ("0x" + "0" * 5000 + "f", n.IntLit(15)),
        ("0x0 + 00", n.Binary("+", n.IntLit(0), n.IntLit(0))),
        ("-(1)", n.Unary("-", n.IntLit(1))),
        ("- # a comment\n 1", n.IntLit(-1)),
        ("--1", n.Unary("-", n.IntLit(-1))),
        ("-1.5", n.Unary("-", n.FloatLit(1.5))),
        ("1.", n.FloatLit(1.0)),
        (".5", n.FloatLit(0.5)),
        ("3E-5", n.FloatLit(3e-5)),
        ("1e5", n.FloatLit(1e5)),
        ("1e-400", n.FloatLit(0.0)),
        ("N.0", n.Extent("N", 0)),
        ("N .- 1", n.Extent("N", -1)),
        ("N-1", n.Binary("-", N, n.IntLit(1))),
        ("N--1", n.Binary("-", N, n.IntLit(-1))),
        ("x<N", n.Binary("<", X, N)),
        ("T(x)", n.Apply("T", (X,))),
        ("float(x)", n.Cast("float", X)),
        ("floatx(x)", n.Apply("floatx", (X,))),
        ("max(x, N)", n.MinMax("max", X, N)),
        ("maximum(x)", n.Apply("maximum", (X,))),
        ("definite + inner + where_ + existsx + format", None),
        ("for", n.Name("for")),
        ("f(...)", n.Apply("f", (n.Dots(),))),
        ("f(x, K=N)", n.Apply("f", (X, n.Keyword("K", N)))),
        ("inf", n.Name("inf")),
    ],
)
def test_an_expression_is_read_as(text: str, expected: n.Expr | None) -> None:
    value = expression(text)
    assert expected is None or value == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a - b - c", "(a - b) - c"),
        ("a / b * c % d", "((a / b) * c) % d"),
        ("a + b * c", "a + (b * c)"),
        ("-a * b", "(-a) * b"),
        ("!a && b", "(!a) && b"),
        ("a < b == c", "(a < b) == c"),
        ("a + b < c + d", "(a + b) < (c + d)"),
        ("a < b && c", "(a < b) && c"),
        ("a && b || c && d", "(a && b) || (c && d)"),
        ("a || b ? c : d", "(a || b) ? c : d"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("a ? b ? c : d : e", "a ? (b ? c : d) : e"),
        ("-a.1", "-(a.1)"),
    ],
)
def test_precedence(text: str, same: str) -> None:
    assert expression(text) == expression(same)


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("B +=!x", "+=!"),
        ("B += !x", "+="),
        ("B max=!x", "max=!"),
        ("B max= !x", "max="),
        ("B =!x", "="),
        ("B = !x", "="),
        ("B argmin=! x", "argmin=!"),
        ("B*=x", "*="),
        ("B min=x", "min="),
    ],
)
def test_an_assignment_with_a_touching_mark_is_one_sign(text: str, op: str) -> None:
    made = statement(text)
    assert isinstance(made, n.Comprehension)
    assert made.op == op


def test_newlines_mean_nothing_and_for_is_a_name_where_no_loop_can_be() -> None:
    text = """def f(float(N) for) -> (B) { B
      = for (i) B += for where for in 0:N C = for for # a comment
      in # another
      in 0:N { B = 1 } }"""
    with pytest.raises(TCSyntaxError):
        parse(text)  # `for for in in` has a keyword as its variable
    definition = parse(text.replace("in # another\n", "i # another\n")).defs[0]
    assert [type(stmt).__name__ for stmt in definition.body] == [
        "Comprehension",
        "Comprehension",
        "Comprehension",
        "ForLoop",
    ]


def test_parentheses_or_none() -> None:
    definition = parse("def f(float A, float() B) -> (C, D) { C = 1 D() = 1 }").defs[0]
    assert [param.type.dims for param in definition.params if param.type] == [None, ()]
    targets = [stmt.target for stmt in definition.body if isinstance(stmt, n.Comprehension)]
    assert [target.subs for target in targets] == [None, ()]


def test_empty_lists_are_legal() -> None:
    assert parse("def f() -> () {}") == n.Program((n.Def("f", (), (), (), ()),))


@pytest.mark.parametrize("depth", [1, 199, 200])
@pytest.mark.parametrize("pair", ["()", "f()", "-", "a?b:"])
def test_two_hundred_levels_are_legal(depth: int, pair: str) -> None:
    opening, closing = (pair[:-1], pair[-1]) if pair.endswith(")") else (pair, "")
    program = parse(f"def f() -> (B) {{ B = {opening * depth}x{closing * depth} }}")
    assert parse(format_program(program)) == program
    assert hash(program)
    assert repr(program)
    with pytest.raises(TCSyntaxError, match="TC012"):
        parse(f"def f() -> (B) {{ B = {opening * 201}x{closing * 201} }}")


def test_nested_loops_have_the_same_limit() -> None:
    text = "def f() -> (B) { " + "for i in 0:1 { " * 200 + "B = 1" + " }" * 201
    assert parse(format_program(parse(text))) == parse(text)
    with pytest.raises(TCSyntaxError, match="TC012"):
        parse(text.replace("B = 1", "for i in 0:1 { B = 1 }"))


@sampled("text", ["(" * 50_000, "-" * 50_000, "x?" * 50_000, "1+" * 5_000], keep=1)
def test_no_text_is_too_deep_to_be_refused(text: str) -> None:
    with pytest.raises(TCSyntaxError):
        parse(f"def f() -> (B) {{ B = {text}")


@pytest.mark.wide
def test_parsers_in_many_threads_give_the_same() -> None:
    lark_parser.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        programs = list(pool.map(parse, [EVERYTHING] * 32))
    assert all(program == programs[0] for program in programs)
