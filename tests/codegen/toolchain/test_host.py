"""What is known of the machine, and what is measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain import host
from tcdsl.codegen.toolchain.host import detect, isa_of, read_caches, read_processor
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source


@pytest.mark.cc
def test_the_vector_width_is_the_one_of_the_prelude() -> None:
    found = detect()
    text = (
        '#include "prelude.h"\n'
        f'_Static_assert(TC_VECTOR_BYTES == {found.vector_bytes}, "");\n'
        f'_Static_assert(TC_VL_f64 == {found.lanes(8)}, "");\n'
    )
    compile_source(Source("width", text))


@pytest.mark.cc
def test_the_same_machine_is_found_every_time() -> None:
    first = detect()
    host._detect.cache_clear()
    assert detect() == first


@pytest.mark.parametrize(
    ("macros", "isa"),
    [
        (("__SSE2__",), "sse"),
        (("__SSE2__", "__AVX2__"), "sse"),
        (("__SSE2__", "__AVX2__", "__FMA__"), "avx2"),
        (("__AVX2__", "__FMA__", "__AVX512F__"), "avx2"),
        (("__AVX512F__", "__AVX512BW__", "__AVX512VL__", "__AVX512DQ__"), "avx512"),
        (("__ARM_NEON",), "neon"),
        ((), "generic"),
    ],
)
def test_macros_tell_the_instruction_set(macros: tuple[str, ...], isa: str) -> None:
    assert isa_of(macros) == isa


def test_caches_are_read_as_the_kernel_lays_them_out(tmp_path: Path) -> None:
    rows = (
        ("1", "Data", "48K", "12"),
        ("1", "Instruction", "32K", "8"),
        ("2", "Unified", "1024K", "16"),
    )
    for i, row in enumerate(rows):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, value in zip(
            ("level", "type", "size", "ways_of_associativity"), row, strict=True
        ):
            (folder / name).write_text(value + "\n")
    assert read_caches(tmp_path) == {1: (48 << 10, 12), 2: (1 << 20, 16)}


def test_a_machine_that_tells_nothing_has_defaults(tmp_path: Path) -> None:
    assert read_caches(tmp_path / "missing") == {}
    assert read_processor(tmp_path / "missing") == {}
    assert host._nominal_ghz({}) > 0


def test_cores_are_those_this_process_may_use() -> None:
    mask = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(mask)})
        assert host.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, mask)


@pytest.mark.parametrize(
    ("isa", "vendor", "family", "model", "fmas"),
    [
        ("avx2", "AuthenticAMD", "23", "1", 1),  # Zen 1
        ("avx2", "AuthenticAMD", "23", "49", 2),  # Zen 2
        ("avx2", "AuthenticAMD", "25", "97", 2),  # Zen 4
        ("avx512", "AuthenticAMD", "25", "97", 1),
        ("avx512", "AuthenticAMD", "26", "2", 2),
        ("avx512", "GenuineIntel", "6", "207", 2),
    ],
)
def test_half_units_begin_one_fma_in_a_cycle(
    isa: str, vendor: str, family: str, model: str, fmas: int
) -> None:
    processor = {"vendor_id": vendor, "cpu family": family, "model": model}
    assert host._fma_per_cycle(isa, processor) == fmas
    assert host._fma_per_cycle(isa, {}) == 2
