"""Loops along a row as one statement, whose points run in order: scans.

    for t in 1:M { Y(n, t) = Y(n, t - 1) + X(n, t) }   ->   Y(n, t) = Y(n, t - 1) + X(n, t) along t

    Y(n, m) +=! X(n, j) where j in 0:m + 1             ->   Y(n, 0) = X(n, 0)
                                                            Y(n, t) = Y(n, t - 1) + X(n, t) along t

Rows depend on themselves only, so they are tasks, each of which runs through its row: a loop over
all rows for every turn walks memory in steps of a row. A sum over all that lies before is one term
more than that before it: M terms, not M * M / 2. Where its rows lie side by side in memory it is a
loop, each turn of which is a pass over neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import map_typed
from tcdsl.codegen.program.program import Buffer, Program, Statement, TurnLoop
from tcdsl.codegen.program.running import as_loop, dim_along, in_float32, of_sum, onto_blank
from tcdsl.codegen.program.subscripts import injective_in
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr, Range

UnitDim = Callable[[str], int | None]  # of a version: the dimension whose elements are neighbours


def along_rows(program: Program, unit: UnitDim, most_loops: int) -> Program:
    """Return a program whose loops and sums along rows are statements with an order of points.

    A sum that would be one loop more than most_loops stays as it is.
    """
    loops = {x.first: x for x in program.loops if _is_single(program, x)}
    statements: list[Statement] = []
    blanks: list[Buffer] = []
    at: list[int] = []  # where a statement has gone
    made: list[TurnLoop] = []
    gone: set[str] = set()
    for i, s in enumerate(program.statements):
        at.append(len(statements))
        if i in loops:
            found = _of_loop(program, s, loops[i], unit)
            if found is not None:
                gone.add(loops[i].var)
                if statements and _is_rest(program, statements[-1], found):
                    statements[-1] = onto_blank(program, statements[-1], blanks)
                statements.append(found)
                continue
        own: list[Buffer] = []
        pair = None if _is_in_loop(program, i) else of_sum(program, s, own)
        turns = pair is not None and unit(s.target) != dim_along(pair[1])
        if pair is None or (turns and len(program.loops) + len(made) >= most_loops):
            statements.append(s)
            continue
        start, rest = pair
        blanks += own
        if turns:
            rest, loop = as_loop(program, rest, len(statements) + 1)
            made.append(loop)
        statements += start, rest
        if program.buffer(s.target).dtype.is_half:
            statements[-2:] = in_float32(program, s, start, rest, blanks)
    at.append(len(statements))
    if len(statements) == len(program.statements) and not gone:
        return program
    left = [
        replace(x, first=at[x.first], last=at[x.last]) for x in program.loops if x.var not in gone
    ]
    # an outer loop stays before an inner one that begins with it: those made are in none
    turning = sorted((*left, *made), key=lambda x: x.first)
    buffers = (*program.buffers, *blanks)
    return replace(program, statements=tuple(statements), loops=tuple(turning), buffers=buffers)


def _is_single(program: Program, loop: TurnLoop) -> bool:
    """Whether a loop holds one statement and neither holds nor lies in another."""
    others = (x for x in program.loops if x is not loop)
    apart = all(x.last <= loop.first or loop.last <= x.first for x in others)
    return loop.last - loop.first == 1 and apart


def _is_in_loop(program: Program, i: int) -> bool:
    return any(x.first <= i < x.last for x in program.loops)


# ---- loops


def _of_loop(program: Program, s: Statement, loop: TurnLoop, unit: UnitDim) -> Statement | None:
    """Return the statement of a loop with its turns as an index; None where it is no scan."""
    buffer = program.buffer(s.target)
    if s.op not in ("=", "+=", "*=") or s.reductions or s.base is None:
        return None
    if any(s.subs_checked) or any(any(r.checked) for r in s.reads()):
        return None
    if any(r.bounds or loop.var in (*r.low.symbols(), *r.high.symbols()) for r in s.ranges):
        return None
    if loop.var in {x for b in program.buffers for e in b.shape for x in e.symbols()}:
        return None
    value = s.value
    if s.op != "=":
        if buffer.dtype.is_half or value.dtype != buffer.dtype:
            return None
        old = typed.Read(s.base, s.subs, buffer.dtype, s.subs_checked)
        op = "+" if s.op == "+=" else "*"
        value = typed.Binary(op, old, value, buffer.dtype)  # type: ignore[arg-type]
    turned = [with_index(e, loop.var, loop.var) for e in (value, *s.subs)]
    known = [e for e in turned if e is not None]
    if len(known) < len(turned):
        return None
    value, *subs = known
    turns = Range(loop.var, loop.low, loop.high, "output")
    found = replace(
        s, value=value, subs=tuple(subs), op="=", ranges=(*s.ranges, turns), along=loop.var
    )
    return found if _is_scan(program, found, unit) else None


def with_index(e: Expr, var: str, name: str) -> Expr | None:
    """Return an expression with an index in place of a loop's variable, None where it has none."""
    failed = False

    def one(x: Expr) -> Expr:
        nonlocal failed
        if not isinstance(x, typed.SizeValue) or var not in x.size.symbols():
            return x
        turn = Size.symbol(var, signed=True)
        if x.size == turn:
            return typed.IndexValue(name, x.dtype)
        for sign in (1, -1):
            rest = x.size - turn * sign
            if var not in rest.symbols() and x.dtype == INT64:
                index: Expr = typed.IndexValue(name, INT64)
                index = index if sign > 0 else typed.Unary("-", index, INT64)
                return typed.Binary("+", typed.SizeValue(rest, INT64), index, INT64)
        failed = True
        return x

    made = map_typed(e, one)
    return None if failed else made


def _is_scan(program: Program, s: Statement, unit: UnitDim) -> bool:
    """Whether points of different rows do not meet: each reads of its target what its row holds.

    Rows lie along the index in memory; side by side, a turn of all rows is walked in steps of one.
    """
    maps = [affine_of(e) for e in s.subs]
    at = [d for d, a in enumerate(maps) if a is None or any(n == s.along for n, _ in a.terms)]
    if len(at) != 1 or len(injective_in(s.subs, s.outputs)) < len(s.outputs):
        return False
    (d,) = at
    own = _own_reads(program, s)
    if unit(s.target) != d or not own or not _is_along(s.subs[d], s.along):
        return False
    return all(
        all(a == b for k, (a, b) in enumerate(zip(r.subs, s.subs, strict=True)) if k != d)
        and _is_along(r.subs[d], s.along)
        for r in own
    )


def _own_reads(program: Program, s: Statement) -> list[typed.Read]:
    """Return what a statement reads of the memory that it writes."""
    home = program.buffer(s.target).home
    return [r for r in s.reads() if program.buffer(r.tensor).home == home]


def _is_behind(read: typed.Read, scan: Statement) -> bool:
    """Whether a scan has passed what it reads of its own row, whatever the turn."""
    d = dim_along(scan)
    here, there = affine_of(scan.subs[d]), affine_of(read.subs[d])
    if here is None or there is None or here.terms != there.terms:
        return False
    ((_, step),) = here.terms
    apart = ((here.const - there.const) * step).constant
    return apart is not None and apart > 0


def _is_along(e: Expr, name: str | None) -> bool:
    a = affine_of(e)
    return a is not None and len(a.terms) == 1 and a.terms[0][0] == name and abs(a.terms[0][1]) == 1


# ---- memory that is written wholly, by a start and the rest


def _is_rest(program: Program, start: Statement, scan: Statement) -> bool:
    """Whether a scan writes all elements of a row but the one that a start writes.

    It may read of its row what is written by then only: what is not yet is 0, where it is filled.
    """
    if start.op != "=" or start.base is not None or start.covers or start.reductions:
        return False
    if program.buffer(start.target).home != program.buffer(scan.target).home:
        return False
    if not all(_is_behind(r, scan) for r in _own_reads(program, scan)):
        return False
    shape = program.buffer(scan.target).shape
    spans = {r.name: r for r in (*start.ranges, *scan.ranges)}
    for e, x, extent in zip(start.subs, scan.subs, shape, strict=True):
        a, b = affine_of(e), affine_of(x)
        if a is None or b is None:
            return False
        if _is_along(x, scan.along):
            ((name, c),) = b.terms
            low, high = spans[name].low, spans[name].high - 1
            low, high = (
                (b.const + low, b.const + high) if c > 0 else (b.const - high, b.const - low)
            )
            before = a.const == Size() and low == Size.const(1) and high == extent - 1
            behind = a.const == extent - 1 and low == Size() and high == extent - 2
            if a.terms or not (before or behind):
                return False
        elif not all(_is_whole(f, spans, extent) for f in (e, x)):
            return False
    return True


def _is_whole(e: Expr, spans: dict[str, Range], extent: Size) -> bool:
    if not isinstance(e, typed.IndexValue):
        return False
    r = spans[e.name]
    return r.low == Size() and r.high == extent
