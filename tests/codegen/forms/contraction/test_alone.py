"""Batches of small products of unknown sizes: a matrix that is one tile has a walk of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.forms.contraction.any_sizes import held_as
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of

pytestmark = pytest.mark.cc

ZEN4 = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.6, 1, crosses_lines=True)
NN = "def bmm({0}(P,M,K) A, {0}(P,K,N) B) -> (C) {{ C(p,m,n) +=! A(p,m,k) * B(p,k,n) }}"
ONE = "def mm({0}(M,K) A, {0}(K,N) B) -> (C) {{ C(m,n) +=! A(m,k) * B(k,n) }}"
NT = "def bmm({0}(P,M,K) A, {0}(P,N,K) B) -> (C) {{ C(p,m,n) +=! A(p,m,k) * B(p,n,k) }}"
COMMON = "def run({0}(P,Q,K,N) A, {0}(M,K) B) -> (C) {{ C(p,q,m,n) +=! A(p,q,k,n) * B(m,k) }}"
ADDED = (
    "def run({0}(P,M,K) A, {0}(P,K,N) B, {0}(P,N) c) -> (C) "
    "{{ C(p,m,n) +=! A(p,m,k) * B(p,k,n)  C(p,m,n) = C(p,m,n) + c(p,n) }}"
)
LAYER = ADDED.replace("= C(p,m,n) + c(p,n)", "= tanh(C(p,m,n) + c(p,n))")
ONTO = (
    "def run({0}(P,M,K) A, {0}(P,K,N) B, {0}(P,M,N) X) -> (C) "
    "{{ C(p,m,n) = X(p,m,n)  C(p,m,n) += A(p,m,k) * B(p,k,n) }}"
)
# one tile; a row or a column more than the largest; more terms than a pass has; nothing
SHAPES = [
    (5, 8, 7, 9), (3, 1, 4, 1), (4, 13, 5, 33), (7, 2, 3, 64), (2, 24, 3, 16), (2, 25, 3, 5),
    (2, 6, 2, 65), (2, 3, 600, 17), (0, 3, 3, 3), (3, 0, 2, 2), (3, 2, 0, 5), (3, 2, 2, 0),
]  # fmt: skip


def batch(p: int, m: int, k: int, n: int, text: str = NN, dtype: str = "float32") -> Problem:
    tc = "double" if dtype == "float64" else "float"
    a, b = rand(p, m, k, dtype=dtype), rand(p, k, n, seed=1, dtype=dtype)
    more = {ADDED: ((p, n),), LAYER: ((p, n),), ONTO: ((p, m, n),)}.get(text, ())
    return problem(text.format(tc), a, b, *(rand(*s, seed=2, dtype=dtype) for s in more))


def text_of(p: Problem, *, exact: bool = False, machine: Machine = ZEN4) -> str:
    what = p.program, spec_of(p, exact=exact), Config(), machine, p.sizes, "k"
    return compiler.emit_c(compiler.lower(*what))


def walks(p: Problem, *, exact: bool = False) -> int:
    """Return in how many ways a phase goes through its tasks."""
    return text_of(p, exact=exact).count("task < end")


def test_only_batches_of_what_need_not_be_packed_have_it() -> None:
    a, b = rand(5, 8, 7), rand(5, 7, 9)
    assert walks(batch(5, 8, 7, 9)) == 2
    assert walks(batch(5, 8, 7, 9), exact=True) == 1
    assert walks(problem(ONE.format("float"), a[0], b[0])) == 1
    assert walks(problem(NT.format("float"), a, np.ascontiguousarray(b.swapaxes(1, 2)))) == 1


def test_tasks_are_counted_where_their_counts_are_unknown() -> None:
    text = text_of(problem(COMMON.format("float"), rand(3, 4, 5, 6), rand(2, 5)))
    one, others = text[: text.index("k_plan")].split("task < end")[1:]
    for walk in (one[: one.index("} else {\n    tc_i64")], others):
        assert "at_q += 1;" in walk
        assert "%" not in walk


def test_the_next_matrix_is_fetched_where_a_batch_comes_from_memory() -> None:
    common = problem(COMMON.format("float"), rand(3, 4, 5, 6), rand(2, 5))
    for p, told in (
        (batch(5, 8, 7, 9), "P * N * K * 4 > 1048576 ? K * N : 0, M, vectors)"),
        (common, "P * Q * N * K * 4 > 1048576 ? K * N : 0, M, vectors)"),
    ):
        assert told in text_of(p)
    same = "def run(float(P,M,K) A, float(K,N) B) -> (C) { C(p,n,m) +=! A(p,m,k) * B(k,n) }"
    stays = text_of(problem(same, rand(5, 4, 3), rand(3, 6)))
    assert "? K * N : 0" not in stays
    lines = """def run(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
        O(n,f,y,x) +=! I(n,c,y+i,x+j) * K(f,c,i,j)
    }"""
    slid = text_of(problem(lines, rand(2, 4, 9, 40), rand(4, 4, 3, 3)))
    assert "contraction" in slid
    assert "? W : 0" not in slid, "most of the next line's window is there"
    near = replace(detect(), l2_bytes=64)
    shapes = [shape for shape in SHAPES if 0 not in shape]
    cases = [Case(batch(*shape), exact=False) for shape in shapes]
    differential(cases, 600, machine=near)


def test_batches_of_any_sizes_are_the_references() -> None:
    held_as("contraction", [batch(*shape) for shape in SHAPES], 600)


@pytest.mark.parametrize("text", [ADDED, LAYER, ONTO])
def test_what_follows_the_sum_is_the_references(text: str) -> None:
    held_as("contraction", [batch(*shape, text) for shape in SHAPES[::2]], 600)


def test_several_batches_and_a_common_factor_are_the_references() -> None:
    text = COMMON.format("float")
    shapes = ((3, 4, 5, 6, 2), (2, 3, 32, 16, 16), (1, 7, 3, 17, 30), (0, 2, 3, 4, 5))
    listed = [problem(text, rand(p, q, k, n), rand(m, k)) for p, q, k, n, m in shapes]
    wide = rand(9, 8, 12, 40)[::2, ::-2, 1:9, 3:28]  # from the last to the first, apart
    held_as("contraction", [*listed, problem(text, wide, rand(6, 16)[:, ::2])], 32)


@pytest.mark.wide
def test_wider_batches_are_the_references() -> None:
    for text in (NN, ADDED, LAYER, ONTO):
        listed = [batch(*s, text, dtype) for s in SHAPES for dtype in ("float32", "float64")]
        held_as("contraction", listed, 600)
