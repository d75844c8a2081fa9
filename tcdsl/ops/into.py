"""Functions whose results are written into tensors of the caller's: ``out=``.

Operations whose text is all of them write there themselves (`forms`). Here are the functions around
them: they make the result as ever, and it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.core import Function, Tensor, set_casting
from tcdsl.core.dtypes import bool_, uint8
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
# Those whose results are converted to the type of that tensor; of the others it is the results'.
_CONVERTED_NAMES = """
    cholesky cholesky_inverse cholesky_solve column_stack cumprod cumsum diff dstack floor_divide
    gcd geqrf hstack kron lcm logaddexp2 logit logsumexp lu_solve mean mvlgamma nanmean nansum
    orgqr ormqr polygamma prod std sum symeig triangular_solve var vstack
"""
_CONVERTED = frozenset(_CONVERTED_NAMES.split())
_IN_ITS_TYPE = frozenset(("cumprod", "cumsum", "mean", "nanmean", "nansum", "prod", "sum"))


def taking_out(name: str, function: Callable[..., Any]) -> Function:
    """Return a function that takes ``out``: a tensor for its result, or one for each of several.

    Sums and products are made in the type of that tensor.
    """
    made = faced(function)

    def into(*args: Any, out: Any, **named: Any) -> Any:
        if out is None:
            return made(*args, **named)
        outs = out if isinstance(out, tuple | list) else (out,)
        for target in outs:
            if not isinstance(target, Tensor):
                raise TypeError(
                    f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}"
                )
        is_typed = named.get("dtype") is not None
        if name in _IN_ITS_TYPE and not is_typed:
            named["dtype"] = outs[0].dtype
        is_casting = set_casting(False)  # the operands say the type
        try:
            result = made(*args, **named)
        finally:
            set_casting(is_casting)
        if not isinstance(result, tuple) and outs is out:
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(outs):
            raise TypeError(f"{name}() has {len(results)} results, but out has {len(outs)} tensors")
        if is_typed or (name in TAKING and name not in _CONVERTED):
            _check_alike(name, outs, results)
        check_unrecorded(name, (*results, *outs))
        for target, value in zip(outs, results, strict=True):
            write_result(target, value)
        if not isinstance(result, tuple):
            return outs[0]
        return type(result)(*outs) if hasattr(result, "_fields") else tuple(outs)

    made.into = into
    made.names = {**(made.names or {}), "out": None}
    return made


def _check_alike(name: str, outs: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Refuse tensors of other types than the results have; truths may be bytes."""
    if name in ("max", "min") and len(results) == 1:
        return  # of two operands, or of all elements
    for target, made in zip(outs, results, strict=True):
        is_truth = name in ("all", "any") and target.dtype in (bool_, uint8)
        if target.dtype is not made.dtype and not is_truth:
            raise RuntimeError(
                f"{name}(): expected an out tensor of dtype {made.dtype}, got {target.dtype}"
            )
