"""The symbolic arithmetic agrees with integers, and what it proves is true."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import strategies as st

from tcdsl.grammar.proofs import signs
from tcdsl.grammar.proofs.signs import is_nonnegative, maximum, minimum, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size, _sum
from tests.tiers import drawn

NAMES = ("N", "M", "K")
N, M, K, H, KH, W = (Size.symbol(s) for s in ("N", "M", "K", "H", "KH", "W"))
C = Size.const

Pair = tuple[Size, Callable[[dict[str, int]], int]]


def _floor(a: int, b: int) -> int:
    return a // b if b else 0


def _mod(a: int, b: int) -> int:
    return a % b if b else 0


def _leaf() -> st.SearchStrategy[Pair]:
    const = st.integers(-9, 9).map(lambda v: (C(v), lambda env, v=v: v))
    symbol = st.sampled_from(NAMES).map(lambda n: (Size.symbol(n), lambda env, n=n: env[n]))
    return st.one_of(const, symbol)


OPS: dict[str, tuple[Callable[[Size, Size], Size], Callable[[int, int], int]]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a - b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "//": (lambda a, b: a // b, _floor),
    "%": (lambda a, b: a % b, _mod),
    "min": (minimum, min),
    "max": (maximum, max),
}


def _combine(op: str, a: Pair, b: Pair) -> Pair:
    symbolic, numeric = OPS[op]
    return symbolic(a[0], b[0]), lambda env: numeric(a[1](env), b[1](env))


def _grow(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.builds(_combine, st.sampled_from(sorted(OPS)), inner, inner)


sizes = st.recursive(_leaf(), _grow, max_leaves=7)
values = st.fixed_dictionaries({n: st.integers(0, 7) for n in NAMES})


@drawn(100, 400, sizes, values)
def test_arithmetic_agrees_with_integers(pair: Pair, env: dict[str, int]) -> None:
    size, truth = pair
    assert size.evaluate(env) == truth(env)


@drawn(100, 300, sizes, sizes, values)
def test_substitution_agrees_with_evaluation(a: Pair, b: Pair, env: dict[str, int]) -> None:
    inner = maximum(b[0], C(0))  # a symbol stands for something that is not negative
    assert substitute_symbols(a[0], {"N": inner}).evaluate(env) == a[0].evaluate(
        env | {"N": inner.evaluate(env)}
    )


@drawn(150, 600, sizes, st.lists(sizes, max_size=2), values)
def test_what_is_proved_is_true(pair: Pair, facts: list[Pair], env: dict[str, int]) -> None:
    known = tuple(f[0] for f in facts)
    if is_nonnegative(pair[0], known) and all(f.evaluate(env) >= 0 for f in known):
        assert pair[0].evaluate(env) >= 0


@drawn(80, 200, sizes, sizes)
def test_equal_sums_are_equal_objects(a: Pair, b: Pair) -> None:
    assert a[0] + b[0] == b[0] + a[0]
    assert hash(a[0] + b[0]) == hash(b[0] + a[0])
    assert a[0] - a[0] == Size()
    assert (a[0] + b[0]) * 2 == a[0] * 2 + b[0] * 2


@drawn(80, 200, sizes, st.integers(-3, 3))
def test_a_constant_moves_and_scales_to_the_one_form(pair: Pair, c: int) -> None:
    a = pair[0]
    for found, terms in (
        (a + c, (*a.terms, ((), c))),
        (C(c) + a, (*a.terms, ((), c))),
        (a - c, (*a.terms, ((), -c))),
        (a * c, [(m, k * c) for m, k in a.terms]),
        (C(c) * a, [(m, k * c) for m, k in a.terms]),
    ):
        assert found == _sum(terms)
        assert found.offset == dict(found.terms).get((), 0)


@drawn(80, 200, sizes, values)
def test_the_text_of_a_size_means_the_size(pair: Pair, env: dict[str, int]) -> None:
    text = str(pair[0]).replace("/", "//")
    try:
        value = eval(text, {"min": min, "max": max}, dict(env))
    except ZeroDivisionError:
        return
    assert value == pair[0].evaluate(env)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ((N - 1) // 123 + 1, "(N + 122) / 123"),
        (H - KH + 1, "H - KH + 1"),
        ((H - KH) // 2 + 1, "(H - KH) / 2 + 1"),
        ((N - 2) // 2 + 1, "N / 2"),
        (N * 2 // 3, "2 * N / 3"),
        ((N // 4) * 3, "3 * (N / 4)"),
        (minimum(N - 1, M - 1) + 1, "min(M, N)"),
        (maximum(N, M, C(3)), "max(max(3, M), N)"),
        ((N // 2) // 3, "N / 6"),
        ((N * 4 + 2) % 6, "2 * ((2 * N + 1) % 3)"),
        (N * M * 2 - K, "2 * M * N - K"),
        (N // (M * 2), "N / (2 * M)"),
        (-N, "-N"),
        (-(N % 2), "-(N % 2)"),
        (C(0), "0"),
    ],
)
def test_sizes_print_as_people_write_them(size: Size, text: str) -> None:
    assert str(size) == text


@pytest.mark.parametrize(
    "size",
    [
        N,
        N * M + 2,
        N - (N // 2) * 2,
        H - KH - ((H - KH) // 2) * 2,
        N - minimum(N, M),
        maximum(N, M) - N,
        N % 4,
        C(3) - N % 4,
        (N + 122) // 123,
        maximum(N - M, C(0)),
        N - (N // 2 - 1) * 2 - 2,
    ],
)
def test_sizes_known_not_to_be_negative(size: Size) -> None:
    assert is_nonnegative(size)


@pytest.mark.parametrize("size", [N - K + 1, C(-1), N - 1, M - N, Size.symbol("s", signed=True)])
def test_nothing_is_claimed_of_sizes_that_may_be_negative(size: Size) -> None:
    assert not is_nonnegative(size)


def test_facts_of_a_domain_that_is_not_empty_help() -> None:
    assert is_nonnegative(H - 1 - (H * W - 1) // W, (H * W - 1,))
    assert is_nonnegative(W - 1 - N % W, (H * W - 1,))
    assert is_nonnegative(H - KH, ((H - KH) // 2,))
    assert not is_nonnegative(W - 1 - N % W)


def test_a_symbol_that_stands_for_zero_vanishes() -> None:
    assert substitute_symbols(N * 3 + M, {"N": C(0)}) == M


def test_what_follows_from_a_fact_is_asked_in_one_set_of_symbols() -> None:
    # With N = M = K = 1 this is -1: that N >= 1 may be used once, not again for what is left.
    assert not is_nonnegative(M * ((N - 2) // K), (N - 1,))
    assert not is_nonnegative(M * ((N - 2) // K), (N - 1, K - 1))
    assert is_nonnegative(M * ((N - 1) // K), (N - 1,))


SIGNED = Size.symbol("s", signed=True)


@pytest.mark.parametrize(
    ("size", "given"),
    [
        (N // M - 1, (N // M - 1, N - 1)),
        (N // SIGNED - 1, (N // SIGNED - 1,)),
        ((N + M - 1) // M - 1, ((N + M - 1) // M - 1, N - K // ((N + M - 1) // M))),
        (N % (M // K) - H, (H // (N % (M // K)) - 1, N // M - 1, K % SIGNED)),
        (N // (M // (K // (H // (W // N)))) - 1, (N // M - H // W, K // (W // N) - 1)),
        (maximum(N // M, M // N) - minimum(N % M, M % N), (N // M - M // N, N % M - M % N)),
    ],
)
def test_every_question_ends_after_a_bounded_number_of_others(
    size: Size, given: tuple[Size, ...]
) -> None:
    deepest = depth = questions = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest, depth, questions
        if not frame.f_code.co_filename.endswith("signs.py"):
            return
        if event == "call":
            depth += 1
            deepest = max(deepest, depth)
            questions += frame.f_code.co_name == "holds"
        elif event == "return":
            depth -= 1

    is_nonnegative.cache_clear()
    sys.setprofile(count)
    try:
        is_nonnegative(size, given)
    finally:
        sys.setprofile(None)
    assert deepest <= 200
    assert questions <= 2 * (30 + 400) * 5  # what is asked after the fuel is spent ends at once


@pytest.mark.parametrize(
    ("claim", "known"),
    [
        (C(2**31 - 2) - W, (W - (W // 2) * 2 + 1, H // 2, H - W)),  # false of large sizes only
        (K - 1, (N - 1, M - 1, K // 2 + maximum(H // 2, C(1) - K // 2) - 2)),  # of 0 only
    ],
)
def test_what_a_number_refutes_is_not_tried_to_be_proved(
    claim: Size, known: tuple[Size, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    begin = signs._Proof.__init__

    def noted(proof: signs._Proof, facts: tuple[Size, ...], fuel: int) -> None:
        asked.append(fuel)
        begin(proof, facts, fuel)

    monkeypatch.setattr(signs._Proof, "__init__", noted)
    signs.is_nonnegative.cache_clear()
    assert not is_nonnegative(claim, known)
    assert not asked


def test_atoms_mean_the_same_in_another_process() -> None:
    """Hashes of text differ between processes: what a pickle brings has those of its own."""
    code = (
        "import pickle, sys; from tcdsl.grammar.proofs.sizes import Size;"
        "n = Size.symbol('N'); made = n // 3 + n % Size.symbol('M');"
        "sys.stdout.buffer.write(pickle.dumps(made))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    found, here = pickle.loads(done.stdout), N // 3 + N % M
    assert found == here
    assert {found: 1}[here] == 1
    assert found - here == C(0)
