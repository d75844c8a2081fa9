"""Paddings of halves lie as halves where words are made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.words import BFLOATS, FLOAT16_TILES, TILES
from tcdsl.codegen.program.narrowed import narrowed
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.dtypes import BFLOAT16
from tests.codegen.harness import Array, Case, Problem, differential, problem, spec_of

HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
MACHINE = replace(detect(), dots=(BFLOATS, TILES, FLOAT16_TILES))
CONV = (
    "def conv(T(N,C,H,W) I, T(F,C,3,3) K) -> (T(N,F,H,W) O) "
    "{ O(n,f,y,x) +=! pad(I(n,c,y+i-1,x+j-1), 0) * K(f,c,i,j) }"
)


def packed(text: str, **sizes: int) -> list[str]:
    """Return the temporaries that lie as halves, where bfloat16 has words."""
    sizes = {"N": 2, "C": 16, "H": 20, "W": 20, "F": 16} | sizes
    found = narrowed(program_of(check(parse(text))), sizes, lambda dtype: dtype == BFLOAT16)
    return [x.name for x in found.buffers if x.is_packed]


def test_only_paddings_of_what_has_words_are_halves() -> None:
    assert packed(CONV.replace("T(", "bfloat16(")) == ["O.factor"]
    assert packed(CONV.replace("T(", "bfloat16("), F=3) == []
    assert packed(CONV.replace("T(", "float16(")) == []
    mixed = (
        "def conv(bfloat16(N,C,H) I, float16(F,C,3) K) -> (float(N,F,H) O) "
        "{ O(n,f,y) +=! float(pad(I(n,c,y+i-1), 0)) * float(K(f,c,i)) }"
    )
    assert packed(mixed) == []
    depthwise = (
        "def conv(bfloat16(N,C,H) I, bfloat16(C,3) K) -> (bfloat16(N,C,H) O) "
        "{ O(n,c,y) +=! pad(I(n,c,y+i-1), 0) * K(c,i) }"
    )
    assert packed(depthwise) == []


def operand(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(HALVES[dtype])


def problems(dtype: str) -> Iterator[Problem]:
    """Yield windows of two sides, by twos, of one side, in groups; the gradient by the image."""
    image, weights = operand(dtype, 3, 9, 11, 18), operand(dtype, 17, 9, 3, 3)
    yield problem(CONV.replace("T(", f"{dtype}("), image, weights)
    yield problem(CONV.replace("T(", f"{dtype}("), image[:, :, ::-1, ::2], weights)
    back = "def back(T(N,F,H,W) G, T(F,C,3,3) K) -> (float(N,C,H,W) D) "
    back += "{ D(n,c,y,x) +=! float(pad(G(n,f,y-i+1,x-j+1), 0)) * float(K(f,c,i,j)) }"
    yield problem(back.replace("T(", f"{dtype}("), operand(dtype, 3, 17, 11, 18), weights)
    twos = CONV.replace(
        "y+i-1,x+j-1), 0) * K(f,c,i,j)",
        "2*y+i-1,2*x+j-1), 0) * K(f,c,i,j) where y in 0:5, x in 0:9",
    ).replace("T(N,F,H,W)", "T(N,F,5,9)")
    yield problem(twos.replace("T(", f"{dtype}("), image, weights)
    one = "def conv(T(N,C,W) I, T(F,C,5) K) -> (T(N,F,W) O) "
    one += "{ O(n,f,x) +=! pad(I(n,c,x+i-2), 0) * K(f,c,i) }"
    yield problem(one.replace("T(", f"{dtype}("), image[:, :, 0], operand(dtype, 17, 9, 5))
    yield problem(CONV.replace("T(", f"{dtype}("), image[:0], weights)


@pytest.mark.cc
@pytest.mark.parametrize("dtype", [*HALVES])
def test_the_values_are_those_of_the_reference(dtype: str) -> None:
    cases = [Case(p, exact=e) for p in problems(dtype) for e in (True, False)]
    differential(cases, terms=200, machine=MACHINE)
    nothing = replace(MACHINE, dots=())
    differential(cases[:2], terms=200, machine=nothing)


def test_padded_windows_are_made_of_words() -> None:
    image, weights = operand("float16", 3, 64, 28, 28), operand("float16", 64, 64, 3, 3)
    p = problem(CONV.replace("T(", "float16("), image, weights)
    for exact in (True, False):
        config = compiler.default_config(p.program, spec_of(p, exact=exact), MACHINE, p.sizes)
        assert config.get("g1.word") == 32
