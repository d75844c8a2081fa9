"""Sums of products of several tensors as sums of products of two, in the order with the least work.

    O(i, l) +=! A(i, j) * B(j, k) * C(k, l)   ->   P(i, k) +=! A(i, j) * B(j, k)
                                                   O(i, l) +=! P(i, k) * C(k, l)

What a pair leaves are the indices that other factors or the target have; those that nobody else has
are summed in it. Which order is cheapest depends on the sizes, so a program is split for some:
those of an executable, or those that stand for all. Unlike an einsum a statement stays whole where
temporaries and further passes cost more than they save: products of 3 x 3 matrices, stencils. The
search is opt_einsum's `optimal`; long chains get the classical order of matrix chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import combinations
from math import prod

from tcdsl.codegen.program.expressions import from_lowest, indices_of, walk_typed
from tcdsl.codegen.program.factors import Factor, split
from tcdsl.codegen.program.guards import stands_alone
from tcdsl.codegen.program.program import Buffer, Program, Statement
from tcdsl.codegen.program.temporaries import moved, name_of, new_buffer, new_statement
from tcdsl.grammar.proofs.ranges import Interval
from tcdsl.grammar.proofs.signs import is_nonnegative, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64
from tcdsl.grammar.types.typed import Expr, Range

Sizes = tuple[tuple[str, int], ...]
_Pair = tuple[Expr, tuple[Range, ...]]  # what a temporary holds: a value, over which points
_ALL_ORDERS = 6  # factors; of more, only neighbours are joined: the orders grow as 3 to the factors
# What is compared, in ns of one thread: a point of a product in register tiles, a point of another
# (each factor of it), an element of a temporary (written, read, past the caches), another pass.
_TILE_NS, _POINT_NS, _ELEMENT_NS, _PASS_NS = 0.02, 0.04, 0.6, 3000.0
_TILE = 8  # rows, columns and terms from which on a product has tiles worth the name
_GAIN = 1.3  # predicted, from which on a statement is split


@lru_cache(maxsize=64)
def in_pairs(program: Program, sizes: Sizes, exact: Sizes = ()) -> Program:
    """Return a program whose long products are split where that is less work at some sizes.

    exact: those that the executable is for.
    """
    if not any(_factors_of(program, s) for s in program.statements):
        return program
    return _Splitting(program, dict(sizes), {n: Size.const(x) for n, x in exact}).result()


def _factors_of(program: Program, s: Statement) -> list[Expr]:
    """Return the factors of a sum of products that may be formed in pairs, else nothing.

    What is read through data or checked stays in one statement: an element is looked for once.
    """
    if s.op not in ("+=", "+=!") or not s.reductions or s.is_ragged or any(s.subs_checked):
        return []
    factors = _product_of(s.value)
    dtype, target = s.value.dtype, program.buffer(s.target).dtype
    if len(factors) < 2 or dtype == BOOL or dtype.computed != target.computed:
        return []
    if any(any(r.checked) for r in s.reads()):
        return []
    if any(program.depends(x) for r in s.ranges for x in (r.low, r.high)):
        return []
    names = {r.name for r in s.ranges}
    return factors if all(names & indices_of(f) for f in factors) else []


def _product_of(e: Expr) -> list[Expr]:
    match e:
        case typed.Binary("*", lhs, rhs):
            return [*_product_of(lhs), *_product_of(rhs)]
        case _:
            return [e]


@dataclass(frozen=True, slots=True)
class _Term:
    """Factors joined: the indices left, the predicted time so far, and of what it is made.

    factor: of the text; parts: else the terms it multiplies, one where it only sums.
    """

    at: int  # the first of its factors, so that products keep the order of the text
    indices: frozenset[str]
    cost_ns: float
    factor: Expr | None = None
    parts: tuple[_Term, ...] = ()


class _Order:
    """The cheapest order for one statement.

    known: products of two factors that a temporary holds already, over which points.
    """

    def __init__(
        self,
        s: Statement,
        factors: Sequence[Expr],
        sizes: dict[str, int],
        known: set[_Pair],
    ) -> None:
        self.ranges = s.ranges
        self.extents = {r.name: max(0, r.extent.evaluate(sizes)) for r in s.ranges}
        self.outputs = frozenset(r.name for r in s.outputs)
        self.factors = factors
        self.used = [frozenset(self.extents) & indices_of(f) for f in factors]
        self.rest = frozenset(self.extents) - self.outputs.union(*self.used)  # repeat the sum
        self.is_float = s.value.dtype.is_float
        self.known = known

    def points(self, indices: frozenset[str]) -> int:
        """Return the number of values of indices."""
        return prod(self.extents[n] for n in indices)

    def whole_ns(self) -> float:
        """Return the predicted time of the statement as it is."""
        if len(self.factors) == 2:
            return self.pass_ns(self.used, self.outputs, is_last=True)
        return _PASS_NS + self.points(frozenset(self.extents)) * _POINT_NS * len(self.factors)

    def pass_ns(
        self, used: Sequence[frozenset[str]], kept: frozenset[str], *, is_last: bool
    ) -> float:
        """Return the predicted time of a statement on terms, by their indices and its own."""
        both = frozenset().union(*used) | (self.outputs | self.rest if is_last else frozenset())
        time_ns = _PASS_NS + (0 if is_last else self.points(kept) * _ELEMENT_NS)
        each = _POINT_NS * len(used)
        if len(used) == 2 and self.is_float:
            rows, columns = (kept & used[0]) - used[1], (kept & used[1]) - used[0]
            if all(self.points(x) >= _TILE for x in (rows, columns, both - kept)):
                each = _TILE_NS
        return time_ns + self.points(both) * each

    def cheapest(self) -> _Term:
        """Return the statement as the root of the cheapest order."""
        every = tuple(range(len(self.factors)))
        best: dict[tuple[int, ...], _Term] = {}
        for i, (factor, used) in enumerate(zip(self.factors, self.used, strict=True)):
            leaf = _Term(i, used, 0.0, factor)
            kept = used & self.wanted_outside((i,))
            if kept and kept != used:  # an index of its own: summed once, not for each point
                summed = _Term(i, kept, self.pass_ns([used], kept, is_last=False), None, (leaf,))
                best[(i,)] = min(leaf, summed, key=lambda t: self.burden(t, every))
            else:
                best[(i,)] = leaf
        for count in range(2, len(every) + 1):
            for some in self.subsets(every, count):
                best[some] = min(
                    (self.joined(some, best[a], best[b]) for a, b in _halves(some, best)),
                    key=lambda t: t.cost_ns,
                )
        return best[every]

    def subsets(self, every: tuple[int, ...], count: int) -> Iterator[tuple[int, ...]]:
        """Yield the sets of factors that are joined before others are."""
        if len(every) <= _ALL_ORDERS:
            yield from combinations(every, count)
        else:
            yield from (every[i : i + count] for i in range(len(every) - count + 1))

    def wanted_outside(self, some: tuple[int, ...]) -> frozenset[str]:
        """Return the indices that the target or factors beside some have."""
        others = (u for i, u in enumerate(self.used) if i not in some)
        return self.outputs.union(*others)

    def burden(self, t: _Term, every: tuple[int, ...]) -> float:
        """Return the time of a term and of one product with what it leaves: for a comparison."""
        others = frozenset().union(*(u for i, u in enumerate(self.used) if i != t.at))
        return t.cost_ns + self.points(t.indices | others) * _POINT_NS * len(every)

    def joined(self, some: tuple[int, ...], a: _Term, b: _Term) -> _Term:
        """Return the product of two terms, whose factors are some."""
        first, second = sorted((a, b), key=lambda t: t.at)
        is_last = len(some) == len(self.factors)
        both = a.indices | b.indices
        kept = both & self.wanted_outside(some)
        time_ns = self.pass_ns([first.indices, second.indices], kept, is_last=is_last)
        if first.factor is not None and second.factor is not None:
            value = _times(first.factor, second.factor)
            is_known = (value, _ranges(value, kept, self.ranges)) in self.known
            time_ns = 0.0 if is_known and not is_last else time_ns
        cost_ns = a.cost_ns + b.cost_ns + time_ns
        return _Term(first.at, kept, cost_ns, None, (first, second))


def _halves(
    some: tuple[int, ...], best: dict[tuple[int, ...], _Term]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the ways to part factors in two sets that are known, each once."""
    for count in range(1, len(some)):
        for a in combinations(some, count):
            b = tuple(i for i in some if i not in a)
            if a < b and a in best and b in best:
                yield a, b


def _times(a: Expr, b: Expr) -> Expr:
    return typed.Binary("*", a, b, a.dtype)


def _ranges(value: Expr, kept: frozenset[str], of: Sequence[Range]) -> tuple[Range, ...]:
    """Return the ranges of what a temporary holds: indices that it keeps, others summed."""
    met = [x.name for x in walk_typed(value) if isinstance(x, typed.IndexValue)]
    used = sorted((r for r in of if r.name in met), key=lambda r: met.index(r.name))
    return tuple(replace(r, kind="output" if r.name in kept else "reduction") for r in used)


@dataclass
class _Splitting:
    """A program in the making.

    shared: temporaries of the stretch, so that what the gradients of a product have in common is
    formed once.
    """

    program: Program
    sizes: dict[str, int]
    exact: dict[str, Size]
    statements: list[Statement] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    shared: dict[_Pair, typed.Read] = field(default_factory=dict)
    turns: dict[str, Interval] = field(default_factory=dict)  # of the loops around a statement

    def result(self) -> Program:
        """Return the program with temporaries before the statements that read them."""
        at, stretch = [], 0
        for i, s in enumerate(self.program.statements):
            at.append(len(self.statements))
            around = (x for x in self.program.loops if x.first <= i < x.last)
            self.turns = {x.var: Interval(x.low, x.high - 1) for x in around}
            if self.program.stretch(i) != stretch:
                stretch = self.program.stretch(i)
                self.shared.clear()
            self.add(s)
        at.append(len(self.statements))
        loops = moved(self.program.loops, at)
        buffers = (*self.program.buffers, *self.buffers)
        return replace(
            self.program, buffers=buffers, statements=tuple(self.statements), loops=loops
        )

    def add(self, s: Statement) -> None:
        """Add a statement, in pairs where that pays."""
        factors = _factors_of(self.program, s)
        if not factors:
            self.statements.append(s)
            return
        order = _Order(s, factors, self.sizes, set(self.shared))
        root = order.cheapest() if all(order.extents.values()) else None  # else its sums are 0
        is_split = root is not None and any(t.factor is None for t in root.parts)
        if root is None or not is_split or order.whole_ns() < _GAIN * root.cost_ns:
            self.statements.append(s)
            return
        if not all(self.is_alone(f, _own(f, s), s) for f in factors):
            self.statements.append(s)
            return
        value = _times(*(self.operand(t, s) for t in root.parts))
        left = order.outputs.union(order.rest, *(t.indices for t in root.parts))
        ranges = tuple(r for r in s.ranges if r.name in left)
        self.append(replace(s, value=value, ranges=ranges))

    def operand(self, t: _Term, s: Statement) -> Expr:
        """Return a term as an operand: a factor of the text, or the read of a temporary."""
        if t.factor is not None:
            return t.factor
        operands = [self.operand(part, s) for part in t.parts]
        value = operands[0] if len(operands) == 1 else _times(*operands)
        key = value, _ranges(value, t.indices, s.ranges)
        if key not in self.shared:
            self.shared[key] = self.temporary(*key, s)
        return self.shared[key]

    def temporary(self, value: Expr, ranges: tuple[Range, ...], s: Statement) -> typed.Read:
        """Add the statement of a temporary over some ranges, and return the read of it."""
        outputs = [r for r in ranges if r.kind == "output"]
        at = tuple(from_lowest(typed.IndexValue(r.name, INT64), r.low) for r in outputs)
        op: AssignOp = "=" if len(outputs) == len(ranges) else "+=!"
        name = self.named("pair", s)
        self.allot(name, s, value, outputs)
        self.append(new_statement(name, at, op, value, ranges))
        return typed.Read(name, at, value.dtype, (False,) * len(at))

    def append(self, s: Statement) -> None:
        """Add a statement, with factors that are no plain reads as temporaries of their own."""
        taken = {*self.program.sizes, *self.program.turns, *(r.name for r in s.ranges)}

        def unused(name: str) -> str:
            taken.add(new := fresh(name, taken))
            return new

        def make(f: Factor) -> Expr:
            name = self.named("factor", s)
            self.allot(name, s, f.value, f.ranges)
            self.statements.append(new_statement(name, f.subs, "=", f.value, f.ranges))
            return typed.Read(name, f.at, f.value.dtype, (False,) * len(f.at))

        self.statements.append(
            split(s, unused, make, lambda f: self.is_alone(f.value, f.ranges, s)) or s
        )

    def is_alone(self, value: Expr, ranges: Sequence[Range], s: Statement) -> bool:
        """Whether a part of a statement may be computed where the statement has no points."""
        shapes = {x.name: x.shape for x in (*self.program.buffers, *self.buffers)}

        def bounds(name: str) -> list[tuple[Size, Size]]:
            return [(Size(), extent) for extent in shapes[name]]

        extents = (substitute_symbols(r.extent, self.exact) for r in s.ranges)
        if all(is_nonnegative(x - 1) for x in extents):
            return True  # the statement has points
        return stands_alone(value, ranges, s, bounds, self.turns, self.program.constraints)

    def named(self, kind: str, s: Statement) -> str:
        """Return a name for a temporary of a statement."""
        return name_of(_tensor_of(s), kind, (*self.program.buffers, *self.buffers))

    def allot(self, name: str, s: Statement, value: Expr, outputs: Sequence[Range]) -> None:
        """Add the buffer of a temporary."""
        shape = [r.extent for r in outputs]
        self.buffers.append(new_buffer(name, _tensor_of(s), value.dtype, shape))


def _own(factor: Expr, s: Statement) -> list[Range]:
    """Return the ranges of the indices of a factor."""
    names = indices_of(factor)
    return [r for r in s.ranges if r.name in names]


def _tensor_of(s: Statement) -> str:
    return s.target.partition(".")[0]
