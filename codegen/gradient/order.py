"""Which tensors of a definition need one name only: no element is read before it is finished.

S(0) = A(0)  for t in 1:N { S(t) = S(t - 1) * A(t) }     S needs one: turn t reads what t - 1 left
B(n) = A(n)  for t in 1:N { B(n) = B(n) * A(n) }         B does not: each turn overwrites it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd

from tcdsl.codegen.program.expressions import reads_of
from tcdsl.codegen.program.ssa import writes_all
from tcdsl.grammar.check.symbolic import SymbolicValues
from tcdsl.grammar.proofs.ranges import ANY, Interval, interval, over_turns
from tcdsl.grammar.proofs.signs import is_nonnegative, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.nodes import starts_anew
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import CheckedDef, Tensor

Loops = tuple[typed.Loop, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A statement, its position in the text, and the loops around it, outer ones first."""

    at: int
    statement: typed.Statement
    loops: Loops


class Order:
    """What is written and read where."""

    def __init__(self, checked: CheckedDef) -> None:
        self.tensors = {t.name: t for t in (*checked.params, *checked.returns, *checked.temps)}
        self.all = [
            Placed(at, s, loops) for at, (s, loops) in enumerate(statements(checked.body, ()))
        ]
        self.written: dict[str, list[Placed]] = {}
        self._read: dict[str, list[tuple[Placed, typed.Read]]] = {}
        for p in self.all:
            self.written.setdefault(p.statement.target, []).append(p)
            for r in reads(p):
                self._read.setdefault(r.tensor, []).append((p, r))

    def depending(self, names: Iterable[str]) -> set[str]:
        """Return tensors of floats that depend on some, and these."""
        found = {*names}
        before = -1
        while len(found) != before:  # loops carry on what a later statement makes
            before = len(found)
            for p in self.all:
                s = p.statement
                if self.tensors[s.target].dtype.is_float and any(
                    r.tensor in found for r in reads_of(s.value)
                ):
                    found.add(s.target)
        return found

    def apart_from(self, names: Iterable[str]) -> frozenset[str]:
        """Return what only loops write of which no statement depends on some tensors."""
        depending = self.depending(names)
        outermost = {
            n: {id(p.loops[0]) for p in found if p.loops} for n, found in self.written.items()
        }
        passed = {x for n in depending & outermost.keys() for x in outermost[n]}
        before = -1
        while len(passed) != before:
            before = len(passed)
            for its in outermost.values():
                if not its.isdisjoint(passed):
                    passed |= its
        return frozenset(n for n, its in outermost.items() if its and its.isdisjoint(passed))

    def depth(self, name: str) -> int:
        """Return how many loops around all uses of a tensor make it anew in each turn.

        Only the innermost such loop counts: to one turn of it the tensor is private.
        """
        found, its_reads = self.written[name], self._read.get(name, [])
        by_place = {p.at: p for p in (*found, *(p for p, _ in its_reads))}
        uses = [by_place[at] for at in sorted(by_place)]
        tensor = self.tensors[name]
        if tensor.role != "temp":
            return 0
        shared = found[0].loops
        for p in uses:
            shared = tuple(x for x, y in zip(shared, p.loops, strict=False) if x is y)
        first = uses[0]
        if first is not found[0] or any(p is first for p, _ in its_reads):
            return 0
        if not starts_anew(first.statement.op) or first.loops != shared:
            return 0
        is_own = writes_all(first.statement, tensor) or all(
            self._is_own(tensor, p, r, shared) for p, r in its_reads
        )
        return len(shared) if is_own else 0

    def is_settled(self, name: str) -> bool:
        """Whether every read of a tensor sees what the whole definition (or turn) leaves there.

        And each element is written once, or is a sum whose terms are added here and there. What an
        extreme was before the sum is no such term: its gradient asks for it.
        """
        depth, found = self.depth(name), self.written[name]
        first, *others = found
        is_sum = all(p.statement.op == "+=" for p in others) and (
            (len(first.loops) == depth and first.statement.op in ("=", "+=!", "*=!"))
            or first.statement.op == "+="
        )
        if not is_sum and not self._is_written_once(name, depth):
            return False
        return all(
            self.is_before(w, p, read, depth) for p, read in self._read.get(name, []) for w in found
        )

    def is_straight(self, name: str) -> bool:
        """Whether no loop, but those that make it anew, writes a tensor."""
        depth = self.depth(name)
        return all(len(p.loops) == depth for p in self.written[name])

    def is_before(self, w: Placed, p: Placed, read: typed.Read, depth: int) -> bool:
        """Whether a write never touches, later than a read, what that reads."""
        common = sum(x is y for x, y in zip(w.loops, p.loops, strict=False))
        if w.at >= p.at and not misses(w, p, read, common, None):
            return False
        return all(misses(w, p, read, k + 1, w.loops[k]) for k in range(depth, common))

    # ---- proofs

    def _is_own(self, tensor: Tensor, p: Placed, read: typed.Read, shared: Loops) -> bool:
        """Whether a turn of the shared loops has written what it reads: a box that grows.

        S(0, n) = A(n)  for k in 0:K { S(k + 1, n) = S(k, n) * B(k, n) }  C(n) = S(K, n)
        """
        found = self.written[tensor.name]
        grows = [
            d for d in range(len(tensor.shape)) if not all(_spans(w, tensor, d) for w in found)
        ]
        if len(grows) != 1:
            return False
        (d,) = grows
        deeper = p.loops[len(shared) :]
        turns = {x.var: Interval(x.low, x.high - 1) for x in deeper}

        def holds(size: Size) -> bool:
            low = over_turns(Interval(size, size), turns).low
            return low is not None and is_nonnegative(low)

        first: Size | None = None
        last: Size | None = None
        for w in found:
            made = _made_until(w, p, d, len(shared))
            if made is None or made.low is None or made.high is None:
                continue
            if first is None or last is None:
                first, last = made.low, made.high
            elif holds(last + 1 - made.low):
                last = made.high
        at = interval(SymbolicValues().of(read.subs[d]), _domain(p.statement))
        if first is None or last is None or at.low is None or at.high is None:
            return False
        return holds(at.low - first) and holds(last - at.high)

    def _is_written_once(self, name: str, depth: int) -> bool:
        """Whether no element is written by two statements or in two turns."""
        boxes = []
        for p in self.written[name]:
            s, loops = p.statement, p.loops[depth:]
            turns = {x.var: Interval(x.low, x.high - 1) for x in loops}
            values = [SymbolicValues().of(e) for e in s.subs]
            if not all(
                any(_counts(f, x, loops[i + 1 :], s) for f in values) for i, x in enumerate(loops)
            ):
                return False
            boxes.append([(f, over_turns(interval(f, _domain(s)), turns)) for f in values])
        return all(
            any(_apart(a, b) or _differ(f, g) for (f, a), (g, b) in zip(x, y, strict=True))
            for i, x in enumerate(boxes)
            for y in boxes[:i]
        )


def statements(body: Sequence[typed.Stmt], loops: Loops) -> Iterator[tuple[typed.Statement, Loops]]:
    """Yield the statements of a body in order, with the loops around each."""
    for stmt in body:
        if isinstance(stmt, typed.Loop):
            yield from statements(stmt.body, (*loops, stmt))
        else:
            yield stmt, loops


def reads(p: Placed) -> Iterator[typed.Read]:
    """Yield the reads of a statement, those of its subscripts and bounds too."""
    for e in p.statement.exprs:
        yield from reads_of(e)


def _domain(s: typed.Statement) -> dict[str, Interval]:
    return {r.name: r.values for r in s.ranges}


def _spans(w: Placed, tensor: Tensor, d: int) -> bool:
    """Whether a write reaches all of a dimension by an index."""
    at = w.statement.subs[d]
    span = next(
        (r for r in w.statement.ranges if isinstance(at, typed.IndexValue) and r.name == at.name),
        None,
    )
    low = tensor.low[d]
    return span is not None and (span.low, span.high) == (low, low + tensor.shape[d])


def _made_until(w: Placed, p: Placed, d: int, depth: int) -> Interval | None:
    """Return what of a dimension a write has reached before a statement, in a turn at that depth.

    None where it has to be taken for nothing.
    """
    value, deeper = SymbolicValues().of(w.statement.subs[d]), w.loops[depth:]
    if not deeper:
        return interval(value, _domain(w.statement)) if w.at < p.at else None
    (x, *more) = deeper
    turn = Size.symbol(x.var, signed=True)
    if more or turn.symbols()[0] in (value - turn).symbols():
        return None
    if any(x is y for y in p.loops):
        last = turn if w.at < p.at else turn - 1
    elif w.at < p.at:
        last = x.high - 1
    else:
        return None
    return Interval(value - turn + x.low, value - turn + last)


def _counts(value: Size, loop: typed.Loop, inner: Loops, s: typed.Statement) -> bool:
    """Whether a subscript differs in any two turns of a loop, whatever the turns of inner ones.

    It is c * turn + what all inner turns together change by less than c.
    """
    symbol = Size.symbol(loop.var, signed=True)
    (monomial, _) = symbol.terms[0]
    c = next((k for m, k in value.terms if m == monomial), 0)
    rest = value - symbol * c
    names = set(rest.symbols())
    if not c or loop.var in names or not names.isdisjoint(r.name for r in s.ranges):
        return False
    turns = {x.var: Interval(x.low, x.high - 1) for x in (loop, *inner)}
    at = over_turns(Interval(rest, rest), turns)
    return (
        at.low is not None
        and at.high is not None
        and is_nonnegative(at.low - at.high + (abs(c) - 1))
    )


def _apart(a: Interval, b: Interval) -> bool:
    return any(
        x.low is not None and y.high is not None and is_nonnegative(x.low - y.high - 1)
        for x, y in ((a, b), (b, a))
    )


def _differ(f: Size, g: Size) -> bool:
    """Whether subscripts leave different residues, as 2 * i and 2 * i + 1 do."""
    step = gcd(*(c for x in (f, g) for monomial, c in x.terms if monomial))
    return step > 1 and (f.offset - g.offset) % step != 0


def misses(
    w: Placed,
    p: Placed,
    read: typed.Read,
    common: int,
    later: typed.Loop | None,
    *,
    is_back: bool = False,
) -> bool:
    """Whether a write and a read are apart: in the same turn of the outer loops, so many.

    Or with the write in a later turn of the last of them; is_back: that begins with its last turn.
    """
    domain = {x.var: Interval(x.low, x.high - 1) for x in w.loops[:common]}
    renamed: list[dict[str, Size]] = [{}, {}]
    if later is not None:
        turn, distance = Size.symbol(later.var, signed=True), Size.symbol("later", signed=True)
        renamed[0][later.var] = turn - distance if is_back else turn + distance
        domain["later"] = Interval(Size.const(1), None)
    for mark, placed, names in (("w", w, renamed[0]), ("r", p, renamed[1])):
        spans = [(x.var, x.low, x.high) for x in placed.loops[common:]]
        spans += [(r.name, r.low, r.high) for r in placed.statement.ranges if not r.is_guess]
        guessed = [r.name for r in placed.statement.ranges if r.is_guess]
        for name in guessed:
            names[name] = Size.symbol(f"{mark} {name}", signed=True)
            domain[f"{mark} {name}"] = ANY
        for name, low, high in spans:  # the bounds of a loop may depend on those around it
            ends = (substitute_symbols(low, names), substitute_symbols(high - 1, names))
            names[name] = Size.symbol(f"{mark} {name}", signed=True)
            domain[f"{mark} {name}"] = Interval(*ends)
    symbolic = SymbolicValues()
    for target, sub in zip(w.statement.subs, read.subs, strict=True):
        a = substitute_symbols(symbolic.of(target), renamed[0])
        b = substitute_symbols(symbolic.of(sub), renamed[1])
        if any(s.startswith("?") for s in (*a.symbols(), *b.symbols())):
            continue
        at = over_turns(interval(a - b, domain), domain)
        for side in (at.low, None if at.high is None else -at.high):
            if side is not None and is_nonnegative(side - 1):
                return True
    return False
