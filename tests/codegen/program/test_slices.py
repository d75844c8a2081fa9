"""Pointwise statements are one pass where each point has elements of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tcdsl.codegen.choose.fuse import partitions
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import Case, Problem, differential, problem
from tests.cusim.harness import differential as on_gpu

HEAD = "def f(float(T,N,N) X, float(N,N) A) -> (float(T + 2,N,N) Y, float(3,N,N) Z, U)"
FIRST = """Y(0, i, j) = A(i, j)  Z(k, i, j) = A(i, j) where k in 0:3, i in 0:N, j in 0:N
    U(i, j) = A(i, j)"""


def turn(lines: str) -> str:
    """Return a program whose turns run some lines on slices of what it returns."""
    return f"{HEAD} {{ {FIRST} for t in 0:T {{ {lines} }} }}"


def passes(text: str) -> list[int]:
    """Return of how many statements each group of a loop is."""
    program = program_of(check(parse(text)))
    (loop,) = program.loops
    groups = partitions(program)[0].groups
    return [len(g.statements) for g in groups if loop.first <= g.members[0] < loop.last]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        # a state and what follows from it; a slice that was made before another one; in place
        ("Y(t + 1, i, j) = X(t, i, j) * Y(t, i, j)  Z(0, i, j) = tanh(Y(t + 1, i, j))", 2),
        ("Z(0, i, j) += X(t, i, j) Z(1, i, j) = Z(0, i, j) U(i, j) = Z(0, i, j) + Z(1, i, j)", 3),
        ("U(i, j) = U(i, j) * 0.5  Z(2, i, j) = Z(2, i, j) + U(i, j)", 2),
    ],
)
def test_a_turn_is_one_pass(lines: str, count: int) -> None:
    assert passes(turn(lines)) == [count]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("Y(t + 1, i, j) = X(t, i, j)  Z(0, i, j) = Y(t + 1, j, i)", "another point's element"),
        ("Z(0, i, j) = U(j, i)  U(i, j) = X(t, i, j)", "overwritten by another point"),
        ("Z(0, i, j) = X(t, i, j)  U(i, j) = Z(0, i, 0)", "a point of the row"),
        ("Y(t + 1, i, j) = X(t, i, j)  U(i, j) = Y(T - t, i, j)", "perhaps the same slice"),
        ("Y(t + 1, i, j) = X(t, i, j)  U(i, j) += X(t, i, k)", "a sum"),
    ],
)
def test_what_points_have_in_common_waits(lines: str, why: str) -> None:
    assert passes(turn(lines)) == [1, 1], why


GATE = """def f(float(N,2,M) X, float(N,M) D) -> (float(N,2,M) O) {
    s(i, j) = sigmoid(X(i, 1, j))  O(i, 0, j) = D(i, j) * s(i, j)
    O(i, 1, j) = D(i, j) * X(i, 0, j) * s(i, j) * (1 - s(i, j)) }"""
STACK = "def f(float(N) A, float(N) B) -> (float(2,N) O) { O(0, i) = A(i)  O(1, i) = B(i) }"


@pytest.mark.cc
def test_outside_of_turns_what_shares_its_reads_is_one_pass() -> None:
    def found(text: str) -> list[int]:
        groups = partitions(program_of(check(parse(text))))[0].groups
        return [len(g.statements) for g in groups]

    assert found(GATE) == [3]
    assert found(STACK) == [1, 1]
    rng = np.random.default_rng(0)
    sizes = ((3, 5), (17, 33), (0, 4))
    x = [rng.normal(size=(n, 3, m)).astype(np.float32) for n, m in sizes]
    problems = [problem(GATE, a[:, :2], a[:, 2]) for a in x]
    differential([Case(p, exact=False) for p in problems], terms=8)


def random_turns(rng: np.random.Generator) -> str:
    """Return a program of turns that write and read slices of any kind; not each is legal."""

    def pick(options: Sequence[str]) -> str:
        return options[int(rng.integers(len(options)))]

    def point() -> str:
        return pick(("i, j",) * 14 + ("j, i", "0, j", "i, 0", "j, j"))

    def read() -> str:
        slices = ("Y(t, {})", "Y(t + 1, {})", "Y(T - t, {})", "Z(0, {})", "Z(1, {})", "Z(2, {})",
                  "U({})", "Q(0, {})", "Q(1, {})", "X(t, {})", "A({})")  # fmt: skip
        return pick(slices).format(point())

    def line() -> str:
        left = pick(("Y(t + 1, i, j)",) * 3 + ("Y(t, i, j)", "Z(0, i, j)", "Z(1, i, j)",
                    "Z(2, i, j)", "U(i, j)", "U(i, j)", "Q(0, i, j)", "Q(1, i, j)"))  # fmt: skip
        value = pick(("{} + {}", "0.5 * {} - {}", "tanh({}) * {}", "max({}, {})", "{} - 0.25 * {}"))
        op = pick(("=", "=", "=", "+=", "+=!"))
        return f"{left} {op} 0.5 * ({value.format(read(), read())}) where i in 0:N, j in 0:N"

    lines = " ".join(line() for _ in range(int(rng.integers(2, 7))))
    start = "Q(k, i, j) = 0.25 where k in 0:2, i in 0:N, j in 0:N"
    if rng.random() < 0.5:  # of a turn alone
        text = turn(f"{start} {lines}")
    else:
        text = turn(lines).replace("for t", f"{start} for t", 1)
    return text if "Q(" in lines else text.replace(start, "")


def random_problems(seed: int, count: int) -> Iterator[tuple[int, Problem]]:
    """Yield legal programs with turns of several statements in a pass, and operands of any kind."""
    rng = np.random.default_rng(seed)
    for _ in range(60 * count):
        text = random_turns(rng)
        try:
            most = max(passes(text))
        except TCError:
            continue
        if most < 2:
            continue
        turns, n = int(rng.choice([0, 1, 3])), int(rng.choice([1, 5, 17, 33]))
        x = rng.normal(size=(turns, n, n)).astype(np.float32)
        a = rng.normal(size=(n, 2 * n)).astype(np.float32)
        apart = rng.random() < 0.3
        yield most, problem(text, x[:, :, ::-1] if apart else x, a[:, ::2] if apart else a[:, :n])
        count -= 1
        if not count:
            return


@pytest.mark.cc
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(0, marks=pytest.mark.wide),
        *(pytest.param(s, marks=pytest.mark.deep) for s in range(1, 40)),
    ],
)
def test_random_turns_are_the_references(seed: int) -> None:
    problems = [p for _, p in random_problems(seed, 8)]
    assert problems
    differential([Case(p, exact=k % 2 == 0) for k, p in enumerate(problems)], terms=64)


@pytest.mark.cusim
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 108))
def test_random_turns_are_the_references_on_a_gpu(seed: int) -> None:
    for _, p in random_problems(seed, 2):
        on_gpu(p)
