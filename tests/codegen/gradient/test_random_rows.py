"""Random programs of what rewrites look for: what goes back is what goes forward, and torch's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.gradient.whole import whole
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.gradient.autograd import pulled
from tests.codegen.gradient.differences import (
    Array,
    differentiated_def,
    drawn,
    floats,
    results,
    seeds_of,
)
from tests.codegen.gradient.forwards import directions, forwards
from tests.codegen.gradient.random_loops import SIZES as LOOP_SIZES
from tests.codegen.gradient.random_loops import random_loops
from tests.codegen.gradient.random_rows import random_rows
from tests.codegen.harness import Case, Problem, run_cases

SIZES = {"N": 3, "M": 4}
LARGEST = 1e6  # results beyond say nothing of rounding


def programs(seeds: Sequence[int]) -> Iterator[tuple[str, np.random.Generator, CheckedDef]]:
    """Yield legal programs with tame results, what they are called, and their generators."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        text = random_rows(rng)
        try:
            checked = check(parse(text))
        except TCError:  # what is written over is now and then a parameter of its own
            continue
        yield f"seed {seed}\n{text}", rng, checked


def is_tame(values: Sequence[Array]) -> bool:
    """Whether results can be compared to many digits."""
    return all(np.isfinite(v).all() and np.abs(v).max(initial=0) < LARGEST for v in values)


def inner(a: Sequence[Array], b: Sequence[Array]) -> tuple[float, float]:
    """Return an inner product, and that of magnitudes: what it may be rounded by."""
    pairs = [*zip(a, b, strict=True)]
    total = sum(float((x * y).sum()) for x, y in pairs)
    return total, sum(float(np.abs(x * y).sum()) for x, y in pairs)


def assert_transposed(
    checked: CheckedDef, args: Sequence[Array], rng: np.random.Generator, name: str, digits: float
) -> list[Array]:
    """Hold the way back against the way forward, <J u, s> = <u, J' s>; return the seeds."""
    d = differentiated_def(checked)
    wanted = evaluate(checked, args, float64=True)
    plain = evaluate(d.forward, args, float64=True)
    for got, want in zip(plain, wanted, strict=False):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12, err_msg=name)
    seeds, along = seeds_of(checked, args, rng), directions(checked, args, rng)
    there, its = inner(forwards(checked).push(args, along), seeds)
    back, other = inner(d.pull(args, seeds), along)
    assert abs(there - back) <= digits * (its + other + 1e-3), f"{name}\n{d.gradient.text}"
    return seeds


def few(start: int, count: int, deep: int) -> list[object]:
    """Return blocks of seeds: of the first every run of the wide tier, of others the deep one."""
    first = pytest.param(range(start, start + count), marks=pytest.mark.wide, id=f"{start}")
    begins = range(start + count, start + count * deep, count)
    return [
        first,
        *(pytest.param(range(b, b + count), marks=pytest.mark.deep, id=f"{b}") for b in begins),
    ]


@pytest.mark.parametrize("seeds", few(0, 8, 60))
def test_what_goes_back_is_what_goes_forward(seeds: range) -> None:
    for name, rng, checked in programs(seeds):
        args = drawn(checked, SIZES, rng)
        if is_tame(results(checked, args)):
            assert_transposed(checked, args, rng, name, 1e-9)


@pytest.mark.deep
@pytest.mark.parametrize("seeds", [range(b, b + 4) for b in range(1000, 1060, 4)], ids=str)
def test_gradients_of_gradients_go_back_as_they_go_forward(seeds: range) -> None:
    for name, rng, checked in programs(seeds):
        args = drawn(checked, SIZES, rng)
        if not is_tame(results(checked, args)):
            continue
        d = differentiated_def(checked)
        both = check(whole(d.gradient), d.gradient.name)
        given = [*args, *seeds_of(checked, args, rng)]
        if is_tame(results(both, given)):
            assert_transposed(both, given, rng, name, 1e-8)


@pytest.mark.parametrize("seeds", few(2000, 4, 40))
def test_gradients_by_some_parameters_are_those_by_all(seeds: range) -> None:
    for name, rng, checked in programs(seeds):
        args = drawn(checked, SIZES, rng)
        if is_tame(results(checked, args)):
            _hold_some(checked, args, rng, name)


@pytest.mark.parametrize("seeds", few(3000, 2, 30))
def test_gradients_of_loops_by_some_parameters_are_those_by_all(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        checked = check(parse(random_loops(rng)))
        args = drawn(checked, LOOP_SIZES, rng)
        if is_tame(results(checked, args)):
            _hold_some(checked, args, rng, f"seed {seed}\n{checked.text}")


def _hold_some(
    checked: CheckedDef, args: Sequence[Array], rng: np.random.Generator, name: str
) -> None:
    seeds = seeds_of(checked, args, rng)
    of = [checked.params[i].name for i in floats(checked)]
    every = dict(zip(of, differentiated_def(checked).pull(args, seeds), strict=True))
    wrt = [str(n) for n in rng.permutation(of)[: int(rng.integers(1, len(of) + 1))]]
    made = gradient(checked, wrt=wrt)
    forward, back = check(parse(made.forward)), check(parse(made.text))
    values = evaluate(forward, args, float64=True)
    kept = dict(zip((t.name for t in forward.returns), values, strict=True))
    given = [*args, *(kept[n] for n in made.kept), *seeds]
    for n, got in zip(wrt, evaluate(back, given, float64=True), strict=True):
        scale = np.abs(every[n]).max(initial=1.0)
        message = f"{name}\nd_{n} of {wrt}\n{made.text}"
        np.testing.assert_allclose(got, every[n], rtol=1e-9, atol=1e-10 * scale, err_msg=message)


@pytest.mark.torch
@pytest.mark.parametrize("seeds", few(4000, 4, 60))
def test_gradients_are_those_of_torchs_autograd(seeds: range) -> None:
    torch = pytest.importorskip("torch")
    for name, rng, checked in programs(seeds):
        args = drawn(checked, SIZES, rng)
        if is_tame(results(checked, args)):
            _hold_to_torch(torch, checked, args, rng, name)


@pytest.mark.torch
@pytest.mark.parametrize("seeds", few(5000, 2, 40))
def test_gradients_of_loops_are_those_of_torchs_autograd(seeds: range) -> None:
    torch = pytest.importorskip("torch")
    for seed in seeds:
        rng = np.random.default_rng(seed)
        checked = check(parse(random_loops(rng)))
        args = drawn(checked, LOOP_SIZES, rng)
        if is_tame(results(checked, args)):
            _hold_to_torch(torch, checked, args, rng, f"seed {seed}\n{checked.text}")


def _hold_to_torch(
    torch: object, checked: CheckedDef, args: Sequence[Array], rng: np.random.Generator, name: str
) -> None:
    seeds = seeds_of(checked, args, rng)
    values, wanted = pulled(torch, checked, args, seeds)
    for got, want in zip(results(checked, args), values, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10, err_msg=name)
    if not is_tame(wanted):  # it goes back through what is written over: 0 times infinity
        return
    d = differentiated_def(checked)
    for got, want in zip(d.pull(args, seeds), wanted, strict=True):
        scale = np.abs(want).max(initial=1.0)
        message = f"{name}\n{d.gradient.text}"
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9 * scale, err_msg=message)


@pytest.mark.cc
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(6000, 6024))
def test_compiled_ways_forward_and_back_are_the_references(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = random_rows(rng, "double")
    try:
        checked = check(parse(text))
    except TCError:
        return
    sizes = {"N": int(rng.choice([2, 5, 9, 33])), "M": int(rng.choice([3, 4, 21, 40]))}
    args = drawn(checked, sizes, rng)
    if not is_tame(results(checked, args)):
        return
    d = differentiated_def(checked)
    given = [*args, *d.kept(args), *seeds_of(checked, args, rng)]
    made = [(checked, args), (d.forward, args), (d.backward, given)]
    exact = (True, False) if seed % 4 == 0 else (bool(seed % 2),)
    cases = [Case(Problem(c, tuple(a)), e) for c, a in made for e in exact]
    for case, out in zip(cases, run_cases(cases), strict=True):
        wanted = evaluate(case.problem.checked, case.problem.args)
        for got, want in zip(out, wanted, strict=True):
            scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
            message = f"seed {seed} exact={case.exact}\n{case.problem.checked.text}"
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10 * scale, err_msg=message)
