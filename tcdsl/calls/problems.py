"""Calls and sizes as problems for the tuner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.autotune.targets.cpu.problem import CpuProblem
from tcdsl.autotune.targets.definition import Strides
from tcdsl.calls.bindings.sizes import check_sizes
from tcdsl.calls.bindings.variant import Variant, spec_for
from tcdsl.calls.call import KernelCall
from tcdsl.calls.operands.arguments import element_strides
from tcdsl.calls.operands.device_arrays import DeviceArray
from tcdsl.codegen.device import devices
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec

if TYPE_CHECKING:
    from tcdsl.autotune.targets.cuda.problem import CudaProblem

    Problem = CpuProblem | CudaProblem


def problem_of_call(call: KernelCall) -> Problem:
    """Return the tuning problem of one call: its very layouts, strides and numbers."""
    checked, spec = call.variant.checked, call.spec
    arrays = [*call.operands, *(call.outs or [None] * len(checked.returns))]
    strides = tuple(
        element_strides(array)
        if isinstance(array, np.ndarray | DeviceArray) and not layout.contiguous
        else None
        for array, layout in zip(arrays, spec.layouts, strict=True)
    )
    given = {
        t.name: np.asarray(o)[()]
        for t, o in zip(checked.params, call.operands, strict=True)
        if not t.shape
    }
    place = next((a.device for a in arrays if isinstance(a, DeviceArray)), 0)
    return _problem(call.variant, spec, place, strides, given)


def problem_of_sizes(variant: Variant, sizes: Mapping[str, int]) -> Problem:
    """Return the tuning problem of these sizes, all operands in C order."""
    values = check_sizes(variant.signature, sizes)
    return _problem(variant, spec_for(variant, values), 0)


def _problem(
    variant: Variant,
    spec: Spec,
    place: int,
    strides: Strides | None = None,
    given: Mapping[str, Any] | None = None,
) -> Problem:
    """Return a problem for what a variant is for; place is the number of the GPU."""
    machine = variant.machine
    if isinstance(machine, Gpu):
        from tcdsl.autotune.targets.cuda.problem import CudaProblem  # on use: the CPU does without

        return CudaProblem(variant.checked, spec, strides, given, device=devices.device(place))
    return CpuProblem(variant.checked, spec, strides, given, machine=machine)
