"""Products whose output lays indices of one factor between those of the other, in two steps.

    O(c, a, d, b) +=! A(a, b, k) * B(k, c, d)   ->   P(c, d, a, b) +=! A(a, b, k) * B(k, c, d)
                                                     O(c, a, d, b) = P(c, d, a, b)

Register tiles go along indices that follow each other in the output. Where these are few each
factor is packed again for all the others, and tiles are small: 17x12 products of 8x5 took 4.4 times
as long as one of 96x85 that is moved afterwards. What is less work is told by known sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from math import ceil, prod

from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Buffer, Program, Statement
from tcdsl.codegen.program.temporaries import moved, new_buffer, new_statement
from tcdsl.codegen.program.unparse import statement_text
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32, FLOAT64, INT64

# ns of one thread: a point of a product in register tiles, an element of a factor that is packed
# and one that is moved, a call of a tile, another pass.
_TILE_NS, _PACK_NS, _MOVE_NS, _CALL_NS, _PASS_NS = 0.01, 0.3, 0.3, 20.0, 1500.0
_LEAST_ROWS = 4  # fewer take a tile as long
_FEW_VECTORS = 12  # for as many columns a factor is walked where it lies
_GAIN = 1.3  # predicted, from which on a statement is split


def parted(program: Program, sizes: Mapping[str, int], vector_bytes: int) -> Program:
    """Return a program whose products are formed apart from their output where that is less work.

    vector_bytes : of the machine.
    """
    statements: list[Statement] = []
    buffers: list[Buffer] = []
    at: list[int] = []
    for s in program.statements:
        at.append(len(statements))
        outputs = _apart(program, s, sizes, vector_bytes)
        if outputs is None:
            statements.append(s)
            continue
        tensor = s.target.partition(".")[0]
        taken = {x.name for x in (*program.buffers, *buffers)}
        name = fresh(f"{tensor}.apart", taken)
        subs = tuple(typed.IndexValue(r.name, INT64) for r in outputs)
        buffers.append(new_buffer(name, tensor, s.value.dtype, [r.extent for r in outputs]))
        statements.append(new_statement(name, subs, "+=!", s.value, s.ranges))
        read = typed.Read(name, subs, s.value.dtype, (False,) * len(subs))
        text = statement_text(typed.Statement(s.target, s.subs, "=", read, s.outputs))
        statements.append(replace(s, op="=", value=read, ranges=s.outputs, text=text))
    if not buffers:
        return program
    at.append(len(statements))
    return replace(
        program,
        buffers=(*program.buffers, *buffers),
        statements=tuple(statements),
        loops=moved(program.loops, at),
    )


def _apart(
    program: Program, s: Statement, sizes: Mapping[str, int], vector_bytes: int
) -> list[typed.Range] | None:
    """Return the outputs in an order that keeps those of each factor together; None if no gain."""
    match s.value:
        case typed.Binary("*", typed.Read() as a, typed.Read() as b):
            pass
        case _:
            return None
    dtype = s.value.dtype
    if s.op != "+=!" or s.base is not None or not s.covers or s.is_ragged or not s.reductions:
        return None
    if dtype not in (FLOAT32, FLOAT64) or program.buffer(s.target).dtype != dtype:
        return None
    if {a.dtype, b.dtype} != {dtype} or any(program.depends(r.extent) for r in s.ranges):
        return None
    subs = (*s.subs, *a.subs, *b.subs)
    if any((*s.subs_checked, *a.checked, *b.checked)) or not all(map(_is_index, subs)):
        return None
    if any(r.low != Size() for r in s.ranges):
        return None
    by_name = {r.name: r for r in s.ranges}
    outputs = [by_name[x.name] for x in s.subs if isinstance(x, typed.IndexValue)]
    if len({r.name for r in outputs}) != len(outputs) or len(outputs) != len(s.outputs):
        return None
    used = [{n for x in read.subs for n in indices_of(x)} for read in (a, b)]
    if not all({r.name for r in s.reductions} <= u for u in used):
        return None
    sides = [[r for r in outputs if r.name in u and r.name not in v] for u, v in (used, used[::-1])]
    if not all(sides) or sum(map(len, sides)) < 3:
        return None
    batch = [r for r in outputs if all(r.name in u for u in used)]
    reads = a, b
    if outputs[-1] in sides[0]:  # vectors run along the last one
        sides, reads = sides[::-1], (b, a)
    if outputs[-1] not in sides[1] or len(batch) + sum(map(len, sides)) != len(outputs):
        return None

    def count(ranges: Sequence[typed.Range]) -> int:
        return prod(r.extent.evaluate(sizes) for r in ranges)

    runs = [_run(outputs, side) for side in sides]
    k, lanes = count(s.reductions), vector_bytes // dtype.size_bytes

    def lies(read: typed.Read, part: Sequence[typed.Range], last: typed.Range | None) -> bool:
        names = _names(read)
        is_unit = last is None or names[-1] == last.name
        return is_unit and _follow(part, names) and _follow(s.reductions, names)

    def cost_ns(parts: Sequence[Sequence[typed.Range]]) -> float:
        rows, columns = map(count, parts)
        points = max(rows, _LEAST_ROWS) * ceil(columns / lanes) * lanes * k
        # vectors are read along the output's; rows along the sum, or anyhow for a few vectors
        few = columns <= _FEW_VECTORS * lanes
        packed = 0 if lies(reads[0], parts[0], None if few else s.reductions[-1]) else rows
        packed += 0 if lies(reads[1], parts[1], parts[1][-1]) else columns
        return points * _TILE_NS + packed * k * _PACK_NS + _CALL_NS

    outer = [r for r in outputs if not any(r in run for run in runs)]
    now = count(outer) * cost_ns(runs)
    then = count(batch) * cost_ns(sides) + count(outputs) * _MOVE_NS + _PASS_NS
    return [*batch, *sides[0], *sides[1]] if now > _GAIN * then else None


def _is_index(e: typed.Expr) -> bool:
    return isinstance(e, typed.IndexValue)


def _names(read: typed.Read) -> list[str]:
    return [x.name for x in read.subs if isinstance(x, typed.IndexValue)]


def _follow(ranges: Sequence[typed.Range], names: Sequence[str]) -> bool:
    """Whether indices follow each other in what is read, in their order: as one."""
    at = names.index(ranges[0].name)
    return names[at : at + len(ranges)] == [r.name for r in ranges]


def _run(outputs: Sequence[typed.Range], side: Sequence[typed.Range]) -> list[typed.Range]:
    """Return the last indices of a side that follow each other in the output."""
    behind = outputs[: outputs.index(side[-1]) + 1]
    return list(takewhile(lambda r: r in side, reversed(behind)))
