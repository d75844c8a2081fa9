"""Quotients and remainders of sizes, in bounds, dimensions and subscripts, against plain Python."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import RangeError, TCError
from tcdsl.kernel import Kernel
from tests.tiers import sampled

pytestmark = pytest.mark.cc

TEXTS = {
    "bound": """def f(float(N) A, float(M) B, int32 s) -> (O) {
        O(i) = A(0) * 0.0 + B(0) * 0.0 + i + 1.0 where i in 0:EXP }""",
    "dim": """def f(float(N) A, float(M) B, int32 s) -> (float(EXP) O) {
        O(i) = A(0) * 0.0 + B(0) * 0.0 + i + 1.0 + 0.0 * s }""",
    "subscript": """def f(float(N) A, float(M) B, int32 s) -> (O) {
        O(i) = A(EXP) + B(0) * 0.0 where i in 0:4 }""",
}
SIZES = ((6, 4, 3), (5, 7, -2), (3, 2, 0), (1, 1, 1), (13, 3, -5))  # N, M, s


def value(text: str, names: Mapping[str, int]) -> int:
    """Return an expression of the language by Python's integers."""

    def of(node: ast.AST) -> int:
        match node:
            case ast.Constant(int(number)):
                return number
            case ast.Name(name):
                return names[name]
            case ast.UnaryOp(ast.USub(), operand):
                return -of(operand)
            case ast.BinOp(left, op, right):
                a, b = of(left), of(right)
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Div():
                return a // b if b else 0
            case ast.Mod():
                return a % b if b else 0
        raise AssertionError(ast.dump(node))

    return of(ast.parse(text, mode="eval").body)


def agrees(place: str, exp: str) -> None:
    """Hold a program against Python: its values, or that it refuses what is outside."""
    kernel = tc.define(TEXTS[place].replace("EXP", exp), tune="off")
    assert isinstance(kernel, Kernel)
    for n, m, s in SIZES:
        a, b = np.arange(n, dtype=np.float32) + 10, np.ones(m, np.float32)
        names = {"N": n, "M": m, "s": s}
        want: Any = None
        if place == "subscript":
            subs = [value(exp, {**names, "i": i}) for i in range(4)]
            want = a[subs] if all(0 <= x < n for x in subs) else None
        elif (extent := value(exp, names)) >= 0:
            want = np.arange(extent, dtype=np.float32) + 1
        if want is None:
            with pytest.raises(TCError):
                kernel(a, b, s)
            continue
        got = kernel(a, b, s)
        np.testing.assert_array_equal(got, want, err_msg=f"{exp}, {names}")


@sampled(
    "place,exp",
    [
        ("bound", "N/M"),
        ("bound", "N/s"),
        ("bound", "(N+M-1)/M"),
        ("bound", "N%s"),
        ("dim", "N/M"),
        ("dim", "(N+M-1)/M"),
        ("subscript", "2/N"),
        ("subscript", "i*N/M/N"),
    ],
    keep=4,
)
def test_sizes_divide(place: str, exp: str) -> None:
    agrees(place, exp)


def random_exp(rng: random.Random, depth: int, leaves: tuple[str, ...]) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(leaves)
    lhs, rhs = (random_exp(rng, depth - 1, leaves) for _ in range(2))
    return f"({lhs} {rng.choice('+-*//%')} {rhs})"


@pytest.mark.wide
@sampled("seed", range(12), keep=4, wide=0)
@pytest.mark.parametrize("place", list(TEXTS))
def test_random_divisions_are_those_of_python(place: str, seed: int) -> None:
    rng = random.Random(f"{place} {seed}")
    leaves = {"bound": ("s",), "dim": (), "subscript": ("s", "i")}[place]
    exp = random_exp(rng, 2, ("N", "M", "2", "3", "-1", "0", *leaves))
    try:
        tc.define(TEXTS[place].replace("EXP", exp))
    except RangeError:  # for all sizes
        return
    agrees(place, exp)
