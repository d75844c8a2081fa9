"""Subscripts from data against the reference: how index arrays lie, their types, gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.program.dtypes import numpy_dtype
from tests.codegen.data_subscripts import READS, ROWS, TEXTS, subscripts_problem
from tests.codegen.gradient.differences import (
    assert_gradient,
    differentiated_def,
    seeds_of,
)
from tests.codegen.harness import Array, Case, Problem, differential
from tests.cusim import harness as gpu
from tests.tiers import sampled

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
# Whose reads are guarded, so that rows may lie outside.
GUARDED = ("guarded", "padded", "clamped", "remainder", "in a let", "as a value", "in a loop")


def strided(a: Array) -> Array:
    """Return a copy whose elements lie three apart."""
    wide = np.full((*a.shape, 3), 99, a.dtype)
    wide[..., 1] = a
    return wide[..., 1]


def backwards(a: Array) -> Array:
    """Return a copy that lies from its last element to its first."""
    return np.flip(np.flip(a).copy())


def still(a: Array) -> Array:
    """Return the first row in place of all."""
    return np.broadcast_to(a[:1], a.shape)


def turned(a: Array) -> Array:
    """Return a copy whose first dimension is the nearest in memory."""
    return np.asfortranarray(a)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    f.__name__: f for f in (strided, backwards, still, turned)
}


def problem_of(
    name: str,
    rng: np.random.Generator,
    dtype: str = "int32",
    lie: Callable[[Array], Array] = np.asarray,
) -> Problem:
    """Return a problem whose index arrays lie so; guarded rows may be two outside."""
    p = subscripts_problem(name, rng, dtype)
    out = 2 if name.startswith(GUARDED) or name == "to clamped" else 0
    args: list[Any] = []
    for a in p.args:
        if a.dtype.kind in "iu":
            low = -out if a.dtype.kind == "i" else 0
            a = lie(rng.integers(low, ROWS + out, a.shape).astype(a.dtype))
        args.append(a)
    return replace(p, args=tuple(args))


def both(p: Problem) -> list[Case]:
    return [Case(p, exact=exact) for exact in (True, False)]


OFTEN = ("guarded, rows along", "to rows and a guarded factor")
ALL = sorted(TEXTS)


@pytest.mark.cc
def test_index_arrays_that_lie_in_any_way(rng: np.random.Generator) -> None:
    ways = strided, backwards, still
    cases = [Case(problem_of(OFTEN[0], rng, lie=lie), exact=False) for lie in ways]
    cases += [Case(problem_of(OFTEN[1], rng, lie=backwards), exact=False)]
    differential(cases, terms=20)


@pytest.mark.cc
@pytest.mark.wide
@sampled("lie", LAYOUTS.values(), ids=[*LAYOUTS], keep=1, wide=0)
@pytest.mark.parametrize("names", [ALL[k::3] for k in range(3)], ids=lambda n: n[0])
def test_index_arrays_of_every_text(
    names: Sequence[str], lie: Callable[[Array], Array], rng: np.random.Generator
) -> None:
    differential([c for n in names for c in both(problem_of(n, rng, lie=lie))], terms=20)


@pytest.mark.cc
def test_small_and_unsigned_subscripts(rng: np.random.Generator) -> None:
    kinds = "int8", "uint64"
    differential([Case(problem_of(OFTEN[0], rng, t), exact=False) for t in kinds], terms=20)


@pytest.mark.cc
@pytest.mark.deep
@sampled("dtype", INTEGERS, keep=3, wide=0)
def test_subscripts_of_any_type(dtype: str, rng: np.random.Generator) -> None:
    names = [n for n in ALL if n not in ("through another", "to slabs")]
    differential([Case(problem_of(n, rng, dtype), exact=False) for n in names], terms=20)


@pytest.mark.cc
@pytest.mark.parametrize(
    "names", [OFTEN[:1], *(pytest.param(sorted(READS)[k::4], marks=pytest.mark.wide)
                           for k in range(4))]
)  # fmt: skip
def test_gradients_by_what_is_read(names: Sequence[str], rng: np.random.Generator) -> None:
    cases = []
    for name in names:
        if "product" in name or "place" in name:
            continue
        p = problem_of(name, rng, lie=backwards)
        d = differentiated_def(p.checked)
        assert_gradient(d, p.args, rng)
        seeds = seeds_of(d.checked, p.args, rng)
        more = [
            np.asarray(a, numpy_dtype(t.dtype))
            for a, t in zip(
                [*d.kept(p.args), *seeds], d.backward.params[len(p.args) :], strict=True
            )
        ]
        cases.append(Case(Problem(d.backward, (*p.args, *more)), exact=False))
    differential(cases, terms=300)


@pytest.mark.cusim
@pytest.mark.wide
@sampled("name", ["padded", "summed", *OFTEN], keep=1, wide=0)
@sampled("lie", LAYOUTS.values(), ids=[*LAYOUTS], keep=2, wide=0)
def test_index_arrays_on_a_gpu(
    name: str, lie: Callable[[Array], Array], rng: np.random.Generator
) -> None:
    gpu.differential(problem_of(name, rng, "uint8" if lie is still else "int64", lie), terms=20)
