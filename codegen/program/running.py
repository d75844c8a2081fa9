"""Sums over all that lies before or behind, as a first term and what goes on from it.

    Y(n, m) +=! X(n, j) where j in 0:m + 1   ->   Y(n, 0) = X(n, 0)
                                                  Y(n, t) = Y(n, t - 1) + X(n, t) along t

What goes on is a scan along rows, or the turns of a loop (`scans.py` chooses).
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.dtypes import identity, numpy_dtype
from tcdsl.codegen.program.expressions import indices_of, map_typed, substitute_indices
from tcdsl.codegen.program.program import Buffer, Program, Statement, TurnLoop
from tcdsl.grammar.proofs.signs import minimum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64, DType
from tcdsl.grammar.types.typed import Expr, Range


def of_sum(
    program: Program, s: Statement, blanks: list[Buffer]
) -> tuple[Statement, Statement] | None:
    """Return the start of a running sum and what goes on from it; None where s is none."""
    buffer, dtype = program.buffer(s.target), s.value.dtype
    if s.base is not None or not s.covers or s.is_arg or s.op == "=":
        return None
    if buffer.dtype.computed != dtype or dtype == BOOL or len(s.reductions) != 1:
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
    if d is None:
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
    start = onto_blank(program, replace(start, covers=False), blanks)
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
        regroups=True,
    )
    return start, going_on


def in_float32(
    program: Program, s: Statement, start: Statement, rest: Statement, blanks: list[Buffer]
) -> tuple[Statement, Statement, Statement]:
    """Return a sum of halves that goes on in a temporary of float32, and its copy."""
    own = program.buffer(s.target)
    taken = {x.home for x in (*program.buffers, *blanks)} | {*program.sizes, *program.scalars}
    taken |= {r.name for x in program.statements for r in x.ranges}
    home = fresh(f"{s.target}_sum", taken)
    wide = own.dtype.computed
    names = {x: f"{home}{x.removeprefix(s.target)}" for x in (s.target, *_bases(start, rest))}
    for i, x in enumerate(blanks):
        if x.name in names:
            blanks[i] = replace(
                x, name=names[x.name], tensor=home, role="temp", home=home, dtype=wide
            )
    blanks.append(replace(own, name=home, tensor=home, role="temp", home=home, dtype=wide))

    def moved(x: Expr) -> Expr:
        return replace(x, tensor=names.get(x.tensor, x.tensor)) if isinstance(x, typed.Read) else x

    def apart(x: Statement) -> Statement:
        base = names.get(x.base or "", x.base)
        return replace(x, target=names[x.target], base=base, value=map_typed(x.value, moved))

    whole = tuple(typed.IndexValue(f"i{d}", INT64) for d in range(len(own.shape)))
    held = typed.Cast(typed.Read(home, whole, wide, (False,) * len(whole)), own.dtype)
    copy = replace(
        s,
        op="=",
        subs=whole,
        value=held,
        ranges=tuple(
            Range(f"i{d}", Size(), extent, "output") for d, extent in enumerate(own.shape)
        ),
        subs_checked=(False,) * len(whole),
    )
    return apart(start), apart(rest), copy


def _bases(*statements: Statement) -> list[str]:
    return [x for s in statements for x in (s.target, s.base) if x is not None]


def _combined(op: str, held: Expr, term: Expr, dtype: DType) -> Expr:
    if op in ("+=", "*="):
        return typed.Binary(op[0], held, term, dtype)  # type: ignore[arg-type]
    return typed.Builtin(op[:3], (held, term), dtype)


def dim_along(s: Statement) -> int:
    """Return the dimension of the target along which the points of a scan lie."""
    return next(d for d, e in enumerate(s.subs) if s.along in indices_of(e))


def as_loop(program: Program, s: Statement, at: int) -> tuple[Statement, TurnLoop]:
    """Return what each turn of a loop does of a scan, as that statement, and the loop."""
    turns = next(r for r in s.ranges if r.name == s.along)
    names = {*program.turns, *program.sizes, *program.scalars}
    var = f"{turns.name}_{at}"
    while var in names:
        var += "_"
    turn = Size.symbol(var, signed=True)
    by: dict[str, Expr] = {turns.name: typed.SizeValue(turn, INT64)}
    one = replace(
        s,
        value=substitute_indices(s.value, by),
        subs=tuple(substitute_indices(e, by, address=True) for e in s.subs),
        ranges=tuple(r for r in s.ranges if r is not turns),
        along=None,
        regroups=False,
    )
    return one, TurnLoop(var, turns.low, turns.high, at, at + 1)


def onto_blank(program: Program, s: Statement, blanks: list[Buffer]) -> Statement:
    """Return a statement that goes on from memory that holds nothing: none is filled."""
    name = f"{s.target}.blank"
    tensor = s.target.removesuffix(".start")
    blanks.append(replace(program.buffer(tensor), name=name))
    return replace(s, base=name)
