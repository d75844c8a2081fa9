"""Products that are added to something: addmm and its kin, scaled by beta and alpha."""

from __future__ import annotations

from functools import partial
from typing import Any

from tcdsl.core import Op, Tensor, made_by
from tcdsl.core.dtypes import DType
from tcdsl.ops.casting import lower
from tcdsl.ops.product_rules import of_bmm, of_mm, of_mv
from tcdsl.ops.rules import NAMES, Operands, same
from tcdsl.ops.table import Family, publish

ops = Family(__file__)


def _types_of_sum(operands: Operands) -> DType:
    """Return the type of a matrix and a product that is added to it."""
    for name, x in zip(("mat2", "mat1"), reversed(operands[1:3]), strict=True):
        if isinstance(x, Tensor) and x.dtype is not operands[0].dtype:
            raise RuntimeError(
                f"self and {name} must have the same dtype, but got "
                f"{NAMES[operands[0].dtype.name]} and {NAMES[x.dtype.name]}"
            )
    return same(operands)


def _sum_row(name: str) -> Op:
    """Return the row of a sum with a product; calls that name ``beta`` or ``alpha`` are scaled."""
    types, shape = _types_of_sum if name == "addmm" else same, partial(_check_sum, name)
    plain = ops.op(name, types=types, shape=shape, spread=partial(_spread_to_product, name))
    scaled = ops.op(f"{name}_scaled", types=types)
    params = plain.forms.params

    def added(*args: Any, beta: Any = 1, alpha: Any = 1, out: Any = None, **named: Any) -> Tensor:
        if len(args) == 5:  # addmm(beta, input, alpha, mat1, mat2), as PyTorch 0.4 has it
            beta, alpha, args = args[0], args[2], (args[1], *args[3:])
        elif len(args) == 4 and not isinstance(args[0], Tensor):
            beta, args = args[0], args[1:]
        if named or len(args) != 3:
            args = (*args, *(named.pop(p, None) for p in params[len(args) :]))
        if named or len(args) != 3:
            raise _no_operands(name)
        given = {} if out is None else {"out": out}
        if type(beta) is int and type(alpha) is int and beta == alpha == 1:
            return plain(*args, **given)  # type: ignore[no-any-return]
        input, a, b = _spread_to_product(name, args) or args
        return scaled(input, a, b, beta, alpha, **given)  # type: ignore[no-any-return]

    added.__name__ = name
    added.__doc__ = f"Return ``beta * input + alpha * product``, as {name} of the text."
    return ops.row(
        name,
        types=types,
        shape=shape,
        spread=partial(_spread_to_product, name),
        slow=added,
        inplace=True,
        inplace_text=None if name == "addr" else f"{name}_into",
        inplace_on=("Tensor",),
    )


def _no_operands(name: str) -> TypeError:
    params = [p.name for p in ops.session.definition(name).params]
    return TypeError(f"{name}() takes the Tensors {', '.join(params)}, and beta, alpha, out")


def _spread_to_product(name: str, operands: Operands) -> Operands | None:
    """Return operands of which the first is expanded to the shape of a product; None if it is so.

    Raises
    ------
    TypeError, RuntimeError
        If they are no Tensors, or their shapes do not fit.
    """
    input, a, b = operands
    shape = _shape_of(name, input, a, b)
    return None if input.shape == shape else (input.expand(shape), a, b)


def _check_sum(name: str, operands: Operands) -> None:
    """Refuse an input that is not of the product's shape: one that is written is not expanded."""
    input, *factors = operands
    shape = _shape_of(name, input, *factors)
    if input.shape != shape:
        raise RuntimeError(
            f"Bad in-place call: input tensor size {list(input.shape)} and output tensor size "
            f"{list(shape)} should match"
        )


def _are_tensors(a: Any, b: Any, c: Any) -> bool:
    return isinstance(a, Tensor) and isinstance(b, Tensor) and isinstance(c, Tensor)


def _shape_of(name: str, input: Tensor, a: Tensor, b: Tensor) -> tuple[int, ...]:
    """Return the shape of a product, or raise in PyTorch's words."""
    if not _are_tensors(input, a, b):
        raise _no_operands(name)
    if name == "addmv":
        of_mv((a, b), input.shape[0] if input.ndim == 1 else None)
        rows, _ = a.shape
        return (rows,)
    if name == "addr":
        for said, vector in (("vec1", a), ("vec2", b)):
            if vector.ndim != 1:
                raise RuntimeError(f"addr: Expected 1-D argument {said}, but got {vector.ndim}-D")
        return (a.shape[0], b.shape[0])
    if name == "addmm":
        of_mm((a, b))
        return (a.shape[0], b.shape[1])
    of_bmm((a, b))
    batch = () if name == "addbmm" else (a.shape[0],)
    return (*batch, a.shape[1], b.shape[2])


addmv, addmm, addr = _sum_row("addmv"), lower(_sum_row("addmm")), _sum_row("addr")
baddbmm, _addbmm = lower(_sum_row("baddbmm")), lower(_sum_row("addbmm"))
_MANY = 1 << 16  # elements of a batch from which on one long product is worth a copy of it


def addbmm(*args: Any, **named: Any) -> Tensor:
    """Return ``beta * input + alpha * sum of products`` of the matrices of two batches."""
    if len(args) == 3 and not named and _are_tensors(*args):
        input, a, b = args
        if a.ndim == 3 and b.ndim == 3 and a.numel() >= _MANY and a.shape[::2] == b.shape[:2]:
            row = a.transpose(0, 1).reshape(a.shape[1], -1), b.reshape(-1, b.shape[2])
            return made_by(addmm(input, *row), "AddbmmBackward0")
    found: Tensor = _addbmm(*args, **named)
    return found


publish(addbmm, ("addbmm",))
