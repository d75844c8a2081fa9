"""Targets that a person names: the CPU, a GPU that need not be here, one that has to be."""

from __future__ import annotations

from tcdsl.codegen.device import devices
from tcdsl.codegen.machine.gpu import DEFAULT_ARCH, Gpu, gpu_of
from tcdsl.grammar.text.errors import DeviceError, TCTypeError


def gpu_named(target: str) -> Gpu | None:
    """Return the GPU to emit text for; None for "cpu".

    Parameters
    ----------
    target : "cpu", "cuda" or "cuda:sm_90"
        Without an architecture it is the first GPU of this machine, or one of `DEFAULT_ARCH`
        where there is none.

    Raises
    ------
    TCTypeError
        If it is no target, or the architecture is unknown.
    """
    if target == "cpu":
        return None
    arch = _arch_of(target)
    return gpu_of(arch) if arch else _at_hand()


def gpu_to_tune_on(target: str) -> Gpu:
    """Return the GPU here that "cuda" names, or "cuda:sm_90" where it has to be such a one.

    Raises
    ------
    TCTypeError
        If it is no target.
    DeviceError
        If there is no such GPU here.
    """
    arch = _arch_of(target)
    gpu = devices.device(0).gpu
    if arch and arch != gpu.arch:
        raise DeviceError(
            f"cannot tune for {arch}: the GPU here, {gpu.name}, is {gpu.arch}\n"
            "  candidates are timed where they will run; leave the architecture out"
        )
    return gpu


def _arch_of(target: str) -> str:
    """Return the architecture that a target on a GPU names, "" for any."""
    kind, colon, arch = target.partition(":")
    if kind != "cuda" or (colon and not arch):
        raise TCTypeError(f"target is '{target}'; expected 'cpu', 'cuda' or 'cuda:sm_90'")
    return arch


def _at_hand() -> Gpu:
    try:
        return devices.device(0).gpu
    except DeviceError:
        return gpu_of(DEFAULT_ARCH)
