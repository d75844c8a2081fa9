"""Text to syntax tree: Lark's LALR(1) parser and what surrounds it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from tcdsl.grammar.builder import build
from tcdsl.grammar.errors import Diagnostic, raise_all
from tcdsl.grammar.nodes import Program
from tcdsl.grammar.source import Source, Span


def parse(text: str, name: str = "<text>") -> Program:
    """Parse a text of one or more definitions.

    Parameters
    ----------
    text : str
        The definitions.
    name : str, default "<text>"
        What messages call the text, usually its file.

    Returns
    -------
    Program
        The definitions in the order written; every node knows its place in the text.

    Raises
    ------
    TCSyntaxError
        If the text is not a program of the language; it shows up to ten faults.

    Examples
    --------
    >>> parse("def f(float(N) A) -> (B) { B(i) = 2 * A(i) }").defs[0].name
    'f'
    """
    from lark.exceptions import UnexpectedInput

    source = Source(text, name)
    try:
        tree = lark_parser().parse(text)
    except UnexpectedInput as fault:
        at = fault.pos_in_stream if fault.pos_in_stream is not None else len(text)
        raise_all([Diagnostic("TC001", "syntax error", Span(at, at + 1, source))])
        raise
    program, faults = build(tree, source)
    raise_all(faults)
    assert program is not None
    return program


@cache
def lark_parser() -> Any:
    """Return the parser of tc.lark, built at its first use."""
    from lark import Lark  # its import and the tables cost as much as the whole rest of `import`

    grammar = files(__package__).joinpath("tc.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)
