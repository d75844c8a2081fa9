"""Profiles name the kernels that ran, their work and the blocks around them."""

from __future__ import annotations

import gc
import gzip
import json
import multiprocessing
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl import library, nn, optim, profiler
from tcdsl.autograd import profiler as older
from tcdsl.codegen import runtime
from tcdsl.profiler import (
    FunctionEvent,
    ProfilerAction,
    profile,
    record_function,
    schedule,
    tracing,
)

pytestmark = pytest.mark.cc

MM = "def product(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"


@pytest.fixture(scope="module")
def product() -> tc.Kernel:
    return tc.define(MM)


def kernels(prof: profile) -> list[FunctionEvent]:
    """Return the calls, without waits for executables."""
    return [e for e in prof.events() if not e.name.startswith("prepare ")]


def calls(prof: profile) -> dict[str, int]:
    return {e.key: e.count for e in prof.key_averages() if not e.key.startswith("prepare ")}


def test_a_call_is_told_with_its_shapes_and_the_work_that_its_text_counts(
    product: tc.Kernel,
) -> None:
    a, b = np.ones((5, 7), np.float32), np.ones((7, 3), np.float32)
    with profile() as prof:
        for _ in range(3):
            product(a, b)
        product(b.T, a.T)
    events = kernels(prof)
    assert [e.name for e in events] == ["product"] * 4
    assert [e.input_shapes for e in events] == [((5, 7), (7, 3))] * 3 + [((3, 7), (7, 5))]
    assert all(e.flops == product.flops(a, b) == 2 * 5 * 7 * 3 for e in events)
    assert events[0].work == (product.flops(a, b), product.bytes(a, b))
    assert all(0 < e.cpu_time < prof.events().wall_ns / 1e3 for e in events)
    sums = prof.key_averages(group_by_input_shape=True)
    assert [e.count for e in sums if e.is_kernel] == [3, 1]


def test_ways_back_optimizers_and_other_types_are_told_too() -> None:
    layer = nn.Linear(3, 2)
    optimizer = optim.SGD(layer.parameters(), 0.1)
    x = library.ones(4, 3)
    with profile() as prof:
        layer(x).sum().backward()
        optimizer.step()
        library.ones(3, dtype=library.int32) + 1
    found = calls(prof)
    assert {"linear_bias", "d_linear_bias", "sum", "sgd", "add"} <= found.keys()
    assert all(e.flops for e in prof.key_averages() if e.key in ("linear_bias", "sgd", "add"))


def test_work_that_numbers_decide_is_not_told() -> None:
    first = tc.define("def first(float(N) A, int32 K) -> (S) { S +=! A(k) where k in 0:K }")
    a = np.ones(9, np.float32)
    with profile() as prof:
        first(a, 4)
    (event,) = kernels(prof)
    assert event.work is None
    assert event.flops == 0
    assert "GFLOP/s" not in prof.key_averages().table()


def test_blocks_have_what_ran_within_them(product: tc.Kernel) -> None:
    a = np.ones((64, 64), np.float32)
    product(a, a)

    @record_function("inner")
    def inner() -> None:
        product(a, a)

    with profile() as prof, record_function("outer"):
        inner()
        inner()
    sums = {e.key: e for e in prof.key_averages()}
    outer, within, kernel = (sums[n] for n in ("outer", "inner", "product"))
    assert [e.name for e in kernels(prof)] == ["outer", *["inner", "product"] * 2]
    assert within.count == kernel.count == 2
    assert kernel.self_cpu_time_total == kernel.cpu_time_total > 0
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - within.cpu_time_total)
    whole = prof.key_averages().self_cpu_time_total
    assert whole == pytest.approx(outer.cpu_time_total)
    top = prof.events().table(top_level_events_only=True)
    assert "outer" in top
    assert "inner" not in top


def test_blocks_that_end_one_after_the_other_have_no_time_below_0() -> None:
    def block(name: str) -> Iterator[None]:
        with record_function(name):
            yield

    with profile() as prof:
        one, two = block("one"), block("two")
        next(one)
        next(two)
        assert [*one] == []
        time.sleep(0.002)
        assert [*two] == []
    events = {e.name: e for e in prof.events()}
    assert all(e.self_cpu_time_total >= 0 for e in events.values())
    assert events["two"].self_cpu_time_total > 1000


def test_a_block_may_end_while_recordings_change(product: tc.Kernel) -> None:
    with profile() as prof, tracing._lock, record_function("by a finalizer"):
        pass  # which ran within
    assert [e.name for e in prof.events()] == ["by a finalizer"]


def test_a_step_behind_the_end_records_nothing(product: tc.Kernel) -> None:
    with profile() as prof:
        prof.step()
    prof.step()
    assert not tracing.is_recording()


def test_sums_are_summed_and_all_at_the_top(product: tc.Kernel) -> None:
    a = np.ones((2, 2), np.float32)
    product(a, a)
    with profile() as prof:
        product(a, a)
        product(a, a)
    sums, whole = prof.key_averages(), prof.events().total_average()
    assert sums.total_average().count == whole.count == 2
    assert sums.total_average().flops == whole.flops > 0
    assert [e.count for e in sums.key_averages()] == [2]
    assert "product" in sums.table(top_level_events_only=True)
    with profile() as prof:
        pass
    assert prof.key_averages().total_average().cpu_time == 0


@pytest.mark.parametrize("kind", [profile, older.profile])
def test_what_is_told_holds_no_kernel(kind: Any) -> None:
    kernel = tc.define(MM.replace("product", "held"))
    a = np.ones((2, 2), np.float32)
    with kind() as prof:
        kernel(a, a)
    held = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert held() is None
    assert "held" in prof.key_averages().table()


def test_listeners_hear_what_runs_while_they_listen(product: tc.Kernel) -> None:
    a = np.ones((2, 2), np.float32)
    with profile() as whole:
        product(a, a)
        with profile() as part:
            other = threading.Thread(target=lambda: product(a, a))
            other.start()
            other.join()
        product(a, a)
    product(a, a)
    assert calls(whole) == {"product": 3}
    assert calls(part) == {"product": 1}
    assert part.events()[0].thread != whole.events()[0].thread
    assert runtime.traced() == ((), 0)


def test_a_form_that_is_new_and_outputs_of_the_caller_are_heard(product: tc.Kernel) -> None:
    a, out = np.ones((3, 11), np.float32), np.empty((3, 2), np.float32)
    with profile() as prof:
        product(a, np.ones((11, 2), np.float32), out=out)
        product(a[:, ::2], np.ones((6, 2), np.float32))
    events = prof.events()
    assert [e.input_shapes[0] for e in events if e.is_kernel] == [(3, 11), (3, 6)]
    assert {e.name for e in events} == {"product", "prepare product"}


def test_steps_are_recorded_as_the_schedule_says(product: tc.Kernel) -> None:
    a = np.ones((2, 2), np.float32)
    ready: list[list[tuple[str, int]]] = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=lambda p: ready.append([*calls(p).items()])) as prof:
        for _ in range(10):
            product(a, a)
            prof.step()
    assert ready == [
        [(f"ProfilerStep#{n}", 1), ("product", 2), (f"ProfilerStep#{n + 1}", 1)] for n in (2, 6)
    ]


def test_a_recording_that_its_block_ends_is_kept(product: tc.Kernel) -> None:
    a = np.ones((2, 2), np.float32)
    prof = profile(schedule=schedule(wait=0, warmup=0, active=5))
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        prof.events()

    def fail() -> None:
        with prof:
            product(a, a)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert calls(prof)["product"] == 1


@pytest.mark.torch
def test_schedules_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for repeat in (0, 2):
        for skip in (0, 3):
            given = {"wait": 2, "warmup": 1, "active": 3, "repeat": repeat, "skip_first": skip}
            ours, theirs = schedule(**given), torch.profiler.schedule(**given)
            assert [ours(n).name for n in range(25)] == [theirs(n).name for n in range(25)]
    assert all(a.value == torch.profiler.ProfilerAction[a.name].value for a in ProfilerAction)
    with pytest.raises(ValueError, match="active from 1 on"):
        schedule(wait=0, warmup=0, active=0)


def test_a_table_is_sorted_cut_and_says_what_it_leaves_out(product: tc.Kernel) -> None:
    a = np.ones((2, 2), np.float32)
    for n in (2, 3):
        product(np.ones((n, n), np.float32), np.ones((n, n), np.float32))
    with profile() as prof:
        for n in (2, 3, 3, 3):
            with record_function(f"block of a very long name {n}"):
                product(np.ones((n, n), np.float32), np.ones((n, n), np.float32))
        product(a, a)
    sums = prof.key_averages()
    lines = sums.table(sort_by="count", row_limit=2, max_name_column_width=12).splitlines()
    assert lines[1].split()[0] == "Name"
    assert lines[3].split()[:1] == ["product"]
    assert lines[4].startswith("block of ...")
    assert lines[-1] == "1 more rows"
    assert sums.table(header="of today").startswith("of today\n")
    assert "[[3, 3], [3, 3]]" in prof.key_averages(True).table()
    with pytest.raises(ValueError, match=r"expected one of cpu_time, .* got 'cuda_time_total'"):
        sums.table(sort_by="cuda_time_total")


def test_traces_are_files_for_chrome(product: tc.Kernel, tmp_path: Path) -> None:
    a = np.ones((2, 3), np.float32)
    product(a, a.T)
    handler = profiler.tensorboard_trace_handler(tmp_path / "logs", use_gzip=True)
    with profile(on_trace_ready=handler) as prof, record_function("block"):
        product(a, a.T)
    prof.export_chrome_trace(tmp_path / "trace.json")
    (packed,) = (tmp_path / "logs").iterdir()
    texts = (gzip.decompress(packed.read_bytes()), (tmp_path / "trace.json").read_bytes())
    for rows in (json.loads(text)["traceEvents"] for text in texts):
        assert [(e["ph"], e["cat"], e["name"]) for e in rows] == [
            ("X", "user_annotation", "block"),
            ("X", "kernel", "product"),
        ]
        assert rows[1]["args"] == {"Input Dims": [[2, 3], [3, 2]], "flops": 24, "bytes": 64}
        assert rows[0]["ts"] <= rows[1]["ts"]


def _in_child(queue: Any, product: tc.Kernel) -> None:
    a = np.ones((2, 2), np.float32)
    product(a, a)
    queue.put((runtime.traced(), profiler.tracing.is_recording()))


def test_a_forked_child_records_nothing(product: tc.Kernel) -> None:
    a = np.ones((2, 2), np.float32)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with profile() as prof:
        product(a, a)
        child = context.Process(target=_in_child, args=(queue, product))
        child.start()
        told = queue.get(timeout=60)
        child.join()
    assert told == (((), 0), False)
    assert calls(prof) == {"product": 1}


def test_what_is_not_recorded_is_warned_of() -> None:
    activities = [profiler.ProfilerActivity.CUDA]
    with pytest.warns(UserWarning, match="calls on a GPU are not recorded"):
        profile(activities=activities)
    with pytest.warns(UserWarning, match="with_stack=True has no meaning here"):
        profile(with_stack=True, record_shapes=True)


def test_the_older_profiler_has_its_names(product: tc.Kernel) -> None:
    a = np.ones((2, 2), np.float32)
    product(a, a)  # what a first call waits for is an event, too
    with older.profile() as prof, older.record_function("block"):
        product(a, a)
    assert [e.name for e in prof.function_events] == ["block", "product"]
    assert prof.total_average().count == 2
    assert prof.total_average().self_cpu_time_total == pytest.approx(prof.self_cpu_time_total)
    assert "product" in str(prof)
    with pytest.raises(RuntimeError, match="not reentrant"), prof:
        pass
    with older.profile(enabled=False) as idle:
        product(a, a)
    with pytest.raises(RuntimeError, match="didn't finish"):
        idle.table()
