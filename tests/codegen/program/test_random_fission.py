"""Random loops, of which whatever may leave a loop leaves it, whether that pays or not."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tcdsl.codegen.program import fission
from tcdsl.codegen.program.fission import distributed
from tcdsl.grammar.text.errors import TCError
from tests.codegen.harness import Case, Problem, differential, expected, problem

pytestmark = [pytest.mark.cc, pytest.mark.deep]

PARAMS = "float(T,B,I) X, float(N,I) W, float(I,N) V, float(N,N) U, float(B,N) A"


def random_loop(rng: np.random.Generator) -> str:
    """Return a program with products in turns, forwards and backwards; not each is legal."""

    def pick(options: Sequence[str]) -> str:
        return options[int(rng.integers(len(options)))]

    def turn() -> str:
        return pick(("t", "t", "t", "T - 1 - t"))

    def line() -> str:
        g, w, u = pick("GP"), pick(("W(n, i)", "V(i, n)")), pick(("U(n, m)", "U(m, n)"))
        x, h = f"X({turn()}, b, i)", "H(t, b, m)"
        return pick(
            (f"{g}(b, n) +=! {x} * {w}",) * 3
            + (
                f"{g}(b, n) +=! {h} * {u}",
                f"{g}(b, n) += {x} * {w}",
                f"{g}(b, n) = {g}(b, n) + H(t, b, n)",
                f"Y({turn()}, b, n) +=! {x} * {w}",
                f"Y({turn()}, b, n) += {h} * {u}",
                f"S(b, n) += {pick((f'{x} * {w}', f'{h} * {u}'))}",
                f"Y(t + 1, b, n) +=! {x} * {w}",
                f"{g}(b, n) = {pick('GP')}(b, n) * 0.5 + Y({turn()}, b, n)",
                f"S(b, n) = {pick('GP')}(b, n) + 1.0",
                f"S(b, n) +=! {g}(b, m) * {u}",
            )
        )

    def turns() -> str:
        lines = [line() for _ in range(int(rng.integers(2, 6)))]
        options = ("G(b, n)", "P(b, n)", f"Y({turn()}, b, n)", "S(b, n)", "Y(t, b, n)")
        terms = ["H(t, b, n)", *(x for x in options if rng.random() < 0.4)]
        at = int(rng.integers(len(lines) // 2, len(lines) + 1))
        lines.insert(at, f"H(t + 1, b, n) = tanh({' + '.join(terms)})")
        return f"for t in 0:T {{ {' '.join(lines)} }}"

    starts = ("G(b, n) = A(b, n)", "P(b, n) = A(b, n) * 2.0", "S(b, n) = A(b, n)",
              "Y(t, b, n) = 0.5 where t in 0:T + 1, b in 0:B, n in 0:N")  # fmt: skip
    lines = ["H(0, b, n) = A(b, n)", *(x for x in starts if rng.random() < 0.5)]
    kind = rng.random()
    if kind < 0.2:
        lines.append(f"for r in 0:2 {{ {turns()} }}")
    else:
        lines += [turns() for _ in range(2 if kind < 0.35 else 1)]
    if rng.random() < 0.3:
        lines.append(pick(("Z(b, n) = G(b, n)", "Z(b, n) = P(b, n) + S(b, n)")))
    body = "\n".join(lines)
    declared = {"Y": "float(T + 1,B,N) Y", "S": "S", "Z": "Z"}
    returns = ["float(T + 1,B,N) H", *(d for n, d in declared.items() if f"{n}(" in body)]
    return f"def f({PARAMS}) -> ({', '.join(returns)}) {{\n{body}\n}}"


def random_problems(rng: np.random.Generator, count: int) -> Iterator[Problem]:
    """Yield legal programs of which something leaves a loop."""
    for _ in range(50 * count):
        text = random_loop(rng)
        turns, rows, inner, n = (
            int(rng.choice(x)) for x in ((0, 1, 2, 5), (1, 3), (4, 7), (5, 16))
        )
        shapes = (turns, rows, inner), (n, inner), (inner, n), (n, n), (rows, n)
        args = [(rng.normal(size=s) / 2).astype(np.float32) for s in shapes]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is written and never read
                p = problem(text, *args)
                expected(p)
        except TCError:
            continue
        if distributed(p.program, tuple(p.sizes.items())) is p.program:
            continue
        yield p
        count -= 1
        if not count:
            return


@pytest.mark.parametrize("seed", range(12))
def test_loops_without_what_may_leave_them_are_the_references(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fission, "_pays", lambda *_args, **_more: True)
    rng = np.random.default_rng(seed)
    distributed.cache_clear()
    try:
        problems = [*random_problems(rng, 8)]
        assert problems
        differential([Case(p, exact=bool(rng.random() < 0.6)) for p in problems], terms=256)
    finally:
        distributed.cache_clear()  # which others would find
