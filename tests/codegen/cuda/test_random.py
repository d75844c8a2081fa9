"""Random programs with random schedules give what the reference gives, in the simulator."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.device.hostplan import plan
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.gpu import Gpu, gpu_of
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.harness import Problem, spec_of
from tests.codegen.programs import problem_of
from tests.codegen.random_programs import random_program
from tests.cusim.harness import differential, lowered
from tests.cusim.simulator import Order
from tests.tiers import sampled

_TRIES = 20
_THREADS = 50_000  # of all kernels of a call: what the simulator runs in a second


def random_config(problem: Problem, exact: bool, gpu: Gpu, rng: np.random.Generator) -> Config:
    """Return any legal values of all knobs."""
    spec = spec_of(problem, exact=exact, threads=0)
    choices = compiler.choices(problem.program, spec, gpu, problem.sizes)
    for _ in range(_TRIES):
        partition = list(choices)[int(rng.integers(len(choices)))]
        values: dict[str, Value] = {"partition": partition}
        for i, forms in enumerate(choices[partition]):
            form = forms[int(rng.integers(len(forms)))]
            values[f"g{i}.form"] = form.name
            for knob in form.knobs:
                values[f"g{i}.{knob.name}"] = knob.values[int(rng.integers(len(knob.values)))]
        config = Config.of(values)
        try:
            unit = lowered(problem, config, exact=exact, gpu=gpu)
        except ScheduleError:  # values that do not go together
            continue
        if sum(x.blocks * x.threads for x in plan(unit, problem.sizes).starts) > _THREADS:
            continue
        return config
    return Config()


def _trials(seed: int, programs: int) -> list[tuple[Problem, Config, bool, Gpu]]:
    rng = np.random.default_rng(seed)
    archs = cycle(("sm_90", "sm_80"))
    found = []
    for _ in range(programs):
        entry = random_program(rng)
        for k, sizes in enumerate(entry.sizes):
            problem, exact, gpu = problem_of(entry, sizes, rng), k == 0, gpu_of(next(archs))
            found.append((problem, random_config(problem, exact, gpu, rng), exact, gpu))
    return found


@pytest.mark.wide
@pytest.mark.cusim
@sampled(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.deep) for n in range(3, 60))], keep=1
)
def test_random_programs_in_the_simulator(seed: int) -> None:
    for problem, config, exact, gpu in _trials(seed, programs=3):
        orders: tuple[Order, ...] = ("forward", "reverse") if seed % 2 else ("reverse", "random")
        differential(problem, config, exact=(exact,), gpu=gpu, orders=orders, terms=400)


@pytest.mark.deep
@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.deep) for n in range(1, 20))]
)
def test_nvrtc_takes_random_programs_without_a_warning(seed: int) -> None:
    for problem, config, exact, gpu in _trials(seed, programs=2):
        text = compiler.emit_cuda(lowered(problem, config, exact=exact, gpu=gpu))
        assert not compile_cuda(text, gpu.arch, name="k").warnings, text
