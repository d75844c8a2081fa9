"""What a kernel is the gradient of: which arguments fit, and how it is without kept values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tcdsl.calls.operands.abstract import AbstractArray
from tcdsl.calls.operands.arguments import Operand
from tcdsl.calls.operands.device_arrays import DeviceArray
from tcdsl.grammar.text.errors import ShapeError

if TYPE_CHECKING:
    from tcdsl.codegen.gradient.derivatives import Gradient


def check_given(
    origin: Gradient,
    arrays: Mapping[str, Operand | AbstractArray],
    sizes: Mapping[str, int],
    call: str,
) -> None:
    """Check the extents of kept values and adjoints, which are functions of the others'.

    The text of a gradient cannot say that `d_O` has H - KH + 1 rows; it has a size for them.

    Parameters
    ----------
    origin : Gradient
    arrays : mapping of str to array
        The arguments by parameter.
    sizes : mapping of str to int
        By the symbols of the gradient.
    call : str
        How messages begin.

    Raises
    ------
    ShapeError
        If one has other extents.
    """
    known = {
        name: n for name, a in arrays.items() if not a.ndim and (n := number_of(a)) is not None
    }
    known |= sizes
    for given in origin.given:
        if given.name not in arrays:
            continue
        shape = arrays[given.name].shape
        wanted = tuple([extent.evaluate(known) for extent in given.shape])
        if shape != wanted:
            symbols = ", ".join(map(str, given.shape)) + ("," if len(wanted) == 1 else "")
            what = f"of the shape of '{given.output}'," if given.output else "as it was kept,"
            raise ShapeError(
                f"{call}: expected {given.name} {what} ({symbols}) = {wanted}, got {shape}"
            )


def number_of(array: Operand | AbstractArray) -> int | None:
    """Return the value of an integer of rank 0; None for what is none, or lies on a GPU."""
    if isinstance(array, DeviceArray):
        return None
    if isinstance(array, np.ndarray):
        return int(array) if array.ndim == 0 and array.dtype.kind in "iub" else None
    value: int | None = array.value
    return value


def cure_for_missing(origin: Gradient, params: Sequence[str]) -> str:
    """Return what to do about arguments that are missing, "" where nothing is kept."""
    if not set(origin.kept) & set(params):
        return ""
    name = origin.name.removeprefix("d_")
    rest = ", ".join(p for p in params if p not in origin.kept)
    them = "it" if len(origin.kept) == 1 else "them"
    return (
        f"\n  {', '.join(origin.kept)}: kept of the forward pass. {name}.vjp(...) passes {them} "
        f"on, tc.grad({name}).whole({rest}) computes {them}"
    )
