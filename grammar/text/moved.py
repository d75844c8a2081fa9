"""The tree of a text as that of another which differs from it in blanks only.

Whoever makes a text has its tree before it is laid out: to move the places takes a tenth of what it
takes to parse the text again.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TypeVar

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.source import Source, Span

_N = TypeVar("_N")


def moved(program: n.Program, before: str, source: Source) -> n.Program | None:
    """Return what `parse` gives of a source; None where it says anything else.

    Parameters
    ----------
    program : nodes.Program
        The tree of before.
    before : str
    source : Source
        The same text in another layout.
    """
    if "".join(before.split()) != "".join(source.text.split()):
        return None
    # Of each place the characters before it that are no blanks, and where in the source each is.
    ranks = [0, *accumulate(not c.isspace() for c in before)]
    places = [i for i, c in enumerate(source.text) if not c.isspace()]
    spans: dict[Span, Span] = {}

    def there(value: _N) -> _N:
        if isinstance(value, Span):
            found = spans.get(value)
            if found is None:
                start, end = places[ranks[value.start]], places[ranks[value.end] - 1] + 1
                found = spans[value] = Span(start, end, source)
            return found  # type: ignore[return-value]  # a span for a span
        if isinstance(value, tuple):
            return tuple(map(there, value))  # type: ignore[return-value]  # as above
        if isinstance(value, n.Node):
            cls = type(value)
            return cls(**{name: there(getattr(value, name)) for name in fields_of(cls)})
        return value

    return there(program)


_FIELDS: dict[type[n.Node], tuple[str, ...]] = {}  # of each class of nodes, found once


def fields_of(cls: type[n.Node]) -> tuple[str, ...]:
    """Return the names of the fields of a class of nodes, those of its bases too."""
    found = _FIELDS.get(cls)
    if found is None:
        found = _FIELDS[cls] = tuple(cls.__dataclass_fields__)
    return found
