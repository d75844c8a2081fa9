"""Every scalar type as every other: of elements, indices, sizes, literals and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.types import dtypes
from tests.codegen.harness import Case, Problem, expected, problem, run_cases
from tests.cusim.harness import lowered, simulate
from tests.tiers import sampled

TYPES = [
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64"),
]
WITNESSES = [("int32", "float16"), ("int32", "bfloat16"), ("int64", "bfloat16"),
             ("float64", "float16"), ("float32", "uint8"), ("bool", "bfloat16")]  # fmt: skip
PAIRS = [(a, b) for a in TYPES for b in TYPES if (a, b) not in WITNESSES]
NUMBER = 75  # elements: vectors of any width, and a rest

# What else is cast; {B} is what a cast to bool is joined by.
OTHERS = {
    "index": "O(i) = {T}(i) where i in 0:N",
    "far index": "O(i - 16777200) = {T}(i) where i in 16777200:16777275",
    "index and an element": "O(i) = {T}(A(i) + float32({T}(i + 7)))",
    "size": "O(i) = {T}(N) {B} {T}(A(i))",
    "integer": "O(i) = {T}(A(i)) {B} {T}(25165825)",
    "literal": "O(i) = A(i) > 0.0 ? {T}(1.00048828218) : {T}(0.1)",
    "comparison": "O(i) = {T}(A(i) > 0.5)",
    "conjunction": "O(i) = {T}(A(i) > 0.5 && i < 40)",
}
SUM = "O(i) +=! {T}(i + k) where i in 0:N, k in 0:3"  # of bool there is none

# Casts where another form computes them: behind a product, along a row, on the way into a sum.
FORMS = {
    "product": """def f({A}(M,K) A, {A}(K,P) B) -> ({B}(M,P) O) {{
        C(m,p) +=! A(m,k) * B(k,p)  O(m,p) = {B}(C(m,p)) }}""",
    "product and a vector of another type": """def f({A}(M,K) A, {A}(K,P) B) -> (double(M,P) O) {{
        D(p) = {B}(B(1,p))  C(m,p) +=! A(m,k) * B(k,p)
        O(m,p) = double(C(m,p)) + double(D(p)) }}""",
    "two results of a product": """def f({A}(M,K) A, {A}(K,P) B) -> ({B}(M,P) R, O) {{
        C(m,p) +=! A(m,k) * B(k,p)  R(m,p) = {B}(C(m,p))  O(m,p) = C(m,p) + C(m,p) }}""",
    "row": """def f({A}(M,K) A, {A}(K,P) B) -> ({B}(M,K) O) {{
        s(m) max=! A(m,k)  O(m,k) = {B}(A(m,k) - s(m)) }}""",
    "into a sum": """def f({A}(M,K) A, {A}(K,P) B) -> (float64(M) O) {{
        O(m) +=! float64({B}(A(m,k))) }}""",
}


def kind(name: str) -> np.dtype[Any]:
    return numpy_dtype(getattr(dtypes, name.upper()))


def samples(name: str, rng: np.random.Generator) -> Any:
    """Return values of a type: ends, ties, what no other type holds; all of them in places."""
    if name == "bool":
        return rng.random(NUMBER) < 0.5
    dtype = kind(name)
    if name.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        near = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 127, 128, 255, 2049, 4097]
        # a tie of float16 or bfloat16, and one beside it
        for bits in (8, 11, 24, 31, 40, 52, 62):
            near += [(1 << bits) + (1 << bits - 8) + d for d in (-1, 0, 1)]
            near += [-(1 << bits) - (1 << bits - 8) - d for d in (-1, 0, 1)]
        near += [65519, 65520, 65521, (1 << 30) + (1 << 22) + 1]
        fits = [v for v in near if info.min <= v <= info.max]
        more = rng.integers(info.min, info.max, NUMBER, dtype, endpoint=True).tolist()
        return np.array((fits + more)[:NUMBER], dtype)
    ends = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        0.5,
        -0.5,
        1.5,
        2.5,
        -1.0,
        127.5,
        128.0,
        255.5,
        256.0,
    ]
    ends += [
        -128.5,
        -129.0,
        32767.5,
        32768.0,
        65504.0,
        65519.0,
        65520.0,
        2.0**31,
        -(2.0**31),
        2.0**32,
    ]
    ends += [2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, 1e300, 3.4e38, 1e-8, 6e-8, 2.0**-149]
    ties = [
        1 + 2.0**-11 + 2.0**-30,
        1 + 2.0**-11,
        1 + 2.0**-8 + 2.0**-40,
        1 + 2.0**-8,
        -1 - 2.0**-9,
    ]
    values = np.array(ends + ties, np.float64)
    more = rng.normal(size=NUMBER) * 10.0 ** rng.integers(-6, 12, NUMBER)
    with np.errstate(over="ignore"):
        return np.concatenate([values, more])[:NUMBER].astype(dtype)


def element(a: str, b: str, rng: np.random.Generator) -> Problem:
    return problem(f"def f({a}(N) A) -> ({b}(N) O) {{ O(i) = {b}(A(i)) }}", samples(a, rng))


def other(text: str, to: str, rng: np.random.Generator) -> Problem:
    text = text.replace("{T}", to).replace("{B}", "&&" if to == "bool" else "+")
    a = rng.normal(size=NUMBER).astype(np.float32)
    return problem(f"def f(float(N) A) -> ({to}(N) O) {{ {text} }}", a)


def within(text: str, a: str, b: str, rng: np.random.Generator) -> Problem:
    sizes = ((19, 5), (5, 37))
    values = [rng.integers(-90, 90, s).astype(kind(a)) for s in sizes]
    return problem(text.format(A=a, B=b), *values)


def assert_bits(got: Any, want: Any, where: str) -> None:
    assert got.dtype == want.dtype
    if want.dtype.kind in "biu":
        same = got == want
    else:
        same = (got.view(f"u{got.itemsize}") == want.view(f"u{got.itemsize}")) | (
            np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
        )
    assert same.all(), f"{where}: {got[~same]} and not {want[~same]}"


def check(problems: dict[str, Problem], exact: tuple[bool, ...] = (True, False)) -> None:
    cases = [Case(p, x) for p in problems.values() for x in exact]
    names = [n for n in problems for _ in exact]
    for name, case, got in zip(names, cases, run_cases(cases), strict=True):
        for x, want in zip(got, expected(case.problem), strict=True):
            assert_bits(x, want, f"{name} {case.exact}")


@pytest.mark.cc
@pytest.mark.parametrize(
    "pairs",
    [
        WITNESSES,
        *(pytest.param(PAIRS[k::3], marks=pytest.mark.wide, id=f"part {k}") for k in range(3)),
    ],
)
def test_elements_become_any_type_bit_for_bit(
    pairs: list[tuple[str, str]], rng: np.random.Generator
) -> None:
    check({f"{a} to {b}": element(a, b, rng) for a, b in pairs})


@pytest.mark.cc
@pytest.mark.parametrize(
    "types",
    [
        ["bfloat16"],
        pytest.param([t for t in TYPES if t != "bfloat16"], marks=pytest.mark.wide),
    ],
)
def test_indices_sizes_literals_and_comparisons_become_any_type(
    types: list[str], rng: np.random.Generator
) -> None:
    texts = {(name, t): x for t in types for name, x in OTHERS.items()}
    texts |= {("sum", t): SUM for t in types if t != "bool"}
    check({f"{name} to {t}": other(x, t, rng) for (name, t), x in texts.items()})


@pytest.mark.cc
@pytest.mark.parametrize(
    ("kinds", "to", "names"),
    [
        (["int32"], ["bfloat16"], ["product", "row"]),
        pytest.param(["int8", "float32"], ["float16", "int8"], [*FORMS], marks=pytest.mark.wide),
    ],
)
def test_casts_of_sums_and_rows(
    kinds: list[str], to: list[str], names: list[str], rng: np.random.Generator
) -> None:
    cases = {
        f"{n}: {a} to {t}": within(FORMS[n], a, t, rng) for n in names for a in kinds for t in to
    }
    check(cases, exact=(True,))


@pytest.mark.cusim
@sampled("source", ["int32", *(t for t in TYPES if t != "int32")], keep=1, wide=4)
def test_kernels_of_a_gpu_cast_as_well(source: str, rng: np.random.Generator) -> None:
    returns = ", ".join(f"{t}(N) O{t}" for t in TYPES)
    body = " ".join(f"O{t}(i) = {t}(A(i))" for t in TYPES)
    p = problem(f"def f({source}(N) A) -> ({returns}) {{ {body} }}", samples(source, rng))
    unit = lowered(p)
    got, report = simulate(unit, compiler.emit_cuda(unit), p)
    report.assert_clean()
    for t, x, want in zip(TYPES, got, expected(p), strict=True):
        assert_bits(x, want, f"{source} to {t}")


@pytest.mark.nvrtc
@sampled("source", ["int32", *(t for t in TYPES if t != "int32")], keep=1, wide=3)
def test_nvrtc_takes_every_cast(source: str, rng: np.random.Generator) -> None:
    body = " ".join(f"O{t}(i) = {t}(A(i))" for t in TYPES)
    returns = ", ".join(f"{t}(N) O{t}" for t in TYPES)
    p = problem(f"def f({source}(N) A) -> ({returns}) {{ {body} }}", samples(source, rng))
    assert compile_cuda(compiler.emit_cuda(lowered(p)), "sm_90", name="cast").report.kernels
