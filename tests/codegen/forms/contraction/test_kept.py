"""Factors are packed once: before a loop of which no turn writes them, or before all tasks."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.harness import Array, Case, Problem, differential, problem, spec_of
from tests.codegen.pages import between_pages
from tests.tiers import sampled

RNG = np.random.default_rng(41)
HEAD = "def f(float(B,N) A, float(N,N) U, float(T,N,N) V, float(Q,R,N) W, int32 n0) -> (H, Z) {{\n"
TEXT = HEAD + "  H(0, b, n) = A(b, n)\n  Z(i, j) = U(i, j)\n  {0}\n}}"
TURN = "for t in 0:T {{ P(b, n) +=! {0} {1} H(t + 1, b, n) = tanh(P(b, n) + H(t, b, n)) }}"


def floats(*shape: int) -> Array:
    return (RNG.normal(size=shape) / 4).astype(np.float32)


def made(body: str, t: int = 3, b: int = 5, q: int = 7, r: int = 5) -> Problem:
    n = q * r
    args = floats(b, n), floats(n, n), floats(t, n, n), floats(q, r, n), np.int32(1)
    return problem(TEXT.format(body), *args)


def title(p: Problem, what: str, *, exact: bool = True) -> str:
    described = compiler.describe(p.program, spec_of(p, exact=exact), Config(), detect(), p.sizes)
    return next(form for text, form in described if what in text)


TERMS = [
    ("H(t, b, m) * U(n, m)", "", True),
    ("H(t, b, m) * U(m, n)", "", True),
    ("H(t, b, m) * V(1, n, m)", "", True),
    ("H(t, b, m) * V(t, n, m)", "", False),  # of each turn another
    ("H(t, b, m) * Z(n, m)", "", True),
    ("H(t, b, m) * Z(n, m)", "Z(b, n) = P(b, n) where b in 0:B", False),  # a turn writes it
]


def test_only_what_no_turn_writes_is_packed_ahead() -> None:
    for term, after, is_ahead in TERMS:
        p = made(TURN.format(term, after))
        for exact in (True, False):
            exists = exact or "V(1" not in term  # without turns there may be no such element
            found = "ahead of the loop" in title(p, "+=!", exact=exact)
            assert found is (is_ahead and exists), term


@pytest.mark.cc
def test_what_only_turns_have_is_not_packed_where_there_are_none() -> None:
    text = """def f(float(B,N) A, float(T,N,N) V) -> (float(B,N) H) {
        H(b, n) = A(b, n)
        for t in 0:T { P(b, n) +=! H(b, m) * V(T - 1, m, n)  H(b, n) = P(b, n) }
    }"""
    p = problem(text, floats(8, 40), floats(0, 40, 40))
    with between_pages(p, "before") as guarded:
        differential([Case(guarded, exact) for exact in (True, False)])


@pytest.mark.wide
@pytest.mark.parametrize(("term", "after", "is_ahead"), TERMS)
def test_what_is_packed_ahead_is_what_every_turn_would_pack(
    term: str, after: str, *, is_ahead: bool
) -> None:
    del is_ahead
    p, none = (made(TURN.format(term, after), t=t) for t in (3, 0))
    differential([Case(p, exact=True), Case(p, exact=False), Case(none, exact=True)], terms=256)


@pytest.mark.deep
def test_loops_in_loops_pack_before_the_outermost_that_leaves_a_factor_alone() -> None:
    inner = TURN.format("H(t, b, m) * Z(n, m)", "")
    text = f"for s in 0:3 {{ Z(b, n) = H(0, b, n) + s where b in 0:B {inner} }}"
    p = made(text)
    assert "ahead of the loop" in title(p, "+=!")
    differential([Case(p, exact=True), Case(p, exact=False)], terms=256)
    turn = TURN.format("H(t, b, m) * U(n, m)", "")
    other = made(f"for s in 0:3 {{ {turn} }}")
    differential([Case(other, exact=True), Case(other, exact=False)], terms=256)


@pytest.mark.deep
@pytest.mark.parametrize("b", [1, 5, 33])
def test_panels_are_found_whatever_blocks_and_passes_they_lie_in(b: int) -> None:
    configs: list[dict[str, int | str]] = [
        {"rows": rows, "cols": cols, "tile": tile, "pack_a": pack}
        for rows, cols, tile, pack in (
            (1, 1, "1x1", False), (1, 2, "1x2", True), (2, 4, "1x1", False), (1, 8, "1x4", False),
        )
    ]  # fmt: skip
    for term in ("H(t, b, m) * U(n, m)", "H(t, b, m) * U(m, n)"):
        p = made(TURN.format(term, ""), b=b)
        at = int(title(p, "+=!")[1 : title(p, "+=!").index(":")])
        legal = [Config.of({f"g{at}.{k}": v for k, v in c.items()}) for c in configs]
        cases = [Case(p, exact=False)]
        for config in legal:
            try:
                compiler.complete(p.program, spec_of(p, exact=True), config, detect(), p.sizes)
            except ScheduleError:
                continue
            cases.append(Case(p, exact=True, config=config))
        assert len(cases) > 1
        differential(cases, terms=256)
    # columns of W do not fuse to one stride where its first two dimensions change places
    swapped = (
        "for t in 0:T { G(b, r, q) +=! H(t, b, m) * W(q, r, m) "
        "H(t + 1, b, n) = tanh(G(b, n % R, n / R)) }"
    )
    p = made(swapped, b=b)
    assert "ahead of the loop" in title(p, "+=!")
    differential([Case(p, exact=True), Case(p, exact=False)], terms=256)


BROADCAST = "def f(float(T,M,K) A, float(K,N) B) -> (C) { C(t, m, n) +=! A(t, m, k) * B(k, n) }"
PLAIN = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
SUMMED = "def f(float(D,M,C) A, float(N,C,D) B) -> (O) { O(n, m) +=! A(d, m, c) * B(n, c, d) }"
SHARED: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Value]]] = [
    (SUMMED, (33, 90, 24), (61, 24, 33), {"rows": 2}),
    (PLAIN, (50, 701), (701, 131), {"rows": 2, "cols": 2, "pack_b": True}),
    (PLAIN, (25, 1301), (1301, 67), {"rows": 3, "cols": 1, "pack_b": True, "tile": "4x1"}),
    (BROADCAST, (2, 50, 520), (520, 131), {"rows": 2, "cols": 3, "pack_b": True}),
]  # fmt: skip


@sampled("case", range(len(SHARED)), keep=1)
def test_blocks_of_rows_share_the_panels_of_b(case: int) -> None:
    """Whatever parts, blocks and passes they lie in."""
    text, a, b, values = SHARED[case]
    p = problem(text, floats(*a), floats(*b))
    config = Config.of({f"g0.{name}": value for name, value in values.items()})
    described = compiler.describe(p.program, spec_of(p, exact=True), config, detect(), p.sizes)
    assert "together packed" in described[0][1]
    differential([Case(p, exact=True, config=config)], terms=1400)
