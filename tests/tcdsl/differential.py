"""Kernels as users call them, held against the reference evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.types.typed import CheckedDef, Tensor

Array = np.ndarray[Any, np.dtype[Any]]

VIEWS = ("c", "transposed", "strided", "reversed", "broadcast", "sliced")


def viewed(a: Array, view: str) -> Array:
    """Return an array of the same shape, type and (but for broadcast) values in another layout."""
    if view == "c" or a.ndim == 0 or a.size == 0:
        return a
    if view == "transposed":
        return np.ascontiguousarray(a.T).T
    if view == "reversed":
        flip = tuple(slice(None, None, -1) for _ in a.shape)
        return np.ascontiguousarray(a[flip])[flip]
    if view == "broadcast":
        return np.broadcast_to(a[:1], a.shape)
    if view == "sliced":  # rows further apart than they are long
        wide = np.zeros((*a.shape[:-1], a.shape[-1] + 3), a.dtype)
        wide[..., 1:-2] = a
        return wide[..., 1:-2]
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 3), a.dtype)
    wide[..., 1:-2:2] = a
    return wide[..., 1:-2:2]


def small_numbers(
    shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, special: float = 0.0
) -> Array:
    """Return small whole numbers, and halves among the floats; a share of nan and inf."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -4, 8, shape).astype(dtype)
    a = (rng.integers(-6, 7, shape) / 2).astype(dtype)
    odd = rng.random(shape) < special
    picks = rng.choice(np.array([np.nan, np.inf, -np.inf]), shape).astype(dtype)
    return np.where(odd, picks, a).astype(dtype)


def poisoned(shape: tuple[int, ...], dtype: np.dtype[Any], view: str = "c") -> Array:
    """Return an output whose old contents would show in a wrong result."""
    a = np.frombuffer(b"\xa5" * (int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()
    return viewed(a, view)


def results(value: Any) -> tuple[Array, ...]:
    """Return what a call gave as a tuple of arrays."""
    return tuple(np.asarray(v) for v in value) if isinstance(value, tuple) else (np.asarray(value),)


def reference(
    checked: CheckedDef,
    args: Sequence[Any],
    *,
    float64: bool = False,
    out: Sequence[Array | None] | None = None,
) -> tuple[Array, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return evaluate(checked, args, out=out, float64=float64)


def shape_of(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(s.evaluate(sizes) for s in tensor.shape)


def dtype_of(tensor: Tensor) -> np.dtype[Any]:
    return numpy_dtype(tensor.dtype)


def same(got: Array, want: Array) -> bool:
    """Whether values agree bit for bit, but for the payload of nan and the sign of 0."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if want.dtype.kind in "biu":
        return bool(np.array_equal(got, want))
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
    return bool(np.array_equal(a, b, equal_nan=True))


def assert_close(got: Array, want: Array, terms: int) -> None:
    """Hold a float result against one in float64: rounding of a sum of so many terms."""
    assert got.shape == want.shape
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want.astype(got.dtype))
        return
    eps = 2.0**-8 if got.dtype.name == "bfloat16" else float(np.finfo(got.dtype).eps)
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 0.0
    eps_sum = 2.0**-23 if got.dtype.itemsize < 8 else eps  # halves are summed in float32
    np.testing.assert_allclose(
        got.astype(np.float64),
        want,
        rtol=8 * eps,
        atol=(4 * eps + terms * eps_sum) * scale,
    )
