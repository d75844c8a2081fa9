"""Text to syntax tree: Lark's LALR(1) parser and what surrounds it.

The first `parse` loads lark, `import tcdsl` does not; Lark's tables lie beside the grammar
(`tables.py`). That the grammar holds in strict mode is tested; users do not need the package that
this mode takes.

After a fault reading goes on at the next line that begins with `def`, the only place where no fault
can follow from the one before: where a statement ends is not marked.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tcdsl.grammar.text import tables
from tcdsl.grammar.text.builder import build
from tcdsl.grammar.text.errors import MAX_SHOWN, Diagnostic, InternalError, raise_all
from tcdsl.grammar.text.nodes import Program
from tcdsl.grammar.text.refusal import refusal_of
from tcdsl.grammar.text.source import MAX_TEXT_BYTES, Source, Span
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.text.syntax import explain

_UNREADABLE = re.compile("[\\0\ud800-\udfff]")  # the end of a C string; halves of characters
_NEXT_DEF = re.compile(r"^[ \t]*def(?![A-Za-z0-9_])", re.MULTILINE)


@on_own_stack
def parse(text: str, name: str = "<text>", *, keeps_groups: bool = False) -> Program:
    """Parse a text of one or more definitions.

    Parameters
    ----------
    text : str
        The definitions.
    name : str, default "<text>"
        What messages call the text, usually its file.
    keeps_groups : bool, default False
        Whether nodes know that they stand in parentheses, so that `format` writes these again.

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
    raise_all(_unreadable(source))
    faults: list[Diagnostic] = []
    start = 0
    while len(faults) < MAX_SHOWN:
        try:
            # Blanks for what is already refused keep the places of the rest.
            tree = lark_parser().parse(" " * start + text[start:])
        except UnexpectedInput as fault:
            refusal = refusal_of(fault, lark_parser(), source)
            faults.append(explain(refusal))
            following = _NEXT_DEF.search(text, max(refusal.at, start + 1))
            if following is None:
                break
            start = following.end() - len("def")
        else:
            program, more = build(tree, source, keeps_groups=keeps_groups)
            faults += more
            if program is not None and not faults:
                return program
            break
    raise_all(faults)
    raise InternalError("a text was refused without a reason")


def _unreadable(source: Source) -> list[Diagnostic]:
    """Return what is wrong with a text before it is read."""
    size = len(source.text.encode("utf-8", "surrogatepass"))
    if size > MAX_TEXT_BYTES:
        message = f"the text has {size} bytes; the most is {MAX_TEXT_BYTES}"
        return [Diagnostic("TC016", message)]
    if character := _UNREADABLE.search(source.text):
        message = f"unexpected character U+{ord(character.group()):04X}"
        at = Span(character.start(), character.end(), source)
        return [Diagnostic("TC002", message, at, "no text may hold it, comments neither")]
    return []


@cache
def lark_parser() -> Any:
    """Return the parser of tc.lark, made at its first use."""
    return tables.read() or tables.built()
