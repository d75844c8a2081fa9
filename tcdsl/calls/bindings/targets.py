"""What text is made for: the CPU, or a GPU that need not be here."""

from __future__ import annotations

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
    kind, colon, arch = target.partition(":")
    if target == "cpu":
        return None
    if kind != "cuda" or (colon and not arch):
        raise TCTypeError(f"target is '{target}'; expected 'cpu', 'cuda' or 'cuda:sm_90'")
    return gpu_of(arch) if arch else _at_hand()


def _at_hand() -> Gpu:
    from tcdsl.codegen.device.device import device  # on use: it looks for CuPy

    try:
        return device(0).gpu
    except DeviceError:
        return gpu_of(DEFAULT_ARCH)
