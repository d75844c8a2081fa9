"""What an op is, beside its text: the fields of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tcdsl.core import Tensor
from tcdsl.core.dtypes import DType
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.ops.rules import ShapeRule, TypeRule, same
from tcdsl.ops.strides import Layout, strides_of_result

Vjp = str | Callable[..., Any] | None
Slow = Callable[..., Any]
Spread = Callable[[Sequence[Any]], Sequence[Any] | None]


@dataclass(frozen=True)
class Meaning:
    """What an op is, beside its text; the fields are those of a row (`table.py`)."""

    types: TypeRule = same
    shape: ShapeRule | None = None
    vjp: Vjp = "derived"
    saves: tuple[str, ...] = ()
    slow: Slow | None = None
    spread: Spread | None = None
    generics: Mapping[str, int] = field(default_factory=dict)
    integers: str | None = None  # the definition that serves where the type is no float
    bools: str | None = None  # and where it is bool
    backward: str = ""  # the definition that somebody wrote as the way back of this one
    layout: Layout = strides_of_result  # of what is computed element by element
    order: Layout | None = None  # of what is not: how its results lie
    keeps_numbers: bool = False  # whether numbers in the place of tensors outlive the way back
    is_tunable: bool = False  # whether a recording of what is to be tuned sees its calls


def anything(operands: Sequence[Any]) -> DType:
    """Return some type: a gradient's text says the type of each of its parameters."""
    return next(o.dtype for o in operands if isinstance(o, Tensor))
