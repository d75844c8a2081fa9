"""What a program calls: each form of operands of each kernel once, as a problem to tune."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from tcdsl.calls.operands.device_arrays import is_on_device
from tcdsl.grammar.text.dataclass import dataclass

if TYPE_CHECKING:
    from tcdsl.calls.bindings.session import Session
    from tcdsl.calls.bindings.variant import Variant
    from tcdsl.calls.call import KernelCall
    from tcdsl.calls.problems import Problem


class Caller(Protocol):
    """Whoever makes calls: a kernel, or an op of one in the tensor library."""

    session: Session

    def clear(self) -> None:
        """Forget the forms of calls, so that the next of each is seen."""

    def _forget_choices(self, variant: Variant) -> None:
        """Let the next calls find what was tuned."""


_callers: WeakSet[Any] = WeakSet()  # all there are: which of them a program calls shows later


@dataclass(frozen=True)
class Seen:
    """A form of operands that somebody was called with."""

    kernel: Caller
    variant: Variant
    problem: Problem


class Record:
    """The forms of calls by what they are tuned under; kernels of equal texts share them."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Seen]] = {}

    def note(self, kernel: Caller, call: KernelCall) -> None:
        """Take in a call that is about to be made."""
        from tcdsl.calls.problems import problem_of_call  # on use: calls do without

        problem = problem_of_call(call)
        known = self.seen.setdefault(problem.key.digest, [])
        if all(s.kernel is not kernel for s in known):
            known.append(Seen(kernel, call.variant, problem))


_records: list[Record] = []  # under way, the innermost last


@contextmanager
def recording() -> Iterator[Record]:
    """Record the calls that this process makes, those of ways back too.

    Kernels forget the forms that run without Python, so that the first call of each is seen.
    """
    record = Record()
    _records.append(record)
    for kernel in [*_callers]:
        kernel.clear()
    try:
        yield record
    finally:
        _records.remove(record)


def exists(kernel: Caller) -> None:
    """Let recordings know somebody who makes calls."""
    _callers.add(kernel)


def is_on() -> bool:
    """Whether calls are recorded."""
    return bool(_records)


def noted(kernel: Caller, call: KernelCall) -> None:
    """Tell recordings of a call whose form is new."""
    for record in _records:
        record.note(kernel, call)


def called(kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Tell recordings of a call of a kernel, whose form is new."""
    if _records:
        given = kernel.arguments(args, keywords)
        call = kernel.call(*given.values, **given.generics)
        if given.outputs is not None and not any(map(is_on_device, args)):
            call = replace(call, outs=call.check_outputs(given.outputs))
        noted(kernel, call)
