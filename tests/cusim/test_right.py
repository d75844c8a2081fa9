"""Right kernels raise no alarm, in any order, and give the right values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from tests.cusim.kernels import SIZE, Kernel, run
from tests.cusim.simulator import Array, Order

pytestmark = pytest.mark.cusim


@dataclass(frozen=True, slots=True)
class Right:
    kernel: Kernel
    y: Callable[[Array], Array]  # what the kernel makes of x; NaN where it writes nothing


def _first(values: Array | float, n: int = 1) -> Array:
    y = np.full(SIZE, np.nan, np.float32)
    y[:n] = values
    return y


_LAST_BLOCK = """
__shared__ float part[2];
__shared__ tc_u32 seen;
float sum = x[tc_point()];
for (int i = 16; i > 0; i /= 2) sum += tc_shuffle_down_f32(sum, i);
if (t % 32 == 0) part[t / 32] = sum;
tc_barrier();
if (t == 0) {
  work[tc_block()] = part[0] + part[1];
  seen = tc_ticket(count);
}
tc_barrier();
if (seen == (tc_u32)tc_blocks() - 1 && t == 0) {
  float all = 0;
  for (int i = 0; i < tc_blocks(); i++) all += work[i];
  y[0] = all;
}
"""
_PIPELINE = """
float *stages = tc_shared_f32();
float sum = 0;
for (int s = 0; s < 2; s++) {
  tc_copy_async4(stages + s * 64 + t, x + s * 64 + t, 4);
  tc_copy_commit();
}
for (int k = 0; k < 4; k++) {
  tc_copy_wait(1);
  tc_barrier();
  sum += stages[k % 3 * 64 + 63 - t];
  if (k + 2 < 4) tc_copy_async4(stages + (k + 2) % 3 * 64 + t, x + (k + 2) * 64 + t, 4);
  tc_copy_commit();
}
tc_copy_wait(0);
y[t] = sum;
"""
_WARP_SUM = """
__shared__ float s[64];
s[t] = x[t];
tc_warp_barrier();
for (int i = 16; i > 0; i /= 2) {
  const float other = t % 32 < i ? s[t + i] : 0;
  tc_warp_barrier();
  if (t % 32 < i) s[t] += other;
  tc_warp_barrier();
}
if (t % 32 == 0) y[t / 32] = s[t];
"""
_HISTOGRAM = """
__shared__ tc_i32 bins[8];
if (t < 8) bins[t] = 0;
tc_barrier();
tc_atomic_add_i32(&bins[t % 8], 1);
tc_barrier();
if (t < 8) y[t] = bins[t];
"""
_RAGGED_COPY = """
__shared__ __align__(16) float s[256];
tc_copy_async16(s + 4 * t, x + 4 * t, t == 5 ? 8 : t == 6 ? 0 : 16);
tc_copy_commit();
tc_copy_wait(0);
tc_barrier();
tc_copy16(y + 4 * (t ^ 1), s + 4 * (t ^ 1));
"""
_BOTH_SHARED = """
__shared__ float fixed[64];
float *dynamic = tc_shared_f32();
fixed[t] = x[t];
dynamic[t] = x[64 + t];
tc_barrier();
y[t] = fixed[63 - t] + dynamic[63 - t];
"""
_BYTES = """
tc_u8 *s = tc_shared_u8();
s[t] = (tc_u8)x[t];
s[64 + t] = (tc_u8)(x[t] + 1);
tc_barrier();
y[t] = s[t ^ 1] + s[64 + (t ^ 33)];
"""
_EXTREMES = """
if (t == 0) work[0] = x[0];
tc_barrier();
tc_atomic_max_f32(&work[0], x[t]);
tc_barrier();
y[t] = work[0];
"""


_LANES = np.arange(64)


def _ragged(x: Array) -> Array:
    y = x.copy()
    y[22:28] = 0
    return y


_KERNELS = {
    "last_block_sums": Right(Kernel(_LAST_BLOCK, blocks=4), lambda x: _first(x.sum())),
    "pipeline": Right(
        Kernel(_PIPELINE, shared_bytes=768),
        lambda x: _first(x.reshape(4, 64)[:, ::-1].sum(0), 64),
    ),
    "warp_sums": Right(Kernel(_WARP_SUM), lambda x: _first(x[:64].reshape(2, 32).sum(1), 2)),
    "histogram": Right(Kernel(_HISTOGRAM), lambda x: _first(8, 8)),
    "ragged_copy": Right(Kernel(_RAGGED_COPY), _ragged),
    "both_shared": Right(
        Kernel(_BOTH_SHARED, shared_bytes=256),
        lambda x: _first((x[:64] + x[64:128])[::-1], 64),
    ),
    "bytes": Right(
        Kernel(_BYTES, shared_bytes=128),
        lambda x: _first(x[:64][_LANES ^ 1] + x[:64][_LANES ^ 33] + 1, 64),
    ),
    "extremes": Right(Kernel(_EXTREMES), lambda x: _first(63, 64)),
}
_UNIT = {name: r.kernel for name, r in _KERNELS.items()}


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@pytest.mark.parametrize("name", _KERNELS)
def test_right(name: str, order: Order) -> None:
    outcome = run(_UNIT, name, order, seed=7)
    outcome.report.assert_clean()
    want = _KERNELS[name].y(np.arange(SIZE, dtype=np.float32))
    np.testing.assert_array_equal(outcome.y, want)


# 16 rows of A, then 8 columns of B, with k contiguous in both: 16 of 16 bits, or 8 of 32.
_MMA = """
const tc_u32 *words = (const tc_u32 *)x;
const int g = t / 4, p = t % 4;
tc_u32 a[4] = {{words[g * 8 + p], words[(g + 8) * 8 + p], words[g * 8 + p + 4],
                words[(g + 8) * 8 + p + 4]}};
tc_u32 b[2] = {{words[128 + g * 8 + p], words[128 + g * 8 + p + 4]}};
float d[4] = {{1, 1, 1, 1}};
tc_mma_{name}(d, a, b);
for (int i = 0; i < 4; i++) y[(g + i / 2 * 8) * 8 + p * 2 + i % 2] = d[i];
"""
_MMA_KERNELS = {
    "bf16": Kernel(_MMA.format(name="m16n8k16_bf16"), threads=32),
    "f16": Kernel(_MMA.format(name="m16n8k16_f16"), threads=32),
    "tf32": Kernel(_MMA.format(name="m16n8k8_tf32"), threads=32),
}


@pytest.mark.parametrize("name", _MMA_KERNELS)
def test_mma_multiplies(name: str, rng: np.random.Generator) -> None:
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32}[name]
    depth = 32 // np.dtype(dtype).itemsize
    values = rng.integers(-8, 8, (24, depth)).astype(dtype)  # exact in all of them
    x = np.zeros(SIZE, np.float32)
    x[:192] = values.reshape(-1).view(np.float32)
    outcome = run(_MMA_KERNELS, name, x=x)
    outcome.report.assert_clean()
    wide = values.astype(np.float32)
    want = wide[:16] @ wide[16:].T + 1
    np.testing.assert_array_equal(outcome.y[:128].reshape(16, 8), want)


_LDMATRIX = {
    name: Kernel(
        f"""
__shared__ __align__(16) float s[128];
tc_copy16(s + 4 * t, x + 4 * t);
tc_barrier();
tc_u32 r[4];
tc_ldmatrix_{name}(r, s + 4 * t);
for (int i = 0; i < 4; i++) ((tc_u32 *)y)[i * 32 + t] = r[i];
""",
        threads=32,
    )
    for name in ("x4", "x4_t")
}


@pytest.mark.parametrize("name", _LDMATRIX)
def test_ldmatrix_hands_out_rows_and_columns(name: str) -> None:
    x = np.zeros(SIZE, np.float32)
    matrices = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    x[:128] = matrices.reshape(-1).view(np.float32)
    outcome = run(_LDMATRIX, name, x=x)
    outcome.report.assert_clean()
    got = outcome.y[:128].view(np.uint16).reshape(4, 8, 8)
    np.testing.assert_array_equal(got, matrices.swapaxes(1, 2) if name == "x4_t" else matrices)
