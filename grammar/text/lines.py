"""Lines of text that are too long end where their pieces allow that, at outer breaks first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

WIDTH = 100  # columns; a longer statement or head goes on in the next line, at a `Break`
INDENT = "  "
PARTS = 0  # the level of breaks that all end a line if one does


class Break(str):
    """A piece of text where a line that is too long may end; the lowest level ends it first."""

    __slots__ = ("level",)
    level: int

    def __new__(cls, text: str, level: int) -> Break:
        """Return the piece; levels are counted anew inside each pair of parentheses."""
        made = super().__new__(cls, text)
        made.level = level
        return made


class Line(NamedTuple):
    """A head, a statement or a closing brace: what begins on a line of its own.

    `end` follows the last piece on its line, even where that becomes too long.
    """

    depth: int
    pieces: Iterable[str]
    end: str = ""


def rows(line: Line, *, goes_on: bool = False) -> list[str]:
    """Return the rows of a line, of at most WIDTH columns where breaks allow that.

    It ends at outer breaks before inner ones. All rows but the first are indented further; the
    first too where it goes on with a line begun before.
    """
    indent = line.depth * INDENT
    further = indent + 2 * INDENT
    made = [further if goes_on else indent]
    _fill(made, [*_chunks(line.pieces)], further)
    made[-1] += line.end
    return [row.rstrip() for row in made]


_Chunk = tuple[str, tuple[int, int]]  # text up to a break; the parentheses it is in, and its level


def _chunks(pieces: Iterable[str]) -> Iterator[_Chunk]:
    text, depth = "", 0
    for piece in pieces:
        text += piece
        depth += piece.count("(") - piece.count(")")
        if isinstance(piece, Break):
            yield text, (depth, piece.level)
            text = ""
    yield text, (0, 0)


def _fill(made: list[str], chunks: Sequence[_Chunk], indent: str) -> None:
    """Add chunks to the last of some rows, and to new ones where they do not fit."""
    text = "".join(text for text, _ in chunks)
    if len(chunks) == 1 or _fits(made[-1], text):
        made[-1] += text if made[-1].strip() else text.lstrip()
        return
    outer = min(at for _, at in chunks[:-1])
    start = 0
    for end, (_, at) in enumerate(chunks, 1):
        if at != outer and end < len(chunks):
            continue
        part = chunks[start:end]
        is_new = outer[1] == PARTS or not _fits(made[-1], "".join(text for text, _ in part))
        if start and is_new and made[-1].strip():
            made.append(indent)
        _fill(made, part, indent)
        start = end


def _fits(row: str, text: str) -> bool:
    return len(row) + len(text.rstrip()) <= WIDTH
