"""Texts as trees: what a process has parsed, later ones find by a record, and load no parser."""

from __future__ import annotations

from functools import lru_cache

from tcdsl.codegen.toolchain import records
from tcdsl.grammar.text.nodes import Program
from tcdsl.grammar.text.plain import from_plain, plain
from tcdsl.grammar.text.source import Source


@lru_cache(maxsize=64)  # the layers of a model, and their copies, are of few texts
def parsed(text: str, name: str = "<text>") -> Program:
    """Return the program of a text, as `parse` does; a text with faults has no record.

    Raises
    ------
    TCSyntaxError
        If the text is not a program of the language.
    """
    source = Source(text, name)

    def parse() -> Program:
        from tcdsl.grammar.text import parser  # on use: it loads lark

        return parser.parse(text, name)

    found = records.read("tree", (text,), lambda value: from_plain(value, source, parse))
    if found is None:
        found = parse()
        if (nodes := plain(found)) is not None:
            records.write("tree", (text,), nodes, found.defs[-1].name)
    return found
