"""What a condition keeps inside stays inside, whatever a C compiler makes of constant masks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tcdsl.autotune.targets.cpu.guard_pages import GuardedBytes, Place
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.library.load import load
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops import ready
from tcdsl.codegen.loops.loopir import (
    Assign,
    Expr,
    Function,
    If,
    Let,
    Load,
    Pointer,
    Scalar,
    Simd,
    Stmt,
    Unit,
    Var,
)
from tcdsl.codegen.loops.opaque import exposed, opaque
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32
from tests.codegen.harness import Problem, assert_same, call, problem, spec_of
from tests.codegen.native import BUILDS, C_OF, compiler_of, library
from tests.codegen.pages import between_pages
from tests.codegen.under_configs import narrower
from tests.tiers import sampled

BODIES = {
    "ahead": "O(i) = i + 2 < N ? A(i + 2) : 1 where i in 0:N",
    "behind": "O(i) = i > 1 ? A(i - 2) : 1 where i in 0:N + 2",
    "past the end": "O(i) = !(i + 2 >= N) && i + 2 > -1 ? A(int64(i)) : 1 where i in 0:N + 1",
    "or": "O(i) = i >= N || A(i) > 3 ? 1 : 0 where i in 0:N + 5",
    "nested": "O(i) = i < N ? (i > 2 ? A(i - 3) : A(i)) : 1 where i in 0:N + 3",
    "a let": "O(i) = c ? A(e) : 1 where i in 0:N, e = i + 3, c = e < N && i != 2",
    "a remainder": "O(i) = i % 3 < 2 && i < N ? A(i) : 1 where i in 0:N + 7",
    "pad": "O(i) = pad(A(i - 1), 0) + pad(A(i + 1), 0) where i in 0:N",
    "taps": "O(i) +=! i + k < N && i + k > 1 ? A(i + k - 2) : 0 where i in 0:N, k in 0:9",
    "rows": "m max=! i + 2 < N ? A(i + 2) : 0 where i in 0:N "
    "O(i) = i > 0 ? A(i - 1) - m : m where i in 0:N",
    "columns": "O(i, j) = i + j < N && i > 0 ? A(i + j) : 1 where i in 0:3, j in 0:N",
    "a row known": "O(i, j) = i == 0 ? (j + 2 < N ? A(j + 2) : 1) : 2 where i in 0:2, j in 0:N",
    "a size known": "O(j) = N == 13 && j + 2 < N ? A(j + 2) : 1 where j in 0:N",
}
SIZES = (3, 13, 39)
MORE_SIZES = (1, 2, 4, 5, 7, 8, 9, 11, 15, 16, 17, 19, 23, 31, 32, 33, 37, 40, 41, 47, 63, 65)
DTYPES = ("float", "double", "int8", "int16", "int32", "int64", "uint8", "float16")


def guarded(body: str, dtype: str, n: int) -> Problem:
    values = (np.arange(n) % 7 + 1).astype({"float": "f4", "double": "f8"}.get(dtype, dtype))
    return problem(f"def f({dtype}(N) A) -> (O) {{ {body} }}", values)


def hold(problems: Sequence[Problem], build: str) -> None:
    """Hold exact and generic kernels against the reference, with inputs against dead pages."""
    texts, names = [], []
    _, *march = build.split()
    machine = narrower(32)[1] if march else detect()  # a text may be of vectors of one width
    for i, p in enumerate(problems):
        for exact in (True, False):
            spec, name = spec_of(p, exact=exact), f"k{i}_{exact:d}"
            unit = compiler.lower(p.program, spec, Config(), machine, p.sizes, name)
            texts.append(compiler.emit_c(unit))
            names.append((name, p))
    source = Source("guarded", "\n".join(texts), flags=tuple(f"-march={m}" for m in march))
    path = compile_source(source, compiler_of(build))
    rng = np.random.default_rng(0)
    for name, p in names:
        want = evaluate(p.checked, p.args)
        places: tuple[Place, ...] = ("after", "before")
        for place in places:
            with between_pages(p, place) as q:
                assert_same(call(load(path, name).address, q, 1, rng), want)


@pytest.mark.cc
def test_a_guarded_read_never_leaves_its_array() -> None:
    few = [guarded(body, "float", 39) for body in BODIES.values()]
    few += [guarded(BODIES["ahead"], dtype, 13) for dtype in ("double", "int8", "int16")]
    hold(few, "cc")


@pytest.mark.parametrize("build", [p for p in BUILDS if p.values != ("cc x86-64",)])
@sampled("body", BODIES.values(), ids=[*BODIES], keep=0, wide=3)
def test_guarded_reads_of_many_sizes_never_leave_their_array(body: str, build: str) -> None:
    sizes = SIZES + MORE_SIZES[::3] if build == "cc" else SIZES
    hold([guarded(body, "float", n) for n in sizes], build)


@pytest.mark.cc
@pytest.mark.wide
@pytest.mark.parametrize("dtype", DTYPES)
def test_guarded_reads_of_each_type_never_leave_their_array(dtype: str) -> None:
    hold([guarded(BODIES[k], dtype, n) for k in ("ahead", "pad", "rows") for n in SIZES], "cc")


@pytest.mark.cc
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2))
def test_random_guards_never_let_a_read_out_of_its_array(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def one() -> Problem:
        at, low = (int(x) for x in rng.integers(-4, 5, 2))
        low_side = str(rng.choice([f"i + {at} >= 0", f"!(i + {at} < 0)", f"-1 < i + {at}"]))
        high_side = str(rng.choice([f"i + {at} < N", f"!(i + {at} >= N)", f"N - 1 >= i + {at}"]))
        more = str(rng.choice(["", "", " && i % 3 != 1", " && i != 5", " && (i < 4 || i > 6)"]))
        cond = f"{low_side} && {high_side}{more}"
        read = f"A(i + {at})"
        body = str(rng.choice([
            f"O(i) = {cond} ? {read} : 1", f"O(i) = !({cond}) ? 1 : {read}",
            f"O(i) = {cond} && {read} > 2 ? 3 : 1", f"O max=! {cond} ? {read} : 0",
            f"O +=! {cond} ? {read} : 0", f"O(i, j) = j > 0 && {cond} ? {read} : 1",
        ]))  # fmt: skip
        where = f"where i in {low}:N + {int(rng.integers(0, 6))}" if "O(" not in body else (
            f"where i in 0:N + {int(rng.integers(0, 6))}"
        )  # fmt: skip
        where += ", j in 0:3" if "(i, j)" in body else ""
        n = int(rng.choice([n for n in (*SIZES, *MORE_SIZES) if n >= low]))  # no range ends first
        return guarded(f"{body} {where}", str(rng.choice(DTYPES[:6])), n)

    hold([one() for _ in range(30)], "cc")


# ---- stores: what the compilers make of conditions around them

STORES = """#include "prelude.h"
#define STORE(T, N)                                                          \\
  TC_EXPORT void some_##T##_##N(const tc_##T *restrict A, tc_##T *restrict O) { \\
    const tc_i64 zero = tc_opaque_i64(0);                                    \\
    _Pragma("omp simd")                                                      \\
    for (tc_i64 i = 0; i < N + 3; i++)                                       \\
      if (i + zero < N) O[i] = A[i];                                         \\
  }                                                                          \\
  TC_EXPORT void more_##T##_##N(const tc_##T *restrict A, tc_##T *restrict O) { \\
    const tc_i64 zero = tc_opaque_i64(0);                                    \\
    _Pragma("omp simd")                                                      \\
    for (tc_i64 i = -2; i < N + 3; i++)                                      \\
      if (i + zero >= 0 && i + zero < N) O[i] += A[i];                       \\
  }
"""
STORED = ("float32", "float64", "int8", "int16", "int32", "int64")


@pytest.mark.parametrize(
    "build", [pytest.param(*p.values, marks=[*p.marks, *[pytest.mark.wide] * (p.values != ("cc",))])
              for p in BUILDS]
)  # fmt: skip
def test_a_store_under_a_condition_never_leaves_its_array(build: str) -> None:
    pairs = [(d, n) for d in STORED for n in (5, 13, 39)]
    text = STORES + "".join(f"STORE({C_OF.get(d, d)}, {n})\n" for d, n in pairs)
    lib = library("stores", text.replace("tc_f32", "float").replace("tc_f64", "double"), build)
    places: tuple[Place, ...] = ("after", "before")
    for dtype, n in pairs:
        for place in places:
            size = n * np.dtype(dtype).itemsize
            with GuardedBytes(size, place) as source, GuardedBytes(size, place) as target:
                a, o = source.bytes.view(dtype), target.bytes.view(dtype)
                a[:], o[:] = np.arange(n), 0
                source.seal()
                for kind, factor in (("some", 1), ("more", 2)):
                    getattr(lib, f"{kind}_{C_OF[dtype]}_{n}")(
                        ctypes.c_void_p(source.address), ctypes.c_void_p(target.address)
                    )
                    np.testing.assert_array_equal(o, a * factor)
                assert target.is_intact()


# ---- the rewrite and its law

_I, _J, _N = b.i64("i"), b.i64("j"), b.i64("n")


def _a(at: Expr) -> Load:
    return Load(Var("A", Pointer(FLOAT32)), at, Scalar(FLOAT32))


def _loops(*body: Stmt) -> Function:
    """Return a function over constant ranges of i and, inside, j."""
    inner = b.loop(_J, 0, 9, *body, mark=Simd())
    params = (Var("A", Pointer(FLOAT32)), _N)
    return Function("f", params, b.loop(_I, 0, 3, inner), "micro")


def _read(cond: Expr) -> Stmt:
    return Let(b.var("v", FLOAT32), b.select(cond, _a(_J), b.const(0, FLOAT32)))


def _less(x: Expr, y: Expr | int) -> Expr:
    return b.compare("<", x, y)


_H = b.var("h", BOOL)
_ONE = b.const(1, FLOAT32)
CASES: dict[str, tuple[Function, set[str]]] = {
    "a constant": (_loops(_read(_less(_J, 5))), {"j"}),
    "a run-time size": (_loops(_read(_less(_J, _N))), set()),
    "a size that another condition tells": (
        _loops(_read(b.all_of(b.compare("==", _N, 5), _less(_J, _N)))), {"j"},
    ),
    "both": (_loops(_read(_less(b.add(_I, _J), 5))), {"i", "j"}),
    "by a name": (_loops(Let(_H, _less(_J, 5)), _read(_H)), {"j"}),
    "by a name that is assigned": (
        _loops(
            Let(_H, b.const(False, BOOL), mutable=True),
            If(_less(_J, 5), Assign(_H, b.const(True, BOOL))), _read(_H),
        ), {"j"},
    ),
    "data": (
        _loops(Let(_H, b.compare(">", _a(_J), b.const(0, FLOAT32))), _read(_H)), set(),
    ),
    "a choice": (_loops(_read(_less(b.select(_less(_J, 3), b.c64(2), _J), 5))), {"j"}),
    "a choice that is told": (
        _loops(_read(_less(_J, b.select(_less(_N, 3), b.c64(2), b.c64(7))))), {"j"},
    ),
    "a store": (_loops(If(_less(_J, 5), Assign(_a(_J), b.const(0, FLOAT32)))), {"j"}),
    "no access": (
        _loops(Let(b.var("v", FLOAT32), b.select(_less(_J, 5), _ONE, b.const(0, FLOAT32)))),
        set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_compiler_may_know_is_hidden(name: str) -> None:
    f, names = CASES[name]
    assert exposed(f) == names
    (made,) = opaque(Unit("u", "", (f,))).functions
    assert not exposed(made)
    assert (made == f) == (not names)


def test_an_exact_kernel_whose_masks_are_known_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    p = guarded(BODIES["ahead"], "int8", 13)  # a stencil, of larger types, knows no masks
    keep: Callable[[Any], Any] = lambda unit: unit  # noqa: E731
    monkeypatch.setattr(ready, "opaque", keep)
    with pytest.raises(InternalError, match="knows of i decides an access"):
        compiler.lower(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes, "k")
