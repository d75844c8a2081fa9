"""Where and why the automaton refused a text, in terms that a message can be made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tcdsl.grammar.text.automaton import Stuck, Token, Tree
from tcdsl.grammar.text.source import Source, Span

_WORD = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]*"
    r"|\.?[0-9][A-Za-z0-9_.]*"
    r"|<=>|\.\.\.|[+*]=!|[-+*/%&|^:=!<>]=|=[<>]|<[->]|->|\*\*|//|/\*|&&|\|\|"
    r"|.",
    re.DOTALL,
)
_CLOSING = {")": "(", "}": "{"}


@dataclass(frozen=True)
class Refusal:
    """The place where a text stops being a program.

    Attributes
    ----------
    source : Source
    at : int
        Offset of the first word that cannot stand there; after the last one at the end.
    word : str
        That word; empty at the end of the text.
    wanted : frozenset of str
        What could stand there: signs as themselves, words by the name of their terminal.
    stack : tuple
        What was read before: tokens, and trees of what is complete.
    """

    source: Source
    at: int
    word: str
    wanted: frozenset[str]
    stack: tuple[Token | Tree, ...]

    @property
    def span(self) -> Span:
        """The word."""
        return self.span_of(self.at, self.at + max(1, len(self.word)))

    def span_of(self, start: int, end: int) -> Span:
        """Return a span of this text."""
        return Span(start, end, self.source)

    def span_of_token(self, token: Token) -> Span:
        """Return the place of a token."""
        return self.span_of(token.start_pos, token.start_pos + len(token))

    def before(self, count: int = 1) -> Token | None:
        """Return the last token read, or one before it; None where a whole construct stands."""
        item: Any = self.stack[-count] if len(self.stack) >= count else None
        return None if hasattr(item, "children") else item

    def match(self, pattern: str) -> re.Match[str] | None:
        """Match a pattern where the word begins."""
        return re.compile(pattern).match(self.source.text, self.at)

    @property
    def open_brackets(self) -> list[Token]:
        """The brackets that are not closed yet, outermost first."""
        brackets: list[Any] = []
        for item in self.stack:
            if not isinstance(item, str):
                continue
            if item in _CLOSING.values():
                brackets.append(item)
            elif item in _CLOSING and brackets and brackets[-1] == _CLOSING[item]:
                brackets.pop()
        return brackets


def refusal_of(fault: Stuck, source: Source) -> Refusal:
    """Return what the automaton says of a text."""
    if fault.at is None:
        return Refusal(source, _end(source.text), "", fault.wanted, fault.stack)
    word = _WORD.match(source.text, fault.at)
    assert word is not None
    return Refusal(source, fault.at, word.group(), fault.wanted, fault.stack)


def _end(text: str) -> int:
    """Return the offset after the last character that is no blank and in no comment."""
    pieces = (piece for piece in re.finditer(r"#[^\n]*|[^\s#]+", text) if piece.group()[0] != "#")
    return max((piece.end() for piece in pieces), default=0)
