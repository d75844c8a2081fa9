"""Operands whose neighbours lie along the outermost of fused indices, against the reference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import (
    Case,
    Problem,
    assert_same,
    differential,
    expected,
    problem,
    rand,
    run_cases,
    spec_of,
)
from tests.tiers import sampled

pytestmark = pytest.mark.cc


def einsum(spec: str, sizes: str, dtype: str = "float32", step: int = 1) -> Problem:
    """Return a sum of products in the letters of `np.einsum`; sizes are said as "b=8 m=4".

    step: operands are every so many elements of larger ones, the last dimension apart.
    """
    size = {pair[0]: int(pair[2:]) for pair in sizes.split()}
    inputs, out = spec.split("->")
    x, y = inputs.split(",")
    text = (
        f"def run({dtype}({','.join(x.upper())}) X, {dtype}({','.join(y.upper())}) Y) -> (O) "
        f"{{ O({','.join(out)}) +=! X({','.join(x)}) * Y({','.join(y)}) }}"
    )
    shapes = ([size[c] * step for c in s[:-1]] + [size[s[-1]]] for s in (x, y))
    arrays = (rand(*shape).astype(dtype) for shape in shapes)
    return problem(text, *(a[(slice(None, None, step),) * (a.ndim - 1)] for a in arrays))


def packed(p: Problem, *, exact: bool = True) -> str:
    """Return the emitted text."""
    unit = compiler.lower(p.program, spec_of(p, exact=exact), Config(), detect(), p.sizes, "k")
    return compiler.emit_c(unit)


ROWS = "fbea,ecfd->dcba"
DEPTH = "dac,bcd->ba"


def test_vectors_along_an_outer_index_are_turned_around() -> None:
    rows, depth = einsum(ROWS, "a=5 b=3 c=7 d=19 e=3 f=4"), einsum(DEPTH, "a=21 b=13 c=5 d=37")
    assert "tc_pack_far_x_columns_depth" in packed(rows, exact=False)
    assert "tc_pack_far_k_depth" in packed(depth, exact=False)
    differential([Case(rows, True), Case(rows, False), Case(depth, True)], terms=185)


SIZES = {
    ROWS: (
        "a=32 b=2 c=32 d=32 e=2 f=3",
        "a=5 b=3 c=1 d=19 e=3 f=4",
        "a=17 b=1 c=40 d=3 e=1 f=1",
        "a=9 b=2 c=33 d=50 e=20 f=29",  # more than one pass
        "a=3 b=2 c=0 d=5 e=2 f=3",
        "a=3 b=2 c=2 d=5 e=0 f=3",
    ),
    DEPTH: (
        "a=21 b=13 c=5 d=37",
        "a=9 b=31 c=24 d=50",
        "a=40 b=7 c=1 d=100",
        "a=7 b=5 c=700 d=4",
        "a=4 b=0 c=3 d=9",
        "a=4 b=6 c=3 d=0",
    ),
    "gab,gdec->decab": ("a=9 b=4 c=5 d=18 e=3 g=33", "a=5 b=7 c=2 d=4 e=2 g=6"),
    "kba,ckdb->cda": ("a=33 b=6 c=5 d=3 k=17",),
    "pqrm,npqr->nm": ("p=17 q=3 r=5 m=20 n=30",),
    "mrqp,qrpn->nm": ("p=18 q=4 r=5 m=20 n=30",),
}


def cases() -> Iterator[Case]:
    for spec, sizes in SIZES.items():
        for size in sizes:
            p = einsum(spec, size)
            yield from (Case(p, exact=exact) for exact in (True, False))
            default = compiler.default_config(p.program, spec_of(p, exact=True), detect(), p.sizes)
            values = {k: v for k, v in default.items if str(k).startswith("g0.")}
            if values.get("g0.form") == "contraction" and values.get("g0.method") == "panel":
                yield Case(p, True, Config.of({"g0.tile": "1x1", "g0.method": "panel"}))
    for spec, size in ((ROWS, SIZES[ROWS][0]), (DEPTH, SIZES[DEPTH][1])):  # panels by twos
        yield Case(einsum(spec, size), True, Config.of({"g0.tile": "4x3", "g0.method": "panel"}))


@sampled("part", range(4), keep=0, wide=1)
def test_any_sizes_tiles_and_layouts(part: int) -> None:
    made = list(cases())[part::4]
    for case, got in zip(made, run_cases(made), strict=True):
        assert_same(got, expected(case.problem), terms=300)


@pytest.mark.deep
def test_halves_and_strides() -> None:
    made = [
        einsum(spec, SIZES[spec][1], dtype, step)
        for spec, dtype, step in product((ROWS, DEPTH), ("float16", "float32", "float64"), (1, 2))
    ]
    differential([Case(p, exact=exact) for p in made for exact in (True, False)], terms=1200)
