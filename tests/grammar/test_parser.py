"""Texts to trees: the whole grammar, places, precedence, the parser's own promises."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from tcdsl.grammar import nodes as n
from tcdsl.grammar.parser import parse

CATALOG = json.loads((Path(__file__).parents[1] / "data" / "tc_catalog.json").read_text())


def statement(text: str) -> n.Stmt:
    return parse(f"def f(float(N) A) -> (B) {{ {text} }}").defs[0].body[0]


def expression(text: str) -> n.Expr:
    made = statement(f"B = {text}")
    assert isinstance(made, n.Comprehension)
    return made.value


def test_the_grammar_is_strict_lalr() -> None:
    from lark import Lark

    grammar = files("tcdsl.grammar").joinpath("tc.lark").read_text(encoding="utf-8")
    Lark(grammar, parser="lalr", strict=True, maybe_placeholders=False)


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry["name"])
def test_a_text_of_the_original_parses(entry: dict[str, str]) -> None:
    names = [definition.name for definition in parse(entry["tc"]).defs]
    assert entry["def_name"] in names


def test_parser_module_loads_no_lark() -> None:
    code = "import sys, tcdsl.grammar.parser; sys.exit('lark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
