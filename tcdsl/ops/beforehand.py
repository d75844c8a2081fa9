"""The way back of a recorded call, built aside while the call itself is compiled.

Where a process meets a form that no process on this machine has met, it will meet its gradient's
too, and a compiler would be waited for again. As `tcdsl/derived/beforehand.py` for kernels; here
the forms of what the gradient reads are those of the call, and its adjoints are in C order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.calls.bindings.executables import COMPILING
from tcdsl.calls.to_come import ArrayToCome, CallToCome
from tcdsl.core import FORM, OUTPUT, Tensor, is_grad_enabled
from tcdsl.core.dtypes import dtype_of
from tcdsl.derived.beforehand import is_possible

if TYPE_CHECKING:
    from tcdsl.calls.call import KernelCall
    from tcdsl.ops.recipes import Texted


@contextmanager
def way_back_begun(forms: Texted, call: KernelCall, values: Sequence[Any]) -> Iterator[None]:
    """Begin the way back of a call as soon as the call is compiled here, if it is recorded.

    Where it is compiled already, the way back only hears which sizes come first.
    """
    way = _way(forms, call, values)
    if way is None:
        yield
        return
    back, form, to_come = way
    back.begun.expect(form, to_come)
    token = COMPILING.set(lambda: back.begun.begin(back.dispatch, form, to_come))
    try:
        yield
    finally:
        COMPILING.reset(token)


def _way(
    forms: Texted, call: KernelCall, values: Sequence[Any]
) -> tuple[Texted, object, CallToCome] | None:
    """Return the op that will go back, the form of its call, and that call.

    None of what is not recorded, and where only the way back itself knows its calls.
    """
    if forms.meaning.vjp is None or forms.writes or not (needs := _needs(values)):
        return None
    if not is_possible(call.variant) or not _has_float(call):
        return None
    way = forms.recipes.way(call.variant, needs)
    if way is None or forms.recipes.spreads(call.variant, needs, values):
        return None
    back, codes = way
    operands = [_to_come(code, call, values) for code in codes]
    dtype = dtype_of(next(o.dtype for o in operands if isinstance(o, ArrayToCome)))
    assert dtype is not None, "it is the type of a tensor"
    given = tuple(
        (o, None if isinstance(o, ArrayToCome) else back.text.number(p, o, dtype))
        for p, o in zip(back.params, operands, strict=True)
    )
    return back, form_of(operands), CallToCome(back.text.generics(dtype), given)


def _needs(values: Sequence[Any]) -> int:
    """Return which gradients a call is recorded for, bit by bit."""
    if not is_grad_enabled():
        return 0
    return sum(1 << i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad)


def _has_float(call: KernelCall) -> bool:
    """Whether a call has an output that gradients pass; one of places or bools is not recorded."""
    kinds = [dtype_of(np.dtype(kind)) for kind, _ in call.return_types]
    return any(kind is not None and kind.is_floating_point for kind in kinds)


def _to_come(code: int, call: KernelCall, values: Sequence[Any]) -> Any:
    """Return the form of what a parameter of the gradient stands for, or the number itself."""
    number = code % FORM
    if code >= OUTPUT:  # or the gradient of one
        return ArrayToCome(*call.return_types[number])
    value = values[number]
    if not isinstance(value, Tensor):
        return value
    strides = tuple(n * value.itemsize for n in value.stride())
    return ArrayToCome(value.dtype.numpy, tuple(value.shape), strides)


def form_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return what tells calls apart: types and shapes."""
    return tuple(
        (np.dtype(v.dtype.numpy if isinstance(v, Tensor) else v.dtype), tuple(v.shape))
        if isinstance(v, Tensor | ArrayToCome)
        else type(v)
        for v in values
    )
