"""Which statements run under common tiles.

Two steps. Pointwise producers are put into their consumers, so that they cost no pass over memory.
Then statements that follow each other are gathered into groups: a reduction with the pointwise
statement on its result, and row groups, whose statements share kept indices (softmax, layernorm).
A partition is legal whatever it is called: `split` goes back to one statement a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tcdsl.codegen.program import (
    Program,
    Statement,
    affine_of,
    indices_of,
    map_typed,
    substitute_indices,
    walk_typed,
)
from tcdsl.grammar import typed
from tcdsl.grammar.dtypes import INT64
from tcdsl.grammar.sizes import Size

_CHEAP_NODES = 4  # an expression so small is computed again rather than stored
_LARGEST_VALUE = 200  # nodes; beyond, an expression is not made larger


@dataclass(frozen=True, slots=True)
class Group:
    """Statements that run together, in program order.

    members are positions in `Program.statements`; statements are what is left of them after
    pointwise producers were put into their consumers; origins tells, for each statement, the
    members that are in it. local names the versions that live in the tile only: nobody outside
    the group reads them, so they need no memory.
    """

    members: tuple[int, ...]
    statements: tuple[Statement, ...]
    local: tuple[str, ...] = ()
    origins: tuple[tuple[int, ...], ...] = ()

    def split(self) -> tuple[Group, ...]:
        """Return a group for each statement."""
        if len(self.statements) == 1:
            return (self,)
        return tuple(
            Group(origin, (s,), (), (origin,))
            for s, origin in zip(self.statements, self.origins, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Partition:
    """All statements in groups, which run one after the other."""

    name: str
    groups: tuple[Group, ...]


@lru_cache(maxsize=64)
def partitions(program: Program) -> tuple[Partition, ...]:
    """Return the partitions worth trying, the default first; no two are equal."""
    written = [Group((i,), (s,), (), ((i,),)) for i, s in enumerate(program.statements)]
    inlined = _inline(program, written)
    found = {
        "fused": _gather(program, inlined, rows=True),
        "epilogues": _gather(program, inlined, rows=False),
        "inlined": inlined,
        "separate": written,
    }
    out: dict[tuple[Group, ...], str] = {}
    for name, groups in found.items():
        out.setdefault(tuple(groups), name)
    return tuple(Partition(name, groups) for groups, name in out.items())


# ---- pointwise producers into their consumers


def _inline(program: Program, groups: Sequence[Group]) -> list[Group]:
    """Put pointwise statements into those that read them, wherever that is legal and pays."""
    left = list(groups)
    for g in groups:
        at = next(i for i, h in enumerate(left) if h.origins[-1][-1] == g.members[-1])
        producer = left[at]
        s = producer.statements[0]
        readers = [i for i, h in enumerate(left) if s.target in _wanted(h)]
        if not readers or not _inlinable(program, s, [left[i].statements[0] for i in readers]):
            continue
        if not all(_reads_live(program, left, at, i) for i in readers):
            continue
        for i in readers:
            h = left[i]
            members = tuple(sorted({*producer.members, *h.members}))
            merged = _with_value(h.statements[0], s)
            left[i] = Group(members, (merged,), (), (_ordered(members, h.members[-1]),))
        del left[at]
    return left


def _ordered(members: Sequence[int], last: int) -> tuple[int, ...]:
    """Return members with the statement that writes last."""
    return (*(m for m in members if m != last), last)


def _inlinable(program: Program, s: Statement, consumers: Sequence[Statement]) -> bool:
    """Whether a statement is a function of its indices that costs no more inside its readers."""
    buffer = program.buffer(s.target)
    if s.op != "=" or not s.covers or s.target in program.outputs:
        return False
    if any(c.base == s.target for c in consumers) or any(any(r.checked) for r in s.reads()):
        return False
    if buffer.role == "return" and buffer.dtype.is_half:  # storing would round it
        return False
    nodes = sum(1 for _ in walk_typed(s.value))
    reads = [(c, r) for c in consumers for r in c.reads() if r.tensor == s.target]
    distinct = len({(c.target, r.subs) for c, r in reads})
    for c, r in reads:
        if any(r.checked) or c.op.startswith("arg"):
            return False
        if any(r.tensor == s.target for e in c.subs for r in _typed_reads(e)):
            return False
        # a point of the consumer that differs only in other indices would compute it again
        again = {x.name for x in c.ranges} - {n for e in r.subs for n in indices_of(e)}
        if (again or distinct > 1) and nodes > _CHEAP_NODES:
            return False
        if is_product(c.value) and c.reductions and nodes > 1:
            return False  # a contraction wants plain operands
        if sum(1 for _ in walk_typed(c.value)) + nodes > _LARGEST_VALUE:
            return False
    return True


def _reads_live(program: Program, groups: Sequence[Group], producer: int, reader: int) -> bool:
    """Whether what a producer reads is still there when its reader runs."""
    homes = {program.buffer(r.tensor).home for r in _reads(groups[producer])}
    # the reader too: it may write in place what the producer reads elsewhere
    between = groups[producer + 1 : reader + 1]
    return not any(program.buffer(s.target).home in homes for g in between for s in g.statements)


def _with_value(consumer: Statement, producer: Statement) -> Statement:
    """Return the consumer with the producer's right side in place of reads of its target."""

    def one(e: typed.Expr) -> typed.Expr:
        if not isinstance(e, typed.Read) or e.tensor != producer.target:
            return e
        by = dict(_solved(sub, at) for sub, at in zip(producer.subs, e.subs, strict=True))
        return substitute_indices(producer.value, by)

    return replace(consumer, value=map_typed(consumer.value, one))


def _solved(sub: typed.Expr, at: typed.Expr) -> tuple[str, typed.Expr]:
    """Return the index and its value for which a covering subscript is at: index = at - const."""
    a = affine_of(sub)
    assert a is not None, "a covering subscript is an index and a constant"
    ((name, _),) = a.terms
    if a.const == Size.const(0):
        return name, at
    return name, typed.Binary("-", at, typed.SizeValue(a.const, INT64), INT64)


# ---- groups


def _gather(program: Program, groups: Sequence[Group], *, rows: bool) -> list[Group]:
    """Gather neighbours: each group takes the following ones for as long as that is legal."""

    def together(statements: Sequence[Statement]) -> bool:
        if not _undisturbed(program, statements):
            return False
        if has_epilogue(statements):
            return True
        return rows and kept_indices(statements) is not None

    out: list[Group] = []
    rest = list(groups)
    while rest:
        best = rest[:1]
        for count in range(2, len(rest) + 1):
            run = rest[:count]
            if together([s for g in run for s in g.statements]):
                best = run
        out.append(_joined(program, best, rest[len(best) :]))
        rest = rest[len(best) :]
    return out


def _undisturbed(program: Program, statements: Sequence[Statement]) -> bool:
    """Whether statements write no memory that another tile still reads the old contents of."""
    made = {s.target for s in statements}
    written = {program.buffer(s.target).home for s in statements}
    outside = {n for s in statements for n in _wanted(Group((), (s,))) if n not in made}
    return not any(program.buffer(n).home in written for n in outside)


def _joined(program: Program, run: Sequence[Group], later: Sequence[Group]) -> Group:
    if len(run) == 1:
        return run[0]
    members = tuple(sorted({m for g in run for m in g.members}))
    statements = tuple(s for g in run for s in g.statements)
    wanted = {*program.outputs, *(name for g in later for name in _wanted(g))}
    local = tuple(s.target for s in statements if s.target not in wanted)
    return Group(members, statements, local, tuple(o for g in run for o in g.origins))


def has_epilogue(statements: Sequence[Statement]) -> bool:
    """Whether a reduction is followed by pointwise statements on its points, over the same box."""
    first, *later = statements
    if not first.reductions or first.op.startswith("arg") or not first.covers:
        return False
    made = {first.target}
    for s in later:
        if s.op != "=" or s.reductions or not s.covers or first.base is not None:
            return False
        names = [affine_of(e) for e in s.subs]
        at = [[affine_of(e) for e in r.subs] for r in s.reads() if r.tensor in made]
        if not at or not all(a == names and all(x and x.plain for x in a) for a in at):
            return False
        made.add(s.target)
    return bool(later)


def is_product(e: typed.Expr) -> bool:
    """Whether e is a product of plain reads (through casts)."""
    match e:
        case typed.Binary("*", lhs, rhs):
            return is_product(lhs) and is_product(rhs)
        case typed.Cast(operand):
            return is_product(operand)
        case typed.Read(_, subs):
            return bool(subs)
        case _:
            return False


def is_contraction(s: Statement) -> bool:
    """Whether s is a sum of products that uses elements of an operand again for another output."""
    if s.op not in ("+=", "+=!") or not s.reductions or not isinstance(s.value, typed.Binary):
        return False
    if not is_product(s.value):
        return False
    outputs = {r.name for r in s.outputs}
    return any(outputs - {n for e in r.subs for n in indices_of(e)} for r in _typed_reads(s.value))


def kept_indices(statements: Sequence[Statement]) -> tuple[dict[str, str], ...] | None:
    """Return the indices that statements share, or None if they cannot share a loop over them.

    For each statement a mapping from the name of a shared axis (the index of the statement with
    the fewest outputs) to its own output index. Everything that one statement reads of another
    lies at the same values of the shared indices, so all of them can run for one value after the
    other. At least one of them reduces, and none is a contraction.
    """
    if not any(s.reductions for s in statements):
        return None
    if any(is_contraction(s) or not s.covers or s.op.startswith("arg") for s in statements):
        return None
    seed = min(statements, key=lambda s: len(s.outputs))
    if not seed.outputs:
        return None
    axes = [r.name for r in seed.outputs]
    mapping: list[dict[str, str]] = [
        dict(zip(axes, axes, strict=True)) if s is seed else {} for s in statements
    ]
    # of each version made here: the dimension of each axis
    dims: dict[str, dict[str, int]] = {s.target: {} for s in statements}
    for _ in range(len(statements)):  # each round reaches the neighbours in the data flow
        for k, s in enumerate(statements):
            if not _spread(s, mapping[k], dims):
                return None
    if not all(len(m) == len(axes) for m in mapping):
        return None
    spans = [{r.name: r for r in s.outputs} for s in statements]
    for axis in axes:
        ends = {(spans[k][m[axis]].low, spans[k][m[axis]].high) for k, m in enumerate(mapping)}
        if len(ends) != 1:
            return None
    return tuple(mapping) if _aligned(statements, mapping, dims) else None


def _spread(s: Statement, mine: dict[str, str], dims: dict[str, dict[str, int]]) -> bool:
    """Carry axes between a statement and the versions it touches; false on a contradiction."""
    outputs = {r.name for r in s.outputs}
    for tensor, subs in _touched(s):
        if tensor not in dims:
            continue
        plain = [a.plain if (a := affine_of(e)) else None for e in subs]
        for axis, d in dims[tensor].items():
            name = plain[d]
            if name not in outputs or mine.setdefault(axis, name) != name:
                return False
        for axis, name in mine.items():
            if name not in plain:
                return False
            d = plain.index(name)
            if dims[tensor].setdefault(axis, d) != d:
                return False
    return True


def _touched(s: Statement) -> list[tuple[str, tuple[typed.Expr, ...]]]:
    """Return the versions that a statement touches, and where."""
    reads = [(r.tensor, r.subs) for r in s.reads()]
    return [(s.target, s.subs), *reads, *([] if s.base is None else [(s.base, s.subs)])]


def _aligned(
    statements: Sequence[Statement],
    mapping: Sequence[dict[str, str]],
    dims: dict[str, dict[str, int]],
) -> bool:
    """Whether every version made here is touched at the reader's own shared indices."""
    for s, mine in zip(statements, mapping, strict=True):
        for tensor, subs in _touched(s):
            for axis, d in dims.get(tensor, {}).items():
                a = affine_of(subs[d])
                if a is None or a.plain != mine[axis]:
                    return False
    return True


def _reads(g: Group) -> list[typed.Read]:
    return [r for s in g.statements for r in s.reads()]


def _wanted(g: Group) -> set[str]:
    """Return the versions that a group reads or goes on from."""
    bases = {s.base for s in g.statements if s.base is not None}
    return bases | {r.tensor for r in _reads(g)}


def _typed_reads(e: typed.Expr) -> list[typed.Read]:
    return [x for x in walk_typed(e) if isinstance(x, typed.Read)]
