"""What a C compiler may know of a function's variables: what each is made of."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

from tcdsl.codegen.loops.loopir import (
    I64,
    TRUTH,
    Array,
    Assign,
    Bin,
    Call,
    Const,
    Elem,
    Expr,
    Field,
    For,
    Function,
    If,
    Let,
    Load,
    Offset,
    Select,
    Stmt,
    Un,
    Var,
    spine,
)
from tcdsl.codegen.loops.walk import children, sub_stmts, walk_expr
from tcdsl.grammar.text.dataclass import dataclass

FUNCTION = "tc_opaque_i64"


@dataclass(frozen=True, slots=True)
class Sources:
    """What an expression is made of.

    loops: variables of loops; far: those in addresses of what it reads. unknown: what no compiler
    knows, by name or as the expression that reads it. Without any, the loop variables tell all.
    """

    loops: frozenset[str] = frozenset()
    unknown: frozenset[Expr | str] = frozenset()
    far: frozenset[str] = frozenset()

    def __or__(self, other: Sources) -> Sources:
        return Sources(self.loops | other.loops, self.unknown | other.unknown, self.far | other.far)


class Known:
    """What a compiler may know of the variables of a function."""

    def __init__(self, f: Function) -> None:
        inlined = f.linkage in ("inline", "helper", "apart")
        self.params = {p.name for p in f.params if inlined and p.type == I64}
        self.values: dict[str, list[Expr]] = {}  # of variables that are no loop's
        self.lows: dict[str, list[Expr]] = {}
        self.always: dict[str, list[Expr]] = {}  # of them, what is set in any case
        self.arrays: set[str] = set()
        self._done: dict[str, Sources] = {}
        self.choosing: dict[str, list[Expr]] = {}  # conditions under which they are assigned
        self._collect(f.body, (), {})

    def _collect(self, s: Stmt, under: tuple[Expr, ...], declared: dict[str, int]) -> None:
        if isinstance(s, If):
            under = (*under, s.cond)
        match s:
            case Let(var, value):
                declared[var.name] = len(under)
                self.values.setdefault(var.name, []).append(value)
                self.always.setdefault(var.name, []).append(value)
            case Array(name):
                self.arrays.add(name)
            case Assign(Var(name), value, op):
                self.values.setdefault(name, []).append(value)
                conditions = under[declared.get(name, 0) :]
                self.choosing.setdefault(name, []).extend(conditions)
                if op == "=" and not conditions:
                    self.always.setdefault(name, []).append(value)
            case For(var, low):
                self.lows.setdefault(var.name, []).append(low)
        for t in sub_stmts(s):
            self._collect(t, under, declared)

    def atoms(self, e: Expr) -> Iterator[Expr]:
        """Yield the parts of a truth value that are no logic of others."""
        todo, seen = [e], set[str]()
        while todo:
            x = todo.pop()
            match x:
                case Const():
                    pass
                case Var(name) if name in self.values:
                    if name not in seen:
                        todo += (*self.values[name], *self.choosing.get(name, ()))
                    seen.add(name)
                case Bin(lhs=lhs) if lhs.type == TRUTH:
                    todo += children(x)
                case Un() | Select() if x.type == TRUTH:
                    todo += children(x)
                case _:
                    yield x

    def sources(self, e: Expr) -> Sources:
        """Return what an expression is made of."""
        match e:
            case Const():
                return Sources()
            case Var(name):
                return self._variable(name)
            case Load() | Offset() | Field():
                return Sources(unknown=frozenset({e}), far=self._far(e))
            case Elem(array) if array in self.arrays:
                return Sources(unknown=frozenset({e}), far=self._far(e))
            case Select(cond, then, other):
                chosen = self.sources(then), self.sources(other)
                decides = self.sources(cond)  # which a branch may tell
                unknown = chosen[0].unknown & chosen[1].unknown | decides.unknown
                return replace(decides | chosen[0] | chosen[1], unknown=unknown)
            case _:
                first, chain = spine(e)
                parts = children(first) if not chain else (first, *(link.rhs for link in chain))
                return functools.reduce(Sources.__or__, map(self.sources, parts), Sources())

    def _far(self, e: Expr) -> frozenset[str]:
        found = Sources()
        for x in walk_expr(e):
            if isinstance(x, Var):
                found |= self._variable(x.name)
        return found.loops | found.far

    def _variable(self, name: str) -> Sources:
        if name in self._done:
            return self._done[name]
        self._done[name] = Sources()  # of itself: `x += 1`
        if name in self.params:
            found = Sources(frozenset({name}))
        elif name in self.lows:
            lows = [self.sources(low) for low in self.lows[name]]
            unknown = frozenset[Expr | str]().union(*(x.unknown for x in lows))
            if not all(x.unknown for x in lows):
                unknown = frozenset()
            found = Sources(frozenset({name}), unknown)
        elif all(map(is_opaque, self.values.get(name, ()))):
            found = Sources(unknown=frozenset({name}))
        else:
            is_unknown = all(self.sources(v).unknown for v in self.always.get(name, ()))
            made_of = (*self.values[name], *self.choosing.get(name, ()))
            parts = functools.reduce(Sources.__or__, map(self.sources, made_of))
            is_one = len(self.values[name]) == 1
            mine = parts.unknown if is_one else frozenset({name})
            found = replace(parts, unknown=mine if is_unknown else frozenset())
        self._done[name] = found
        return found


def is_opaque(e: Expr) -> bool:
    """Whether e is a value of which the C compiler is told nothing."""
    return isinstance(e, Call) and e.function == FUNCTION
