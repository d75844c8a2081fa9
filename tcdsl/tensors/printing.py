"""Tensors as text: as many digits as tell their elements apart, in columns, the middle left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.core import dtypes
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.ops.rules import default_float

if TYPE_CHECKING:
    from tcdsl.core import Tensor

__all__ = ["set_printoptions", "text_of"]


@dataclass
class Options:
    """How tensors are printed.

    Attributes
    ----------
    precision : int
        Digits behind the point.
    threshold : int
        Elements from which on the middle is left out.
    edgeitems : int
        Elements that are then printed at each end of a dimension.
    linewidth : int
        Characters of a line.
    sci_mode : bool or None
        Whether numbers have exponents; None: where they differ much.
    """

    precision: int = 4
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = Options()
PROFILES = {
    "default": Options(),
    "short": Options(precision=2, edgeitems=2),
    "full": Options(threshold=2**63 - 1),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Say how tensors are printed from now on; what is None stays.

    Whether numbers are written with powers of ten is chosen anew by every call: by the numbers,
    where `sci_mode` is None.

    Parameters
    ----------
    precision, threshold, edgeitems, linewidth, sci_mode
        See the attributes of `Options`.
    profile : str
        'default', 'short' or 'full', before the others are looked at.
    """
    if profile is not None:
        if profile not in PROFILES:
            raise ValueError(f"expected a profile of {', '.join(PROFILES)}, got '{profile}'")
        vars(OPTIONS).update(vars(PROFILES[profile]))
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    vars(OPTIONS).update({name: value for name, value in given.items() if value is not None})
    OPTIONS.sci_mode = sci_mode


def _maker(tensor: Tensor) -> str | None:
    """Return the name of what made a tensor."""
    try:
        fn = tensor.grad_fn
    except RuntimeError:  # a view that was not recorded, of what was written since
        return "Invalid"
    return None if fn is None else str(fn.name())


def text_of(tensor: Tensor) -> str:
    """Return what `repr` of a tensor is."""
    inner: Tensor = tensor.detach()
    has_elements = tensor.numel() and not tensor.is_meta
    is_shaped = not has_elements and (tensor.ndim > 1 or tensor.is_meta)
    suffixes = [f"size={tuple(tensor.shape)}"] if is_shaped else []
    if str(tensor.device) != "cpu":
        where = f"device='{tensor.device}'"
        suffixes = [where, *suffixes] if tensor.is_meta else [*suffixes, where]
    usual = default_float()
    if tensor.dtype not in (usual, dtypes.int64, dtypes.bool_) or (
        not tensor.numel() and tensor.dtype is not usual
    ):
        suffixes.append(f"dtype={tensor.dtype}")
    if maker := _maker(tensor):
        suffixes.append(f"grad_fn=<{maker}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    nothing = "..." if tensor.is_meta else "[]"
    body = _elements(inner, len("tensor(")) if has_elements else nothing
    return _joined("tensor(" + body, suffixes)


def _joined(text: str, suffixes: list[str]) -> str:
    """Append suffixes, on the same line where they fit."""
    last = len(text) - text.rfind("\n") + 1  # two more than there are, as PyTorch counts
    for suffix in suffixes:
        if last + len(suffix) + 2 > OPTIONS.linewidth:
            text += ",\n       " + suffix
            last = 7 + len(suffix)
        else:
            text += ", " + suffix
            last += len(suffix) + 2
    return text + ")"


def _elements(tensor: Tensor, indent: int) -> str:
    shortened = tensor.numel() > OPTIONS.threshold
    array = _shown(tensor.cpu().numpy(), shortened)
    if array.dtype.kind not in "biu":
        array = array.astype(np.float64)
    show, width = _formatter(array)
    return _nested(array, tuple(tensor.shape), indent, shortened, show, width)


def _shown(array: np.ndarray[Any, Any], shortened: bool) -> np.ndarray[Any, Any]:
    """Return the elements that are printed."""
    if shortened:
        edge = OPTIONS.edgeitems
        for axis, extent in enumerate(array.shape):
            if extent > 2 * edge:
                kept = [*range(edge), *range(extent - edge, extent)]
                array = array.take(kept, axis)
    return array


def _nested(
    array: np.ndarray[Any, Any],
    shape: tuple[int, ...],
    indent: int,
    shortened: bool,
    show: Callable[[Any], str],
    width: int,
) -> str:
    """Return the brackets and what is in them; width: of an element, as lines are broken by it."""
    if not shape:
        return show(array[()]).strip() if array.dtype.kind == "b" else show(array[()])
    edge = OPTIONS.edgeitems
    left_out = shortened and shape[0] > 2 * edge
    if len(shape) == 1:
        words = [show(x) for x in array]
        if left_out:
            words = [*words[:edge], " ...", *words[edge:]]
        room = max((OPTIONS.linewidth - indent) // (width + 2), 1)
        lines = [", ".join(words[i : i + room]) for i in range(0, len(words), room)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_nested(part, shape[1:], indent + 1, shortened, show, width) for part in array]
    if left_out:
        parts = [*parts[:edge], "...", *parts[edge:]]
    between = "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return "[" + between.join(parts) + "]"


def _formatter(array: np.ndarray[Any, Any]) -> tuple[Callable[[Any], str], int]:
    """Return the function that writes an element, and the width that it fills.

    Of floats that are all 0 or not finite the width is 1, and what is written is wider.
    """
    if array.dtype.kind in "biu":
        width = max((len(str(x)) for x in array.ravel()), default=1)
        return lambda x: str(x).rjust(width), width
    precision = OPTIONS.precision
    ordinary = array[np.isfinite(array) & (array != 0)]
    finite = np.abs(ordinary)
    write: Callable[[float], str]
    if not finite.size:
        whole, exponents = True, False
    else:
        largest, least = float(finite.max()), float(finite.min())
        whole = bool((finite == np.ceil(finite)).all())
        exponents = largest / least > 1000.0 or largest > 1.0e8
        exponents = exponents or (not whole and least < 1.0e-4)
    if OPTIONS.sci_mode is not None:
        exponents = OPTIONS.sci_mode
    if exponents:

        def write(x: float) -> str:
            return f"{x:.{precision}e}"

    elif whole:

        def write(x: float) -> str:
            return f"{x:.0f}." if math.isfinite(x) else f"{x:.0f}"

    else:

        def write(x: float) -> str:
            return f"{x:.{precision}f}"

    width = max((len(write(float(x))) for x in ordinary), default=1)
    return lambda x: write(float(x)).rjust(width), width
