"""The automaton reads what Lark reads by the same grammar, and stops where it stops."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tcdsl.grammar.text import tables
from tcdsl.grammar.text.automaton import TABLES, Stuck, Token, Tree, automaton
from tcdsl.grammar.text.refusal import _WORD

CATALOG = json.loads((Path(__file__).parents[2] / "data" / "tc_catalog.json").read_text())
TEXTS = [entry["tc"] for entry in CATALOG] + [
    "def f<T, S=-2>(T(..., 3) A, min) -> () { for for in 0:1 { for(0) = for in in B } }",
    "def f() -> (B) { minimum = max = 1.min .5 <=> g(a=1, ...) where x in 0:2, y = 1, exists y }",
    "def f(float A) -> (B) { a, b = f() B(i) max=! -A.-1 ? min(1, 2) : !x # the end",
    "def f() -> (B) { B arg min=! 1 == 2 }",
]


def grammar() -> str:
    return TABLES.with_name("tc.lark").read_text(encoding="utf-8")


def test_the_grammar_is_strict_lalr_and_its_tables_are_kept() -> None:
    assert tables.made() == TABLES.read_text(encoding="utf-8")


def test_a_word_that_a_pattern_matches_too_has_no_tables() -> None:
    with pytest.raises(ValueError, match="a pattern matches too"):
        tables.tables_of('start: "for" ID\nID: /[a-z]+/')


def test_a_rule_that_loses_all_but_one_child_has_no_tables() -> None:
    with pytest.raises(ValueError, match="has no place"):
        tables.tables_of('start: group\n?group: "(" ID ")"\nID: /[a-z]+/')


@cache
def lark() -> Any:
    from lark import Lark

    return Lark(grammar(), parser="lalr", propagate_positions=True, maybe_placeholders=False)


def plain(item: Any) -> Any:
    """Return a tree of ours or of Lark's as plain data, with places."""
    if isinstance(item, str):
        token: Any = item
        return str(item), token.start_pos
    if isinstance(item, Tree):
        return item.data, [*map(plain, item.children)], item.start_pos, item.end_pos
    at = (-1, -1) if item.meta.empty else (item.meta.start_pos, item.meta.end_pos)
    return str(item.data), [*map(plain, item.children)], *at


def ours(text: str) -> Any:
    try:
        return plain(automaton().parse(text))
    except Stuck as fault:
        return fault.at, fault.wanted, [*map(plain, fault.stack)]


def theirs(text: str) -> Any:
    from lark.exceptions import UnexpectedInput

    names = {t.name: t.pattern.value for t in lark().terminals if t.pattern.type == "str"}
    try:
        return plain(lark().parse(text))
    except UnexpectedInput as fault:
        parser: Any = getattr(fault, "interactive_parser")  # noqa: B009  # Lark's types lack it
        token = getattr(fault, "token", None)
        at = None if token is not None and token.type == "$END" else fault.pos_in_stream
        wanted = frozenset(names.get(name, name) for name in parser.accepts())
        return at, wanted, [*map(plain, parser.parser_state.value_stack)]


def spoilt(text: str, draw: random.Random) -> str:
    """Return a text with a word less, one more, or two exchanged."""
    words = [(m.start(), m.end()) for m in _WORD.finditer(text)]
    (a, b), (c, d) = sorted((draw.choice(words), draw.choice(words)))
    match draw.randrange(4):
        case 0:
            return text[:a] + text[b:]
        case 1:
            return text[:a] + text[c:d] + text[a:]
        case 2:
            return text[:a]
        case _:
            return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


@pytest.mark.parametrize("count", [1, pytest.param(40, marks=pytest.mark.wide)])
def test_trees_and_refusals_are_those_of_lark(count: int) -> None:
    draw = random.Random(7)
    refused = 0
    for text in TEXTS:
        assert ours(text) == theirs(text), text
        for _ in range(count):
            other = spoilt(text, draw)
            found = ours(other)
            assert found == theirs(other), other
            refused += not isinstance(found[0], str)
    assert refused > len(TEXTS) * count / 4


def test_words_know_their_terminals() -> None:
    tree = automaton().parse("def f() -> (B) { B = 1.5 }")
    (definition,) = tree.children
    assert isinstance(definition, Tree)
    name = definition.children[0]
    assert isinstance(name, Token)
    assert (name.type, name.start_pos, name.end_pos) == ("ID", 4, 5)
