"""Where and why Lark refused a text, in terms that a message can be made of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.source import Source, Span

if TYPE_CHECKING:
    from lark import Lark, Token, Tree
    from lark.exceptions import UnexpectedInput

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
    stack: tuple[Token | Tree[Token], ...]

    @property
    def span(self) -> Span:
        """The word."""
        return self.span_of(self.at, self.at + max(1, len(self.word)))

    def span_of(self, start: int, end: int) -> Span:
        """Return a span of this text."""
        return Span(start, end, self.source)

    def span_of_token(self, token: Token) -> Span:
        """Return the place of a token."""
        assert token.start_pos is not None
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


def refusal_of(fault: UnexpectedInput, lark: Lark, source: Source) -> Refusal:
    """Return what a fault of Lark's LALR parser says."""
    parser: Any = fault.interactive_parser
    stack = tuple(parser.parser_state.value_stack)
    patterns = {terminal.name: terminal.pattern for terminal in lark.terminals}
    wanted = frozenset(
        patterns[name].value if name in patterns and patterns[name].type == "str" else name
        for name in parser.accepts()
    )
    token = getattr(fault, "token", None)
    if token is not None and token.type == "$END":
        return Refusal(source, _end(source.text), "", wanted, stack)
    assert fault.pos_in_stream is not None
    word = _WORD.match(source.text, fault.pos_in_stream)
    assert word is not None
    return Refusal(source, fault.pos_in_stream, word.group(), wanted, stack)


def _end(text: str) -> int:
    """Return the offset after the last character that is no blank and in no comment."""
    pieces = (piece for piece in re.finditer(r"#[^\n]*|[^\s#]+", text) if piece.group()[0] != "#")
    return max((piece.end() for piece in pieces), default=0)
