"""Tangents held against central differences and against the way back, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcdsl.codegen.gradient.derivatives import Tangents
from tcdsl.codegen.gradient.jvp import tangents
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.gradient.whole import whole
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.gradient.differences import Array, differentiated_def, floats, results


@dataclass(frozen=True, slots=True)
class Forwards:
    """A definition, its tangents, and the text of those as a definition."""

    checked: CheckedDef
    tangents: Tangents
    both: CheckedDef

    def push(self, args: Sequence[Any], along: Sequence[Any]) -> tuple[Array, ...]:
        """Return the tangents of the float results."""
        found = evaluate(self.both, [*args, *along], float64=True)
        first = len(self.checked.returns)
        return found[first : first + len(self.tangents.results)]


def forwards(checked: CheckedDef, *wrt: str) -> Forwards:
    """Return a definition with its tangents; the text has to be legal."""
    made = tangents(checked, wrt or None)
    try:
        return Forwards(checked, made, check(parse(made.text)))
    except Exception as e:
        raise AssertionError(f"{e}\n{made.text}") from e


def directions(checked: CheckedDef, args: Sequence[Any], rng: np.random.Generator) -> list[Array]:
    """Return a random tangent for each float argument."""
    return [np.asarray(rng.normal(size=np.shape(args[i]))) for i in floats(checked)]


def by_transposition(checked: CheckedDef, args: Sequence[Any], along: Sequence[Any]) -> list[Array]:
    """Return tangents without forward mode: the gradient of the gradient by its adjoints.

    The gradient is linear in d_O, so its own gradient by these is the Jacobian itself.
    """
    back = gradient(checked)
    linear = check(whole(back), back.name)
    seeds = [np.zeros(v.shape) for v in results(checked, args)]
    names = [t.name for t in linear.params[len(args) :]]
    made = gradient(linear, wrt=names)
    given = [*args, *seeds]
    values = evaluate(check(parse(made.forward)), given, float64=True)
    returned = [t.name for t in check(parse(made.forward)).returns]
    kept = [values[returned.index(k)] for k in made.kept]
    return [*evaluate(check(parse(made.text)), [*given, *kept, *along], float64=True)]


def assert_tangents(
    checked: CheckedDef,
    args: Sequence[Any],
    rng: np.random.Generator,
    *,
    step: float = 1e-6,
    tolerance: float = 2e-5,
) -> None:
    """Compare tangents with central differences, and their product with adjoints with the vjp."""
    f = forwards(checked)
    along = directions(checked, args, rng)
    wanted = evaluate(checked, args, float64=True)
    found = evaluate(f.both, [*args, *along], float64=True)
    for got, want in zip(found, wanted, strict=False):
        np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=f.tangents.text)
    pushed = f.push(args, along)

    def at(distance: float) -> list[Array]:
        moved = list(args)
        for i, t in zip(floats(checked), along, strict=True):
            moved[i] = np.asarray(args[i], np.float64) + distance * t
        return results(checked, moved)

    seeds = []
    for got, above, below in zip(pushed, at(step), at(-step), strict=True):
        is_finite = np.isfinite(above)  # the extreme of no points is infinite
        numeric = np.where(is_finite, above, 0) - np.where(is_finite, below, 0)
        scale = tolerance * (1 + np.abs(numeric / 2 / step).max(initial=0))
        np.testing.assert_allclose(got, numeric / 2 / step, atol=scale, err_msg=f.tangents.text)
        seeds.append(np.asarray(rng.normal(size=got.shape)))
    slopes = differentiated_def(checked).pull(args, seeds)
    forward = sum(float((t * s).sum()) for t, s in zip(pushed, seeds, strict=True))
    back = sum(float((d * t).sum()) for d, t in zip(slopes, along, strict=True))
    assert abs(forward - back) <= 1e-9 * (1 + abs(back)), (forward, back, f.tangents.text)
