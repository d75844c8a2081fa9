"""The line of a text that holds a span, with marks under the span."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Literal

from tcdsl.grammar.text.source import Span

TAB_STOP = 4
_OBEYED = ("Cc", "Cf", "Cs")  # controls, marks of writing direction, halves of characters
MAX_WIDTH = 100  # columns of text shown; of a longer line, the part around the span

Style = Literal["error", "warning", "note", "gutter"]
Paint = Callable[[Style, str], str]
_ANSI: dict[Style, str] = {"error": "1;31", "warning": "1;35", "note": "1;36", "gutter": "34"}


def paint_plain(style: Style, text: str) -> str:
    """Return text as it is."""
    return text


def paint_ansi(style: Style, text: str) -> str:
    """Return text in the ANSI colour of a style."""
    return f"\x1b[{_ANSI[style]}m{text}\x1b[0m"


def excerpt(span: Span, mark: str, label: str, style: Style, paint: Paint) -> list[str]:
    r"""Return three lines: an empty one, the text with its number, the marks with their label.

    Of a span over several lines the first is shown. Columns are counted as a terminal shows them:
    tabs become blanks, wide characters have two columns, characters that a terminal would obey
    instead of show (controls, marks of writing direction) become U+FFFD.

    Examples
    --------
    >>> from tcdsl.grammar.text.source import Source
    >>> print(*excerpt(Span(4, 6, Source("C = AB")), "^", "here", "error", paint_plain), sep="\n")
      |
    1 | C = AB
      |     ^^ here
    """
    number, column = span.source.line_col(span.start)
    cells = _cells(span.source.line(number).rstrip("\r"))
    start = min(column - 1, len(cells))
    end = max(start, min(start + span.end - span.start, len(cells)))
    before, under, after = _crop(cells[:start], cells[start:end], cells[end:])
    gutter = " " * len(str(number))
    bar = paint("gutter", "|")
    marks = mark * max(1, _width(under))
    return [
        f"{gutter} {bar}",
        f"{paint('gutter', str(number))} {bar} {''.join(before + under + after)}".rstrip(),
        f"{gutter} {bar} {' ' * _width(before)}{paint(style, f'{marks} {label}'.rstrip())}",
    ]


def printable(text: str) -> str:
    """Return a text without what a terminal would obey instead of show; lines and tabs stay."""
    return "".join(
        "\ufffd" if unicodedata.category(c) in _OBEYED and c not in "\n\t" else c for c in text
    )


def _cells(line: str) -> list[str]:
    """Return what a terminal is given for each character of a line."""
    cells: list[str] = []
    width = 0
    for char in line:
        cell = char
        if char == "\t":
            cell = " " * (TAB_STOP - width % TAB_STOP)
        elif unicodedata.category(char) in _OBEYED:
            cell = "\ufffd"
        cells.append(cell)
        width += _width([cell])
    return cells


def _width(cells: list[str]) -> int:
    """Return the number of terminal columns."""
    columns = 0
    for cell in cells:
        if len(cell) != 1 or cell.isascii():
            columns += len(cell)
        elif not unicodedata.combining(cell):
            columns += 2 if unicodedata.east_asian_width(cell) in "WF" else 1
    return columns


def _crop(
    before: list[str], under: list[str], after: list[str]
) -> tuple[list[str], list[str], list[str]]:
    """Cut a long line down to MAX_WIDTH columns around the start of the span."""
    if _width(before) + _width(under) + _width(after) <= MAX_WIDTH:
        return before, under, after
    left, right = MAX_WIDTH // 2, MAX_WIDTH // 2
    if len(before) > left:
        before = ["...", *before[len(before) - left :]]
    else:
        right = MAX_WIDTH - len(before)
    if len(under) > right:
        return before, under[:right], ["..."]
    room = right - len(under)
    return before, under, [*after[:room], "..."] if len(after) > room else after
