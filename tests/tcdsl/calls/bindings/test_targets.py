"""What texts are made for."""

from __future__ import annotations

import pytest

from tcdsl.calls.bindings.targets import gpu_named, gpu_to_tune_on
from tcdsl.codegen.device import devices
from tcdsl.codegen.machine.gpu import DEFAULT_ARCH, gpu_of
from tcdsl.grammar.text.errors import DeviceError, TCTypeError


def test_a_target_names_the_cpu_or_an_architecture() -> None:
    assert gpu_named("cpu") is None
    assert gpu_named("cuda:sm_90") == gpu_of("sm_90")


def test_without_a_gpu_cuda_means_the_usual_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(number: int) -> None:
        raise DeviceError(f"no GPU {number}")

    monkeypatch.setattr(devices, "device", none)
    assert gpu_named("cuda") == gpu_of(DEFAULT_ARCH)


@pytest.mark.parametrize("target", ["gpu", "cuda:", "cpu:sm_90", ""])
def test_what_is_no_target_is_refused(target: str) -> None:
    with pytest.raises(TCTypeError, match=f"target is '{target}'; expected 'cpu', 'cuda'"):
        gpu_named(target)
    with pytest.raises(TCTypeError, match=f"target is '{target}'; expected 'cpu', 'cuda'"):
        gpu_to_tune_on(target)


def test_an_unknown_architecture_is_refused_with_those_known() -> None:
    with pytest.raises(TCTypeError, match=r"unknown GPU architecture 'sm_1'\n  known are sm_80"):
        gpu_named("cuda:sm_1")
