"""Errors of calls as scripts written for PyTorch know them: its words, and its class as well."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tcdsl.calls.bounds import OperandNames, bounds_error

_OUTSIDE = {  # PyTorch's words for subscripts outside of a tensor
    "index": "index {value} is out of bounds for dimension {dim} with size {extent}",
    "gather": "index {value} is out of bounds for dimension {dim} with size {extent}",
    "index_put": "index {value} is out of bounds for dimension {dim} with size {extent}",
    "scatter": "index {value} is out of bounds for dimension {dim} with size {extent}",
    "index_fill": "index {value} is out of bounds for dimension {dim} with size {extent}",
    "index_copy": "index {value} is out of bounds for a dimension with size {extent}",
    "index_add": "index out of range in self",
    **dict.fromkeys(
        ("put", "put_added", "take"),
        "out of range: tried to access index {value} on a tensor of {extent} elements.",
    ),
    "masked_scatter": "Number of elements of source < number of ones in mask",
    "multilabel_margin": "argument #2 'target' is out of range",
    "multi_margin": "target out of range: {value}, where there are {extent} classes",
    **dict.fromkeys(
        ("bag_sum", "bag_mean", "bag_max", "bag_weighted"),
        "input takes value {value} which is not in the valid range [0, {extent})",
    ),
    "index_reduce": "index out of range in self",
    "index_select": "index out of range in self",
    "embedding": "index out of range in self",
    **dict.fromkeys(
        ("nll", "nll_mean", "nll_weighted", "cross_entropy", "cross_entropy_mean"),
        "Target {value} is out of bounds.",
    ),
}

_RUNTIME = frozenset(  # of which PyTorch says it so
    ("gather", "masked_scatter", "multilabel_margin", "scatter")
)
_DIVISIONS = frozenset(("remainder", "fmod", "div_floor", "div_trunc"))


def outside(
    name: str, operands: Sequence[str], operand: int, dim: int, value: int, extent: int
) -> Exception:
    """Return the error of a subscript that is data and outside of an operand of an op.

    What has PyTorch's words has its class too: scripts look at ``type(error)``.
    """
    name = name.removesuffix("_")
    if name in _DIVISIONS:  # what they read is checked by the divisor (`div_floor_integers`)
        return RuntimeError("ZeroDivisionError")
    if words := _OUTSIDE.get(name):
        said = words.format(value=value, dim=dim, extent=extent)
        return RuntimeError(said) if name in _RUNTIME else IndexError(said)
    return as_runtime_error(
        bounds_error(OperandNames(name, tuple(operands)), operand, dim, value, extent)
    )


def as_runtime_error(error: Exception) -> Exception:
    """Make an error a RuntimeError too, which scripts written for PyTorch catch; return it."""
    if not isinstance(error, RuntimeError):
        kind: Any = type(error)
        error.__class__ = _also_runtime(kind)
    return error


@cache
def _also_runtime(kind: Any) -> Any:
    return type(kind.__name__, (kind, RuntimeError), {"__module__": kind.__module__})
