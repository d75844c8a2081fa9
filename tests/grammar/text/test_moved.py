"""A tree whose places are moved is that of the text in the other layout."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.moved import fields_of, moved
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.text.source import Source

TEXT = """def f<S=2>(float(N,M) A,float(M) b,int32 k=3)->(O, t){
for i in 0:N{ O(i,j)=i>k ? A(i,j)*b(j)-2.50:fmax(b(j),-1) where j in 0:M
t +=! A(S*i,j) }
}
def g(float(N) X) -> (Y) { Y(i) = -X(i) * 0x1F + float64(X.0) }
"""


def places(value: Any) -> Any:
    """Return a tree with its places, which equality ignores."""
    if isinstance(value, tuple):
        return tuple(map(places, value))
    if isinstance(value, nodes.Node):
        parts = {name: places(getattr(value, name)) for name in fields_of(type(value))}
        return type(value).__name__, parts
    return value


def test_it_is_the_tree_of_the_other_text_with_its_places() -> None:
    before = parse(TEXT)
    source = Source(format_program(before), "<laid out>")
    assert source.text != TEXT
    found = moved(before, TEXT, source)
    assert found is not None
    assert places(found) == places(parse(source.text, source.name))
    assert found.span is not None
    assert found.span.source is source


@pytest.mark.parametrize("other", ["(X(i))", "X(j)", ""])
def test_another_text_has_another_tree(other: str) -> None:
    before = "def g(float(N) X) -> (Y) { Y(i) = X(i) }"
    text = before.replace("= X(i)", f"= {other}")
    assert moved(parse(before), before, Source(text)) is None
