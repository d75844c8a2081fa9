"""Grids and workspaces of a unit for a GPU at given sizes: what a launcher starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tcdsl.codegen.loopir import Argument, Bin, Call, Const, Expr, Launch, Unit, Var
from tcdsl.codegen.lower.operands import safe_name
from tcdsl.grammar.errors import InternalError

ALIGNMENT = 256  # bytes: of each block of the workspace, as GPU allocators give


@dataclass(frozen=True, slots=True)
class Start:
    """A kernel to start: blocks and threads, linear, and its dynamic shared memory in bytes."""

    function: str
    arguments: tuple[Argument, ...]
    blocks: int
    threads: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What one call does: kernels in order, and where each block lies in workspace_bytes."""

    starts: tuple[Start, ...]
    offsets: tuple[int, ...]
    workspace_bytes: int


def plan(unit: Unit, sizes: Mapping[str, int]) -> HostPlan:
    """Return what a call at these sizes does; kernels without blocks are left out."""
    names = {safe_name(n): v for n, v in sizes.items()}
    offsets: list[int] = []
    at = 0
    for size in unit.workspace:
        offsets.append(at)
        at += -(-_evaluate(size, names) // ALIGNMENT) * ALIGNMENT
    starts = (_start(x, names) for x in unit.launches)
    return HostPlan(tuple(s for s in starts if s.blocks > 0), tuple(offsets), at)


def _start(x: Launch, names: Mapping[str, int]) -> Start:
    blocks, shared = _evaluate(x.blocks, names), _evaluate(x.shared_bytes, names)
    return Start(x.function, x.arguments, blocks, x.threads, shared)


_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "/": lambda x, y: x // y if y else 0,  # of sizes that are not negative: C's is the floor too
    "%": lambda x, y: x % y if y else 0,
}
_OPERATORS_BY_CALL: Mapping[str, Callable[[int, int], int]] = {
    "tc_div_i64": _OPERATORS["/"],
    "tc_mod_i64": _OPERATORS["%"],
    "tc_min_i64": min,
    "tc_max_i64": max,
}


def _evaluate(e: Expr, names: Mapping[str, int]) -> int:
    """Return the value of an int64 expression over sizes."""
    match e:
        case Const(value):
            return int(value)
        case Var(name):
            return names[name]
        case Bin(op, x, y) if op in _OPERATORS:
            return _OPERATORS[op](_evaluate(x, names), _evaluate(y, names))
        case Call(name, (x, y)) if name in _OPERATORS_BY_CALL:
            return _OPERATORS_BY_CALL[name](_evaluate(x, names), _evaluate(y, names))
        case _:
            raise InternalError(f"a launch cannot compute {e}")
