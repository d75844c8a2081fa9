"""The cubin cache: compiled once, checked, for every thread and process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain import contentfile, cubins, nvrtc
from tcdsl.codegen.toolchain.cubins import cached_cubin, key_of, lookup
from tcdsl.codegen.toolchain.nvrtc import Cubin, CudaSource

pytestmark = pytest.mark.nvrtc


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fresh cache folder."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TCDSL_CACHE", str(path))
    return path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each text that is compiled from now on."""
    names: list[str] = []

    def counting(text: str, arch: str, *, name: str) -> Cubin:
        names.append(name)
        return nvrtc.compile_cuda(text, arch, name=name)

    monkeypatch.setattr(cubins, "compile_cuda", counting)
    return names


def kernel(value: int) -> CudaSource:
    return CudaSource("k", f'extern "C" __global__ void k(int *x) {{ *x = {value}; }}\n')


def leftovers(cache: Path) -> list[Path]:
    return [p for folder in ("locks", "building") for p in (cache / folder).glob("*")]


def test_what_was_compiled_is_found_again(cache: Path, compiled: list[str]) -> None:
    first = cached_cubin(kernel(1), "sm_80")
    assert cached_cubin(kernel(1), "sm_80") == first
    assert compiled == ["k"]
    assert first.data.startswith(b"\x7fELF")
    assert first.report.kernel("k").registers > 0
    assert not leftovers(cache)


def test_a_damaged_file_is_compiled_again(cache: Path, compiled: list[str]) -> None:
    first = cached_cubin(kernel(1), "sm_80")
    (path,) = (p for p, _ in contentfile.files())
    path.write_bytes(path.read_bytes()[:-1])
    assert lookup(key_of(kernel(1), "sm_80")) is None
    assert cached_cubin(kernel(1), "sm_80").data == first.data
    assert compiled == ["k", "k"]


def test_the_key_covers_all_that_decides_the_content(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [
        key_of(kernel(1), "sm_80"),
        key_of(kernel(1), "sm_90"),
        key_of(kernel(2), "sm_80"),
        key_of(replace(kernel(1), name="other"), "sm_80"),
    ]
    with monkeypatch.context() as m:
        m.setattr(cubins, "headers", lambda: (("prelude.cuh", "another"),))
        keys.append(key_of(kernel(1), "sm_80"))
    with monkeypatch.context() as m:
        m.setattr(cubins, "OPTIONS", ("-std=c++20",))
        keys.append(key_of(kernel(1), "sm_80"))
    with monkeypatch.context() as m:
        m.setattr(cubins, "find_nvrtc", lambda: replace(nvrtc.find_nvrtc(), version=(12, 9)))
        keys.append(key_of(kernel(1), "sm_80"))
    assert len(set(keys)) == len(keys)


def test_many_threads_compile_once(cache: Path, compiled: list[str]) -> None:
    found: list[Cubin] = []
    threads = [
        threading.Thread(target=lambda: found.append(cached_cubin(kernel(3), "sm_80")))
        for _ in range(6)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert compiled == ["k"]
    assert not leftovers(cache)


CHILD = """
import sys
from tcdsl.codegen.toolchain.cubins import cached_cubin
from tcdsl.codegen.toolchain.nvrtc import CudaSource
cached_cubin(CudaSource("k", sys.argv[1]), "sm_80")
"""


def test_another_process_finds_it(cache: Path, compiled: list[str]) -> None:
    command = [sys.executable, "-c", CHILD, kernel(4).text]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run(command, check=True, env=environment, timeout=600)
    cached_cubin(kernel(4), "sm_80")
    assert compiled == []


def test_cubins_are_counted_and_pruned_with_objects(cache: Path) -> None:
    cached_cubin(kernel(1), "sm_80")
    files, size_bytes = contentfile.size()
    assert files == 1
    assert contentfile.prune() == size_bytes
    assert lookup(key_of(kernel(1), "sm_80")) is None
