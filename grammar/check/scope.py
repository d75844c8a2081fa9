"""What names stand for: the tensors of a definition being checked, frames and statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from difflib import get_close_matches
from typing import Literal

from tcdsl.grammar.proofs.signs import maximum, minimum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.builtins import BUILTINS
from tcdsl.grammar.types.dtypes import DType


class FatalError(FaultError):
    """A fault after which the check cannot go on."""


class SilentError(Exception):
    """A consequence of a fault that is already reported."""


def near(name: str, candidates: Iterable[str], *, of_letters: bool = False) -> Note | None:
    """Return the note "did you mean", if a candidate is close; one letter is like any other.

    of_letters: but for itself in the other case; not so where `i` beside a tensor `I` is usual.
    """
    if len(name) == 1 and not of_letters:
        return None
    pool = [c for c in candidates if c != name]
    matches = [] if len(name) == 1 else get_close_matches(name, pool, n=1, cutoff=0.7)
    if not matches:
        same = [c for c in pool if c.lower() == name.lower()]
        matches = same[:1]
    return Note(f"did you mean '{matches[0]}'?") if matches else None


@dataclass(slots=True)
class Box:
    """The box of a tensor that statements write: it grows with each of them."""

    low: list[Size]
    high: list[Size]
    plain: list[bool]  # only bare indices wrote this dimension

    def add(self, low: list[Size], high: list[Size], plain: list[bool]) -> None:
        """Include the writes of one more statement."""
        for d in range(len(self.low)):
            self.low[d] = minimum(self.low[d], low[d])
            self.high[d] = maximum(self.high[d], high[d])
            self.plain[d] = self.plain[d] and plain[d]


@dataclass(slots=True)
class Tensor:
    """A tensor while its definition is checked.

    type is the type in the language; what is stored differs for temporaries of a half type.
    dims: the declared extents, of a parameter or an annotated return. box: what the statements so
    far write; whole: inside a loop, what all of the loop writes as well. host: the value of a
    rank-0 integer that is known before the kernel runs. writers: how many statements write it;
    unwritten: what the first of them leaves of its declared dimensions. default: of a parameter.
    """

    name: str
    role: Literal["param", "return", "temp"]
    span: Span | None
    type: DType | None = None
    dims: tuple[Size, ...] | None = None
    declared: str = ""
    box: Box | None = None
    whole: Box | None = None
    host: Size | None = None
    first_op: n.AssignOp | None = None
    first_write: Span | None = None
    is_read: bool = False
    is_poisoned: bool = False
    default: int | float | None = None
    writers: int = 0
    unwritten: tuple[Diagnostic, ...] = ()  # of the first statement that writes it

    @property
    def stored(self) -> DType:
        """The type of its elements in memory."""
        assert self.type is not None
        return self.type.computed if self.role == "temp" else self.type

    def extents(self) -> tuple[Size, ...]:
        """Return the extents as the statements so far make them."""
        return tuple(high - low for low, high in self.bounds())

    @property
    def is_written(self) -> bool:
        """Whether it holds something that may be read."""
        return self.role == "param" or self.first_op is not None

    @property
    def rank(self) -> int | None:
        """Number of dimensions, once it is known."""
        if self.dims is not None:
            return len(self.dims)
        return len(self.box.low) if self.box is not None else None

    def bounds(self) -> tuple[tuple[Size, Size], ...]:
        """Return [low, high) of each dimension as the statements so far make it."""
        return self._bounds(self.box)

    def whole_bounds(self) -> tuple[tuple[Size, Size], ...]:
        """Return [low, high) of each dimension by which reads are judged."""
        return self._bounds(self.whole or self.box)

    def _bounds(self, box: Box | None) -> tuple[tuple[Size, Size], ...]:
        if self.dims is not None:
            return tuple((Size(), d) for d in self.dims)
        assert box is not None
        found = []
        for low, high, plain in zip(box.low, box.high, box.plain, strict=True):
            if plain:
                found.append((low, high))
            else:  # `O(2*i)` ends at -1 where i has no value
                low = minimum(low, Size())
                found.append((low, maximum(high, low)))
        return tuple(found)

    def finished(self) -> t.Tensor:
        """Return the tensor as the checked definition has it."""
        bounds = self.bounds()
        return t.Tensor(
            self.name,
            self.stored,
            self.extents(),
            tuple(low for low, _ in bounds),
            self.role,
            self.role == "return" and self.first_op is not None and is_update(self.first_op),
            default=self.default,
            span=self.span,
        )


def is_update(op: n.AssignOp) -> bool:
    """Whether an assignment combines with what the target holds: `+=` and its like."""
    return op in ("+=", "*=", "min=", "max=")


def is_arg(op: n.AssignOp) -> bool:
    """Whether an assignment gives the place of an extreme."""
    return op in ("argmin=!", "argmax=!")


@dataclass(slots=True)
class Frame:
    """One definition at work: the entry, or a callee inlined at one place."""

    definition: n.Def
    sizes: dict[str, Size] = field(default_factory=dict)
    ints: dict[str, int] = field(default_factory=dict)
    types: dict[str, DType] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    where: dict[str, Span | None] = field(default_factory=dict)  # declaration of each name
    used_generics: set[str] = field(default_factory=set)
    inputs: set[str] = field(default_factory=set)  # parameters, whatever the caller passes
    results: set[str] = field(default_factory=set)  # returns of a callee
    later: set[str] = field(default_factory=set)  # targets that no statement has written yet
    loops: set[str] = field(default_factory=set)  # variables of the loops around
    is_entry: bool = True

    def role(self, name: str) -> str | None:
        """Return what a name is in this definition, for a message."""
        if name in self.tensors:
            tensor = self.tensors[name]
            if tensor.role == "temp":
                return "a temporary"
            return "a parameter" if tensor.role == "param" else "a return"
        if name in self.loops:
            return "the variable of a loop"
        if name in self.sizes:
            return "a size"
        if name in self.ints or name in self.types:
            return "a generic"
        return None

    def names(self) -> Iterator[str]:
        """Yield every declared name."""
        for table in (self.tensors, self.sizes, self.ints, self.types):
            yield from table


@dataclass(slots=True)
class Index:
    """An index of one statement; name is what the checked statement calls it."""

    name: str
    kind: Literal["output", "reduction"]
    span: Span | None


@dataclass(slots=True)
class StatementScope:
    """The names of one statement: its indices in order, its lets."""

    indices: dict[str, Index] = field(default_factory=dict)
    lets: dict[str, n.Let] = field(default_factory=dict)


def function_names() -> Iterable[str]:
    """Return the names of the builtins, for "did you mean"."""
    return BUILTINS.keys()
