"""An LALR(1) automaton: a text and tables in, a tree of its rules out.

The tables of our grammar lie beside this file, made by `tables.py`: building them takes a parser
generator half a second, reading them three milliseconds. A word is read as the first terminal, in
the order of the tables, that matches and can stand there: `for` is a name where no loop can begin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLES = Path(__file__).with_name("tables.json")
END = "$END"  # the terminal behind the last word


class Token(str):
    """A word of a text.

    Attributes
    ----------
    type : str
        Its terminal: a sign is its own.
    start_pos, end_pos : int
        Offsets in the text.
    """

    __slots__ = ("end_pos", "start_pos", "type")

    type: str
    start_pos: int
    end_pos: int


class Tree:
    """A rule and what it was made of.

    Attributes
    ----------
    data : str
        The rule's name.
    children : list of Tree and Token
        Without the signs that the grammar leaves out.
    start_pos, end_pos : int
        Offsets in the text, with those signs; -1 of a rule that was made of nothing.
    """

    __slots__ = ("children", "data", "end_pos", "start_pos")

    def __init__(self, data: str, children: list[Tree | Token], start: int, end: int) -> None:
        self.data, self.children, self.start_pos, self.end_pos = data, children, start, end


class Stuck(Exception):  # noqa: N818  # nobody's error: `parse` asks what it means
    """A word that cannot stand where it stands.

    Attributes
    ----------
    at : int or None
        Its offset; None at the end of the text.
    wanted : frozenset of str
        The terminals that could stand there.
    stack : tuple of Tree and Token
        What was read before.
    """

    def __init__(
        self, at: int | None, wanted: frozenset[str], stack: tuple[Tree | Token, ...]
    ) -> None:
        super().__init__(at)
        self.at, self.wanted, self.stack = at, wanted, stack


@dataclass(frozen=True, slots=True)
class Rule:
    """How a tree is made when the words of a rule have been read.

    data: of the tree. origin: what it is to the automaton. size: how many trees and words it takes.
    kept: which of them are children, and whether the children of that one take its place. single:
    whether a lone child takes the place of the tree.
    """

    data: str
    origin: str
    size: int
    kept: tuple[tuple[int, bool], ...]
    single: bool


@dataclass(frozen=True, slots=True)
class Automaton:
    """The tables, and what reads words by them.

    terminals: patterns by name, in their order; any: one of them all, whose groups are numbered as
    names are. ignored: terminals between words. states: from a
    terminal to the next state, or to -1 - r where rule r is complete; from a rule to the next
    state. The first state is where a text begins, `end` where it is complete.
    """

    terminals: Mapping[str, str]
    ignored: frozenset[str]
    rules: tuple[Rule, ...]
    states: tuple[Mapping[str, int], ...]
    end: int
    names: tuple[str, ...]
    any: re.Pattern[str]

    def parse(self, text: str) -> Tree:
        """Return the tree of a text.

        Raises
        ------
        Stuck
            If it is none of the grammar's.
        """
        stack, values = [0], list[Tree | Token]()
        match, ignored, names, table = self.any.match, self.ignored, self.names, self.states
        at, size = 0, len(text)
        while at < size:
            found = match(text, at)
            if found is None:
                raise self._stuck(at, stack, values)
            name = names[int(found.lastgroup[1:])]  # type: ignore[index]  # every branch has a name
            stop = found.end()
            if name in ignored:
                at = stop
                continue
            if name not in table[stack[-1]]:
                name, stop = self._here(text, at, stack, values)
                if name in ignored:
                    at = stop
                    continue
            token = Token(text[at:stop])
            token.type, token.start_pos, token.end_pos = name, at, stop
            if (state := self._reduced(name, stack, values)) is None:
                raise self._stuck(at, stack, values)
            stack.append(state)
            values.append(token)
            at = stop
        if self._reduced(END, stack, values) is None:
            raise self._stuck(None, stack, values)
        (tree,) = values
        assert isinstance(tree, Tree)
        return tree

    def _here(
        self, text: str, at: int, stack: list[int], values: list[Tree | Token]
    ) -> tuple[str, int]:
        """Return the word that can stand here where another terminal comes first."""
        row = self.states[stack[-1]]
        for name, pattern in self.terminals.items():
            if (name in row or name in self.ignored) and (
                found := re.compile(pattern).match(text, at)
            ):
                return name, found.end()
        raise self._stuck(at, stack, values)

    def _reduced(self, name: str, stack: list[int], values: list[Tree | Token]) -> int | None:
        """Complete the rules that a terminal ends; return the state behind it, None if it is stuck.

        At the end of a text that is complete the state is the end.
        """
        while (action := self.states[stack[-1]].get(name)) is not None:
            if action >= 0:
                return action
            rule = self.rules[-1 - action]
            parts: list[Tree | Token] = []
            if rule.size:
                parts = values[-rule.size :]
                del values[-rule.size :], stack[-rule.size :]
            values.append(_made(rule, parts))
            stack.append(self.states[stack[-1]][rule.origin])
            if name == END and stack[-1] == self.end:
                return self.end
        return None

    def _stuck(self, at: int | None, stack: list[int], values: list[Tree | Token]) -> Stuck:
        wanted = (name for name in self.states[stack[-1]] if name in self.terminals or name == END)
        return Stuck(at, frozenset(n for n in wanted if self._takes(n, [*stack])), tuple(values))

    def _takes(self, name: str, stack: list[int]) -> bool:
        """Whether a terminal can stand behind these states: rules that it ends may not want it."""
        while (action := self.states[stack[-1]].get(name)) is not None:
            if action >= 0:
                return True
            rule = self.rules[-1 - action]
            if rule.size:
                del stack[-rule.size :]
            stack.append(self.states[stack[-1]][rule.origin])
            if name == END and stack[-1] == self.end:
                return True
        return False


def _made(rule: Rule, parts: list[Tree | Token]) -> Tree | Token:
    """Return the tree of a rule."""
    children: list[Tree | Token] = []
    for i, is_inlined in rule.kept:
        part = parts[i]
        if not is_inlined:
            children.append(part)
        elif children:
            children += part.children  # type: ignore[union-attr]  # a rule's
        else:  # a list that grows is not copied: nobody else has it
            children = part.children  # type: ignore[union-attr]
    if rule.single and len(children) == 1:
        return children[0]
    start = end = -1
    for part in parts:
        if part.start_pos >= 0:
            start = part.start_pos
            break
    for part in reversed(parts):
        if part.end_pos >= 0:
            end = part.end_pos
            break
    return Tree(rule.data, children, start, end)


@cache
def automaton() -> Automaton:
    """Return the automaton of `tc.lark`, read at its first use."""
    found = json.loads(TABLES.read_text(encoding="utf-8"))
    terminals = found["terminals"]
    words = "|".join(f"(?P<t{i}>{pattern})" for i, pattern in enumerate(terminals.values()))
    return Automaton(
        terminals,
        frozenset(found["ignored"]),
        tuple(
            Rule(data, origin, size, tuple((i, bool(inlined)) for i, inlined in kept), bool(single))
            for data, origin, size, kept, single in found["rules"]
        ),
        tuple(found["rows"][i] for i in found["states"]),
        found["end"],
        tuple(terminals),
        re.compile(words),
    )
