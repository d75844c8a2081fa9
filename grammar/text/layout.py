"""A text in the layout of `format`, with its comments and the empty lines between statements.

Layout and needless parentheses are all that formatting changes. So a comment has its place behind
the same *word* of the new text: a name, a number or a sign that is neither parenthesis nor minus
(a minus belongs to the literal behind it, where that is 0 it vanishes).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.text.format import def_lines
from tcdsl.grammar.text.lines import INDENT, Line, rows
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.text.stack import on_own_stack

_PART = re.compile(r"(?P<comment>#[^\n]*)|(?P<blank>\s+)|(?P<word>\w+|[^\w\s()-])|(?P<sign>[()-])")


@on_own_stack
def format_text(text: str, name: str = "<text>") -> str:
    r"""Return a text in the one pretty layout, its comments kept.

    A comment stays on a line of its own or behind what it stood behind, and one empty line stays
    where there were some between statements or comments. Parentheses around an operand stay, others
    go where they change nothing. Formatting what was formatted changes nothing.

    Parameters
    ----------
    text : str
        One or more definitions.
    name : str, default "<text>"
        What messages call the text.

    Returns
    -------
    str
        The same program, with a newline at its end.

    Raises
    ------
    TCSyntaxError
        If the text is not a program of the language.

    Examples
    --------
    >>> print(format_text("def f(float(N)A)->(B){B(i)=(2*(A(i)))# twice\n}"), end="")
    def f(float(N) A) -> (B) {
      B(i) = 2 * A(i)  # twice
    }
    """
    program = parse(text, name, keeps_groups=True)
    comments, spaced = _read(text)
    made = _Writer(comments, spaced).written(program)
    kept, _ = _read(made)
    if parse(made) != program or [c.text for c in kept] != [c.text for c in comments]:
        raise InternalError(f"formatting changes the text {name}")
    return made


class _Comment(NamedTuple):
    """One comment: `words` stand before it in the text, and `signs` behind the last of them."""

    text: str
    words: int
    signs: int
    is_alone: bool  # on a line of its own
    is_spaced: bool  # an empty line is above it


def _read(text: str) -> tuple[list[_Comment], set[int]]:
    """Return the comments of a text, and the numbers of the words below an empty line."""
    comments: list[_Comment] = []
    spaced: set[int] = set()
    words = signs = 0
    newlines = 1  # since what was read last
    for part in _PART.finditer(text):
        match part.lastgroup:
            case "blank":
                newlines += part[0].count("\n")
                continue
            case "comment":
                flags = newlines > 0, newlines > 1
                comments.append(_Comment(part[0].rstrip(), words, signs, *flags))
            case "word":
                if newlines > 1:
                    spaced.add(words)
                words, signs = words + 1, 0
            case _:
                signs += 1
        newlines = 0
    return comments, spaced


class _Writer:
    """Writes the lines of a program, each with the comments before, in and behind it."""

    def __init__(self, comments: list[_Comment], spaced: set[int]) -> None:
        self.comments = deque(comments)  # not yet written
        self.spaced = spaced
        self.words = 0  # written
        self.rows: list[str] = []
        self.is_apart = False  # an empty line comes next, whether or not there was one
        self.has_opened = False  # a brace: no empty line comes next

    def written(self, program: n.Program) -> str:
        """Return the text of the program."""
        for definition in program.defs:
            first, *_ = def_lines(definition)
            end = self.words + _count((*first.pieces, first.end))
            is_held = any(c.is_alone and end - 2 <= c.words < end for c in self.comments)
            for line in def_lines(definition, may_be_empty=not is_held):
                self._line(Line(line.depth, [*line.pieces], line.end))
            self._comments_after(is_last=definition is program.defs[-1])
            self.is_apart = True
        self._comments_alone(0)
        return "\n".join(self.rows) + "\n"

    def _line(self, line: Line) -> None:
        closes = line.pieces == ["}"]
        self._comments_alone(line.depth + closes)
        if not closes:
            self._space(self.words in self.spaced)
        end = self.words + _count((*line.pieces, line.end))
        goes_on = False
        for pieces, comment in self._cut(line.pieces, end - _count((line.end,))):
            is_bare = not "".join(pieces).strip()
            if not is_bare:
                part = Line(line.depth, pieces, "" if comment else line.end)
                self.rows += rows(part, goes_on=goes_on)
                goes_on = True
            if comment is None:
                break
            if comment.is_alone or is_bare:
                self.rows.append((line.depth + 2) * INDENT + comment.text)
            else:
                self.rows[-1] += f"  {comment.text}"
        self.words = end
        self.has_opened = line.end == " {"
        if self.comments and self.comments[0].words <= end and not self.comments[0].is_alone:
            self.rows[-1] += f"  {self.comments.popleft().text}"

    def _comments_alone(self, depth: int) -> None:
        """Write the comments that stand before the next word, each on a row of its own."""
        while self.comments and self.comments[0].words <= self.words:
            comment = self.comments.popleft()
            self._space(comment.is_spaced)
            self.rows.append(depth * INDENT + comment.text)

    def _comments_after(self, *, is_last: bool) -> None:
        """Write comments below a definition that an empty line, or the end, parts from the next."""
        near = [*takewhile(lambda c: c.words == self.words and not c.is_spaced, self.comments)]
        behind = self.comments[len(near)] if len(near) < len(self.comments) else None
        is_between = behind is None or behind.words > self.words
        if is_between and not is_last and self.words not in self.spaced:
            return  # they stand above the next one
        for comment in near:
            self.rows.append(comment.text)
            self.comments.popleft()

    def _space(self, is_spaced: bool) -> None:
        """Write the empty line above what comes next."""
        if (is_spaced or self.is_apart) and self.rows and not self.has_opened:
            self.rows.append("")
        self.is_apart = self.has_opened = False

    def _cut(self, pieces: Iterable[str], end: int) -> Iterator[tuple[list[str], _Comment | None]]:
        """Yield the pieces of a line up to each comment before its last word, then the rest."""
        words, signs = self.words, 0
        taken: list[str] = []
        for piece in pieces:
            start = 0
            for part in _PART.finditer(piece):
                if part.lastgroup == "blank":
                    continue
                while self.comments and self.comments[0].words == words < end:
                    if part.lastgroup == "sign" and signs < self.comments[0].signs:
                        break
                    taken.append(piece[start : part.start()])
                    yield taken, self.comments.popleft()
                    taken, start = [], part.start()
                if part.lastgroup == "sign":
                    signs += 1
                else:
                    words, signs = words + 1, 0
            taken.append(piece if start == 0 else piece[start:])
        yield taken, None


def _count(pieces: Iterable[str]) -> int:
    """Return the number of words of some pieces; none holds a part of one."""
    return sum(part.lastgroup == "word" for p in pieces for part in _PART.finditer(p))
