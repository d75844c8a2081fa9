"""Source text and places in it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field

from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass

MAX_TEXT_BYTES = 1 << 20  # of a text that is read


@dataclass(frozen=True)
class Source:
    """A text and the name it is shown under in messages."""

    text: str = field(repr=False)
    name: str = "<text>"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]

    def line_col(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of a character, both from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of a line (from 1), without its end."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a source."""

    start: int
    end: int
    source: Source = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """The characters."""
        return self.source.text[self.start : self.end]

    def as_dict(self) -> dict[str, str | int]:
        """Return file, line and column of the start and of the end, each from 1."""
        line, column = self.source.line_col(self.start)
        end_line, end_column = self.source.line_col(self.end)
        return {
            "file": self.source.name,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
        }

    def to(self, other: Span) -> Span:
        """Return the span from the start of this to the end of other."""
        return Span(self.start, other.end, self.source)
