"""Kernels on a GPU as tuning problems: keys, cubins, and candidates on the simulated device."""

from __future__ import annotations

import math
import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tcdsl.autotune.measure import Measurement
from tcdsl.autotune.report import Silent
from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.search.cost_model import leaders
from tcdsl.autotune.store import best
from tcdsl.autotune.store.store import TuningStore
from tcdsl.autotune.store.trial import Failure
from tcdsl.autotune.targets.cuda.bench import CudaBench
from tcdsl.autotune.targets.cuda.builder import Cubins
from tcdsl.autotune.targets.cuda.problem import CudaProblem, key_of
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker.bench import WrongAnswerError
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.toolchain.nvrtc import Cubin
from tcdsl.grammar.text.errors import CompileError, DeviceError, ScheduleError
from tests.autotune.programs import FCRELU, checked
from tests.autotune.sim_gpu import SimDevice
from tests.autotune.sim_problem import SCALE, faulty, kind, simulated
from tests.codegen.programs import PROGRAMS
from tests.tiers import sampled

SIZES = {"B": 5, "M": 18, "N": 7}

# ---- keys


@pytest.mark.nvrtc
def test_keys_of_two_devices_drivers_and_ways_of_timing_differ() -> None:
    target = simulated(FCRELU, SIZES)
    gpus = [
        target.gpu,
        gpu_of("sm_80"),
        replace(target.gpu, name="other"),
        replace(target.gpu, driver=1),
    ]
    keys = [key_of(target.checked, target.spec, g) for g in gpus]
    keys.append(key_of(target.checked, target.spec, target.gpu, is_warm=True))
    assert len({k.digest for k in keys}) == len(keys)
    assert keys[0].target.startswith("cuda sm_90 H200 driver ")
    assert keys[0].compiler.startswith("nvrtc ")


@sampled("name", PROGRAMS, keep=15)
def test_the_default_lies_in_the_space_and_has_a_cost(name: str) -> None:
    space = simulated(PROGRAMS[name].text, PROGRAMS[name].sizes[0]).space
    assert space.holds(space.default)
    assert 0 <= space.cost_ns(space.default) < math.inf


@sampled("name", ["matmul", "fcrelu", "half", "softmax", "transpose", "total"], keep=3)
def test_what_the_model_likes_best_can_be_lowered(name: str) -> None:
    target = simulated(PROGRAMS[name].text, PROGRAMS[name].sizes[0])
    for config in leaders(target.space, random.Random(0), 16, set()):
        target.emit(config)


# ---- cubins


def test_candidates_compile_at_the_same_time() -> None:
    target = simulated(SCALE, {"N": 300})
    meeting = threading.Barrier(2)

    def compile_one(source: Emitted) -> Cubin:
        meeting.wait(timeout=600)
        raise CompileError("it is not the point")

    sources = [target.emit(target.space.default)] * 2
    ended = dict(Cubins(compile_one, target.gpu, target.sizes).build(sources, 2))
    assert ended == dict.fromkeys((0, 1), Failure("compile", "it is not the point"))


@pytest.mark.nvrtc
def test_the_report_of_ptxas_sorts_out_what_cannot_start_and_tells_of_spills() -> None:
    target = faulty()
    kinds = ("right", "too large", "spills")
    ended = dict(target.builder.build([target.emit(kind(k)) for k in kinds], 3))
    right, large, spills = (ended[i] for i in range(3))
    assert isinstance(right, Built)
    assert right.objection is None
    assert isinstance(large, Failure)
    assert large.reason == "resources"
    assert "307200 bytes of shared memory" in large.detail
    assert isinstance(spills, Built)
    assert "greedy spills" in str(spills.objection)


@pytest.mark.nvrtc
def test_equal_kernels_of_different_text_are_equal_machine_code() -> None:
    target = faulty()
    source = target.emit(kind("right"))
    other = replace(source, text=f"/* another config */\n{source.text}")
    digests = {
        b.digest for _, b in target.builder.build([source, other], 2) if isinstance(b, Built)
    }
    assert len(digests) == 1


@pytest.mark.nvrtc
def test_a_text_that_nvrtc_refuses_fails_alone() -> None:
    target = faulty()
    source = target.emit(kind("right"))
    bad = replace(source, text=source.text + "this is no CUDA")
    ended = dict(target.builder.build([bad, source], 2))
    assert isinstance(ended[0], Failure)
    assert ended[0].reason == "compile"
    assert "this is no CUDA" in ended[0].detail
    assert isinstance(ended[1], Built)


# ---- on the simulated device

REASONS = {
    "wrong": ("wrong", "output 'y': expected"),
    "outside": ("crash", "DeviceError: out of bounds"),
    "endless": ("slow", "no answer in"),
    "spills": ("resources", "greedy spills"),
    "too large": ("resources", "fits on a multiprocessor"),
}


@pytest.mark.deep
@pytest.mark.nvrtc
@pytest.mark.cusim
def test_each_fault_costs_its_candidate_only(tmp_path: Path) -> None:
    target = faulty()
    with (
        TuningStore(tmp_path / "t.db") as store,
        Measurement(target, store, Budget(8.0, clock=lambda: 0.0), Silent()) as measure,
    ):
        (before,) = measure([kind("right")], "start")
        ended = {t.config: t for t in measure([kind(k) for k in REASONS], "all")}
        (again,) = measure([kind("right")], "again")  # its end is known: it is not run again
        assert again.config == before.config
        assert not again.reason
    for name, (reason, detail) in REASONS.items():
        trial = ended[kind(name)]
        assert (trial.reason, detail in trial.detail) == (reason, True), trial


@pytest.mark.nvrtc
@pytest.mark.cusim
def test_a_search_on_the_device_finds_a_config_that_later_calls_find(tmp_path: Path) -> None:
    target = simulated("def add(float(N) a, float(N) b) -> (c) { c(n) = a(n) + b(n) }", {"N": 99})
    cache = tmp_path / "t.db"
    (tuned,) = tune([target], cache=cache, trials=2)
    found = best.lookup(cache, target.key)
    assert found is not None
    assert found.config == tuned.config
    assert tuned.trials == 2


def faults(target: CudaProblem, configs: list[Config]) -> list[str]:
    """Return what the tuner's check has against configs; nothing where a form refuses one."""
    made = CudaBench(target.case(), SimDevice(0), target.program, is_warm=False)
    sources, found = [], []
    for config in configs:
        try:
            sources.append(target.emit(config))
        except ScheduleError:
            continue
    # In their order, whichever is compiled first: what breaks the device comes last.
    for number, built in sorted(target.builder.build(sources, len(sources)), key=lambda b: b[0]):
        if isinstance(built, Failure):
            if built.reason != "resources":
                found.append(f"{sources[number].text}: {built.detail}")
            continue
        try:
            made.load(built.load)
        except (WrongAnswerError, DeviceError) as error:
            found.append(f"{sources[number].text}: {error}")
    return found


@pytest.mark.nvrtc
@pytest.mark.cusim
def test_the_check_on_the_device_finds_wrong_answers_and_reads_outside() -> None:
    found = faults(faulty(), [kind("wrong"), kind("outside")])
    assert len(found) == 2
    assert any("output 'y': expected" in f for f in found)
    assert any("out of bounds" in f for f in found)


def of_program(name: str) -> CudaProblem:
    entry = PROGRAMS[name]
    return simulated(entry.text, entry.sizes[0])


@pytest.mark.nvrtc
@pytest.mark.cusim
@sampled("name", ["update", "gather", "scalar_bound", "half"], keep=2)
def test_the_default_config_passes_the_check(name: str) -> None:
    target = of_program(name)
    assert faults(target, [target.space.default]) == []


@pytest.mark.deep
@pytest.mark.nvrtc
@pytest.mark.cusim
@pytest.mark.parametrize("name", PROGRAMS)
def test_random_configs_pass_the_check_or_are_refused(name: str) -> None:
    target = of_program(name)
    rng = random.Random(name)
    drawn = [c for _ in range(6) if (c := target.space.sample(rng)) is not None]
    assert faults(target, [target.space.default, *drawn]) == []


@pytest.mark.nvrtc
@pytest.mark.cusim
def test_strided_operands_are_checked_and_timed_with_their_strides() -> None:
    definition = checked("def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = A(n,m) * B(n,m) }")
    transposed = Layout(2, False, 0, (), (False,))
    repeated = Layout(2, False, 1, (0,), (False,))
    spec = Spec((("N", 7), ("M", 9)), (transposed, repeated, Layout(2, True, 1)), 0)
    strides = ((1, 8), (0, 1), None)
    target = CudaProblem(definition, spec, strides, device=SimDevice(0))
    assert faults(target, [target.space.default]) == []
