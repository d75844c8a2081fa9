"""Says at its import what to install, where there is no PyTorch that `tcdsl.torch` runs with."""

from __future__ import annotations

OLDEST = (2, 13)
CURE = 'pip install "tcdsl[torch]"'


def _check() -> None:
    """Refuse to go on without PyTorch, or with one that is too old.

    Raises
    ------
    ModuleNotFoundError
        If it is not installed.
    ImportError
        If it is older than the oldest that has what we call.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":  # something that it needs itself
            raise
        text = f"tcdsl.torch needs PyTorch, which is not installed\n  {CURE}"
        raise ModuleNotFoundError(text, name="torch") from None
    found = str(torch.__version__)
    major, minor, *_ = found.split(".")
    if (int(major), int(minor)) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        text = f"tcdsl.torch needs PyTorch {oldest} or newer, found {found}\n  {CURE}"
        raise ImportError(text, name="torch")


_check()
