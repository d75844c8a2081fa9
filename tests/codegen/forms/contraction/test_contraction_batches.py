"""Batches whose matrices lie inside each other: the batch is the innermost dimension."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.problem import Index, Reach, extent_of
from tcdsl.codegen.forms.contraction.roles import problem_of
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.batch.definition import batched as over_batch
from tcdsl.grammar.check.definition import check as check_program
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.parser import parse
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of
from tests.tiers import sampled

pytestmark = pytest.mark.cc

Array = np.ndarray[Any, np.dtype[Any]]
Order = Callable[[Array], Array]

NN = "def bmm(float(P,M,K) A, float(P,K,N) B) -> (C) { C(p,m,n) +=! A(p,m,k) * B(p,k,n) }"
NT = "def bmm(float(P,M,K) A, float(P,N,K) B) -> (C) { C(p,m,n) +=! A(p,m,k) * B(p,n,k) }"
TN = "def bmm(float(P,K,M) A, float(P,K,N) B) -> (C) { C(p,m,n) +=! A(p,k,m) * B(p,k,n) }"
LAYER = """
def layer(float(P,M,K) A, float(P,K,N) B, float(P,N) c) -> (C) {
  C(p,m,n) +=! A(p,m,k) * B(p,k,n)
  C(p,m,n) = fmax(C(p,m,n) + c(p,n), 0)
}"""
HEADS = """
def heads(float(B,H,M,K) A, float(B,H,K,N) X) -> (C) {
  C(b,h,m,n) +=! A(b,h,m,k) * X(b,h,k,n)
}"""
IN_ORDER: Order = np.ascontiguousarray
INSIDE: Order = np.asfortranarray


def backwards(x: Array) -> Array:
    """Return x with its batch innermost and all else from last to first."""
    turned = (slice(None), *(slice(None, None, -1) for _ in x.shape[1:]))
    return np.asfortranarray(x[turned])[turned]


def padded(x: Array) -> Array:
    """Return x with its batch innermost, beside elements of others."""
    wide = np.full((x.shape[0] + 3, *x.shape[1:]), np.nan, x.dtype, order="F")
    wide[1:-2] = x
    return wide[1:-2]


def batched(
    orders: tuple[Order, Order, Order],
    p: int,
    m: int,
    k: int,
    n: int,
    text: str = NN,
    dtype: str = "float32",
) -> Problem:
    a = rand(p, k, m, dtype=dtype) if "A(p,k,m)" in text else rand(p, m, k, dtype=dtype)
    shape = (p, n, k) if "B(p,n,k)" in text else (p, k, n)
    others = [rand(p, n, seed=2)] if text == LAYER else []
    out = orders[2](np.zeros((p, m, n), dtype))
    x = rand(*shape, seed=1, dtype=dtype)
    return problem(text, orders[0](a), orders[1](x), *others, outs=[out])


def check(problems: list[Problem], terms: int, *, exact: bool) -> None:
    for p in problems:
        spec = spec_of(p, exact=exact)
        found = compiler.describe(p.program, spec, Config(), detect(), p.sizes)
        assert all("contraction" in form for _, form in found), found
    differential([Case(p, exact) for p in problems], terms)


@pytest.mark.deep
def test_groups_of_neighbours_and_what_is_left_of_them() -> None:
    sizes = ((1, 3, 4, 5), (16, 13, 17, 33), (33, 5, 40, 18), (45, 26, 30, 26))
    inside = (INSIDE,) * 3
    check([batched(inside, *s) for s in sizes], terms=40, exact=True)
    check([batched(inside, *s) for s in ((3, 4, 0, 5), sizes[-1])], terms=40, exact=False)


@pytest.mark.deep
def test_groups_of_nothing() -> None:
    empty = ((17, 0, 3, 4), (3, 4, 0, 5), (0, 3, 3, 3), (2, 3, 3, 0))
    check([batched((INSIDE,) * 3, *s) for s in empty], terms=40, exact=False)


@pytest.mark.wide
@pytest.mark.parametrize("exact", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_any_operand_may_lie_in_order(exact: bool) -> None:
    both = IN_ORDER, INSIDE
    mixed = [o for o in product(both, both, both) if len(set(o)) > 1]
    check([batched(o, 19, 26, 30, 21) for o in mixed], terms=30, exact=exact)


def test_other_strides() -> None:
    cases = [
        batched((backwards, padded, INSIDE), 21, 14, 9, 20),
        batched((padded, backwards, backwards), 21, 14, 9, 20),
        batched((INSIDE, INSIDE, padded), 18, 14, 9, 20, NT),
        batched((INSIDE, IN_ORDER, IN_ORDER), 18, 14, 9, 20, TN),
    ]
    check(cases, terms=9, exact=True)


@pytest.mark.deep
def test_sums_in_several_passes() -> None:
    near, both = (INSIDE, INSIDE, IN_ORDER), (INSIDE, INSIDE, INSIDE)
    operands = near, both, (INSIDE, IN_ORDER, IN_ORDER)
    check([batched(o, 17, 5, 1100, 18) for o in operands], terms=1100, exact=True)
    check([batched(near, 17, 5, 1100, 18)], terms=1100, exact=False)


@pytest.mark.wide
def test_blocks_of_large_matrices() -> None:
    """A group's block does not hold whole matrices: it is cut along rows and columns."""
    check([batched((INSIDE,) * 3, 3, 530, 7, 530)], terms=7, exact=True)


@pytest.mark.deep
def test_epilogues_and_other_types() -> None:
    half, double = NN.replace("float(", "float16("), NN.replace("float(", "double(")
    inside = (INSIDE,) * 3
    check([batched(inside, 19, 14, 9, 20, LAYER)], terms=9, exact=True)
    check([batched(inside, 19, 14, 9, 20, double, "float64")], terms=9, exact=True)
    check([batched(inside, 19, 14, 9, 20, half, "float16")], terms=9, exact=True)


@sampled("exact", [True, False], keep=1)
def test_the_innermost_of_several_batches(*, exact: bool) -> None:
    a, x = rand(20, 3, 6, 9), rand(20, 3, 9, 18, seed=1)
    out = np.zeros((20, 3, 6, 18), np.float32, order="F")
    p = problem(HEADS, INSIDE(a), INSIDE(x), outs=[out])
    check([p], terms=9, exact=exact)


@pytest.mark.parametrize(
    ("in_dims", "outer", "m"),
    [({"A": 0}, (), ("b", "m")), ({"A": 0, "W": 0}, ("b",), ("m",)), ({"W": 0}, ("b",), ("m",))],
)
def test_a_product_over_a_batch_is_one_product_where_one_factor_has_the_batch(
    in_dims: dict[str, int], outer: tuple[str, ...], m: tuple[str, ...]
) -> None:
    text = "def mm(float(M,K) A, float(K,N) W) -> (C) { C(m, n) +=! A(m, k) * W(k, n) }"
    program = program_of(check_program(over_batch(parse(text), "mm", in_dims).program))

    def in_c_order(name: str) -> tuple[Size, ...]:
        shape = program.buffer(name).shape
        return tuple(
            extent_of(tuple(Index("", e) for e in shape[d + 1 :])) for d in range(len(shape))
        )

    (statement,) = program.statements
    found = problem_of(Reach(program, in_c_order, {}), statement, statement.target)
    assert found is not None
    names = (tuple(i.name for i in role) for role in (found.outer, found.m, found.n, found.k))
    assert tuple(names) == (outer, m, ("n",), ("k",))


def test_batches_of_single_elements_are_stored_as_rows() -> None:
    # an element has vectors along n, of one, and its neighbours are side by side at once
    listed = [problem(NN, rand(5, 1, 7), rand(5, 7, 1)), problem(NN, rand(3, 1, 1), rand(3, 1, 1))]
    halves = NN.replace("float(", "float16(")
    listed.append(problem(halves, *(rand(*s, dtype="float16") for s in ((20, 1, 9), (20, 9, 1)))))
    taps = """def run(float(C,H,W) G, float(C,Y,X) I) -> (O) {
        O(c,r,q) +=! G(c,y,x) * I(c,y+r,x+q) where r in 0:Y-H+1, q in 0:X-W+1
    }"""
    listed.append(problem(taps, rand(3, 4, 5), rand(3, 4, 5)))
    differential([Case(p, exact=True) for p in listed], terms=20)


POINTWISE = """def run(float(N,C,H,W) I, float(F,C,K,K) W_) -> (O) {
    O(n,f,y,x) +=! pad(I(n,c,y + i,x + j), 0) * W_(f,c,i,j) where y in 0:H, x in 0:W }"""


def test_a_window_of_one_slides_over_nothing_however_small_the_image() -> None:
    """Pixels of a line of 7 were taken for taps, and had a column each."""
    p = problem(POINTWISE, rand(2, 9, 7, 7), rand(5, 9, 1, 1))
    exact = compiler.emit_c(
        compiler.lower(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes, "k")
    )
    assert "join" not in exact  # of what lies apart
    assert "_depth[" not in exact  # no table of what is summed up
    listed = [p, problem(POINTWISE, rand(1, 3, 1, 5), rand(20, 3, 1, 1))]
    differential([Case(q, exact=e) for q in listed for e in (True, False)], terms=9)
