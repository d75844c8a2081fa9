"""Run candidates by their ABI (`tc_abi.h`) on guarded memory, and hold them against a case.

It shares nothing with the launcher: here every operand, workspace and task is set up so that a
fault shows, there so that a call is fast. Timing goes through the launcher: times are those of real
calls, threads and all.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tcdsl.autotune.targets.compare import difference
from tcdsl.autotune.targets.cpu.guard_pages import GuardedArray, GuardedBytes, Place
from tcdsl.autotune.worker.bench import WrongAnswerError
from tcdsl.autotune.worker.case import Case
from tcdsl.codegen.device.turns import in_order
from tcdsl.codegen.library.load import bind
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.codegen.preludes.abi import (
    MAX_LOOPS,
    VERSION,
    TcArgs,
    TcError,
    TcExecutable,
    TcPlan,
    TcRange,
    TcScalar,
)
from tcdsl.grammar.types.dtypes import BY_NAME, FLOAT64

_MANY_TASKS = 512
_SIDES: tuple[tuple[Place, int], ...] = (("after", 0xFF), ("before", 0x7B))  # with their poison


class LoadedCandidate:
    """A loaded candidate: `tc_exe_NAME` of a shared object."""

    def __init__(self, library: Path, name: str) -> None:
        self.library = ctypes.CDLL(str(library))
        self._exe = TcExecutable.in_dll(self.library, f"tc_exe_{name}")
        if self._exe.abi != VERSION:
            raise WrongAnswerError(f"its ABI is {self._exe.abi}, expected {VERSION}")
        bind(self._exe)

    @property
    def address(self) -> int:
        """Address of the `tc_executable`."""
        return ctypes.addressof(self._exe)

    def run(self, case: Case, data: Sequence[int], *, one_by_one: bool, place: Place) -> None:
        """Run all phases on operands at the given addresses.

        one_by_one runs the tasks singly and backwards, each with its own fresh workspace, as other
        threads might: a task that needs another task's leavings gives another answer.
        """
        strides = [s for o in case.operands if o.role != "scalar" for s in o.element_strides]
        plan, fault = TcPlan(), TcError()
        turn = (ctypes.c_int64 * MAX_LOOPS)()
        read = (
            _array(ctypes.c_void_p, list(data)),
            _array(ctypes.c_int64, list(case.sizes)),
            _array(ctypes.c_int64, strides),
            _array(TcScalar, _scalars(case)),
        )
        args = TcArgs(
            *map(ctypes.addressof, read),
            None,
            None,
            ctypes.addressof(fault),
            case.threads,
            ctypes.addressof(turn),
        )
        if (code := self._exe.plan(ctypes.byref(args), ctypes.byref(plan))) != 0:
            raise WrongAnswerError(f"plan returned {code}")
        args.plan = ctypes.addressof(plan)
        with ExitStack() as memory:
            shared, own = (
                memory.enter_context(GuardedBytes(n, place, LINE))
                for n in (plan.shared_bytes, plan.thread_bytes)
            )
            shared.bytes[:] = 0xFF
            args.shared = shared.address
            spans = [(x.first, x.last) for x in self._exe.loop[: self._exe.loops]]
            range_of = functools.partial(self._range_of, args)
            for p in in_order(spans, range_of, turn, 0, self._exe.phases):
                for begin, end in _pieces(plan.tasks[p], one_by_one):
                    own.bytes[:] = 0xFF
                    code = self._exe.phase[p](ctypes.byref(args), own.address, begin, end)
                    if code != 0 or fault.code != 0:
                        raise WrongAnswerError(
                            f"phase {p} returned {code}, error {fault.code}: operand "
                            f"{fault.tensor}, dimension {fault.dim}, subscript {fault.value}, "
                            f"extent {fault.extent}"
                        )
            if not (shared.is_intact() and own.is_intact()):
                raise WrongAnswerError("bytes next to its workspace were written")

    def _range_of(self, args: TcArgs, loop: int) -> tuple[int, int]:
        found = TcRange()
        if self._exe.loop[loop].range(ctypes.byref(args), ctypes.byref(found)) != 0:
            raise WrongAnswerError(f"the range of loop {loop} failed")
        return found.low, found.high


class Checker:
    """Holds candidates against a case, twice: the operands end at a guard page, then begin at one.

    Outputs are poisoned with another value each time, so that an element that is not written
    differs at least once.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._sides: dict[Place, list[GuardedArray]] = {
            place: [
                GuardedArray(o, place, d) for o, d in zip(case.operands, case.data, strict=True)
            ]
            for place, _ in _SIDES
        }

    def check(self, candidate: LoadedCandidate) -> None:
        """Run a candidate.

        Raises
        ------
        WrongAnswerError
            If an output differs from what is expected, or anything else was written.
        """
        for place, poison in _SIDES:
            arrays = self._sides[place]
            for operand, array in zip(self._case.operands, arrays, strict=True):
                if operand.is_written:
                    array.reset(poison)
            candidate.run(
                self._case,
                [a.address for a in arrays],
                one_by_one=place == "before",
                place=place,
            )
            outputs = [
                (o, a) for o, a in zip(self._case.operands, arrays, strict=True) if o.is_written
            ]
            for (operand, array), expected in zip(outputs, self._case.expected, strict=True):
                if message := difference(array.values, expected) or array.fault():
                    raise WrongAnswerError(f"output '{operand.name}': {message}")


def _pieces(tasks: int, one_by_one: bool) -> list[tuple[int, int]]:
    """Split a range of tasks; many tasks in pieces of equal length, the last one shorter."""
    if not one_by_one:
        return [(0, tasks)] if tasks else []
    length = -(-tasks // _MANY_TASKS)
    return [(b, min(b + length, tasks)) for b in range(0, tasks, max(length, 1))][::-1]


def _scalars(case: Case) -> list[TcScalar]:
    values = []
    for operand, data in zip(case.operands, case.data, strict=True):
        if operand.role != "scalar" or data is None:
            continue
        value = TcScalar()
        dtype = BY_NAME[operand.dtype]
        if dtype == FLOAT64:
            value.d = float(data)
        elif dtype.is_float:
            value.f = float(data)
        elif dtype.kind == "uint":
            value.u = int(data)
        else:
            value.i = int(data)
        values.append(value)
    return values


def _array(kind: Any, values: Sequence[Any]) -> Any:  # ctypes makes array types at run time
    return (kind * max(len(values), 1))(*values)
