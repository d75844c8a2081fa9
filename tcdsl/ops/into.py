"""Functions whose results are written into tensors of the caller's: ``out=``.

Operations whose text is all of them write there themselves (`forms`). Here are the functions around
them: they make the result as ever, and it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tcdsl.core import Function, Tensor, is_grad_enabled
from tcdsl.ops.arguments import faced
from tcdsl.ops.writing import check_unrecorded, write_result

# PyTorch's functions that have the argument, and that the library has as functions of Python's.
_NAMES = """
    all amax amin aminmax any argmax argmin argsort bitwise_not bucketize chain_matmul cholesky
    cholesky_inverse cholesky_solve column_stack cross cummax cummin cumprod cumsum diag diff
    dstack float_power floor_divide frexp gather gcd geqrf heaviside hstack index_add index_copy
    index_select inner inverse isin kron kthvalue lcm ldexp log_softmax logaddexp2 logcumsumexp
    logit logsumexp lu_solve masked_select matmul matrix_power max mean median min mode msort
    mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow_copy nonzero norm orgqr
    ormqr polygamma prod qr quantile renorm scatter scatter_add scatter_reduce searchsorted
    softmax sort std sum svd symeig take take_along_dim tensordot topk triangular_solve tril
    triu var vdot vstack where
"""
TAKING = frozenset(_NAMES.split())
_IN_ITS_TYPE = frozenset(("cumprod", "cumsum", "mean", "nanmean", "nansum", "prod", "sum"))


def taking_out(name: str, function: Callable[..., Any]) -> Function:
    """Return a function that takes ``out``: a tensor for its result, or one for each of several.

    Sums and products are made in the type of that tensor.
    """
    made = faced(function)

    def into(*args: Any, out: Any, **named: Any) -> Any:
        if out is None:
            return made(*args, **named)
        outs = tuple(out) if isinstance(out, tuple | list) else (out,)
        for target in outs:
            if not isinstance(target, Tensor):
                raise TypeError(
                    f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}"
                )
        if is_grad_enabled():
            check_unrecorded(name, [*_tensors((*args, *named.values())), *outs])
        if name in _IN_ITS_TYPE and named.get("dtype") is None:
            named["dtype"] = outs[0].dtype
        result = made(*args, **named)
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(outs):
            raise TypeError(f"{name}() has {len(results)} results, but out has {len(outs)} tensors")
        for target, value in zip(outs, results, strict=True):
            write_result(target, value)
        if not isinstance(result, tuple):
            return outs[0]
        return type(result)(*outs) if hasattr(result, "_fields") else outs

    made.names = {**(made.names or {}), "out": None}
    made.into = into
    return made


def _tensors(values: Any) -> Iterator[Tensor]:
    """Give the tensors among arguments, and in lists of them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)
