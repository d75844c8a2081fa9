"""Operands and kernels of the benchmarks; no kernel is tuned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tcdsl as tc
from tcdsl.calls.bindings import meanwhile
from tcdsl.codegen import runtime
from tcdsl.kernel import Kernel

Array = np.ndarray[Any, np.dtype[Any]]


def rand(*shape: int) -> Array:
    """Return normal float32 numbers, the same for a shape in every run."""
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def kernel(text: str) -> Kernel:
    """Return the only definition of a text; its first sizes get an executable of their own."""
    k = tc.define(text, tune="off", threads=runtime.get_num_threads())
    assert isinstance(k, Kernel)
    return k


def generic(text: str, like: Sequence[Any]) -> Kernel:
    """Return a kernel whose calls with operands like these run an executable for any sizes.

    It is what calls get once other sizes have come before, in this process also where they would
    go on without it for a while. Only where no size is left open, it is that of `kernel`.
    """
    k = kernel(text)
    serve_any_size(k, like)
    return k


def serve_any_size(k: Kernel, like: Sequence[Any]) -> None:
    """Have calls of a kernel with operands like these run an executable for any sizes.

    It is compiled now: else what a process has compiled of these sizes' own would serve them.
    """
    meanwhile.LONG_FORMS.clear()
    call = k.call(*like)
    call.variant.expect({name: n + 1 for name, n in call.sizes.items()}, call.spec.layouts)
    call.variant.compile_for_all(call.sizes, call.spec.layouts)


def check(what: str, ours: Array, want: Array, rtol: float, atol: float | None = None) -> None:
    """Hold a result against the right one; atol is by default 1e-4 of the largest value."""
    limit = 1e-4 * float(np.abs(want).max()) if atol is None else atol
    assert np.allclose(ours, want, rtol=rtol, atol=limit), f"{what} is wrong"
