"""Ragged sums of products by register tiles: as plain loops, however they are packed and cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.harness import Array, Case, Problem, problem, run_cases, spec_of

pytestmark = pytest.mark.cc

Bounds = Callable[[int, int, int], tuple[int, int]]  # of batch, row, and the extent of k

# a range of k, and what it is in Python
RANGES: dict[str, tuple[str, Bounds]] = {
    "below": ("k in 0:min(K, m + 1)", lambda b, m, n: (0, min(n, m + 1))),
    "above": ("k in m:K", lambda b, m, n: (m, n)),
    "band": ("k in max(0, m - 5):min(K, m + 9)", lambda b, m, n: (max(0, m - 5), min(n, m + 9))),
    "falling": ("k in 0:max(0, K - 2 * m)", lambda b, m, n: (0, max(0, n - 2 * m))),
    "steps": ("k in m / 3 * 3:min(K, m / 3 * 3 + 7)",
              lambda b, m, n: (m // 3 * 3, min(n, m // 3 * 3 + 7))),
    "by batch": ("k in b:min(K, 7 * b + 3)", lambda b, m, n: (b, min(n, 7 * b + 3))),
    "by both": ("k in b:min(K, m + b)", lambda b, m, n: (b, min(n, m + b))),
}  # fmt: skip
TEXTS = {
    "plain": "O(b, m, n) +=! A(b, m, k) * B(b, k, n) where {where}",
    "transposed": "O(b, m, n) +=! At(b, k, m) * Bt(b, n, k) where {where}",
    "epilogue": "T(b, m, n) +=! A(b, m, k) * B(b, k, n) where {where} "
    "O(b, m, n) = max(2 * T(b, m, n) + C(n), -3)",
    "onto": "O(b, m, n) = C(n) where b in 0:N0, m in 0:M "
    "O(b, m, n) += A(b, m, k) * B(b, k, n) where {where}",
}
HEAD = (
    "def f({T}(N0,M,K) A, {T}(N0,K,N) B, {T}(N0,K,M) At, {T}(N0,N,K) Bt, {T}(N) C) "
    "-> ({T}(N0,M,N) O) {{ {body} }}"
)


def outside(bounds: Bounds, a: Array) -> Array:
    """Return a first factor with NaN wherever no sum has a term."""
    a = a.copy()
    for b, m in np.ndindex(a.shape[:2]):
        low, high = bounds(b, m, a.shape[2])
        inside = np.zeros(a.shape[2], bool)
        inside[low : max(low, high)] = True
        a[b, m, ~inside] = np.nan
    return a


def wanted(name: str, bounds: Bounds, a: Array, b: Array, c: Array) -> Array:
    out = np.zeros((a.shape[0], a.shape[1], b.shape[2]), a.dtype)
    for at in np.ndindex(a.shape[:2]):
        low, high = bounds(at[0], at[1], a.shape[2])
        for k in range(low, high):
            out[at] += a[(*at, k)] * b[at[0], k]
    if name == "epilogue":
        out = np.maximum(2 * out + c, -3)
    return out + c if name == "onto" else out


def made(
    text: str, where: str, sizes: tuple[int, ...], rng: np.random.Generator, dtype: str = "float32"
) -> tuple[Problem, Array]:
    """Return a problem with whole numbers, and what plain loops give."""
    n0, m, k, n = sizes
    clause, bounds = RANGES[where]

    def whole(*shape: int) -> Array:
        return rng.integers(-4, 5, shape).astype(dtype)

    a, b, c = whole(n0, m, k), whole(n0, k, n), whole(n)
    want = wanted(text, bounds, a, b, c)
    a = outside(bounds, a)
    body = TEXTS[text].format(where=f"b in 0:N0, m in 0:M, {clause}")
    turned = a.transpose(0, 2, 1).copy(), b.transpose(0, 2, 1).copy()
    p = problem(HEAD.format(T=dtype, body=body), a, b, *turned, c)
    return p, want


def configs() -> Iterator[dict[str, Any]]:
    """Yield what is packed, how deep passes are, how blocks are cut."""
    yield {}
    for k, (pack_a, pack_b) in enumerate(((True, True), (False, True), (True, False))):
        yield {"tile": ("5x2", "3x1", "8x1")[k], "depth": (8, 16, 24)[k], "rows": 1 + k,
               "pack_a": pack_a, "pack_b": pack_b}  # fmt: skip


def cases(name: str, rng: np.random.Generator, sizes: tuple[int, ...]) -> list[tuple[Case, Array]]:
    found = []
    for where in RANGES:
        p, want = made(name, where, sizes, rng)
        machine = detect()
        found.append((Case(p, exact=False), want))
        for values in configs():
            config = Config.of({f"g0.{k}": v for k, v in values.items()})
            try:
                spec = spec_of(p, exact=True)
                compiler.lower(p.program, spec, config, machine, p.sizes, "k")
            except ScheduleError:
                continue
            found.append((Case(p, exact=True, config=config), want))
    return found


SIZES = ((1, 23, 37, 40), (3, 1, 5, 17), (2, 40, 29, 1), (2, 0, 3, 4))


def check(every: list[tuple[Case, Array]]) -> None:
    for (case, want), (got,) in zip(every, run_cases([c for c, _ in every]), strict=True):
        np.testing.assert_array_equal(got, want, err_msg=f"{case.problem.checked.text} {case}")


def test_terms_are_those_of_a_triangle(rng: np.random.Generator) -> None:
    every = [made("plain", "below", sizes, rng) for sizes in ((2, 11, 13, 18), (2, 0, 3, 4))]
    check([(Case(p, exact), want) for p, want in every for exact in (True, False)])


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *(pytest.param(n, s, marks=pytest.mark.wide) for n, s in zip(TEXTS, SIZES, strict=True)),
        *(pytest.param(n, s, marks=pytest.mark.deep) for n in TEXTS for s in SIZES),
    ],
)
def test_terms_are_those_of_the_range(
    name: str, sizes: tuple[int, ...], rng: np.random.Generator
) -> None:
    check(cases(name, rng, sizes))


@pytest.mark.parametrize("where", ["below", "by batch"])
def test_a_ragged_product_has_register_tiles(where: str, rng: np.random.Generator) -> None:
    for text in ("plain", "epilogue"):
        p, _ = made(text, where, (2, 40, 40, 40), rng)
        told = compiler.describe(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes)
        assert all("contraction panel" in form for _, form in told), told


def test_a_product_whose_blocks_leave_the_tensor_is_a_nest(rng: np.random.Generator) -> None:
    text = (
        "def f(float(N) A, float(N,E) B) -> (O) "
        "{ O(i, e) +=! A(i - j) * B(j, e) where i in 0:N, j in 0:i + 1 }"
    )
    a = rng.integers(-4, 5, 9).astype(np.float32)
    b = rng.integers(-4, 5, (9, 4)).astype(np.float32)
    p = problem(text, a, b)
    ((got,),) = run_cases([Case(p, exact=False)])
    want = [[sum(a[i - j] * b[j, e] for j in range(i + 1)) for e in range(4)] for i in range(9)]
    np.testing.assert_array_equal(got, np.array(want, np.float32))
