"""Lines of text that are too long end where their pieces allow that, at outer breaks first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

WIDTH = 100  # columns; a longer statement or head goes on in the next line, at a `Break`
INDENT = "  "
PARTS = 0  # the level of breaks that all end a line if one does
ITEMS = 1  # of those between items of a list
CHOICE = 2, 3  # of those before `: other` and, further in, before `? then`
OPERATORS = 4  # the lowest level of breaks before operators with two sides
_MOST = 0.6  # of an operation: what has so much of it is most of it
_LEAST = 32  # columns that an operation in parentheses has in a nest
_FEWEST = 3  # operations in parentheses that are a nest


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
    if len(chunks) == 1 or _fits(made[-1], chunks):
        made[-1] += _text(chunks) if made[-1].strip() else _text(chunks).lstrip()
        return
    level = _outer(chunks)[1]
    if level > ITEMS:  # rows of an expression stand further in than the one in which it begins
        indent = made[-1][: len(made[-1]) - len(made[-1].lstrip())] + 2 * INDENT
    before = len(made)
    for number, part in enumerate(_nest(chunks) or _split(chunks)):
        if number and made[-1].strip():
            # Behind a choice of several rows begins another one, but `? then : other` is one.
            is_behind_rows = len(made) > before and not made[-1].lstrip().startswith("? ")
            is_new = level == PARTS or (level in CHOICE and is_behind_rows)
            if is_new or not _fits(made[-1], part):
                made.append(indent)
        before = len(made)
        _fill(made, part, indent)


def _nest(chunks: Sequence[_Chunk]) -> list[Sequence[_Chunk]]:
    """Return the parts by which operations on operations in parentheses fill rows, if they do.

    `1 - x / 2 * y * (1 - x / 3 * y * (1 - x / 4))` may go on in a new row before each `* (`, and
    `1 + x * (2 + x * (3 + x))` before each `+ x * (`, as it may where it ends. It is a nest if
    there are three of these, each with most of what it is part of; else there are no such parts.
    """
    cuts: list[int] = []
    ends: list[int] = []
    at, rest, sign = 0, chunks, 0  # sign: where the operation before one in parentheses begins
    while len(rest) > 1 and _outer(rest)[1] >= OPERATORS:
        parts = _split(rest)
        lengths = [len(_text(part)) for part in parts]
        which = lengths.index(max(lengths))
        longest = parts[which]
        if len(longest) == 1 or lengths[which] < max(_LEAST, _MOST * sum(lengths)):
            break
        ends = ends or [at + sum(map(len, parts[: which + 1]))]
        start = at + sum(map(len, parts[:which]))
        is_deeper = _outer(longest)[0] > _outer(rest)[0]
        is_sum = _outer(longest)[1] < _outer(rest)[1]  # of a product: it needs the parentheses
        if is_deeper and is_sum and start > 0:
            cuts.append(at if at == sign > 0 and len(parts[0]) == which == 1 else start)
        at, rest, sign = start, longest, 0 if is_deeper else start
    if len(cuts) < _FEWEST:
        return []
    cuts = [0, *cuts, *(end for end in ends if end < len(chunks))]
    return [chunks[i:j] for i, j in zip(cuts, [*cuts[1:], len(chunks)], strict=True)]


def _split(chunks: Sequence[_Chunk]) -> list[Sequence[_Chunk]]:
    """Return the parts of chunks between the outermost breaks."""
    outer = _outer(chunks) if len(chunks) > 1 else None
    ends = [end for end, (_, at) in enumerate(chunks[:-1], 1) if at == outer]
    return [chunks[i:j] for i, j in zip([0, *ends], [*ends, len(chunks)], strict=True)]


def _outer(chunks: Sequence[_Chunk]) -> tuple[int, int]:
    """Return where the outermost breaks are: in how many parentheses, and their level."""
    return min(at for _, at in chunks[:-1])


def _text(chunks: Sequence[_Chunk]) -> str:
    return "".join(text for text, _ in chunks)


def _fits(row: str, chunks: Sequence[_Chunk]) -> bool:
    return len(row) + len(_text(chunks).rstrip()) <= WIDTH
