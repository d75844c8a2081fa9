"""Whether operands fit a definition that is bound to types, and the sizes that they bring."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tcdsl.calls.bindings.origin import check_given, number_of
from tcdsl.calls.bindings.signature import Signature
from tcdsl.calls.operands.abstract import AbstractArray
from tcdsl.calls.operands.arguments import Operand, dtype_of
from tcdsl.grammar.check.bind import bind
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.grammar.types.dtypes import DType

if TYPE_CHECKING:
    from tcdsl.codegen.gradient.derivatives import Gradient

Arrays = Sequence[Operand | AbstractArray]


def types_of(definition: nodes.Def, arrays: Arrays) -> list[DType]:
    """Return the types of the arguments.

    A number that stands for a type variable takes the type of an array that does, since numbers are
    converted.
    """
    dtypes = [dtype_of(a, p.name) for a, p in zip(arrays, definition.params, strict=False)]
    named = [p.type.name if p.type else "" for p in definition.params]
    by_variable = {t: d for t, d, a in zip(named, dtypes, arrays, strict=False) if a.ndim}
    return [
        d if a.ndim else by_variable.get(t, d)
        for t, d, a in zip(named, dtypes, arrays, strict=False)
    ]


def sizes_of(
    signature: Signature,
    definition: nodes.Def,
    arrays: Arrays,
    dtypes: Sequence[DType],
    each: Collection[str],
    origin: Gradient | None,
) -> dict[str, int]:
    """Return the sizes that arrays bring.

    Parameters
    ----------
    dtypes : sequence of DType
        Those of `types_of`.
    each : collection of str
        Integers of which each element of a batch has its own.
    origin : Gradient, optional
        What the definition is a gradient of.

    Raises
    ------
    TCError
        If types, ranks or sizes do not fit the definition.
    """
    for param, array in zip(signature.params, arrays, strict=True):
        if param.shape or not param.dtype.is_integer:
            continue
        if dtype_of(array, param.name).is_float:
            raise TCTypeError(
                f"{signature.name}: expected {param.name} of type {param.dtype}, "
                f"got a number of type {array.dtype}\n"
                "  pass an integer"
            )
    shapes = [a.shape for a in arrays]
    # a number is converted to its parameter's type, so only arrays have to match: a silent copy
    # of one would hide what a kernel costs
    expected = [d if p.shape else p.dtype for p, d in zip(signature.params, dtypes, strict=True)]
    scalars: dict[str, int | None] = {}
    if signature.scalars:
        numbers = {p.name: number_of(a) for p, a in zip(signature.params, arrays, strict=True)}
        known = (n for n in signature.scalars if numbers[n] is not None or n in each)
        scalars = {n: numbers[n] for n in known}
    if origin is None:
        return bind(signature, shapes, expected, scalars)
    refused: ShapeError | None = None
    try:
        sizes = bind(signature, shapes, expected, scalars)
    except ShapeError as error:  # the origin says more than the constraints of the text do
        refused = error
        sizes = bind(replace(signature, constraints=()), shapes, expected, scalars)
    check_shapes(origin, definition, arrays, sizes)
    if refused is not None:
        raise refused
    return sizes


def check_shapes(
    origin: Gradient, definition: nodes.Def, arrays: Arrays, sizes: Mapping[str, int]
) -> None:
    """Check what calls of a gradient hand on of the forward pass, and its adjoints."""
    names = [p.name for p in definition.params]
    call = f"{definition.name}({', '.join(names)})"
    check_given(origin, dict(zip(names, arrays, strict=True)), sizes, call)
