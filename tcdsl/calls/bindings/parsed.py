"""Texts as trees: what a process has parsed, later ones find by a record, and load no parser.

Beside its tree a record has each definition as it is printed, by which further records are found:
to find them no body is made or printed.
"""

from __future__ import annotations

from functools import lru_cache

from tcdsl.calls.bindings.identity import keep_printed, printed
from tcdsl.codegen.toolchain import records
from tcdsl.grammar.check.made import tree_of
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

    def decoded(value: object) -> Program:
        match value:
            case [list(nodes), list(texts)]:
                program = from_plain(nodes, source, parse)
                if [type(t) for t in texts] == [str] * len(program.defs):
                    for definition, printing in zip(program.defs, texts, strict=True):
                        keep_printed(definition, printing)
                    return program
        raise ValueError("it is no tree with its definitions as texts")

    found = records.read("tree", (text,), decoded)
    if found is None:
        found = tree_of(text, name) or parse()
        if (nodes := plain(found)) is not None:
            texts = [printed(definition) for definition in found.defs]
            records.write("tree", (text,), [nodes, texts], found.defs[-1].name)
    return found


def is_parsed(text: str) -> bool:
    """Whether a process on this machine has parsed a text, as far as records say."""
    return records.is_kept("tree", (text,))
