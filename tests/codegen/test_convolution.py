"""Convolutions with static tap lists against the reference: shapes, halos, gradients, no spills."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tcdsl.codegen import compiler
from tcdsl.codegen.config import Config
from tcdsl.codegen.machine import Machine, detect
from tests.codegen.harness import (
    Array,
    Case,
    Problem,
    differential,
    problem,
    spec_of,
)

pytestmark = pytest.mark.cc
RNG = np.random.default_rng(20)


def rand(*shape: int, dtype: str = "float32") -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def form_of(p: Problem, machine: Machine | None = None, config: Config | None = None) -> str:
    """Return the forms of all statements."""
    found = compiler.describe(
        p.program, spec_of(p, exact=True), config or Config(), machine or detect(), p.sizes
    )
    return ", ".join(form for _, form in found)


def held(listed: Sequence[Problem], terms: int) -> None:
    """Hold problems against the reference, after a look at their form."""
    for p in listed:
        assert "convolution" in form_of(p), p.program.text
    differential([Case(p, exact=True) for p in listed], terms)


def forward(
    image: tuple[int, ...],
    kernel: tuple[int, ...],
    *,
    stride: int = 1,
    pad: int = 1,
    dilation: int = 1,
    dtype: str = "float32",
) -> Problem:
    """Return a convolution of (N, C, H, W) by (F, C, KH, KW)."""
    s, p, d = stride, pad, dilation
    text = f"""def conv({dtype}(N,C,H,W) I, {dtype}(F,C,KH,KW) K) -> (O) {{
        O(n,f,y,x) +=! pad(I(n,c,{s}*y+{d}*i-{p},{s}*x+{d}*j-{p}), 0) * K(f,c,i,j)
            where y in 0:(H+{2 * p}-{d}*(KH-1)-1)/{s}+1, x in 0:(W+{2 * p}-{d}*(KW-1)-1)/{s}+1
    }}"""
    return problem(text, rand(*image, dtype=dtype), rand(*kernel, dtype=dtype))


def test_a_padded_image_is_not_copied() -> None:
    listed = [
        forward((2, 3, 9, 17), (20, 3, 3, 3)),
        forward((2, 3, 9, 17), (40, 3, 3, 3), stride=2),
        forward((1, 5, 7, 7), (33, 5, 5, 5), pad=2, dtype="float64"),
    ]
    assert all("factor" not in p.program.text for p in listed)
    held(listed, terms=125)


def backward(
    gradient: tuple[int, ...], kernel: tuple[int, ...], *, stride: int = 1, pad: int = 1
) -> Problem:
    """Return the gradient by the image of a convolution of (N, F, H, W) by (F, C, KH, KW).

    With a stride there is a statement for each residue of the pixels.
    """
    *_, kh, kw = kernel
    lines = []
    for q in range(stride):
        for r in range(stride):
            u, v = (q + pad) % stride, (r + pad) % stride
            a, b = (q + pad - u) // stride, (r + pad - v) // stride
            taps = max(0, -(-(kh - u) // stride)), max(0, -(-(kw - v) // stride))
            lines.append(
                f"D(n,c,{stride}*y+{q},{stride}*x+{r}) +=! pad(G(n,f,y-i+{a},x-j+{b}),0)"
                f" * K(f,c,{stride}*i+{u},{stride}*j+{v})"
                f" where y in 0:H, x in 0:W, i in 0:{taps[0]}, j in 0:{taps[1]}"
            )
    text = f"""def conv_i(float(N,F,H,W) G, float(F,C,{kh},{kw}) K)
        -> (float(N,C,{stride}*H,{stride}*W) D) {{
        {" ".join(lines)}
    }}"""
    return problem(text, rand(*gradient), rand(*kernel))


def test_the_gradient_by_the_image_is_a_convolution() -> None:
    held([backward((2, 5, 9, 17), (5, 20, 3, 3)), backward((1, 4, 6, 5), (4, 17, 2, 4))], terms=45)


def test_a_strided_gradient_writes_each_residue() -> None:
    held([backward((2, 5, 9, 17), (5, 20, 3, 3), stride=2)], terms=45)


EPILOGUE = """def layer(float(N,C,H,W) I, float(F,C,KH,KW) K, float(F) B, float(N,F,H,W) R) -> (O) {
    O(n,f,y,x) +=! pad(I(n,c,y+i-1,x+j-1), 0) * K(f,c,i,j) where y in 0:H, x in 0:W
    O(n,f,y,x) = max(O(n,f,y,x) + B(f) + R(n,f,y,x), 0)
}"""


def test_epilogues_run_on_the_tile() -> None:
    p = problem(EPILOGUE, rand(2, 3, 9, 17), rand(21, 3, 3, 3), rand(21), rand(2, 21, 9, 17))
    assert "convolution" in form_of(p)
    assert "epilogue" in form_of(p)
    held([p], terms=27)


TEXTS = {
    "channels last": """def conv(float(N,H,W,C) I, float(KH,KW,C,F) K) -> (O) {
        O(n,y,x,f) +=! pad(I(n,y+i-1,x+j-1,c), 0) * K(i,j,c,f) where y in 0:H, x in 0:W
    }""",
    "groups": """def conv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) K) -> (O) {
        O(n,g,f,y,x) +=! pad(I(n,g,c,y+i-1,x+j-1), 0) * K(g,f,c,i,j) where y in 0:H, x in 0:W
    }""",
    "one side": """def conv(float(N,C,W) I, float(F,C,KW) K) -> (O) {
        O(n,f,x) +=! pad(I(n,c,3*x+2*j-3), 0) * K(f,c,j) where x in 0:W/3
    }""",
    "three sides": """def conv(float(N,C,D,H,W) I, float(F,C,KD,KH,KW) K) -> (O) {
        O(n,f,z,y,x) +=! pad(I(n,c,z+l-1,2*y+i-2,x+j-1), 0) * K(f,c,l,i,j)
            where z in 0:D, y in 0:H/2, x in 0:W
    }""",
    "no padding": """def conv(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
        O(n,f,y,x) +=! I(n,c,2*y+i,x+j) * K(f,c,i,j)
    }""",
    "padded on one side": """def conv(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
        O(n,f,y,x) +=! K(f,c,i,j) * pad(I(n,c,y+i,x+j-2), 0) where y in 0:H-KH+1, x in 0:W
    }""",
    "scaled": """def conv(float(N,C,H,W) I, float(F,C,KH,KW) K, float a) -> (O) {
        O(n,f,y,x) +=! -a * K(f,c,i,j) * I(n,c,y+i,x+j)
    }""",
}
SHAPES = {
    "channels last": ((2, 7, 19, 5), (3, 3, 5, 20)),
    "groups": ((2, 3, 2, 6, 13), (3, 18, 2, 3, 3)),
    "one side": ((3, 4, 50), (20, 4, 5)),
    "three sides": ((1, 2, 4, 6, 9), (17, 2, 3, 3, 3)),
    "no padding": ((2, 3, 9, 21), (24, 3, 3, 2)),
    "padded on one side": ((2, 3, 9, 21), (24, 3, 3, 2)),
    "scaled": ((2, 3, 9, 21), (24, 3, 3, 2), ()),
}


def test_indices_in_other_roles() -> None:
    listed = [problem(text, *(rand(*s) for s in SHAPES[n])) for n, text in TEXTS.items()]
    held(listed, terms=54)
