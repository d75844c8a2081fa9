"""A tree as lists, texts and numbers is the same tree when it is read; what is none is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tcdsl.grammar.text import nodes, plain
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.text.source import Source
from tcdsl.grammar.text.walk import walk

EVERY = """
def norms<T, S=-2, R>(T(N, 3) A) -> (s, float64(N) t) { s(i) +=! A(i, k) * A(i, k)  t(i) = 0.5e-3 }
def every<S=1, T>(float(..., N) x, T(N) w, int32 n = -0x3, bool b, T c = -inf) -> (y, z) {  # c
  m, v = norms(w, k=n)
  y(...) max=! min(x(..., i), -0x10) * w(S * i + j % 2)
      where j in 0:(n + 1), a = i - -1, exists w(i)
  y(...) = b && !(n >= 1) ? float(w.0) : -rsqrt(y(...) + x.-1) <=> same(y, x)
  for t in 1:n { z += 1  for u in t:n { z *= 2.0 } }
}
"""


def read(value: object, source: Source) -> nodes.Program:
    """Return the tree with all bodies."""

    def none() -> nodes.Program:
        raise ValueError("it has no such body")

    program = plain.from_plain(value, source, none)
    for definition in program.defs:
        assert isinstance(definition.body, tuple)
    return program


def places(program: nodes.Program) -> list[Any]:
    return [
        (type(x), f.name, getattr(x, f.name))
        for x in walk(program)
        for f in dataclasses.fields(x)
        if f.name.endswith("span")
    ]


@pytest.mark.parametrize("file", [None, *sorted(Path("examples").glob("*.tc"))], ids=str)
def test_what_is_read_is_the_tree_of_the_text_with_all_its_places(file: Path | None) -> None:
    program = parse(EVERY if file is None else file.read_text(), "name")
    kept = json.loads(json.dumps(plain.plain(program), allow_nan=False))
    assert program.span is not None
    again = read(kept, program.span.source)
    assert again == program
    assert places(again) == places(program)
    texts = [x.text for x in walk(program) if isinstance(x, nodes.IntLit | nodes.FloatLit)]
    assert [x.text for x in walk(again) if isinstance(x, nodes.IntLit | nodes.FloatLit)] == texts


def test_every_class_of_nodes_is_known_with_all_its_fields() -> None:
    defined = (c for c in vars(nodes).values() if isinstance(c, type))
    classes = {c for c in defined if c.__module__ == nodes.__name__} - {nodes.Node}
    assert plain._FIELDS.keys() == classes
    assert {type(x) for x in walk(parse(EVERY))} == classes
    for cls, known in plain._FIELDS.items():
        fields = {f.name for f in dataclasses.fields(cls)}
        assert known.keys() == fields - {"span", "is_grouped"}


@pytest.mark.wide
def test_a_sum_of_ten_thousand_terms_needs_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse(f"def f(float(N) x) -> (y) {{ y(i) = {' + '.join(['x(i)'] * 10_000)} }}")
    assert program.span is not None
    assert plain.plain(program) is None  # too large to be read sooner than parsed
    monkeypatch.setattr(plain, "MOST_NODES", 1 << 20)
    kept = json.loads(json.dumps(plain.plain(program), allow_nan=False))
    assert read(kept, program.span.source) == program


def test_parentheses_that_are_kept_and_nodes_of_no_text_are_not_written() -> None:
    text = "def f(float(N) x) -> (y) { y(i) = (x(i)) }"
    assert plain.plain(parse(text)) is not None
    assert plain.plain(parse(text, keeps_groups=True)) is None
    made = nodes.Def("f", (), (), (), ())
    assert plain.plain(nodes.Program((made,), span=parse(text).span)) is None


def test_what_is_no_tree_of_the_text_is_refused() -> None:
    source = Source(EVERY)
    kept = plain.plain(parse(EVERY))
    assert kept is not None

    def refused(value: object) -> None:
        with pytest.raises(ValueError, match=r"it |a tree|such part"):
            read(value, source)

    ends: tuple[Any, ...] = kept[:-1], kept[1:], [*kept, kept[0]]
    for value in (None, {}, [], "x", [[]], [None], [["Name"]], *ends):
        refused(value)
    wrong: tuple[Any, ...] = (None, True, -1, 1 << 70, "of no kind", "a b", {}, 10**6)
    bodies = [item[-3] for item in kept if item[0] == "Def"]
    for item in (item for part in (kept, *bodies) for item in part):
        for j, value in enumerate(item):
            for other in wrong if isinstance(value, list) else (*wrong, []):
                item[j] = other
                try:
                    again = read(kept, source)
                except ValueError:
                    continue
                # what passes is a number where one may stand, a name or a place that is left out
                assert type(other) in (type(value), type(None)) or value is None, (item, j)
                assert plain.plain(again) == kept
            item[j] = value
        last = item.pop()
        refused(kept)
        item += last, 1
        refused(kept)
        item.pop()
    assert read(kept, source) == parse(EVERY)


def test_a_body_that_is_none_is_that_of_the_text() -> None:
    program = parse(EVERY)
    kept = plain.plain(program)
    assert kept is not None
    for item in kept:
        if item[0] == "Def":
            item[-3] = item[-3][:1]
    asked: list[str] = []

    def parsed() -> nodes.Program:
        asked.append(EVERY)
        return parse(EVERY)

    again = plain.from_plain(kept, Source(EVERY), parsed)
    assert [d.name for d in again.defs] == [d.name for d in program.defs]
    assert not asked
    assert again == program
    assert asked
