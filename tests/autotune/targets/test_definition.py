"""Compiled definitions as tuning problems: key, space, case, candidates that pass the check."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcdsl.autotune.search.cost_model import choose
from tcdsl.autotune.store.trial import Failure
from tcdsl.autotune.targets.cpu.key import key_of
from tcdsl.autotune.targets.cpu.problem import CpuProblem, _known_peaks, machine_peaks
from tcdsl.autotune.targets.expected import without_jumps
from tcdsl.autotune.tuner import tune
from tcdsl.autotune.worker import bench
from tcdsl.autotune.worker.case import Expected
from tcdsl.autotune.worker.process import WorkerProcess
from tcdsl.codegen.choose.arrange import arrange
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.grammar.text.errors import ScheduleError
from tests.autotune.programs import FCRELU, SOFTMAX, checked, problem
from tests.codegen.programs import PROGRAMS
from tests.tiers import sampled

pytestmark = pytest.mark.cc

QUICK = ("row", "casts", "truth", "update", "softmax", "fcrelu", "gather", "scalar_bound", "half")


def faults(target: CpuProblem, configs: list[Config]) -> list[str]:
    """Return what the tuner's check has against configs; nothing where a form refuses one."""
    found = []
    with tempfile.TemporaryDirectory() as folder, WorkerProcess(Path(folder)) as worker:
        target.case().save(Path(folder))
        bench.save(Path(folder), target.bench)
        for i, config in enumerate(configs):
            try:
                source = target.emit(config)
            except ScheduleError:
                continue
            ((_, built),) = target.builder.build([source], 1)
            if isinstance(built, Failure):
                found.append(f"{config}: {built.detail}")
                continue
            request = {"do": "check", "row": i, "code": built.load, "is_known": False}
            if "own_s" not in (answer := worker.ask(60, request)):
                found.append(f"{config}: {answer}")
    return found


def of_program(name: str) -> CpuProblem:
    entry = PROGRAMS[name]
    return problem(entry.text, entry.sizes[0], threads=2)


@sampled("name", QUICK, keep=2)
def test_the_default_config_passes_the_check(name: str) -> None:
    target = of_program(name)
    assert faults(target, [target.space.default]) == []


@pytest.mark.deep
@pytest.mark.parametrize("name", PROGRAMS)
def test_random_configs_pass_the_check_or_are_refused(name: str) -> None:
    target = of_program(name)
    rng = random.Random(name)
    drawn = [c for _ in range(6) if (c := target.space.sample(rng)) is not None]
    assert faults(target, [target.space.default, *drawn]) == []


@sampled("name", PROGRAMS, keep=15)
def test_the_default_lies_in_the_space_and_has_a_cost(name: str) -> None:
    space = of_program(name).space
    assert space.holds(space.default)
    assert 0 <= space.cost_ns(space.default) < math.inf


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        pytest.param(
            "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
            (40, 48, 56),
            marks=pytest.mark.wide,
        ),
        ("def mt(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }", (4, 300, 64)),
    ],
)
def test_what_a_space_calls_legal_is_emitted(text: str, sizes: tuple[int, ...]) -> None:
    definition = checked(text)
    one = problem(text, dict(zip(definition.sizes, sizes, strict=True)), threads=2)
    contractions = [b for b in one.space.branches if "contraction" in dict(b.fixed).values()]
    space = replace(one.space, branches=tuple(contractions))
    rng = random.Random(0)
    for config in {space.sample(rng) for _ in range(60)}:
        assert config is not None
        one.emit(config)  # not refused


def test_a_space_has_a_branch_for_each_partition_and_form() -> None:
    branches = problem(FCRELU, {"B": 100, "M": 128, "N": 100}).space.branches
    fixed = [dict(b.fixed) for b in branches]
    assert len({tuple(f.items()) for f in fixed}) == len(fixed)
    assert {f["g0.form"] for f in fixed} >= {"contraction", "nest"}
    assert len({f["partition"] for f in fixed}) > 1


@pytest.mark.wide
@pytest.mark.parametrize(
    ("text", "sizes"),
    [(FCRELU, {"B": 20, "M": 33, "N": 40}), (SOFTMAX, {"N": 60, "D": 100})],
)
def test_a_text_does_not_depend_on_what_was_lowered_before(
    text: str, sizes: dict[str, int]
) -> None:
    target = problem(text, sizes, threads=2)
    rng = random.Random(1)
    drawn = [c for _ in range(12) if (c := target.space.sample(rng)) is not None]

    def texts(configs: Sequence[Config]) -> dict[Config, str]:
        arrange.cache_clear()  # and with it all that the contexts of groups know
        return {c: lowered(target, c) for c in configs}

    alone = {c: t for one in drawn for c, t in texts([one]).items()}
    assert texts(drawn) == texts(drawn[::-1]) == alone


def lowered(target: CpuProblem, config: Config) -> str:
    """Return the text of a config, or why there is none."""
    target.space.cost_ns(config)
    try:
        return target.emit(config).text
    except ScheduleError as error:
        return str(error)


@pytest.mark.wide
def test_a_tuned_softmax_is_right_and_not_slower_than_the_default(tmp_path: Path) -> None:
    target = problem(SOFTMAX, {"N": 60, "D": 100})
    (tuned,) = tune([target], cache=tmp_path / "t.db", trials=12)
    assert tuned.verdict.time_ns <= tuned.verdict.default_ns
    assert target.space.holds(tuned.config)


def strided() -> CpuProblem:
    definition = checked("def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = A(n,m) * B(n,m) }")
    transposed = Layout(2, False, 0, (), (False,))
    repeated = Layout(2, False, 1, (0,), (False,))
    plain = Layout(2, True, 1)
    spec = Spec((("N", 70), ("M", 90)), (transposed, repeated, plain), 1)
    return CpuProblem(definition, spec, strides=((1, 75), (0, 1), None))


def test_strided_operands_are_checked_with_their_strides() -> None:
    target = strided()
    assert faults(target, [target.space.default]) == []


@pytest.mark.wide
def test_strided_operands_are_timed_with_their_strides(tmp_path: Path) -> None:
    target = strided()
    (tuned,) = tune([target], cache=tmp_path / "t.db", trials=3)
    assert tuned.verdict.time_ns < math.inf


def test_keys_of_two_layouts_sizes_threads_differ() -> None:
    target = problem(FCRELU, {"B": 4, "M": 5, "N": 6})
    spec = target.spec
    strided = replace(spec, layouts=(Layout(2, False, 0), *spec.layouts[1:]))
    specs = [spec, strided, replace(spec, threads=2), replace(spec, sizes=(("B", 4),))]
    keys = [key_of(target.checked, s, target.machine).digest for s in specs]
    assert len(set(keys)) == len(keys)


def test_an_untuned_size_takes_a_neighbours_config_only_where_the_model_prefers_it() -> None:
    from tcdsl.autotune.store.best import Best

    space = problem(FCRELU, {"B": 100, "M": 128, "N": 100}).space
    rng = random.Random(0)
    drawn = [c for _ in range(50) if (c := space.sample(rng)) is not None]
    default_ns = space.cost_ns(space.default)
    worse = [c for c in drawn if space.cost_ns(c) > default_ns]
    tuned = [Best("p", "f", (1,), c, 1.0, 2.0) for c in worse]
    assert choose(space, tuned) == space.default
    foreign = Best("p", "f", (1,), Config.of({"g0.tile": "99x9"}), 1.0, 2.0)
    assert choose(space, [foreign]) == space.default
    flat = replace(space, cost_ns=lambda c: 1.0 if c == worse[0] else 2.0)
    assert choose(flat, [foreign, *tuned]) == worse[0]


def test_positions_where_the_reference_itself_jumps_are_left_out() -> None:
    expected = Expected(np.array([1.0, 2.0, 3.0]), None, 1e-6, 1e-6)
    rounded = np.array([1.0, 7.0, 3.0], np.float32)
    kept = without_jumps(expected, rounded)
    assert kept.positions is not None
    assert kept.positions.tolist() == [0, 2]
    assert kept.values.tolist() == [1.0, 3.0]
    chosen = replace(expected, positions=np.array([4, 5, 6]))
    everywhere = np.zeros(8, np.float32)
    everywhere[[4, 5, 6]] = rounded
    positions = without_jumps(chosen, everywhere).positions
    assert positions is not None
    assert positions.tolist() == [4, 6]


@pytest.mark.parametrize(
    "kept", [None, 3, "x", [1], [1, 2], ["a", 2, 1], [1e300, 1, 1], [float("nan"), 1, 1]]
)
def test_peaks_that_no_machine_has_are_not_believed(kept: object) -> None:
    assert _known_peaks(kept) == (0, 0, 0)
    assert _known_peaks([100.5, 20, 2]) == (100.5, 20, 2)


def test_peaks_are_measured_by_the_first_few_processes_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    peaks = iter((100.0, 300.0, 200.0))
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path))
    module = "tcdsl.codegen.toolchain.peak"
    monkeypatch.setattr(f"{module}.measure_peak", lambda *_: next(peaks))
    monkeypatch.setattr(f"{module}.measure_bandwidth", lambda *_: 20.0)
    found = []
    for _ in range(5):
        machine_peaks.cache_clear()
        found.append(machine_peaks(1))
    machine_peaks.cache_clear()
    assert found == [(100.0, 20.0), *[(300.0, 20.0)] * 4]


def test_the_peaks_of_the_machine_only_grow() -> None:
    first = machine_peaks(1)
    machine_peaks.cache_clear()
    second = machine_peaks(1)
    assert all(0 < a <= b for a, b in zip(first, second, strict=True))
