"""Grids and workspaces of a unit for a GPU at given sizes: what a launcher starts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

from tcdsl.codegen.device.turns import in_order
from tcdsl.codegen.loops.loopir import (
    Argument,
    Bin,
    Call,
    Const,
    Expr,
    Launch,
    LaunchLoop,
    Unit,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import InternalError

ALIGNMENT = 256  # bytes: of each block of the workspace, as GPU allocators give


@dataclass(frozen=True, slots=True)
class KernelStart:
    """A kernel to start: blocks and threads, linear, and its dynamic shared memory in bytes."""

    function: str
    arguments: tuple[Argument, ...]
    blocks: int
    threads: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What one call does: kernels in order, and where each block lies in workspace_bytes.

    Starts in loops stand here once; `sequence` repeats them.
    """

    starts: tuple[KernelStart, ...]
    offsets: tuple[int, ...]
    workspace_bytes: int
    loops: tuple[LaunchLoop, ...] = ()  # their first and last count starts
    names: Mapping[str, int] = field(default_factory=dict)

    def sequence(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield positions of starts as they run, each with the value of every loop's variable."""
        turns = [0] * len(self.loops)

        def range_of(loop: int) -> tuple[int, int]:
            outer = {x.var: turn for x, turn in zip(self.loops[:loop], turns, strict=False)}
            names, this = {**self.names, **outer}, self.loops[loop]
            return _evaluate(this.low, names), _evaluate(this.high, names)

        spans = [(x.first, x.last) for x in self.loops]
        for position in in_order(spans, range_of, turns, 0, len(self.starts)):
            yield position, tuple(turns)


def plan(unit: Unit, sizes: Mapping[str, int]) -> HostPlan:
    """Return what a call at these sizes does; kernels without blocks are left out."""
    names = {safe_name(n): v for n, v in sizes.items()}
    offsets: list[int] = []
    at = 0
    for size in unit.workspace:
        offsets.append(at)
        at += -(-_evaluate(size, names) // ALIGNMENT) * ALIGNMENT
    starts = [_start(x, names) for x in unit.launches]
    left = [i for i, s in enumerate(starts) if s.blocks > 0]
    loops = tuple(
        replace(x, first=bisect_left(left, x.first), last=bisect_left(left, x.last))
        for x in unit.loops
    )
    return HostPlan(tuple(starts[i] for i in left), tuple(offsets), at, loops, names)


def _start(x: Launch, names: Mapping[str, int]) -> KernelStart:
    blocks, shared = _evaluate(x.blocks, names), _evaluate(x.shared_bytes, names)
    return KernelStart(x.function, x.arguments, blocks, x.threads, shared)


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
