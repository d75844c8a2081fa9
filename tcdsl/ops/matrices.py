"""What functions of matrices have in common: what they take, how their calls are recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from typing import Any

import numpy as np

from tcdsl.core import GRAD, Recipe, Tensor, dtypes, from_numpy, is_grad_enabled, record, set_fn
from tcdsl.core.dtypes import DType
from tcdsl.ops.lapack import Array
from tcdsl.ops.table import publish
from tcdsl.ops.underived import refuse
from tcdsl.ops.views import no_vjp, transpose


def array_of(x: Tensor) -> Array:
    """Return an array over the memory of a tensor."""
    return x.detach()._array()


def shown(dtype: DType) -> str:
    """Return a type as PyTorch's messages have it."""
    names = {
        "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
        "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
        "float64": "Double",
    }  # fmt: skip
    return names[dtype.name]


def check_matrices(name: str, *tensors: Tensor, square: bool = False) -> None:
    """Refuse what is no matrix of floats that LAPACK knows.

    Raises
    ------
    RuntimeError
    """
    for x in tensors:
        if x.ndim < 2:
            raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
        if not x.dtype.is_floating_point:
            raise RuntimeError(
                f"{name}: Expected a floating point or complex tensor as input. "
                f"Got {shown(x.dtype)}"
            )
        if x.dtype not in (dtypes.float32, dtypes.float64):
            raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {shown(x.dtype)}")
        if x.dtype is not tensors[0].dtype:
            raise RuntimeError(
                f"{name}: Expected A and B to have the same dtype, but found A of type "
                f"{shown(tensors[0].dtype)} and B of type {shown(x.dtype)} instead"
            )
    if square:
        check_square(name, tensors[0])


def check_square(name: str, x: Tensor) -> None:
    """Refuse what is no square matrix."""
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {x.shape[-2]} by "
            f"{x.shape[-1]} matrices"
        )


def check_one(name: str, x: Tensor) -> None:
    """Refuse batches."""
    if x.ndim != 2:
        raise RuntimeError(f"{name}: expected a matrix, got a tensor of {x.ndim} dimensions")


@cache
def _recipe(taken: tuple[int, ...], count: int) -> Recipe:
    return Recipe(no_vjp, taken, tuple(range(count)))


_CALLED = {
    "Cholesky": "LinalgCholeskyEx",
    "LinalgInv": "LinalgInvEx",
    "LinalgSolve": "LinalgSolveEx",
}


def recorded(
    name: str,
    inputs: tuple[Tensor, ...],
    results: Sequence[Any],
    vjp: Callable[..., Any],
    taken: tuple[int, ...],
    constants: Sequence[int] = (),
) -> tuple[Tensor, ...]:
    """Return arrays as the tensors of a call that is recorded; `constants` have no gradient."""
    outputs = tuple(from_numpy(np.asarray(a)) for a in results)
    needs = sum(x.requires_grad << i for i, x in enumerate(inputs))
    if needs and is_grad_enabled():
        record(
            f"{_CALLED.get(name, name)}Backward0",
            _recipe(taken, len(inputs)),
            vjp,
            inputs,
            outputs,
            needs,
        )
        for r in constants:
            set_fn(outputs[r], None, 0)
    return outputs


def underivable(
    name: str, inputs: tuple[Tensor, ...], results: Sequence[Any], constants: Sequence[int] = ()
) -> tuple[Tensor, ...]:
    """Return arrays as the tensors of a call whose way back raises."""
    return recorded(name, inputs, results, partial(refuse, name), (GRAD,), constants)


def _fills_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function take ``out=``, a tensor or as many as it returns."""

    @wraps(function)
    def called(*args: Any, out: Any = None, **named: Any) -> Any:
        if out is None:
            return function(*args, **named)
        given = [x for x in (*args, *named.values()) if isinstance(x, Tensor)]
        targets = (out,) if isinstance(out, Tensor) else tuple(out)
        if is_grad_enabled() and any(x.requires_grad for x in (*given, *targets)):
            raise RuntimeError(
                f"{function.__name__}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
        found = function(*args, **named)
        for target, made in zip(
            targets, (found,) if isinstance(found, Tensor) else found, strict=True
        ):
            if tuple(target.shape) != tuple(made.shape):
                target.resize_(tuple(made.shape))
            target.copy_(made)
        return out

    return called


def publish_all(*functions: Callable[..., Any]) -> None:
    """Make functions public under their names, with ``out=``."""
    for function in functions:
        publish(_fills_out(function), (function.__name__,))


def turned(x: Tensor) -> Tensor:
    """Return a view of the transposed matrices."""
    return transpose(x, -2, -1)


def eye_like(x: Tensor, n: int | None = None) -> Tensor:
    """Return the unit matrix of as many columns as matrices have, or n, in their type."""
    return from_numpy(np.eye(x.shape[-1] if n is None else n, dtype=x.dtype.numpy))
