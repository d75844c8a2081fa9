"""Anomaly mode: which call of the forward pass a NaN, or an error, of the way back comes from."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from tcdsl.core import Node, Tensor, setup
from tcdsl.ops.rules import NAMES
from tcdsl.ops.writing import unrecorded

__all__ = ["detect_anomaly", "is_anomaly_enabled", "set_detect_anomaly"]

_OURS = str(Path(__file__).resolve().parents[1])
_on, _checks = False, True  # of the whole process, as PyTorch's


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return _on


def _trace() -> str:
    """Return where a user's program is, as a traceback tells it."""
    frames = traceback.extract_stack()
    while len(frames) > 1 and frames[-1].filename.startswith(_OURS):
        frames.pop()
    return "".join(frames.format())


def _judge(node: Node, gradients: tuple[Tensor | None, ...] | None) -> None:
    """Warn of the call that a wrong gradient, or an error on the way back, comes from.

    Raises
    ------
    RuntimeError
        If one of the gradients has a NaN.
    """
    wrong = -1
    if gradients is not None:
        if not _checks:
            return
        with unrecorded():
            found = (i for i, g in enumerate(gradients) if g is not None and _has_nan(g))
            wrong = next(found, -1)
        if wrong < 0:
            return
    trace = node._trace
    told = (
        f"Traceback of forward call that caused the error:\n{trace}"
        if trace
        else "No forward pass information available. Enable detect anomaly during forward pass for "
        "more information."
    )
    warnings.warn(f"Error detected in {node.name()}. {told}", UserWarning, stacklevel=2)
    if wrong >= 0:
        raise RuntimeError(f"Function '{node.name()}' returned nan values in its {wrong}th output.")


def _has_nan(gradient: Tensor) -> bool:
    return bool((gradient != gradient).any().item())


def _switch(on: bool, checks: bool) -> None:
    global _on, _checks
    _on, _checks = on, checks
    pair: tuple[Callable[..., object] | None, ...] = (_trace, _judge) if on else (None, None)
    for name, function in zip(("trace", "judge"), pair, strict=True):
        setup(name, function)


def written_since(tensor: Tensor, node: str | None, output: int, version: int) -> str:
    """Return PyTorch's words for a tensor that a gradient needs as it was before it was written.

    Parameters
    ----------
    tensor : Tensor
    node, output : str or None, int
        What it is of the recorded graph.
    version : int
        At which it is needed.
    """
    device = "cuda." if tensor.is_cuda else ""
    name = re.sub(r"Backward\d*$", "", node or "")
    made = f", which is output {output} of {name}," if name else ""
    hint = (
        "the backtrace further above shows the operation that failed to compute its gradient. The "
        "variable in question was changed in there or anywhere later. Good luck!"
        if _on
        else "enable anomaly detection to find the operation that failed to compute its gradient, "
        "with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [torch.{device}{NAMES[tensor.dtype.name]}Tensor {list(tensor.shape)}]{made} "
        f"is at version {tensor._version}; expected version {version} instead. Hint: {hint}"
    )


setup("written", written_since)


class set_detect_anomaly:  # noqa: N801 - PyTorch's name
    """Turn anomaly mode on or off, from now on; as a context manager, until its block ends.

    Parameters
    ----------
    mode : bool
    check_nan : bool, default True
        Whether a NaN in a gradient is an error.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _on, _checks
        _switch(bool(mode), bool(check_nan))

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None:
        _switch(*self._before)


class detect_anomaly:  # noqa: N801 - PyTorch's name
    """Find what makes a backward pass go wrong: a context manager for the forward pass and it.

    A backward pass in it raises where a gradient has a NaN, and warns, then as at any other error,
    of the call of the forward pass that it belongs to. All of it is slower.

    Parameters
    ----------
    check_nan : bool, default True
        Whether a NaN in a gradient is an error.

    Examples
    --------
    >>> with detect_anomaly():
    ...     loss = model(points).sum()
    ...     loss.backward()
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = bool(check_nan)
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            UserWarning,
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._mode = set_detect_anomaly(True, self._check_nan)

    def __exit__(self, *exception: object) -> None:
        self._mode.__exit__()
