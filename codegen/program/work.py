"""How much work a program is: the figures that rates are made of."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import assert_never

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
    """Return the bytes of all parameters and returns, each once: the least traffic of a call."""
    total = 0
    for name in program.operands:
        buffer = program.buffer(name)
        if buffer.shape:
            extents = (max(0, s.evaluate(sizes)) for s in buffer.shape)
            total += buffer.dtype.size_bytes * prod(extents)
    return total


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
