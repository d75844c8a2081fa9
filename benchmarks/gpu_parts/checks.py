"""Every program and every form on the device, against the reference, in a process that may die.

The child goes through a list of items and says which it begins and how it ended; the parent holds
the deadline of each, notes a crash or a hang, and starts another child behind it.
"""

from __future__ import annotations

import itertools
import json
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from operands import Array

import tcdsl as tc
from gpu_parts.children import run_children
from gpu_parts.setting import Setting
from tcdsl.autotune.targets.compare import difference
from tcdsl.autotune.targets.cuda.bench import CudaBench
from tcdsl.autotune.targets.cuda.problem import CudaProblem
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.case import Case, dtype_named
from tcdsl.calls.operands.arguments import element_strides, layout_of
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import DeviceError, ScheduleError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tcdsl.kernel import Kernel
from tests.codegen.programs import PROGRAMS, View, viewed
from tests.tcdsl.programs.catalog import LEGAL, name_of, small_sizes

_MOST_CONFIGS = 12  # of one item: each form of each group once, as far as that goes
_LANES = 4  # children at a time: most of an item is the host's work
# One of each way to lower a group: what a sanitizer looks at, and a simulated device.
REPRESENTATIVES = (
    "row", "transpose", "sum", "column_sum", "total", "softmax", "layernorm", "matmul", "fcrelu",
    "conv", "gather", "some_elements", "half",
)  # fmt: skip
_TINY = ("row", "sum", "softmax", "matmul")


@dataclass(frozen=True)
class Item:
    """A definition at one or several sizes, its arrays in one layout.

    The first sizes get an executable of their own; the others share a size-generic one.
    """

    name: str
    text: str
    def_name: str | None
    sizes: tuple[Mapping[str, int], ...]
    view: View = "c"

    def checked(self) -> CheckedDef:
        return check(parse(self.text), self.def_name)


def items(*, quick: bool, tiny: bool) -> list[Item]:
    """Return what is checked; quick: one program of each form, tiny: a few at small sizes."""
    if tiny:
        return [Item(n, PROGRAMS[n].text, None, PROGRAMS[n].sizes[:2]) for n in _TINY]
    if quick:
        return [Item(n, PROGRAMS[n].text, None, PROGRAMS[n].sizes[:2]) for n in REPRESENTATIVES]
    views: tuple[View, ...] = ("c", "transposed", "strided")
    found = [
        Item(f"{name} {view}", entry.text, None, entry.sizes, view)
        for view in views
        for name, entry in PROGRAMS.items()
    ]
    for entry in LEGAL:
        rng = np.random.default_rng(zlib.crc32(entry["name"].encode()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checked = check(parse(entry["tc"]), name_of(entry))
            sizes = tuple(small_sizes(checked, entry, rng) for _ in range(2))
        found.append(Item(entry["name"], entry["tc"], name_of(entry), sizes))
    return found


# ---- in the child


def check_from(setting: Setting, first: int, step: int, *, quick: bool) -> None:
    """Check every step-th item from one on and say how each ends, a line of JSON each."""
    warnings.simplefilter("ignore")
    listed = list(enumerate(items(quick=quick, tiny=setting.is_simulated)))
    for number, item in listed[first::step]:
        _say(begin=number, name=item.name)
        ends = list(check_forms(setting, item))
        count = len(ends)
        faults = [*filter(None, ends), *check_calls(setting, item)]
        _say(end=number, name=item.name, kernels=count, faults=faults)
    _say(over=True)


def check_forms(setting: Setting, item: Item) -> Iterator[str | None]:
    """Yield, for each form at each size, what is wrong with it, or None."""
    for sizes in item.sizes:
        problem = problem_of(setting, item, sizes)
        configs = one_of_each_form(problem)
        sources = []
        for config in configs:
            try:
                sources.append((config, problem.emit(config)))
            except ScheduleError:
                continue
            except Exception as error:
                yield f"{item.name} {dict(sizes)} {config}: {_text(error)}"
        bench = CudaBench(problem.case(), setting.device, problem.program, is_warm=True)
        for number, built in problem.builder.build([s for _, s in sources], len(sources)):
            where = f"{item.name} {dict(sizes)} {sources[number][0]}"
            if not isinstance(built, Built):
                yield None if built.reason == "resources" else f"{where}: {built.detail}"
                continue
            try:
                bench.load(built.load)
            except DeviceError:  # the device is of no use any more
                raise
            except Exception as error:
                yield f"{where}: {_text(error)}"
            else:
                yield None


def one_of_each_form(problem: CudaProblem) -> list[Config]:
    """Return the default, and the nearest config of each branch of the space to it."""
    space = problem.space
    nearest = (branch.nearest(space.default) for branch in space.branches)
    legal = (c for c in nearest if space.is_legal(c))
    return list(dict.fromkeys(itertools.chain([space.default], legal)))[:_MOST_CONFIGS]


def problem_of(setting: Setting, item: Item, sizes: Mapping[str, int]) -> CudaProblem:
    """Return an item as a tuning problem, whose case has arguments and answers."""
    checked = item.checked()
    strides: list[tuple[int, ...] | None] = []
    layouts: list[Layout] = []
    for tensor in (*checked.params, *checked.returns):
        shape = tuple(s.evaluate(sizes) for s in tensor.shape)
        array = np.zeros(shape, numpy_dtype(tensor.dtype))
        if tensor in checked.params:
            array = viewed(array, item.view)
        layout = layout_of(array)
        layouts.append(layout)
        strides.append(None if layout.contiguous else element_strides(array))
    values = tuple((name, sizes[name]) for name in checked.sizes)
    return CudaProblem(checked, Spec(values, tuple(layouts), 0), strides, device=setting.device)


def check_calls(setting: Setting, item: Item) -> list[str]:
    """Call an item's kernel at all its sizes; return what is wrong with the results."""
    made = tc.define(item.text, item.def_name, tune="off", check="sync")
    assert isinstance(made, Kernel)
    faults = []
    for sizes in item.sizes:
        try:
            case = problem_of(setting, item, sizes).case()
            found = _call_faults(setting, made, case)
        except DeviceError:
            raise
        except Exception as error:
            found = [_text(error)]
        faults += [f"call of {item.name} {dict(sizes)}: {fault}" for fault in found]
    return faults


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _call_faults(setting: Setting, kernel: Kernel, case: Case) -> list[str]:
    values: list[Any] = []
    for operand, data in zip(case.operands, case.data, strict=True):
        if operand.role == "scalar" and data is not None:
            values.append(data[()])
            continue
        array = _array_of(operand.shape, operand.element_strides, data, operand.dtype)
        values.append(setting.place(operand.name, array, operand.role))
    count = len(kernel.params)
    args = [v if isinstance(v, np.generic) else v.view for v in values[:count]]
    outs = [v.view for v in values[count:]]
    with setting.device.active():
        kernel(*args, out=outs if len(outs) > 1 else outs[0])
    faults = []
    for placed, operand in zip(values, case.operands, strict=True):
        if operand.role != "scalar" and (damage := placed.read()[1]):
            faults.append(f"'{operand.name}': {damage}")
    for placed, expected, name in zip(values[count:], case.expected, kernel.returns, strict=True):
        if message := difference(placed.read()[0], expected):
            faults.append(f"'{name}': {message}")
    return faults


def _array_of(
    shape: tuple[int, ...], steps: tuple[int, ...], data: Array | None, dtype: str
) -> Array:
    """Return an array with these strides, in elements."""
    kind = dtype_named(dtype)
    ends = [(n - 1) * s for n, s in zip(shape, steps, strict=True)] if 0 not in shape else []
    low = sum(e for e in ends if e < 0)
    room = np.zeros((sum(e for e in ends if e > 0) - low + 1) * kind.itemsize, np.uint8)
    strides = tuple(s * kind.itemsize for s in steps)
    array: Array = np.ndarray(shape, kind, room.data, -low * kind.itemsize, strides)
    if data is not None and array.size:
        array[...] = data
    return array


def _say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


# ---- in the parent


def checks(setting: Setting, seconds: float) -> dict[str, Any]:
    """Return how many kernels and programs are right, and what is wrong with the others."""
    lanes = 1 if setting.is_simulated else _LANES
    found = run_children(setting, seconds, {"quick": False}, lanes=lanes)
    wrong, state = len(found["faults"]), "" if found["is_complete"] else ", more not reached"
    print(f"  {found['programs']} programs, {found['kernels']} kernels, {wrong} faults{state}")
    for fault in found["faults"][:20]:
        print(f"  {fault.splitlines()[0]}")
    if not found["kernels"]:
        found["error"] = "no kernel was checked"
    return found
