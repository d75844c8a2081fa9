"""Loops along a row as one statement, whose points run in order: scans.

    for t in 1:M { Y(n, t) = Y(n, t - 1) + X(n, t) }   ->   Y(n, t) = Y(n, t - 1) + X(n, t) along t

    Y(n, m) +=! X(n, j) where j in 0:m + 1             ->   Y(n, 0) = X(n, 0)
                                                            Y(n, t) = Y(n, t - 1) + X(n, t) along t

Rows depend on themselves only, so they are tasks, each of which runs through its row: a loop over
all rows for every turn walks memory in steps of a row. A sum over all that lies before is one term
more than that before it: M terms, not M * M / 2, in the order of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.dtypes import identity, numpy_dtype
from tcdsl.codegen.program.expressions import (
    indices_of,
    map_typed,
    substitute_indices,
)
from tcdsl.codegen.program.program import Buffer, Program, Statement, TurnLoop
from tcdsl.codegen.program.subscripts import injective_in
from tcdsl.grammar.proofs.signs import minimum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64, DType
from tcdsl.grammar.types.typed import Expr, Range

UnitDim = Callable[[str], int | None]  # of a version: the dimension whose elements are neighbours


def along_rows(program: Program, unit: UnitDim) -> Program:
    """Return a program whose loops and sums along rows are statements with an order of points."""
    loops = {x.first: x for x in program.loops if _is_single(program, x)}
    statements: list[Statement] = []
    blanks: list[Buffer] = []
    at: list[int] = []  # where a statement has gone
    gone: set[str] = set()
    for i, s in enumerate(program.statements):
        at.append(len(statements))
        if i in loops:
            found = _of_loop(program, s, loops[i], unit)
            if found is not None:
                gone.add(loops[i].var)
                if statements and _is_rest(program, statements[-1], found):
                    statements[-1] = _onto_blank(program, statements[-1], blanks)
                statements.append(found)
                continue
        pair = None if _is_in_loop(program, i) else _of_sum(program, s, unit, blanks)
        statements += pair or (s,)
    at.append(len(statements))
    if len(statements) == len(program.statements) and not gone:
        return program
    left = tuple(
        replace(x, first=at[x.first], last=at[x.last]) for x in program.loops if x.var not in gone
    )
    buffers = (*program.buffers, *blanks)
    return replace(program, statements=tuple(statements), loops=left, buffers=buffers)


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
    home = program.buffer(s.target).home
    maps = [affine_of(e) for e in s.subs]
    at = [d for d, a in enumerate(maps) if a is None or any(n == s.along for n, _ in a.terms)]
    if len(at) != 1 or len(injective_in(s.subs, s.outputs)) < len(s.outputs):
        return False
    (d,) = at
    own = [r for r in s.reads() if program.buffer(r.tensor).home == home]
    if unit(s.target) != d or not own or not _is_along(s.subs[d], s.along):
        return False
    return all(
        all(a == b for k, (a, b) in enumerate(zip(r.subs, s.subs, strict=True)) if k != d)
        and _is_along(r.subs[d], s.along)
        for r in own
    )


def _is_along(e: Expr, name: str | None) -> bool:
    a = affine_of(e)
    return a is not None and len(a.terms) == 1 and a.terms[0][0] == name and abs(a.terms[0][1]) == 1


# ---- sums over all that lies before or behind


def _of_sum(
    program: Program, s: Statement, unit: UnitDim, blanks: list[Buffer]
) -> tuple[Statement, Statement] | None:
    """Return the start of a running sum and what goes on from it; None where s is none."""
    buffer, dtype = program.buffer(s.target), s.value.dtype
    if s.base is not None or not s.covers or s.is_arg or s.op == "=":
        return None
    if buffer.dtype != dtype or dtype.is_half or dtype == BOOL or len(s.reductions) != 1:
        return None
    (j,) = s.reductions
    if j.bounds is None or any(any(r.checked) for r in s.reads()):
        return None
    if any(r.bounds is not None for r in s.ranges if r is not j):
        return None
    low, high = map(affine_of, j.bounds)
    if low is None or high is None:
        return None
    is_prefix = bool(high.terms)
    moving, still = (high, low) if is_prefix else (low, high)
    if still.terms or len(moving.terms) != 1 or moving.terms[0][1] != 1:
        return None
    m = next((r for r in s.outputs if r.name == moving.terms[0][0]), None)
    if m is None or m.name in indices_of(s.value):
        return None
    d = next((k for k, e in enumerate(s.subs) if indices_of(e) == {m.name}), None)
    if d is None or unit(s.target) != d:
        return None
    # the term that a point has and the one before it has not; the point that begins has it alone
    first = m.low if is_prefix else m.high - 1
    newest = moving.const - (1 if is_prefix else 0)
    begins = first + moving.const - still.const if is_prefix else still.const - first - moving.const
    if begins.constant not in (0, 1):
        return None
    if j.low != (still.const if is_prefix else m.low + moving.const) and begins.constant != 0:
        return None
    index: Expr = typed.IndexValue(m.name, INT64)

    def term(at: Expr) -> Expr:
        by = {j.name: typed.Binary("+", at, typed.SizeValue(newest, INT64), INT64)}
        return substitute_indices(s.value, by)

    nothing = identity(s.op.rstrip("!"), numpy_dtype(dtype))
    zero = typed.Lit(float(nothing) if dtype.is_float else int(nothing), dtype)
    outer = tuple(r for r in s.ranges if r not in (j, m))
    some = minimum(Size.const(1), m.extent)  # none in a row without elements
    begin = replace(m, high=m.low + some) if is_prefix else replace(m, low=m.high - some)
    value = term(index) if begins.constant else zero
    start = replace(s, target=f"{s.target}.start", op="=", value=value, ranges=(*outer, begin))
    start = _onto_blank(program, replace(start, covers=False), blanks)
    blanks.append(replace(buffer, name=start.target))

    # backwards, the index counts down from the last point but one
    rest = replace(m, low=m.low + 1)
    if not is_prefix:
        rest = replace(m, low=Size(), high=m.extent - 1)
        index = typed.Binary("-", typed.SizeValue(m.high - 2, INT64), index, INT64)
    step = typed.Lit(-1 if is_prefix else 1, INT64)
    before = typed.Binary("+", index, step, INT64)
    subs = tuple(substitute_indices(e, {m.name: index}, address=True) for e in s.subs)
    its = tuple(substitute_indices(e, {m.name: before}, address=True) for e in s.subs)
    held = typed.Read(start.target, its, dtype, (False,) * len(its))
    going_on = replace(
        s,
        base=start.target,
        subs=subs,
        op="=",
        value=_combined(s.op.rstrip("!"), held, term(index), dtype),
        ranges=(*outer, rest),
        covers=False,
        along=m.name,
    )
    return start, going_on


def _combined(op: str, held: Expr, term: Expr, dtype: DType) -> Expr:
    if op in ("+=", "*="):
        return typed.Binary(op[0], held, term, dtype)  # type: ignore[arg-type]
    return typed.Builtin(op[:3], (held, term), dtype)


# ---- memory that is written wholly, by a start and the rest


def _is_rest(program: Program, start: Statement, scan: Statement) -> bool:
    """Whether a scan writes all elements of a row but the one that a start writes."""
    if start.op != "=" or start.base is not None or start.covers or start.reductions:
        return False
    if program.buffer(start.target).home != program.buffer(scan.target).home:
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


def _onto_blank(program: Program, s: Statement, blanks: list[Buffer]) -> Statement:
    """Return a statement that goes on from memory that holds nothing: none is filled."""
    name = f"{s.target}.blank"
    tensor = s.target.removesuffix(".start")
    blanks.append(replace(program.buffer(tensor), name=name))
    return replace(s, base=name)
