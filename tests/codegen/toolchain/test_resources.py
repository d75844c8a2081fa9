"""What ptxas says, read; and how many blocks fit by it."""

from __future__ import annotations

import pytest

from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.codegen.toolchain.resources import Resources, active_blocks_per_sm, read_report

LOG = """ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : 0 bytes gmem, 48 bytes cmem[3]
ptxas info    : Compiling entry function 'spill' for 'sm_80'
ptxas info    : Function properties for spill
ptxas         .     5608 bytes stack frame, 14140 bytes spill stores, 41684 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 5608 bytes cumulative stack size, 376 bytes cmem[0]
ptxas info    : Compile time = 1931.960 ms
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 72 registers, used 1 barriers, 1024 bytes smem, 368 bytes cmem[0], 16 bytes cmem[2]
"""  # noqa: E501  (as ptxas writes it)


def test_a_report_has_what_each_kernel_takes() -> None:
    report = read_report(LOG)
    assert report.kernels == (
        Resources("spill", 32, stack=5608, spill_stores=14140, spill_loads=41684),
        Resources("k", 72, shared=1024, constants=16, barriers=1),
    )
    assert report.kernel("k").spills == 0
    with pytest.raises(KeyError):
        report.kernel("other")


def test_spills_and_serialised_tensor_instructions_are_objections() -> None:
    report = read_report(LOG)
    assert report.objection == "spill spills 55824 bytes of registers"
    clean = LOG.replace("14140 bytes", "0 bytes").replace("41684 bytes", "0 bytes")
    assert "C7510" in (read_report(clean).objection or "")
    assert read_report(clean.replace("C7510", "C7000")).objection is None
    assert read_report(clean.replace("C7510", "C7000")).advice
    assert read_report("").objection is None


@pytest.mark.nvrtc
def test_the_report_of_this_nvrtc_is_understood() -> None:
    text = """extern "C" __global__ void __launch_bounds__(128) k(float *p) {
      __shared__ float a[256];
      float b[99];
      for (int i = 0; i < 99; i++) b[i] = p[i] * p[0];
      a[threadIdx.x] = b[(int)p[blockIdx.x]] + b[(int)p[threadIdx.x]];
      __syncthreads();
      p[threadIdx.x] = a[127 - threadIdx.x];
    }"""
    k = compile_cuda(text, "sm_90", name="k").report.kernel("k")
    assert 8 <= k.registers <= 128
    assert k.shared == 1024
    assert k.stack >= 128
    assert k.barriers == 1
    assert k.spills == 0


def kernel(registers: int, shared: int = 0) -> Resources:
    return Resources("k", registers, shared=shared)


@pytest.mark.parametrize(
    ("arch", "registers", "shared", "threads", "dynamic", "blocks"),
    [
        ("sm_90", 32, 0, 256, 0, 8),  # threads
        ("sm_90", 16, 0, 32, 0, 32),  # blocks
        ("sm_90", 128, 0, 256, 0, 2),  # registers
        ("sm_90", 33, 0, 1024, 0, 1),  # 40 a thread are given, 48 warps fit: one block of 32
        ("sm_90", 255, 0, 256, 0, 1),
        ("sm_90", 255, 0, 512, 0, 0),  # 8 warps of 255 registers is all that fits
        ("sm_90", 32, 48 << 10, 128, 0, 4),  # shared memory: 49 KiB a block of 228
        ("sm_90", 32, 0, 128, 113 << 10, 2),
        ("sm_90", 32, 0, 128, 227 << 10, 1),
        ("sm_90", 32, 0, 128, 228 << 10, 0),  # more than a block may have
        ("sm_86", 32, 0, 256, 0, 6),
        ("sm_80", 40, 0, 256, 20 << 10, 6),
    ],
)
def test_blocks_of_a_multiprocessor(
    arch: str, registers: int, shared: int, threads: int, dynamic: int, blocks: int
) -> None:
    assert active_blocks_per_sm(gpu_of(arch), kernel(registers, shared), threads, dynamic) == blocks
