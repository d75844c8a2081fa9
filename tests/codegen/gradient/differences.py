"""Gradients held against central differences in float64, along random directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcdsl.codegen.gradient.derivatives import Gradient
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.gradient.whole import whole
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Differentiated:
    """A definition, its gradient, and both texts of that as definitions."""

    checked: CheckedDef
    gradient: Gradient
    forward: CheckedDef
    backward: CheckedDef

    def kept(self, args: Sequence[Any]) -> list[Array]:
        """Return what the training forward leaves for the gradient."""
        values = evaluate(self.forward, args, float64=True)
        by_name = dict(zip((t.name for t in self.forward.returns), values, strict=True))
        return [by_name[name] for name in self.gradient.kept]

    def pull(self, args: Sequence[Any], seeds: Sequence[Any]) -> tuple[Array, ...]:
        """Return the gradients by the float parameters."""
        return evaluate(self.backward, [*args, *self.kept(args), *seeds], float64=True)


def differentiated(
    text: str, name: str | None = None, generics: Mapping[str, Any] | None = None
) -> Differentiated:
    """Return a definition with its gradient; the texts have to be legal."""
    checked = check(parse(text), name, generics=generics)
    return differentiated_def(checked)


def differentiated_def(checked: CheckedDef, checkpoint: int | None = None) -> Differentiated:
    made = gradient(checked, checkpoint)
    try:
        forward, backward = check(parse(made.forward)), check(parse(made.text))
    except Exception as e:
        raise AssertionError(f"{e}\n{made.forward}\n{made.text}") from e
    return Differentiated(checked, made, forward, backward)


def second(d: Differentiated) -> Differentiated:
    """Return the gradient of a gradient with what is kept as a function of the parameters."""
    return differentiated_def(check(whole(d.gradient), d.gradient.name))


def hessian(d: Differentiated, args: Sequence[Any]) -> Array:
    """Return all second derivatives of the sum of all float results, by all float parameters."""
    twice = second(d)
    seeds = [np.ones(v.shape) for v in results(d.checked, args)]
    slopes = d.pull(args, seeds)
    given = [*args, *seeds]
    given += twice.kept(given)
    rows = []
    for k, slope in enumerate(slopes):
        for at in range(slope.size):
            units = [np.zeros(x.shape) for x in slopes]
            units[k].reshape(-1)[at] = 1
            found = evaluate(twice.backward, [*given, *units], float64=True)
            rows.append(np.concatenate([np.ravel(x) for x in found[: len(slopes)]]))
    return np.array(rows)


def hessian_by_differences(d: Differentiated, args: Sequence[Any], step: float = 1e-5) -> Array:
    """Return what `hessian` does by central differences of the gradient."""
    seeds = [np.ones(v.shape) for v in results(d.checked, args)]
    rows = []
    for i in floats(d.checked):
        for at in range(np.size(args[i])):
            found = []
            for sign in (1, -1):
                moved = [np.array(a) for a in args]
                moved[i].reshape(-1)[at] += sign * step
                found.append(np.concatenate([np.ravel(x) for x in d.pull(moved, seeds)]))
            rows.append((found[0] - found[1]) / (2 * step))
    return np.array(rows)


def floats(checked: CheckedDef) -> list[int]:
    """Return the positions of the float parameters."""
    return [i for i, t in enumerate(checked.params) if t.dtype.is_float]


def results(checked: CheckedDef, args: Sequence[Any]) -> list[Array]:
    """Return the float results in float64."""
    values = evaluate(checked, args, float64=True)
    return [v for v, t in zip(values, checked.returns, strict=True) if t.dtype.is_float]


def assert_gradient(
    d: Differentiated,
    args: Sequence[Any],
    rng: np.random.Generator,
    *,
    step: float = 1e-6,
    tolerance: float = 2e-5,
) -> None:
    """Compare the gradient with central differences, parameter by parameter."""
    base = results(d.checked, args)
    seeds = [rng.normal(size=v.shape) for v in base]
    plain = evaluate(d.forward, args, float64=True)
    wanted = evaluate(d.checked, args, float64=True)
    for got, want in zip(plain, wanted, strict=False):
        np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=d.gradient.forward)
    found = d.pull(args, seeds)
    assert len(found) == len(floats(d.checked))
    for i, slope in zip(floats(d.checked), found, strict=True):
        t = d.checked.params[i]
        assert slope.shape == np.shape(args[i]), (t.name, slope.shape)
        towards = rng.normal(size=np.shape(args[i]))

        def loss(at: float, i: int = i, towards: Any = towards) -> float:
            moved = list(args)
            moved[i] = np.asarray(args[i], np.float64) + at * towards
            values = results(d.checked, moved)
            return float(sum((v * s).sum() for v, s in zip(values, seeds, strict=True)))

        numeric = (loss(step) - loss(-step)) / (2 * step)
        exact = float((slope * towards).sum())
        scale = 1 + abs(numeric) + max((float(np.abs(v).max(initial=0)) for v in base), default=0)
        assert abs(numeric - exact) <= tolerance * scale, (
            f"d_{t.name}: {exact}, by differences {numeric}\n{d.gradient.text}"
        )


def seeds_of(checked: CheckedDef, args: Sequence[Any], rng: np.random.Generator) -> list[Array]:
    """Return a random adjoint for each float result."""
    return [np.asarray(rng.normal(size=r.shape)) for r in results(checked, args)]


def drawn(checked: CheckedDef, sizes: Mapping[str, int], rng: np.random.Generator) -> list[Array]:
    """Return random arguments: normal floats, integers from 0 to 2."""
    args = []
    for t in checked.params:
        shape = tuple(s.evaluate(sizes) for s in t.shape)
        dtype = numpy_dtype(t.dtype)
        args.append(
            rng.normal(size=shape) if t.dtype.is_float else rng.integers(0, 3, shape).astype(dtype)
        )
    return args
