"""Operands and kernels of the benchmarks; no kernel is tuned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tcdsl as tc
from tcdsl.calls.bindings import variant
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


def generic(text: str, like: Sequence[Array], out: Array | None = None) -> Kernel:
    """Return a kernel whose executable for operands of this layout takes any sizes.

    It is called once with the corners of operands like these: the next sizes get a generic one, in
    this process also where calls would go on without it for a while.
    """
    variant.LONG_FORMS.clear()
    k = kernel(text)
    k(*map(_corner, like), **({} if out is None else {"out": _corner(out)}))
    return k


def check(what: str, ours: Array, want: Array, rtol: float, atol: float | None = None) -> None:
    """Hold a result against the right one; atol is by default 1e-4 of the largest value."""
    limit = 1e-4 * float(np.abs(want).max()) if atol is None else atol
    assert np.allclose(ours, want, rtol=rtol, atol=limit), f"{what} is wrong"


def _corner(x: Array) -> Array:
    return x[tuple(slice(0, 3) for _ in x.shape)].copy()
