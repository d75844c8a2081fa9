"""A text read by the tables of the grammar: the trees that Lark makes, without Lark.

Lark builds the tables (`tables.py`); to load it and its own form of them is four fifths of what the
first text of a process takes to be read. Here is what its LALR(1) parser, its contextual lexer and
its makers of trees do with them. A text that they refuse is Lark's: it says what could stand there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias


class Token(str):
    """A word of a text, its terminal and its place."""

    __slots__ = ("end_pos", "start_pos", "type")

    type: str
    start_pos: int
    end_pos: int


class Tree:
    """What a rule of the grammar took. Its place: -1 where it took nothing.

    The container has what stands around it in rules that vanished too.
    """

    __slots__ = ("children", "container_end", "container_start", "data", "end_pos", "start_pos")

    def __init__(self, data: str, children: list[Part]) -> None:
        self.data, self.children = data, children
        self.start_pos = self.end_pos = -1
        self.container_start = self.container_end = -1

    @property
    def meta(self) -> Tree:
        """What has its place, under Lark's name."""
        return self


Part: TypeAlias = Token | Tree

# A terminal: its name, its word, the expression where it is none.
Terminal: TypeAlias = tuple[str, str, str]
# A rule: the symbol that it makes, the name of its tree, how many parts it takes, which of them the
# tree has and whether their children stand for them, whether a single one stands for the tree.
Rule: TypeAlias = tuple[int, str, int, Sequence[tuple[int, bool]], bool]

_Tried: TypeAlias = tuple[int, str, str, re.Pattern[str] | None]  # a symbol's number before it


class Parser:
    """The tables at work.

    Symbols are numbers: terminals in the order in which they are tried, the end of the text, what
    rules make. An action is the next state, or -1 less the number of the rule that ends here.

    Parameters
    ----------
    terminals : sequence of Terminal
    ignored : sequence of int
        Terminals that mean nothing.
    rules : sequence of Rule
    states : sequence of pairs of int
        For each state the symbols that may follow and their actions.
    begin, end : int
        States.
    """

    def __init__(
        self,
        terminals: Sequence[Terminal],
        ignored: Sequence[int],
        rules: Sequence[Rule],
        states: Sequence[Sequence[tuple[int, int]]],
        begin: int,
        end: int,
    ) -> None:
        self._terminals, self._ignored, self._rules = terminals, frozenset(ignored), rules
        self._states: Sequence[Mapping[int, int]] = [dict(pairs) for pairs in states]
        # Four of five reductions are such: `sum: product`, whose tree is that of its only part.
        self._passing = {n for n, rule in enumerate(rules) if _passes(rule)}
        self._begin, self._end = begin, end
        self._tried: dict[int, list[_Tried]] = {}
        self._expression = lru_cache(maxsize=None)(re.compile)

    def parse(self, text: str) -> Tree | None:
        """Return the tree of a text; None where it is none of the grammar's."""
        at, last, table = 0, len(self._terminals), self._states
        states, values = [self._begin], list[Part]()
        while True:
            found = self._next(text, at, states[-1])
            if found is None:
                return None
            symbol, token = found
            at = token.end_pos
            while (action := table[states[-1]].get(symbol)) is not None and action < 0:
                rule = self._rules[-1 - action]
                if -1 - action in self._passing:
                    states[-1] = table[states[-2]][rule[0]]
                    continue
                first = len(values) - rule[2]
                made = _made(rule, values[first:])
                del values[first:], states[first + 1 :]
                states.append(table[states[-1]][rule[0]])
                values.append(made)
                if symbol == last and states[-1] == self._end:
                    assert isinstance(made, Tree)
                    return made
            if action is None:
                return None
            states.append(action)
            values.append(token)

    def _next(self, text: str, at: int, state: int) -> tuple[int, Token] | None:
        """Return what stands at a place and its symbol, None where nothing that may does."""
        tried = self._tried.get(state)
        if tried is None:
            tried = self._tried[state] = self._may_stand(state)
        while at < len(text):
            found = _standing(tried, text, at)
            if found is None or found[0] not in self._ignored:
                return found
            at = found[1].end_pos
        return len(self._terminals), _token("$END", "", at)

    def _may_stand(self, state: int) -> list[_Tried]:
        """Return the terminals that are tried in a state, in their order."""
        count = len(self._terminals)
        symbols = sorted({s for s in self._states[state] if s < count} | self._ignored)
        named = ((s, *self._terminals[s]) for s in symbols)
        return [(s, n, word, self._expression(e) if e else None) for s, n, word, e in named]


def _standing(tried: Sequence[_Tried], text: str, at: int) -> tuple[int, Token] | None:
    """Return the first terminal that stands at a place, and its word."""
    for symbol, name, sign, expression in tried:
        if expression is None:
            word = sign if text.startswith(sign, at) else ""
        else:
            match = expression.match(text, at)
            word = match.group() if match else ""
        if word:
            return symbol, _token(name, word, at)
    return None


def _token(name: str, word: str, start: int) -> Token:
    token = Token(word)
    token.type, token.start_pos, token.end_pos = name, start, start + len(word)
    return token


def _passes(rule: Rule) -> bool:
    _, _, size, kept, is_single_enough = rule
    return size == 1 and is_single_enough and len(kept) == 1 and not kept[0][1]


def _made(rule: Rule, parts: list[Part]) -> Part:
    """Return what a rule makes of its parts."""
    _, name, _, kept, is_single_enough = rule
    children: list[Part] = []
    for at, is_spliced in kept:
        part = parts[at]
        if not is_spliced:
            children.append(part)
            continue
        assert isinstance(part, Tree)
        if children:
            children += part.children
        else:
            children = part.children  # of a list that grows by one each time
    found = children[0] if is_single_enough and len(children) == 1 else Tree(name, children)
    if isinstance(found, Tree):
        _place(found, parts)
    return found


def _place(tree: Tree, parts: Sequence[Part]) -> None:
    """Let a tree begin and end where the parts do, which it may not all have."""
    taken = [p for p in parts if isinstance(p, Token) or p.start_pos >= 0]
    if not taken:
        return
    first, last = taken[0], taken[-1]
    start = first.start_pos if isinstance(first, Token) else first.container_start
    end = last.end_pos if isinstance(last, Token) else last.container_end
    if tree.start_pos < 0:
        tree.start_pos, tree.end_pos = start, end
    tree.container_start, tree.container_end = start, end
