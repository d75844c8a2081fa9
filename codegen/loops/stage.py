"""Indices that data gives, staged in blocks: loops over them may be vectors.

    simd for (b = low; b < high; b++) { t = tc_once_i32(I + b); acc += t >= 0 && t < N ? A[t] : 0; }

    for (start = low; start < high; start += 256) {
      count = min(256, high - start);
      simd for (k = 0; k < count; k++) staged[k] = tc_peek_i32(I + start + k);
      tc_settle(staged);
      simd for (k = 0; k < count; k++) { b = start + k; t = staged[k]; acc += ... }
    }

What is read once is volatile, and of such reads there are no vectors. A copy that nobody else
writes has the same effect: behind `tc_settle` the compiler can no longer know that the array of the
caller holds what the copy holds, so checks, guards and addresses all use the copy (`verify_data`
holds it to that). A read that does not change along the loop is done before it. A loop with reads
under a condition, or whose place other reads choose, runs in order.

Time over that with plain loads (1 thread, AVX-512, loaded machine): a sum of exp of padded elements
1.05, of padded elements alone 1.08, by int64 subscripts 1.2: their copy waits for memory that the
gathers waited for anyway. Copies of fewer than 32 points would take longer than vectors of cheap
bodies gain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Address,
    Array,
    Assign,
    Bin,
    Block,
    Call,
    Elem,
    Expr,
    For,
    Function,
    Let,
    Load,
    Pointer,
    Scalar,
    Select,
    Serial,
    Simd,
    Stmt,
    Unit,
    Var,
)
from tcdsl.codegen.loops.walk import all_exprs, map_expr, map_stmt, variables, walk_expr, walk_stmt

BLOCK = 256  # points: what is staged stays in the first level
_FEW = 32  # points, of which the copies take longer than vectors gain
_CHEAP = ("tc_once_", "tc_min_", "tc_max_", "tc_clamp_")  # calls that gain little by vectors


def stage(unit: Unit) -> Unit:
    """Return the unit of a CPU with loops that are vectors, or else are not said to be."""
    return replace(unit, functions=tuple(map(_function, unit.functions)))


def reads_once(e: Expr) -> bool:
    """Whether an expression is a read of what chooses an element."""
    return isinstance(e, Call) and e.function.startswith("tc_once_")


def _function(f: Function) -> Function:
    if not any(map(reads_once, all_exprs(f.body))):
        return f
    names = _Names(f)

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and isinstance(s.mark, Simd) and _has_reads(s.body):
            return _staged(s, names)
        return s

    return replace(f, body=map_stmt(f.body, visit))


class _Names:
    """Names that a function does not have yet."""

    def __init__(self, f: Function) -> None:
        self._used = {p.name for p in f.params}
        for s in walk_stmt(f.body):
            self._used |= _declared(s)
        for e in all_exprs(f.body):
            self._used |= variables(e)

    def new(self, name: str) -> str:
        """Return such a name, which is then used."""
        found, k = name, 0
        while found in self._used:
            found, k = f"{name}{k}", k + 1
        self._used.add(found)
        return found


def _staged(s: For, names: _Names) -> Stmt:
    """Return what a loop does, with its reads in front; the loop in order where they cannot be."""
    reads = dict.fromkeys(_movable(s))
    fixed = {e: Var(names.new("read"), b.type_of(e)) for e in reads if s.var not in walk_expr(e)}
    varying = [e for e in reads if e not in fixed]
    at = b.i64(names.new("k")) if varying else s.var
    copies = {e: Elem(names.new("staged"), (at,), b.type_of(e)) for e in varying}
    by: dict[Expr, Expr] = {**fixed, **copies}
    body = map_stmt(s.body, lambda t: t, lambda e: by.get(e, e))
    extent = b.value_of(b.sub(s.high, s.low))
    few = varying and extent is not None and extent < _FEW and not _computes(body)
    if few or _has_reads(body) or b.value_of(s.step) != 1:
        return replace(s, mark=Serial())
    lets = [Let(v, e) for e, v in fixed.items()]
    if not varying:
        return b.when(b.compare("<", s.low, s.high), lets, replace(s, body=body))
    is_short = extent is not None and extent <= BLOCK
    length = extent if is_short and extent is not None else BLOCK
    start = s.low if is_short else b.i64(names.new("start"))
    count = b.c64(length) if is_short else b.i64(names.new("count"))
    point = b.add(start, at)
    peeks = [Assign(copy, _peek(e, s.var, point)) for e, copy in copies.items()]
    out: list[Stmt] = [
        *lets,
        *(Array(copy.array, copy.type, (max(length, 1),)) for copy in copies.values()),
        b.loop(at, 0, count, *peeks, mark=Simd()),
        *map(_settle, copies.values()),
        b.loop(at, 0, count, Let(s.var, point), body, mark=s.mark),
    ]
    if is_short or not isinstance(start, Var) or not isinstance(count, Var):
        return b.when(b.compare("<", s.low, s.high), out)
    first = Let(count, b.min64(BLOCK, b.sub(s.high, start)))
    return b.loop(start, s.low, s.high, first, out, step=BLOCK)


def _movable(s: For) -> Iterator[Expr]:
    """Yield the reads that are done at every point, and at places that the body has no part in."""
    own: set[str] = set()
    for t in walk_stmt(s.body):
        own |= _declared(t)
        if isinstance(t, Assign) and isinstance(t.place, Var | Elem):
            own.add(t.place.name if isinstance(t.place, Var) else t.place.array)
    todo = [s.body]
    while todo:
        t = todo.pop()
        if isinstance(t, Let):
            for e in filter(reads_once, walk_expr(t.value)):
                if not (_may_skip(t.value) or variables(e) & own or _reads_memory(e)):
                    yield e
        elif isinstance(t, Block):
            todo += reversed(t.stmts)


def _may_skip(e: Expr) -> bool:
    """Whether an expression leaves a part of it out."""
    return any(
        isinstance(x, Select) or (isinstance(x, Bin) and x.op in ("&&", "||")) for x in walk_expr(e)
    )


def _reads_memory(e: Expr) -> bool:
    """Whether the place of a read depends on memory."""
    return any(isinstance(x, Load | Elem) or (reads_once(x) and x is not e) for x in walk_expr(e))


def _peek(e: Expr, var: Var, point: Expr) -> Expr:
    """Return the plain read of an element at a point."""
    assert isinstance(e, Call)
    at = map_expr(e.args[0], lambda x: point if x == var else x)
    return Call(e.function.replace("tc_once_", "tc_peek_"), (at,), e.type)


def _settle(copy: Elem) -> Stmt:
    assert isinstance(copy.type, Scalar)
    first = Elem(copy.array, (b.c64(0),), copy.type)
    return b.do("tc_settle", Address(first, Pointer(copy.type.dtype)))


def _computes(s: Stmt) -> bool:
    """Whether a body calls functions that take longer than finding an element."""
    calls = (e for e in all_exprs(s) if isinstance(e, Call))
    return not all(e.function.startswith(_CHEAP) for e in calls)


def _has_reads(s: Stmt) -> bool:
    return any(map(reads_once, all_exprs(s)))


def _declared(s: Stmt) -> set[str]:
    match s:
        case Let(var) | For(var):
            return {var.name}
        case Array(name):
            return {name}
        case _:
            return set()
