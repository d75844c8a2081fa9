"""Rules of ops: the type that a call computes in, and which shapes go together.

A rule of types takes the operands of a call, Tensors and Python numbers, and gives the type of the
result; a number gives its kind only, as in PyTorch: it never makes a float32 tensor float64. A rule
of shapes takes the same and raises where they do not fit, in PyTorch's words; the shape of the
result is the compiler's to find.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tcdsl.core import Tensor, dtypes
from tcdsl.core.dtypes import DType

Operands = Sequence[Any]
TypeRule = Callable[[Operands], DType]
ShapeRule = Callable[[Operands], None]

C_NAMES = {  # of types, in messages of PyTorch's
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
}
NAMES = {  # and in others
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
}
_DEFAULT = {0: dtypes.bool_, 1: dtypes.int64}
_default_float = dtypes.float32


def not_for(kernel: str, dtype: DType) -> NotImplementedError:
    """Return the error of a type that PyTorch has no kernel of this name for."""
    kernel = kernel.removeprefix("each_")  # a text's name
    return NotImplementedError(f"\"{kernel}\" not implemented for '{NAMES[dtype.name]}'")


def default_float() -> DType:
    """Return the type of floats that nothing else tells."""
    return _default_float


def set_default_float(dtype: DType) -> None:
    """Let floats that nothing else tells be of this type."""
    global _default_float
    _default_float = dtype


def promote(operands: Operands) -> DType:
    """Return the type that holds all operands.

    Tensors of rank 0 count where they are of a higher category than those of other ranks, and
    numbers where they are of a higher one than all tensors: bool, integers, floats.

    References
    ----------
    PyTorch 2.13, "Type promotion" of ``torch.Tensor``'s attributes.
    """
    found: list[DType | None] = [None, None]  # of tensors of any rank but 0, of rank 0
    number = -1
    for o in operands:
        if isinstance(o, Tensor):
            at = 0 if o.ndim else 1
            found[at] = o.dtype if (old := found[at]) is None else joined(old, o.dtype)
        else:
            number = max(number, category_of(o))
    ranked, single = found
    result = ranked
    if single is not None and (ranked is None or single.category > ranked.category):
        result = single
    if result is None or number > result.category:
        return default_float() if number == 2 else _DEFAULT[number]
    return result


def joined(a: DType, b: DType) -> DType:
    """Return the smallest type that holds two."""
    if a is b:
        return a
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.category == 2:
        if a.itemsize == b.itemsize:  # float16 and bfloat16
            return dtypes.float32
        return a if a.itemsize > b.itemsize else b
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    signed = a if a.is_signed else b  # the other is uint8
    return dtypes.int16 if signed.itemsize == 1 else signed


def computing(dtype: DType) -> DType:
    """Return the type in which elements of a type are computed: float32 for the halves."""
    return dtypes.float32 if dtype.is_floating_point and dtype.itemsize == 2 else dtype


def category_of(number: object) -> int:
    """Return the kind of a Python number: 0 bool, 1 integer, 2 float."""
    return 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2


_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


def number_of_type(dtype: DType, value: Any) -> bool | int | float:
    """Return a number as one of Python of the kind of a type.

    Raises
    ------
    RuntimeError
        If it is finite and beyond the floats of the type, or a float that no integer stands for:
        not finite, or below 0 where none has a sign.
    """
    if dtype.is_floating_point:
        number = float(value)
        if _LARGEST.get(dtype.name, math.inf) < abs(number) < math.inf:
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
        return number
    if not dtype.category:
        return bool(value)
    if isinstance(value, float) and (
        not math.isfinite(value) or (value < 0 and not dtype.is_signed)
    ):
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    return int(value)


def floating(operands: Operands) -> DType:
    """Return the type that holds all operands, of floats: integers become the default float."""
    dtype = promote(operands)
    return dtype if dtype.is_floating_point else default_float()


def widen(operands: Operands) -> DType:
    """Return the type of sums: int64 for all integers and bool."""
    dtype = promote(operands)
    return dtype if dtype.is_floating_point else dtypes.int64


def first(operands: Operands) -> DType:
    """Return the type of the first operand, whatever the others are."""
    found: DType = operands[0].dtype
    return found


def same(operands: Operands) -> DType:
    """Return the one type of all tensors among the operands.

    Raises
    ------
    RuntimeError
        If there are several.
    """
    found = [o.dtype for o in operands if isinstance(o, Tensor)]
    for dtype in found[1:]:
        if dtype is not found[0]:
            raise RuntimeError(
                f"expected scalar type {NAMES[found[0].name]} but found {NAMES[dtype.name]}"
            )
    return found[0]


def check_floats(kernel: str, dtype: DType) -> None:
    """Refuse integers, in PyTorch's words of a kernel."""
    if not dtype.is_floating_point:
        raise not_for(kernel, dtype)


def only(kernel: str, categories: Collection[int], rule: TypeRule) -> TypeRule:
    """Return a rule of a kernel, as PyTorch names it, that is of some categories of types."""

    def rule_of_some(operands: Operands) -> DType:
        dtype = rule(operands)
        if dtype.category not in categories:
            raise not_for(kernel, dtype)
        return dtype

    return rule_of_some


def floats(kernel: str, rule: TypeRule = same) -> TypeRule:
    """Return a rule of a kernel, as PyTorch names it, that is of floats only."""
    return only(kernel, (2,), rule)


def same_as(words: str) -> TypeRule:
    """Return the rule `same` in the words of an op: ``"expected a and b .., got: {} != {}"``."""

    def rule(operands: Operands) -> DType:
        found = [o.dtype for o in operands if isinstance(o, Tensor)]
        for dtype in found[1:]:
            if dtype is not found[0]:
                raise RuntimeError(words.format(*(C_NAMES[d.name] for d in (found[0], dtype))))
        return found[0]

    return rule


def broadcast(operands: Operands) -> None:
    """Refuse shapes that do not broadcast.

    Raises
    ------
    RuntimeError
    """
    broadcast_shape([tuple(o.shape) for o in operands if isinstance(o, Tensor)])


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast.

    Raises
    ------
    RuntimeError
        If they do not.
    """
    found: list[int] = []
    for shape in shapes:
        short = len(shape) - len(found)
        found = [1] * short + found
        for d in reversed(range(len(shape))):  # so that the last one is named that does not fit
            at = len(found) - len(shape) + d
            if shape[d] == found[at] or shape[d] == 1:
                continue
            if found[at] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({found[at]}) must match the size of tensor b "
                    f"({shape[d]}) at non-singleton dimension {at}"
                )
            found[at] = shape[d]
    return tuple(found)
