"""How much work a program is: the figures that rates are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import assert_never

from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Program
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr


def flops_of(program: Program, sizes: Mapping[str, int]) -> int:
    """Return the arithmetic operations of a call, counted in the text.

    Every operator and builtin on numbers counts one per point, comparisons and choices too; so does
    the combining of a reduction. Subscripts and conversions count nothing, nor do guards: choices
    by a condition that reads no data, as `pad` makes them. In a loop every turn counts like one in
    the middle.
    """
    total = 0
    for i, stmt in enumerate(program.statements):
        turns, values = _turns(program, i, sizes)
        points = turns * prod(max(0, r.extent.evaluate(values)) for r in stmt.ranges)
        total += points * (_operations(stmt.value) + bool(stmt.reductions))
    return total


def _turns(program: Program, i: int, sizes: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """Return how often statement i runs, and sizes with the variables of a turn in the middle."""
    count, values = 1, dict(sizes)
    for loop in program.loops:
        if loop.first <= i < loop.last:
            low, high = loop.low.evaluate(values), loop.high.evaluate(values)
            count *= max(0, high - low)
            values[loop.var] = (low + max(low, high - 1)) // 2
    return count, values


def bytes_of(program: Program, sizes: Mapping[str, int]) -> int:
    """Return the least traffic of a call in bytes: what it reads of parameters, and the returns.

    Each element counts once. Of a table that data chooses rows of, these are read, not the table.
    """
    read = _elements_read(program, sizes)
    total = 0
    for name in program.operands:
        buffer = program.buffer(name)
        if buffer.shape:
            count = prod(max(0, s.evaluate(sizes)) for s in buffer.shape)
            touched = min(count, read[name]) if buffer.role == "param" else count
            total += buffer.dtype.size_bytes * touched
    return total


def _elements_read(program: Program, sizes: Mapping[str, int]) -> Counter[str]:
    """Return how many elements of each tensor are read at most."""
    found = Counter[str]()
    for i, stmt in enumerate(program.statements):
        turns, values = _turns(program, i, sizes)
        extents = {r.name: max(0, r.extent.evaluate(values)) for r in stmt.ranges}
        for tensor, subs in {(r.tensor, r.subs) for r in stmt.reads()}:
            names = frozenset[str]().union(*map(indices_of, subs))
            found[tensor] += turns * prod(extents[n] for n in names)
    return found


def _operations(expr: Expr) -> int:
    total, todo = 0, [expr]
    while todo:
        match todo.pop():
            case typed.Binary(_, lhs, rhs):
                total += 1
                todo += [lhs, rhs]
            case typed.Unary(_, operand):
                total += 1
                todo.append(operand)
            case typed.Select(cond, then, other):
                todo += [then, other]
                if next(typed.tensors_read(cond), None) is not None:
                    total += 1
                    todo.append(cond)
            case typed.Builtin(_, args):
                total += 1
                todo += args
            case typed.Cast(operand):
                todo.append(operand)
            case typed.Lit() | typed.IndexValue() | typed.SizeValue() | typed.Read():
                pass
            case rest:
                assert_never(rest)
    return total
