"""Words and notes that several faults share."""

from __future__ import annotations

from tcdsl.grammar.check.scope import Tensor
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError


def given(number: int, what: str = "") -> str:
    """Return "1 is given", or with what is counted "2 names are given"."""
    return f"{what or number} {'is' if number == 1 else 'are'} given"


def declared_here(tensor: Tensor) -> Note | None:
    """Return the note with the declaration of a tensor."""
    if not tensor.declared:
        place = tensor.first_write or tensor.span
        return Note("first written here", place) if place is not None else None
    return Note(f"declared here as {tensor.declared}", tensor.span)


def plain_args(node: n.Apply) -> tuple[n.Expr, ...]:
    """Return the arguments where neither `...` nor `NAME=` is possible."""
    args: list[n.Expr] = []
    for arg in node.args:
        match arg:
            case n.Dots():
                raise AssertionError("'...' is replaced before the check")
            case n.Keyword(name):
                raise FaultError(
                    "TC125",
                    f"'{name}=' is possible in calls of definitions only",
                    arg.span,
                    "",
                    Note(f"'{node.name}' is not a definition", node.name_span),
                )
            case _:
                args.append(arg)
    return tuple(args)
