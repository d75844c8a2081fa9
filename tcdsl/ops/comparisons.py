"""Comparisons and logic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tcdsl.core import Method, Op, Tensor, from_numpy
from tcdsl.ops.forms import Forms
from tcdsl.ops.rules import NAMES, broadcast, promote
from tcdsl.ops.table import Family, in_place, op_of_text, publish
from tcdsl.ops.writing import any_recorded

ops = Family(__file__)

eq = ops.row("eq", types=promote, shape=broadcast, vjp=None)
ne = ops.row("ne", types=promote, shape=broadcast, vjp=None, aliases=("not_equal",))
lt = ops.row("lt", types=promote, shape=broadcast, vjp=None, aliases=("less",))
le = ops.row("le", types=promote, shape=broadcast, vjp=None, aliases=("less_equal",))
gt = ops.row("gt", types=promote, shape=broadcast, vjp=None, aliases=("greater",))
ge = ops.row("ge", types=promote, shape=broadcast, vjp=None, aliases=("greater_equal",))
isnan = ops.row("isnan", text="each_isnan", vjp=None)
isinf = ops.row("isinf", text="each_isinf", vjp=None)
isfinite = ops.row("isfinite", text="each_isfinite", vjp=None)
logical_not = ops.row("logical_not", vjp=None)
logical_and = ops.row("logical_and", types=promote, shape=broadcast, vjp=None)
logical_or = ops.row("logical_or", types=promote, shape=broadcast, vjp=None)
logical_xor = ops.row("logical_xor", types=promote, shape=broadcast, vjp=None)
_equal = ops.op("equal", types=promote, vjp=None)
_isclose = ops.op("isclose", types=promote, shape=broadcast, vjp=None)


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Tell where two tensors differ by at most ``atol + rtol * abs(other)``."""
    if input.dtype is not other.dtype:
        a, b = NAMES[input.dtype.name], NAMES[other.dtype.name]
        raise RuntimeError(f"{a} did not match {b}")
    found: Tensor = _isclose(input, other, float(rtol), float(atol), equal_nan)
    return found


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all().item())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    if not isinstance(other, Tensor):
        raise TypeError(
            f"equal(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}"
        )
    return input.shape == other.shape and bool(_equal(input, other).item())


def _operator(op: Op) -> Op:
    """Return a comparison as an operator: it leaves operands that tensors know nothing of alone."""
    forms: Forms = op.__dict__["forms"]

    def slow(*operands: Any) -> Any:
        operands = tuple(from_numpy(o) if isinstance(o, np.ndarray) else o for o in operands)
        known = all(isinstance(o, Tensor | int | float | np.generic) for o in operands)
        return forms.slow(*operands) if known else NotImplemented

    return Op(op.name, forms.launcher, slow, None, 2, 1)


def _written(op: Op, sign: str) -> Callable[..., Tensor]:
    """Return a comparison that writes 1 and 0 over its first operand, in that one's type."""
    general = in_place(op)  # of another type than it compares in, or recorded
    name = f"{op.name}_"
    text = f"def {name}<T>(T(...) input, T(...) other) -> (T(...) out) {{\n"
    text += f"  out(...) = T(input(...) {sign} other(...))\n}}"
    into = op_of_text(text, types=promote, shape=broadcast, vjp=None, writes=True)

    def written(input: Tensor, other: Any) -> Tensor:
        plain = not any_recorded((input, other)) and promote((input, other)) is input.dtype
        made: Tensor = (into if plain else general)(input, other)
        return made

    written.__name__ = name
    written.__doc__ = f"Write the result of `{op.name}` here; return self."
    return written


_SIGNS = {
    "eq": (eq, "==", ()), "ne": (ne, "!=", ("not_equal_",)), "lt": (lt, "<", ("less_",)),
    "le": (le, "<=", ("less_equal_",)), "gt": (gt, ">", ("greater_",)),
    "ge": (ge, ">=", ("greater_equal_",)),
}  # fmt: skip
for _name, (_op, _sign, _others) in _SIGNS.items():
    setattr(Tensor, f"__{_name}__", Method(_operator(_op)))
    publish(_written(_op, _sign), (f"{_name}_", *_others), on=("Tensor",))

for made in (isclose, allclose, equal):
    publish(made, (made.__name__,))
