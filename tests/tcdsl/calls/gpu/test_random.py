"""Random programs, called in random ways on a simulated GPU, give what the reference gives."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tcdsl.grammar.text.errors import BoundsError
from tcdsl.kernel import Kernel
from tests.cusim.harness import Block
from tests.cusim.simulator import Array
from tests.tcdsl.calls.gpu.sim import SimArray, SimDevice
from tests.tcdsl.programs.random_programs import run_program, run_text
from tests.tcdsl.programs.test_random import FOUND, assert_right
from tests.tiers import sampled

pytestmark = pytest.mark.cusim


class OnDevice:
    """A kernel called with arrays of the host as a GPU's, whatever they share with one another."""

    def __init__(self, device: SimDevice, kernel: Kernel) -> None:
        self.device, self.kernel = device, kernel

    def __call__(self, *args: Array, out: tuple[Array, ...] | None = None) -> Any:
        device = self.device
        known = [
            device.remember("an operand", Block(base, base), "update")
            for base in _bases([*(a for a in args if a.ndim), *(out or ())])
        ]
        try:
            moved = [SimArray(device, a, a) if a.ndim else a for a in args]
            outs = None if out is None else tuple(SimArray(device, o, o) for o in out)
            got = self.kernel(*moved, out=outs)
            several = got if isinstance(got, tuple) else (got,)
            return tuple(_host(g) for g in several)
        except BoundsError:
            # threads that met the fault wrote nothing, and what others make of that nobody sees
            report = device.simulator.report
            report.findings = [f for f in report.findings if f.kind != "uninitialised"]
            raise
        finally:
            for number in known:
                device.forget(number)


def _host(value: Any) -> Array:
    array: Array = value.get() if isinstance(value, SimArray) else np.asarray(value)
    return array


def _bases(arrays: Iterable[Array]) -> list[Array]:
    """Return the bytes of all memory that arrays are views of, each piece once."""
    found = {}
    for a in arrays:
        while isinstance(a.base, np.ndarray):
            a = a.base
        found[a.ctypes.data] = (a if a.flags.c_contiguous else a.T).reshape(-1).view(np.uint8)
    return list(found.values())


@sampled("name", FOUND, keep=2)
def test_what_was_wrong_once_is_right(device: SimDevice, name: str) -> None:
    assert_right(run_text(FOUND[name], 0, calls=4, face=functools.partial(OnDevice, device)))


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(20_000, 20_200, 10))
def test_random_programs_give_what_the_reference_gives(device: SimDevice, first: int) -> None:
    for seed in range(first, first + 10):
        if trial := run_program(seed, calls=5, face=functools.partial(OnDevice, device)):
            assert_right(trial)
