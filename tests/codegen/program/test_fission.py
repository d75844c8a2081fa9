"""Sums of products that no turn of a loop waits for, as one product before the loop."""

from __future__ import annotations

import numpy as np

from tcdsl.codegen.choose.nominal import nominal_sizes
from tcdsl.codegen.program.fission import distributed
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import Array, Case, differential, problem
from tests.texts import of_benchmark
from tests.tiers import sampled

RNG = np.random.default_rng(99)
LSTM = of_benchmark("layers")["LSTM"]
SIZES = {"T": 64, "B": 8, "I": 64, "N": 64}
HEAD = "def f(float(T,B,I) X, float(N,I) W, float(B,N) A) -> (H) {\n  H(0, b, n) = A(b, n)\n"
STEP = "H(t + 1, b, n) = tanh(G(b, n) + H(t, b, n))"


def floats(*shape: int) -> Array:
    return (RNG.normal(size=shape) / 4).astype(np.float32)


def split(text: str, **sizes: int) -> Program:
    program = program_of(check(parse(text)))
    at = {**dict(nominal_sizes(program)), **sizes}
    return distributed(program, tuple(at.items()))


def before_loop(program: Program) -> list[str]:
    """Return the targets of what stands before the first loop, without initial contents."""
    first = min(x.first for x in program.loops)
    return [s.target for s in program.statements[:first] if s.reductions]


def test_the_product_of_all_turns_stands_before_the_loop() -> None:
    made = split(LSTM, **SIZES)
    assert before_loop(made) == ["G.turns"]
    (loop,) = made.loops
    inside = made.statements[loop.first : loop.last]
    assert [s.target for s in inside][:2] == ["G.sum", "G.2"]
    assert [str(e) for e in made.buffer("G.turns").shape] == ["T", "B", "4", "N"]


BODIES = [
    (f"for t in 0:T {{ G(b, n) +=! X(t, b, i) * W(n, i) {STEP} }}", 1),
    # backwards, and a part of the turns
    (f"for t in 0:T {{ G(b, n) +=! X(T - 1 - t, b, i) * W(n, i) {STEP} }}", 1),
    # a factor that a turn writes
    ("for t in 0:T { G(b, n) +=! H(t, b, i) * W(n, i) where i in 0:I " + STEP + " }", 0),
    # twice the turn: its planes are not those of an index
    (f"for t in 0:T {{ G(b, n) +=! X(t / 2, b, i) * W(n, i) {STEP} }}", 0),
    # how many turns there are is not known to be at least none
    (f"for t in 2:T {{ G(b, n) +=! X(t, b, i) * W(n, i) {STEP} }}", 0),
    # what a turn goes on from
    (f"G(b, n) = A(b, n) for t in 0:T {{ G(b, n) += X(t, b, i) * W(n, i) {STEP} }}", 0),
    # a sum over the elements of a tensor, no product
    (f"for t in 0:T {{ G(b, n) +=! X(t, b, i) where n in 0:N {STEP} }}", 0),
    # in a loop in a loop: out of the inner one, whose turns its other factor has
    ("for r in 0:2 { for t in 0:T { G(b, n) +=! X(t, b, i) * W(n, i) " + STEP + " } }", 1),
    # only in the outer one
    ("for r in 0:T { Q(b, n) +=! X(r, b, i) * W(n, i) for t in 0:T { "
     "H(t + 1, b, n) = tanh(Q(b, n) + H(t, b, n)) } }", 1),
]  # fmt: skip


def test_only_what_no_turn_waits_for_leaves_a_loop() -> None:
    for body, count in BODIES:
        assert len(before_loop(split(HEAD + body + "\n}", **SIZES))) == count, body


@sampled("body", [body for body, _ in BODIES], keep=0, wide=5)
def test_what_has_left_a_loop_is_what_it_was_in_it(body: str) -> None:
    cases = []
    for sizes in ({"T": 5, "B": 3, "I": 19}, {"T": 0, "B": 3, "I": 19}, {"T": 1, "B": 1, "I": 16}):
        n = sizes["I"] if "H(t, b, i) * W" in body else 17
        args = floats(sizes["T"], sizes["B"], sizes["I"]), floats(n, sizes["I"])
        p = problem(HEAD + body + "\n}", *args, floats(sizes["B"], n))
        cases += [Case(p, exact=True), Case(p, exact=False)]
    differential(cases, terms=64)


def test_readers_of_a_product_read_the_plane_of_their_turn() -> None:
    text = """def gru(float(T,B,I) X, float(B,N) H0, float(3,N,I) W, float(3,N,N) U) -> (H) {
      H(0, b, n) = H0(b, n)
      for t in 0:T {
        A(b, k, n) +=! X(t, b, i) * W(k, n, i)
        D(b, k, n) +=! H(t, b, m) * U(k, n, m)
        z(b, n) = sigmoid(A(b, 1, n) + D(b, 1, n))
        H(t + 1, b, n) = (1 - z(b, n)) * tanh(A(b, 2, n) + D(b, 2, n)) + z(b, n) * H(t, b, n)
      }
    }"""
    made = split(text, **SIZES)
    (loop,) = made.loops
    inside = made.statements[loop.first : loop.last]
    assert [s.target for s in inside] == ["D.1", "z.1", "H.1"]
    assert "A.turns" in {r.tensor for r in inside[1].reads()}


def test_planes_of_all_turns_are_written_where_they_lie() -> None:
    text = LSTM.replace("G(b,", "G(t, b,").replace("-> (H, C)", "-> (H, C, float(T,B,4,N) G)")
    made = split(text, **SIZES)
    assert before_loop(made) == ["G.1"]
    for between in ("G(t, b, k, n) = 0.0", "G(T - 1 - t, b, k, n) = 0.0"):
        apart = text.replace(
            "    G(t, b, k, n) +=!", f"    {between} where b in 0:B\n    G(t, b, k, n) +=!"
        )
        assert not before_loop(split(apart, **SIZES)), between
