"""Every leaf form through every C compiler: gcc, zig, clang."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.cc import Compiler, probe
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, spec_of

# The form that each text has to be compiled by, its text, and the shapes of its arguments.
LEAVES: list[tuple[str, str, list[tuple[int, ...]]]] = [
    (
        "contraction panel",
        "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
        [(23, 70), (70, 41)],
    ),
    (
        "epilogue",
        "def fc(float(B,M) I, float(N,M) W, float(N) c) -> (O) "
        "{ O(b,n) +=! I(b,m) * W(n,m)  O(b,n) = fmax(O(b,n) + c(n), 0) }",
        [(33, 29), (50, 29), (50,)],
    ),
    (
        "contraction dot",
        "def dot(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }",
        [(2, 300), (37, 300)],
    ),
    (
        "convolution weights",
        "def weights(float(N,F,Y,X) G, float(N,C,H,W) I) -> (O) "
        "{ O(f,c,i,j) +=! G(n,f,y,x) * pad(I(n,c,2*y+i-1,2*x+j-1), 0) "
        "where i in 0:3, j in 0:3, y in 0:Y, x in 0:X }",
        [(2, 21, 5, 6), (2, 3, 9, 11)],
    ),
    (
        "pointwise",
        "def gate(float(M,N) X, float(N) y) -> (O) "
        "{ O(m,n) = tanh(X(m,n)) * sigmoid(y(n)) + exp(X(m,n)) }",
        [(7, 45), (45,)],
    ),
    ("pointwise", "def turn(float(M,N) X) -> (O) { O(n,m) = X(m,n) }", [(37, 45)]),
    ("row reduction", "def sums(float(M,N) X) -> (s) { s(m) +=! X(m,n) * X(m,n) }", [(9, 5000)]),
    ("reduction", "def tops(float(M,N) X) -> (t) { t(n) max=! X(m,n) }", [(50, 37)]),
    (
        "rows",
        "def softmax(float(B,N) X) -> (Y) { t(b) max=! X(b,n)  Z(b) +=! exp(X(b,n) - t(b)) "
        "Y(b,n) = exp(X(b,n) - t(b)) / Z(b) }",
        [(9, 77)],
    ),
    (
        "stencil",
        "def skew(float(N) X) -> (O) { O(i + 2) = i > 0 ? X(i) / X(i - 1) : X(i) }",
        [(40,)],
    ),
    (
        "nest",
        "def turn(float(N) X) -> (float(N) O) { O(i) = X(i) / X(i * i % N) where i in 0:N }",
        [(40,)],
    ),
]


def problems() -> list[Problem]:
    rng = np.random.default_rng(0)
    return [
        problem(text, *(rng.standard_normal(s, dtype=np.float32) for s in shapes))
        for _, text, shapes in LEAVES
    ]


def compiler_named(name: str) -> Compiler:
    if name == "zig":
        return probe((sys.executable, "-m", "ziglang", "cc"))
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} on PATH")
    return probe((path,))


@pytest.mark.wide
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gcc", marks=pytest.mark.cc),
        pytest.param("zig", marks=pytest.mark.zig),
        pytest.param("clang", marks=pytest.mark.clang),
    ],
)
def test_every_leaf_form_is_right(name: str) -> None:
    cc = compiler_named(name)
    cases = [Case(p, exact=exact) for p in problems() for exact in (True, False)]
    differential(cases, terms=5000, cc=cc)


@pytest.mark.cc
def test_each_text_has_the_form_it_stands_for() -> None:
    for (form, text, _), p in zip(LEAVES, problems(), strict=True):
        spec: Any = spec_of(p, exact=True)
        described = compiler.describe(p.program, spec, Config(), detect(), p.sizes)
        assert any(form in words for _, words in described), (text, described)
