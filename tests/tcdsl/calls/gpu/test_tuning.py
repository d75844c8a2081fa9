"""Tuning for a GPU as a user asks for it, on the simulated device: found again by later calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tcdsl as tc
from tcdsl.cli import main
from tcdsl.codegen.device import devices
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.errors import DeviceError, TCTypeError
from tcdsl.kernel import Kernel
from tests.autotune.sim_gpu import SimDevice

pytestmark = [pytest.mark.nvrtc, pytest.mark.cusim]

TEXT = "def axpy(float(M,N) A, float(N) b, float a) -> (C) { C(m, n) = a * A(m, n) + b(n) }"


@pytest.fixture
def gpu() -> Iterator[SimDevice]:
    device = SimDevice(0)
    devices.register(device)
    yield device
    devices.unregister(0)


def kernel(cache: Path, **options: Any) -> Kernel:
    made = tc.define(TEXT, cache=cache, **options)
    assert isinstance(made, Kernel)
    return made


def operands(gpu: SimDevice) -> tuple[Any, Any, float]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((6, 9), np.float32), rng.standard_normal(9, np.float32)
    return gpu.array(a), gpu.array(b), 1.5


def served(k: Kernel, gpu: SimDevice) -> list[Config]:
    variant = k.session.variant(k.definition, {}, gpu.gpu)
    return [x.config for x in variant.executables]


def test_a_config_tuned_for_a_gpu_serves_calls_there_and_not_on_the_host(
    gpu: SimDevice, tmp_path: Path
) -> None:
    cache = tmp_path / "configs.db"
    a, b, s = operands(gpu)
    config = kernel(cache).autotune(a, b, s, trials=2, quiet=True)
    assert isinstance(config, Config)
    k = kernel(cache)
    np.testing.assert_allclose(k(a, b, s).get(), 1.5 * a.get() + b.get(), rtol=1e-5, atol=1e-6)
    assert served(k, gpu) == [config]
    assert k.tuned_config(a, b, s) == config
    assert k.tuned_config(a.get(), b.get(), s) is None


@pytest.mark.wide
def test_sizes_mean_a_gpu_where_the_target_says_so(gpu: SimDevice, tmp_path: Path) -> None:
    cache = tmp_path / "configs.db"
    options: dict[str, Any] = {"trials": 1, "quiet": True}
    config = kernel(cache).autotune(M=6, N=9, target="cuda:sm_90", **options)
    assert kernel(cache).tuned_config(*operands(gpu)) == config


def test_the_command_tunes_for_a_gpu(gpu: SimDevice, tmp_path: Path) -> None:
    cache, file = tmp_path / "configs.db", tmp_path / "axpy.tc"
    file.write_text(TEXT)
    words = [str(file), "--sizes", "M=6,N=9", "--trials", "1", "--quiet", "--cache", str(cache)]
    done = CliRunner().invoke(main, ["autotune", *words, "--target", "cuda"])
    assert done.exit_code == 0, done.output
    assert "g0.form = " in done.output
    assert kernel(cache).tuned_config(*operands(gpu)) is not None


@pytest.mark.wide
def test_a_view_is_tuned_with_its_strides(gpu: SimDevice, tmp_path: Path) -> None:
    a = gpu.array(np.ones((9, 6), np.float32)).T
    b, s = operands(gpu)[1:]
    k = kernel(tmp_path / "configs.db")
    config = k.autotune(a, b, s, trials=1, quiet=True)
    assert k.tuned_config(a, b, s) == config
    assert k.tuned_config(*operands(gpu)) is None


def test_the_first_call_on_a_gpu_can_tune(gpu: SimDevice, tmp_path: Path) -> None:
    a, b, s = operands(gpu)
    k = kernel(tmp_path / "configs.db", tune="first-call", trials=1)
    np.testing.assert_allclose(k(a, b, s).get(), 1.5 * a.get() + b.get(), rtol=1e-5, atol=1e-6)
    config = k.tuned_config(a, b, s)
    assert config is not None
    assert served(k, gpu) == [config]


def test_a_target_that_is_not_here_says_so(gpu: SimDevice, tmp_path: Path) -> None:
    k = kernel(tmp_path / "configs.db")
    with pytest.raises(DeviceError, match="cannot tune for sm_80: the GPU here, H200, is sm_90"):
        k.autotune(M=6, N=9, target="cuda:sm_80")
    with pytest.raises(TCTypeError, match="the arrays lie on a GPU, target is 'cpu'"):
        k.autotune(*operands(gpu), target="cpu")
    host = np.ones((6, 9), np.float32)
    with pytest.raises(TCTypeError, match="the arrays lie in the host's memory, target is 'cuda'"):
        k.autotune(host, host[0], 1.0, target="cuda")


def test_without_a_gpu_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices.unregister(0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(DeviceError, match=r"pip install|nvidia-smi"):
        kernel(tmp_path / "configs.db").autotune(M=6, N=9, target="cuda")
