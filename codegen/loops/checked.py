"""Functions that keep the laws of loop nests, so that units which have them again ask no more.

Of a function the laws ask what it is, and of what it names: signatures of functions, tables, and
which of its parameters lead to memory of callers. Where all that is as it was, so is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Generic, TypeVar

from tcdsl.codegen.loops.loopir import Array, Call, Elem, For, Function, Let, Type, Var
from tcdsl.codegen.loops.walk import all_exprs, walk_stmt
from tcdsl.grammar.text.dataclass import dataclass

_MOST = 300  # of a tuner's hours: a function may have a thousand nodes
K = TypeVar("K")
V = TypeVar("V")

# A call of a function: its name, and which arguments are pointers to memory of others.
Handed = tuple[str, tuple[bool, ...]]


class Kept(Generic[K, V]):
    """The last few hundred values that were put here, by their keys."""

    def __init__(self) -> None:
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return a value, None where it is not kept."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value; the oldest one goes where there are too many."""
        if len(self._values) >= _MOST and key not in self._values:
            del self._values[next(iter(self._values))]
        self._values[key] = value


@dataclass(slots=True)
class _Seen:
    """A function, with what is known of it."""

    function: Function  # kept, so that no other one gets its identity
    names: frozenset[str]
    around: tuple[object, ...] | None = None  # what it was found right among
    handed: dict[frozenset[str], tuple[Handed, ...]] = field(default_factory=dict)


class Checked:
    """Functions that were found right, by their identity."""

    def __init__(self) -> None:
        self._seen = Kept[int, _Seen]()

    def holds(
        self, f: Function, functions: Mapping[str, Function], tables: Mapping[str, object]
    ) -> bool:
        """Whether a function was found right among such functions and tables."""
        seen = self._of(f)
        return seen.around is not None and seen.around == _around(seen, functions, tables)

    def note(
        self, f: Function, functions: Mapping[str, Function], tables: Mapping[str, object]
    ) -> None:
        """Note that a function is right among functions and tables."""
        seen = self._of(f)
        seen.around = _around(seen, functions, tables)

    def handed(self, f: Function, private: set[str]) -> tuple[Handed, ...] | None:
        """Return the calls of a function whose addresses are right if such names are private."""
        seen = self._of(f)
        return seen.handed.get(seen.names & private)

    def note_handed(self, f: Function, private: set[str], calls: tuple[Handed, ...]) -> None:
        """Note the calls of a function whose addresses are right."""
        seen = self._of(f)
        seen.handed[seen.names & private] = calls

    def _of(self, f: Function) -> _Seen:
        seen = self._seen.get(id(f))
        if seen is None:
            seen = _Seen(f, _names(f))
            self._seen.put(id(f), seen)
        return seen


def _around(
    seen: _Seen, functions: Mapping[str, Function], tables: Mapping[str, object]
) -> tuple[object, ...]:
    found: list[tuple[str, object, Type | None]] = []
    for name in sorted(seen.names):
        if name in functions:
            found.append((name, functions[name].params, functions[name].result))
        elif name in tables:
            found.append((name, tables[name], None))
    return tuple(found)


def _names(f: Function) -> frozenset[str]:
    """Return all names in a function, bound there or outside."""
    found = {p.name for p in f.params}
    for e in all_exprs(f.body):
        match e:
            case Var(name) | Elem(array=name) | Call(function=name):
                found.add(name)
            case _:
                pass
    for s in walk_stmt(f.body):
        match s:
            case Let(Var(name)) | For(Var(name)) | Array(name):
                found.add(name)
            case _:
                pass
    return frozenset(found)
