"""Kernels over a batch held against a plain loop over its elements."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tcdsl.grammar.types.typed import CheckedDef
from tcdsl.kernel import Kernel
from tests.tcdsl.differential import Array, reference, results, same

Places = Mapping[str, int]
Run = Callable[[Kernel, Sequence[Any], Mapping[str, Any]], tuple[Array, ...]]


def random_places(checked: CheckedDef, rng: random.Random) -> dict[str, int]:
    """Return some of the parameters, and a dimension of each for the batch."""
    chosen = [p for p in checked.params if rng.random() < 0.6]
    chosen = chosen or [rng.choice(checked.params)]
    return {
        p.name: rng.choice((0, 0, rng.randint(-len(p.shape) - 1, len(p.shape)))) for p in chosen
    }


def batch_of(
    args: Sequence[Any], params: Sequence[str], in_dims: Places, extent: int
) -> list[Array]:
    """Return arguments over a batch: each element has the numbers of the argument, moved on."""
    out = []
    for arg, name in zip(args, params, strict=True):
        a = np.asarray(arg)
        if name in in_dims:
            rows = [np.roll(a, b) if a.ndim else a + a.dtype.type(b) for b in range(extent or 1)]
            a = np.take(np.stack(rows, in_dims[name]), range(extent), axis=in_dims[name])
        out.append(a)
    return out


def called(kernel: Kernel, args: Sequence[Any], generics: Mapping[str, Any]) -> tuple[Array, ...]:
    return results(kernel(*args, **generics))


def evaluated(
    kernel: Kernel, args: Sequence[Any], generics: Mapping[str, Any]
) -> tuple[Array, ...]:
    """Return what the reference evaluator gives, which compiles nothing."""
    return reference(kernel.call(*args, **generics).variant.checked, args)


def assert_same(
    kernel: Kernel,
    args: Sequence[Any],
    in_dims: Places,
    generics: Mapping[str, Any] | None = None,
    *,
    run: Run = called,
) -> None:
    """Hold one call over a batch against a loop over its elements, bit for bit."""
    named = [*zip(args, kernel.params, strict=True)]
    (extent,) = {np.asarray(a).shape[in_dims[p]] for a, p in named if p in in_dims}
    made = kernel.batched(dict(in_dims))
    got = run(made, args, generics or {})
    for value, place, name in zip(got, made.out_dims, kernel.returns, strict=True):
        assert place is None or value.shape[place] == extent, name
    for b in range(extent):
        element = [np.take(a, b, axis=in_dims[p]) if p in in_dims else a for a, p in named]
        want = run(kernel, element, generics or {})
        for w, g, place, name in zip(want, got, made.out_dims, kernel.returns, strict=True):
            value = g if place is None else np.take(g, b, axis=place)
            assert _alike(value, w), f"{name} of element {b}:\n{value}\nexpected\n{w}"


def _alike(got: Array, want: Array) -> bool:
    """Whether values agree bit for bit, or to rounding where no float holds all whole numbers.

    The order of a product is the schedule's, and small numbers multiply to large ones.
    """
    if same(got, want):
        return True
    is_float = want.dtype.kind == "f" and want.dtype.itemsize >= 4
    if not is_float or not np.any(np.abs(want) > 2.0 / np.finfo(want.dtype).eps):
        return False
    rounding = 100 * float(np.finfo(want.dtype).eps)
    return np.allclose(got, want, rtol=rounding, atol=0, equal_nan=True)
