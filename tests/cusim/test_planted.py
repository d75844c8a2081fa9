"""Every kind of mistake, planted, is found and named with its line; `<-` marks that line."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest

from tests.cusim.harness import Block, far_array
from tests.cusim.kernels import Kernel, run, text_of
from tests.cusim.report import Finding
from tests.cusim.simulator import Module, Order, Simulator

pytestmark = pytest.mark.cusim


@dataclass(frozen=True, slots=True)
class Planted:
    kind: str
    kernel: Kernel


def _bug(
    kind: str, body: str, *, blocks: int = 1, threads: int = 64, shared_bytes: int = 0
) -> Planted:
    return Planted(kind, Kernel(body, blocks, threads, shared_bytes))


_LAST_BLOCK = """
__shared__ tc_u32 seen;
work[tc_point()] = x[tc_point()];
{before}
if (t == 0) {{
  {count}
}}
tc_barrier();
if (seen == (tc_u32)tc_blocks() - 1)
  for (int i = 0; i < 4; i++)
    y[t * 4 + i] = work[t * 4 + i]; // <-
"""
# Counts as a ticket does, and orders nothing.
_RELAXED = """
  tc_u64 c = 0, was;
  while ((was = atomicCAS((tc_u64 *)count, c, c + 1)) != c) c = was;
  seen = (tc_u32)c;
"""

BUGS = {
    # ---- shared memory
    "no_barrier_after_fill": _bug(
        "race",
        """
__shared__ float s[64];
s[t] = x[t];
y[t] = s[t ^ 32]; // <-
""",
    ),
    "read_before_anyone_writes": _bug(
        "uninitialised",
        """
__shared__ float s[64];
if (t < 32) s[t] = x[t];
tc_barrier();
y[t] = s[t]; // <-
""",
    ),
    "no_barrier_between_rounds": _bug(
        "race",
        """
__shared__ float s[64];
for (int i = 0; i < 2; i++) {
  s[t] = x[t + i]; // <-
  tc_barrier();
  y[t] = s[63 - t];
}
""",
    ),
    "reused_without_barrier": _bug(
        "race",
        """
__shared__ float s[64];
s[t] = x[t];
tc_barrier();
float sum = s[0] + s[63];
s[t] = sum; // <-
tc_barrier();
y[t] = s[63 - t];
""",
    ),
    "two_threads_write_one_element": _bug(
        "race",
        """
__shared__ float s[64];
s[t / 2] = x[t]; // <-
tc_barrier();
y[t] = s[t / 2];
""",
    ),
    "no_warp_barrier": _bug(
        "race",
        """
__shared__ float s[64];
s[t] = x[t];
y[t] = s[t ^ 1]; // <-
""",
        threads=32,
    ),
    "warp_barrier_for_block": _bug(
        "race",
        """
__shared__ float s[64];
s[t] = x[t];
tc_warp_barrier();
y[t] = s[t ^ 32]; // <-
""",
    ),
    "atomic_read_without_barrier": _bug(
        "race",
        """
__shared__ tc_i32 s[1];
if (t == 0) s[0] = 0;
tc_barrier();
tc_atomic_add_i32(&s[0], t);
y[t] = s[0]; // <-
""",
    ),
    "atomic_on_unset": _bug(
        "uninitialised",
        """
__shared__ tc_i32 s[1];
tc_atomic_add_i32(&s[0], t); // <-
y[t] = 0;
""",
    ),
    "index_past_dimension": _bug(
        "index",
        """
__shared__ float s[8][8];
s[t / 8][t % 8] = x[t];
tc_barrier();
y[t] = s[t / 8][t % 8 + 1]; // <-
""",
    ),
    "copy_past_an_array": _bug(
        "out of bounds",
        """
__shared__ __align__(16) float a[126];
tc_copy16(a + 4 * t, x + 4 * t); // <-
y[t] = 0;
""",
        threads=32,
    ),
    "dynamic_overrun": _bug(
        "out of bounds",
        """
float *s = tc_shared_f32();
s[t + 1] = x[t]; // <-
""",
        shared_bytes=256,
    ),
    # ---- barriers and lanes
    "different_barriers": _bug(
        "divergence",
        """
if (t < 32) {
  tc_barrier(); // <-
} else {
  y[t] = 0;
  tc_barrier();
}
y[t] = x[t];
""",
    ),
    "returned_before_barrier": _bug(
        "early exit",
        """
if (t == 40) return;
tc_barrier(); // <-
y[t] = x[t];
""",
    ),
    "barrier_in_one_warps_shuffle": _bug(
        "divergence",
        """
if (t == 3) tc_barrier();
y[t] = tc_shuffle_xor_f32(x[t], 1); // <-
""",
    ),
    "shuffle_by_half_a_warp": _bug(
        "divergence",
        """
if (t % 32 < 16)
  y[t] = tc_shuffle_xor_f32(x[t], 1); // <-
""",
    ),
    "two_shuffles_at_once": _bug(
        "divergence",
        """
if (t % 2)
  y[t] = tc_shuffle_xor_f32(x[t], 1);
else
  y[t] = tc_shuffle_xor_f32(x[t] + 1, 1); // <-
""",
    ),
    "shuffle_beyond_the_warp": _bug("shuffle", "y[t] = tc_shuffle_f32(x[t], 32); // <-"),
    "shuffle_from_missing_lane": _bug(
        "shuffle", "y[t] = tc_shuffle_xor_f32(x[t], 8); // <-", threads=40
    ),
    "mma_by_half_a_warp": _bug(
        "divergence",
        """
float d[4] = {0, 0, 0, 0};
tc_u32 a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
if (t < 16)
  tc_mma_m16n8k16_bf16(d, a, b); // <-
y[t] = d[0];
""",
        threads=32,
    ),
    # ---- buffers
    "past_the_end": _bug("out of bounds", "y[tc_point()] = x[t]; // <-", blocks=5),
    "before_the_begin": _bug("out of bounds", "y[t] = x[t - 1]; // <-"),
    "write_to_input": _bug("read only", "((float *)x)[t] = 1; // <-"),
    "update_of_unset_output": _bug("uninitialised", "y[t] += x[t]; // <-"),
    "poisoned_workspace": _bug("uninitialised", "y[t] = work[t]; // <-"),
    "two_threads_write_one_output": _bug("race", "y[t / 2] = x[t]; // <-"),
    "overlapping_blocks": _bug("race", "y[tc_block() * 32 + t] = x[t]; // <-", blocks=2),
    "other_threads_output": _bug(
        "race",
        """
y[t] = x[t];
work[t] = y[63 - t]; // <-
""",
    ),
    "other_blocks_output": _bug(
        "race",
        """
if (tc_block() == 0) y[t] = x[t];
else work[t] = y[t]; // <-
""",
        blocks=2,
    ),
    "atomics_in_place_of_a_ticket": _bug(
        "race",
        _LAST_BLOCK.format(before="tc_barrier();", count=_RELAXED),
        blocks=4,
    ),
    "no_barrier_before_the_ticket": _bug(
        "race", _LAST_BLOCK.format(before="", count="seen = tc_ticket(count);"), blocks=4
    ),
    # ---- copies
    "misaligned_copy": _bug(
        "misaligned",
        """
float r[4];
tc_copy16(r, x + t); // <-
y[t] = r[0];
""",
    ),
    "misaligned_async_copy": _bug(
        "misaligned",
        """
__shared__ __align__(16) float s[260];
tc_copy_async16(s + 4 * t, x + t, 16); // <-
tc_copy_commit();
tc_copy_wait(0);
y[t] = s[4 * t];
""",
    ),
    "array_without_align": _bug(
        "misaligned",
        """
__shared__ float s[256];
tc_copy16(s + 4 * t, x + 4 * t); // <-
y[t] = s[4 * t];
""",
    ),
    "vector_without_align": _bug(
        "misaligned",
        """
__shared__ float s[4][64];
s[t / 64][t % 64] = x[t];
tc_barrier();
float r[2];
if (t < 32) {
  tc_copy8(r, &s[0][2 * t]); // <-
  y[t] = r[1];
}
""",
    ),
    # ---- ends
    "endless_loop": _bug(
        "endless",
        """
for (tc_i64 i = t; i < n; i += tc_block()) { // <-
  y[t] = x[i]; // <-
}
""",
    ),
    "endless_barriers": _bug(
        "endless",
        """
for (tc_i64 i = 0; i >= 0; i = (i + 1) % 7) { // <-
  tc_barrier(); // <-
}
y[t] = 0;
""",
    ),
    "wait_too_weak": _bug(
        "in flight",
        """
__shared__ __align__(16) float s[2][256];
tc_copy_async16(s[0] + 4 * t, x + 4 * (t % 32), 16);
tc_copy_commit();
tc_copy_async16(s[1] + 4 * t, x + 4 * (t % 32), 16);
tc_copy_commit();
tc_copy_wait(1);
y[t] = s[0][4 * t];
y[t] = s[1][4 * t]; // <-
tc_copy_wait(0);
""",
    ),
    "wait_without_barrier": _bug(
        "race",
        """
__shared__ __align__(16) float s[256];
tc_copy_async16(s + 4 * t, x + 4 * t, 16);
tc_copy_commit();
tc_copy_wait(0);
y[t] = s[(4 * t + 4) % 256]; // <-
""",
    ),
    "copy_into_what_others_read": _bug(
        "race",
        """
__shared__ __align__(16) float s[256];
tc_copy16(s + 4 * t, x + 4 * t);
tc_barrier();
y[t] = s[255 - 4 * t];
tc_copy_async16(s + 4 * t, x + 4 * t, 16); // <-
tc_copy_commit();
tc_copy_wait(0);
""",
    ),
    "copy_unwaited": _bug(
        "unwaited copy",
        """
__shared__ __align__(16) float s[256];
tc_copy_async16(s + 4 * t, x + 4 * t, 16); // <-
tc_copy_commit();
y[t] = x[t];
""",
    ),
    "copy_uncommitted": _bug(
        "unwaited copy",
        """
__shared__ __align__(16) float s[256];
tc_copy_async16(s + 4 * t, x + 4 * t, 16); // <-
tc_copy_wait(0);
y[t] = x[t];
""",
    ),
    "async_copy_to_global": _bug(
        "space",
        """
tc_copy_async4(y + t, x + t, 4); // <-
tc_copy_commit();
tc_copy_wait(0);
""",
    ),
    "ldmatrix_of_global": _bug(
        "space",
        """
tc_u32 r[4];
tc_ldmatrix_x4(r, x + 4 * t); // <-
y[t] = r[0];
""",
        threads=32,
    ),
    # ---- arithmetic
    "index_overflow": _bug(
        "overflow",
        """
const tc_i32 large = (tc_i32)n * 8388607;
const tc_i32 at = large + large + t; // <-
y[t] = x[at & 63];
""",
    ),
    "shift_too_far": _bug("shift", "y[t] = 1 << (t + (tc_i32)n); // <-"),
    "division_by_zero": _bug("division", "y[t] = t / (tc_i32)(n - 256); // <-"),
}
_KERNELS = {name: b.kernel for name, b in BUGS.items()}


@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("name", BUGS)
def test_planted(name: str, order: Order) -> None:
    report = run(_KERNELS, name, order).report
    kinds = report.kinds
    assert BUGS[name].kind in kinds, f"{kinds}\n" + "\n".join(map(str, report.findings))
    lines = {
        s.text for f in report.findings if f.kind == BUGS[name].kind for s in (f.site, f.other) if s
    }
    assert any("// <-" in line for line in lines), "\n".join(map(str, report.findings))


def test_a_race_across_blocks_needs_no_lucky_order(rng: np.random.Generator) -> None:
    for seed in rng.integers(0, 1000, 3):
        assert "race" in run(_KERNELS, "other_blocks_output", "random", seed=int(seed)).report.kinds


@pytest.mark.parametrize("greatest", ["max", "min"])
@pytest.mark.parametrize("kind", ["float", "double", "tc_i32", "tc_i64"])
def test_an_accumulator_that_nobody_began_gives_a_wrong_result(greatest: str, kind: str) -> None:
    comparison = "best > x[i] ? best : x[i]" if greatest == "max" else "best < x[i] ? best : x[i]"
    if kind in ("float", "double"):  # as tc_max_f32 does: a NaN stays
        comparison = f"best != best ? best : {comparison}"
    body = f"""
{kind} best;
for (tc_i32 i = 0; i < 100; i++) {{
  best = {comparison};
}}
y[t] = (float)best;
"""
    kernels = {"began_by_nobody": Kernel(body)}
    right = 99.0 if greatest == "max" else 0.0
    runs = [run(kernels, "began_by_nobody", order).y for order in ("forward", "reverse")]
    assert any((y[:64] != right).all() for y in runs)


def test_more_threads_than_the_kernel_is_bound_to_are_not_started() -> None:
    kernels = {"bound": Kernel("y[t] = x[t];", threads=64)}
    text = text_of(kernels)
    simulator = Simulator()
    (finding,) = _launched(simulator, Module(text), "bound", 65)
    assert str(finding) == (
        "launch bounds: 65 threads, 64 allowed\n"
        f"  at unit.cu:3: {text.splitlines()[2]}\n"
        "  by thread 0 of block 0 of bound\n"
        "  cure: start no more threads than __launch_bounds__ of the kernel allows"
    )
    assert _launched(Simulator(), Module(text), "bound", 64) == []


def _launched(simulator: Simulator, module: Module, kernel: str, threads: int) -> list[Finding]:
    memory = [Block.of(1024, fill=0) for _ in range(4)]
    for i, block in enumerate(memory):
        simulator.add(str(i), block.bytes.ctypes.data, block.bytes.size)
    arguments = [*(ctypes.c_void_p(b.bytes.ctypes.data) for b in memory), ctypes.c_int64(1)]
    simulator.launch(module, kernel, 1, threads, arguments)
    return simulator.report.findings


FAR = {
    "narrow": Kernel("y[t] = x[(tc_i32)(t * n)]; // <-", threads=5),
    "wide": Kernel("y[t] = x[t * n];", threads=5),
    "narrow_product": Kernel("y[t] = x[t * (tc_i32)n]; // <-", threads=5),
}


def test_an_offset_narrowed_to_32_bits_is_found_far_from_the_base() -> None:
    stride = 1 << 29  # elements: the fifth of five lies 8 GB behind the first
    for name in FAR:
        values = far_array((5,), (4 * stride,), np.dtype(np.float32))
        values[...] = np.arange(5)
        y = Block.of(20)
        simulator = Simulator()
        simulator.add_array("x", values, "read")
        simulator.add("y", y.bytes.ctypes.data, 20, "write")
        nothing = ctypes.c_void_p(0)
        arguments = [
            ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(y.bytes.ctypes.data), nothing,
            nothing, ctypes.c_int64(stride),
        ]  # fmt: skip
        simulator.launch(Module(text_of(FAR)), name, 1, 5, arguments)
        kinds = simulator.report.kinds
        if name == "wide":
            assert not kinds
            assert y.bytes.view(np.float32).tolist() == [0, 1, 2, 3, 4]
        else:
            assert kinds & {"out of bounds", "overflow"}, name


def test_a_loop_without_end_or_effect_ends_too() -> None:
    body = "tc_u32 s = (tc_u32)n | 1;\nwhile (s != 0) s = s * 1664525 + 1013904223 | 1;\ny[t] = s;"
    assert run({"no_effect": Kernel(body)}, "no_effect").report.kinds == {"endless"}


def test_arrays_in_shared_memory_are_named() -> None:
    (finding,) = run(_KERNELS, "copy_past_an_array").report.findings
    assert (finding.buffer, finding.byte, finding.buffer_bytes) == ("shared array 'a'", 496, 504)


def test_a_finding_tells_line_memory_and_cure() -> None:
    (finding,) = run(_KERNELS, "past_the_end").report.findings
    assert str(finding) == (
        "out of bounds: write of 4 bytes at byte 1024 of y (1024 bytes)\n"
        f"  at unit.cu:{finding.site.line}: y[tc_point()] = x[t]; // <-\n"
        "  by thread 0 of block 4 of past_the_end\n"
        "  cure: guard the access, or correct its index"
    )
