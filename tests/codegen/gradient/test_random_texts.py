"""Random programs of the whole language: what goes back is what goes forward, twice over.

`random_programs.py` writes what a user might, at the edges of the rules: several types, strided and
shifted subscripts, data as subscripts, parts written over. Of each program the gradient and the
tangents are held against each other and against differences, and so are those of the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcdsl.codegen.gradient.whole import whole
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import BoundsError, TCTypeError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.gradient.differences import Array, differentiated_def, floats, results
from tests.codegen.gradient.forwards import directions, forwards
from tests.codegen.gradient.test_random_rows import assert_transposed, is_tame
from tests.tcdsl.differential import dtype_of, shape_of
from tests.tcdsl.programs.random_programs import Maker, fits, points_of, with_scalars
from tests.tiers import sampled

POINTS = 600  # the reference evaluator goes one by one
STEP = 1e-6

# What random programs broke, in few words each.
FOUND = {
    "a new index is called like another that is solved for": """
        def f(float(P, 3) T, float(N) q) -> (float(N, 4, N) A) {
          A(i, y, i + 1) +=! pad(T(i, y), 0) * q(0) where i in 0:N - 1, y in 0:4 }""",
    "a condition is folded, and nothing else reads a tensor": """
        def f(float(N) A, int32(N) I) -> (O) {
          T(i) = I(i) * 2  O(i) = T(i) == T(i) ? A(i) * A(i) : A(i / 2) }""",
    "a range of numbers is empty": """
        def f(float(N) A) -> (O, P) {
          T(i) = A(i) * A(i)  O(i, j) = T(2 * j) where i in 0:N, j in 0:0  P(i) = A(i) * 2 }""",
    "no elements read a number": """
        def f(float(0) A, float(N) B) -> (O) { T +=! B(k) * B(k)  O(i) = T * A(i) }""",
    "a guarded read has data in its subscripts": """
        def f(float16(N, N, N) A, int32(M) X) -> (O) {
          O(i) +=! A(p, i + 1, p) * A(i, X(p), X(i))  O(i) = float16(O(i)) }""",
    "integers and conditions are written in part": """
        def f(uint64(N) I, float(N) A) -> (T, O) {
          T(i) min=! I(i) where i in 2:N  T(i) = uint64(T(i) / 2)  C(i) = I(i) > 1 where i in 1:N
          C(i) = C(i) && I(i) < 3  O(i) = C(i) ? A(i) * A(i) * A(i) : A(i) }""",
    "a clamped element is of none": """
        def f(float(0) A, int32(N) X, float(N) B) -> (O) { O(i) = B(i) > 99 ? A(X(i)) : B(i) }""",
    "a clamped element is of none, and there is no range": """
        def f(float(0) A, int32(1) I, float b) -> (O) { O = b > 99 ? A(I(0)) : b * b }""",
    "a clamped element is of none, of a ragged range": """
        def f(float(0) A, int32(N) X, float(N) B) -> (O) {
          O(i) +=! B(j) > 99 ? A(X(j)) : B(j) * B(j) where i in 0:N, j in X(i):N }""",
    "a clamped element is of none, of as many as a size says": """
        def f(float(N) A) -> (O) {
          O(i) = A(i) * A(N - 1 - i) where i in max(1, N - 5):N / 4 + 1 }""",
    "a statement without points goes on from what is computed again": """
        def f(float(1) A, float(N) B) -> (O) {
          T(i) = A(i) * A(i)  T(i) *= B(p) where i in 1:min(1, N), p in 0:N
          O(i) = T(i) * T(i) }""",
}


@sampled("name", FOUND, keep=3)
def test_what_was_wrong_once_is_right(name: str, rng: np.random.Generator) -> None:
    assert max(hold(FOUND[name], rng, name) for _ in range(3)) >= 1


def seeds_in(first: int, count: int, blocks: int) -> list[range]:
    return [range(n, n + count) for n in range(first, first + count * blocks, count)]


@sampled("seeds", [range(3), *seeds_in(312, 6, 60)], keep=1, wide=2, ids=lambda s: str(s.start))
def test_derivatives_of_random_texts(seeds: range) -> None:
    orders = 0
    for seed in seeds:
        if text := Maker(seed).text():
            orders += hold(text, np.random.default_rng(seed), f"seed {seed}\n{text}")
    assert orders > len(seeds) // 4  # some texts have no derivative that differences can judge


def hold(text: str, rng: np.random.Generator, name: str) -> int:
    """Hold the derivatives of a program, and those of its gradient; return how many orders."""
    checked = check(parse(text))
    args = arguments(checked, rng)
    if args is None or not floats(checked):
        return 0
    try:
        results(checked, args)
    except BoundsError:
        return 0
    try:
        gradient = differentiated_def(checked).gradient
    except TCTypeError as error:  # no result is a float
        assert "TC14" in str(error)  # noqa: PT017
        return 0
    seeds = hold_one(checked, args, rng, name, 1e-9)
    if seeds is None:
        return 0
    both = check(whole(gradient), gradient.name)
    return 1 + (hold_one(both, [*args, *seeds], rng, name, 1e-8) is not None)


def hold_one(
    checked: CheckedDef, args: Sequence[Array], rng: np.random.Generator, name: str, digits: float
) -> list[Array] | None:
    """Hold one order: there against back, and against differences where these agree.

    Returns
    -------
    list of Array or None
        Adjoints of the results; None where these are too large to say anything.
    """
    along = directions(checked, args, rng)
    with np.errstate(all="ignore"):
        f = forwards(checked)
        if not is_tame(results(checked, args)) or not is_tame(f.push(args, along)):
            return None
        seeds = assert_transposed(checked, args, rng, name, digits)

        def at(distance: float) -> list[Array]:
            moved = list(args)
            for i, t in zip(floats(checked), along, strict=True):
                moved[i] = np.asarray(args[i], np.float64) + distance * t
            return results(checked, moved)

        here, there = at(0), [at(d * STEP) for d in (1, -1, 0.125, -0.125)]
        for got, base, p, q, near, close in zip(f.push(args, along), here, *there, strict=True):
            wide, numeric = (p - q) / (2 * STEP), (near - close) / (STEP / 4)
            scale = 1 + np.abs(numeric)
            is_smooth = np.abs(wide - numeric) <= 1e-4 * scale
            is_smooth &= np.abs((near - base) / (STEP / 8) - numeric) <= 1e-3 * scale
            is_right = np.abs(got - numeric) <= 1e-4 * (scale + np.abs(got))
            assert (is_right | ~is_smooth).all(), f"{name}\n{f.tangents.text}"
    return seeds


def arguments(checked: CheckedDef, rng: np.random.Generator) -> list[Array] | None:
    """Return legal arguments of small sizes; None where none were found."""
    names = [s for s in checked.sizes if s not in checked.scalars]
    for _ in range(12):
        sizes = {s: int(rng.integers(1, 6)) for s in names}
        args: list[Array] = []
        for t in checked.params:
            shape, high = shape_of(t, sizes), 4
            if t.name == "X":  # subscripts
                high = min(sizes.values(), default=1)
            whole_numbers = rng.integers(0, 2 if t.dtype.name == "bool" else high, shape)
            values = rng.normal(size=shape) if t.dtype.is_float else whole_numbers
            dtype = np.dtype(np.float64) if t.dtype.is_float else dtype_of(t)
            args.append(np.asarray(values, dtype))
        known = with_scalars(checked, sizes, args)
        if fits(checked, known, args) and points_of(checked, known) < POINTS:
            return args
    return None
