"""What finds the next token: words by comparison, the rest by an expression for each terminal.

Lark joins all terminals that may stand at a place to one expression; to compile those of the twenty
places that a short text has takes Python four times as long as all else that is done to parse it.
Here each terminal is tried in Lark's order, which means the same, and no two places compile alike.
"""

from __future__ import annotations

import re
from typing import Any

from lark.lexer import BasicLexer, PatternStr, Scanner, _create_unless


def use_words(parser: Any) -> Any:
    """Return a parser of Lark's version of `tables.py` whose places look for tokens as said."""
    lexer = parser.parser.lexer
    for place in (lexer.root_lexer, *lexer.lexers.values()):
        place.__class__ = _Lexer
    return parser


class _Lexer(BasicLexer):
    """The tokens that may stand at a place."""

    def _build_scanner(self) -> Scanner:
        assert not self.user_callbacks, "the grammar has none"
        given = self.g_regex_flags, self.re, self.use_bytes
        make: Any = _create_unless  # Lark gives it no types, nor its scanner
        terminals, self.callback = make(self.terminals, *given)
        scanner: Any = _Words
        return scanner(terminals, *given)  # type: ignore[no-any-return]


class _Words(Scanner):
    """Terminals in the order in which they are tried: name, word, expression where it is none."""

    def _build_mres(self, terminals: Any, max_size: int) -> Any:
        return [
            (t.name, t.pattern.value, None)
            if isinstance(t.pattern, PatternStr) and not t.pattern.flags
            else (t.name, "", re.compile(t.pattern.to_regexp(), self.g_regex_flags))
            for t in terminals
        ]

    def match(self, text: Any, pos: int) -> tuple[str, str] | None:
        """Return the token at a place and its terminal."""
        for name, word, expression in self._mres:
            if expression is None:
                if text.text.startswith(word, pos, text.end):
                    return word, name
            elif found := expression.match(text.text, pos, text.end):
                return found.group(0), name
        return None
