"""What was made and checked is neither parsed nor checked again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tcdsl.calls.bindings.parsed import parsed
from tcdsl.codegen.gradient.derivatives import FORWARD, GRADIENT
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.grammar.check import made
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text import parser
from tcdsl.grammar.text.nodes import Program
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef

TEXT = "def norm(float(M,N) A) -> (s, Y) { s(i) +=! A(i, j) \n Y(i, j) = A(i, j) / s(i) }"


@pytest.fixture(autouse=True)
def _nothing_made() -> Iterator[None]:
    made._made.clear()
    yield
    made._made.clear()


def tree(text: str, name: str) -> Program:
    found = made.tree_of(text, name)
    assert found is not None
    return found


def places(checked: CheckedDef) -> list[object]:
    spans = [t.span for t in (*checked.params, *checked.returns)]
    spans += [c.span for c in checked.constraints]
    return [None if s is None else (s.start, s.end, s.source.name) for s in spans]


def test_a_gradient_is_that_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gradient(check(parse(TEXT)))
    for text, name in ((found.text, GRADIENT), (found.forward, FORWARD)):
        kept = check(tree(text, name))
        assert kept is made.checked_of(tree(text, name), {})
        again = check(parse(text, name))
        assert (kept, kept.text, places(kept)) == (again, again.text, places(again))
    monkeypatch.setattr(parser, "parse", None)
    parsed.cache_clear()
    assert parsed(found.text, GRADIENT).defs[0].name == "d_norm"


def test_another_name_another_definition_or_generics_are_checked() -> None:
    program = parse("def f(float(N) A) -> (B) { B(i) = A(i) }", "<here>")
    (definition,) = program.defs
    checked = check(program)
    made.keep(program, checked)
    assert program.span is not None
    text = program.span.source.text
    assert made.tree_of(text, "<there>") is None
    called_else = replace(program, defs=(replace(definition, name="g"),))
    assert check(called_else) == replace(checked, name="g")
    other = replace(definition, params=(replace(definition.params[0], name="C"),))
    assert made.checked_of(replace(program, defs=(other,)), {}) is None
    assert made.checked_of(replace(program, defs=(definition, other)), {}) is None
    assert made.checked_of(program, {"N": 3}) is None


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "_MOST", 2)
    for name in "abc":
        program = parse("def f(float(N) A) -> (B) { B(i) = A(i) }", name)
        made.keep(program, check(program))
        assert made.tree_of("def f(float(N) A) -> (B) { B(i) = A(i) }", name) is program
    assert len(made._made) <= 2
