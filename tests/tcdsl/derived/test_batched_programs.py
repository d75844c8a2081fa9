"""Programs of users, of the examples and of chance over batches, against a loop over elements."""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import BoundsError, TCError
from tcdsl.grammar.types.typed import CheckedDef
from tcdsl.kernel import Kernel
from tests import texts
from tests.tcdsl.batches import Run, assert_same, batch_of, called, evaluated, random_places
from tests.tcdsl.differential import assert_close, reference, results
from tests.tcdsl.programs import random_programs
from tests.tcdsl.programs.catalog import LEGAL, arguments, name_of, points, small_sizes
from tests.tiers import sampled


def assert_near(
    kernel: Kernel, checked: CheckedDef, batch: list[Any], in_dims: Mapping[str, int], terms: int
) -> None:
    """Hold one call over a batch against the reference in float64, element by element."""
    made = kernel.batched(dict(in_dims))
    got = results(made(*batch))
    named = [*zip(batch, kernel.params, strict=True)]
    (extent,) = {a.shape[in_dims[p]] for a, p in named if p in in_dims}
    for b in range(extent):
        element = [np.take(a, b, axis=in_dims[p]) if p in in_dims else a for a, p in named]
        want = reference(checked, element, float64=True)
        for w, g, place in zip(want, got, made.out_dims, strict=True):
            assert_close(g if place is None else np.take(g, b, axis=place), w, terms)


@pytest.mark.cc
@sampled("entry", LEGAL, ids=lambda e: e["name"], keep=1, wide=16)
def test_programs_of_the_catalog(entry: dict[str, Any]) -> None:
    seed = zlib.crc32(entry["name"].encode())
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = tc.define(entry["tc"], name_of(entry), tune="off")
    assert isinstance(kernel, Kernel)
    checked = kernel.variant().checked
    sizes = small_sizes(checked, entry, rng)
    args = arguments(checked, sizes, rng)
    in_dims = random_places(checked, random.Random(seed))
    terms = 8 * points(checked, sizes)
    assert_near(kernel, checked, batch_of(args, kernel.params, in_dims, 3), in_dims, terms)


@pytest.mark.cc
@sampled("example", texts.examples(), ids=lambda e: e.name, keep=1, wide=10)
def test_programs_of_the_examples(example: texts.Example) -> None:
    rng = np.random.default_rng(len(example.name))
    kernel = example.kernel()
    checked = kernel.variant().checked
    args = texts.arguments(checked, example.sizes, rng)
    chance = random.Random(example.name)
    in_dims = random_places(checked, chance)
    batch = batch_of(args, kernel.params, in_dims, 2)
    assert_near(kernel, checked, batch, in_dims, 200)
    once = kernel.batched(in_dims)
    more = random_places(once.variant().checked, chance)
    assert_near(once, once.variant().checked, batch_of(batch, once.params, more, 2), more, 200)


WITH_GRADIENT = [e for e in texts.examples() if e.name not in ("edit_distance", "brightest")]


@sampled("example", WITH_GRADIENT, ids=lambda e: e.name, keep=1, wide=18)
def test_gradients_of_examples_over_a_batch(example: texts.Example) -> None:
    """The gradient of a batch, by the reference: stacked where a parameter has it, else summed."""
    rng = np.random.default_rng(len(example.name))
    kernel = example.kernel()
    checked = kernel.variant().checked
    in_dims = random_places(checked, random.Random(example.name))
    args = texts.arguments(checked, example.sizes, rng)
    batch = batch_of(args, kernel.params, in_dims, 3)
    out_dims = dict.fromkeys((r.name for r in checked.returns if r.dtype.is_float), -1)
    over = kernel.batched(in_dims, out_dims=out_dims)
    one, all_ = tc.grad(kernel).whole, tc.grad(over).whole
    outs = reference(over.variant().checked, batch, float64=True)
    shapes = [o.shape for o, place in zip(outs, over.out_dims, strict=True) if place == -1]
    adjoints = [rng.normal(size=shape) for shape in shapes]
    got = reference(all_.variant().checked, [*batch, *adjoints], float64=True)
    named = [*zip(batch, kernel.params, strict=True)]
    each = []
    for b in range(3):
        element = [np.take(a, b, axis=in_dims[p]) if p in in_dims else a for a, p in named]
        element += [d[..., b] for d in adjoints]
        each.append(reference(one.variant().checked, element, float64=True))
    floats = [p.name for p in checked.params if p.dtype.is_float]
    for name, g, *parts in zip(floats, got, *each, strict=True):
        want = np.stack(parts, in_dims[name]) if name in in_dims else sum(parts)
        np.testing.assert_allclose(g, want, rtol=1e-9, atol=1e-9 * max(np.abs(want).max(), 1))


def run_random(seed: int, run: Run) -> int:
    """Hold a random program over batches against loops, twice nested; return how often it did."""
    text = random_programs.Maker(seed).text()
    if not text:
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = tc.define(text, tune="off")
    assert isinstance(kernel, Kernel)
    checked = kernel.variant().checked
    rng, chance = np.random.default_rng(seed), random.Random(seed)
    in_dims = random_places(checked, chance)
    try:
        once = kernel.batched(in_dims)
    except TCError as refused:
        if "TC160" not in str(refused):
            raise
        return 0
    more = random_places(once.variant().checked, chance)
    held = 0
    for first in (True, False):
        sizes = random_programs._sizes(checked, rng, first=first)
        args = random_programs._arguments(checked, sizes, rng)
        if not random_programs.fits(checked, sizes, args) or points(checked, sizes) > 5_000:
            continue
        batch = batch_of(args, kernel.params, in_dims, 3)
        try:
            assert_same(kernel, batch, in_dims, run=run)
            assert_same(once, batch_of(batch, once.params, more, 2), more, run=run)
        except BoundsError:
            continue
        held += 1
    return held


CHUNK = 5  # programs in a test


@sampled("first", range(0, 100, CHUNK), keep=1, wide=4)
def test_random_programs_mean_over_a_batch_what_loops_mean(first: int) -> None:
    assert sum(run_random(seed, evaluated) for seed in range(first, first + CHUNK))


@pytest.mark.cc
@pytest.mark.wide
def test_random_programs_give_what_loops_give() -> None:
    assert sum(run_random(seed, called) for seed in range(200, 212)) >= 6


@pytest.mark.cc
@pytest.mark.deep
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_random_programs_give_what_loops_give(first: int) -> None:
    assert sum(run_random(seed, called) for seed in range(first, first + 100)) >= 50
