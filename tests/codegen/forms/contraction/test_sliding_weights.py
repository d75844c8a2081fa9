"""Weight gradients of unknown sizes against the reference: borders, windows, layouts, empties."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.forms.contraction.any_sizes import held_as, titles_of
from tests.codegen.harness import Array, Case, Problem, differential, problem, spec_of
from tests.codegen.under_configs import narrower

pytestmark = pytest.mark.cc
RNG = np.random.default_rng(33)


def rand(*shape: int, dtype: str = "float32") -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def held(listed: Sequence[Problem], terms: int) -> None:
    held_as("convolution weights of any size", listed, terms)


PADDED = """def conv_k(float(N,C,H,W) I, float(N,F,H,W) G) -> (D) {
    D(f,c,i,j) +=! G(n,f,y,x) * pad(I(n,c,y+i-1,x+j-1), 0) where i in 0:3, j in 0:3
}"""


def padded(n: int, c: int, h: int, w: int, f: int) -> Problem:
    return problem(PADDED, rand(n, c, h, w), rand(n, f, h, w))


def test_one_executable_serves_ragged_tiny_and_empty_sizes() -> None:
    shapes = [
        (2, 9, 5, 11, 20),
        (1, 1, 1, 1, 1),
        (0, 3, 5, 6, 4),
        (3, 17, 4, 5, 3),
        (2, 0, 3, 3, 5),
        (1, 2, 0, 4, 18),
    ]
    held([padded(*shape) for shape in shapes], terms=110)


@pytest.mark.parametrize("taps", [1, 3])
def test_few_columns_are_summed_for_many_channels_at_once(taps: int) -> None:
    """Four channels of one tap are four sums, which wait for each other."""
    window = PADDED.replace("j in 0:3", f"j in 0:{taps}").replace("x+j-1", "x+j")
    p = problem(window, rand(2, 9, 5, 11), rand(2, 20, 5, 11))
    machine = replace(detect(), registers=32)
    spec = spec_of(p, exact=False)
    text = compiler.emit_c(compiler.lower(p.program, spec, Config(), machine, p.sizes, "k"))
    tiles = re.findall(r"MICRO void k_g\d_tile_0_(\d)x(\d)\(", text)
    assert [c for c, vectors in tiles if vectors == "1"] == ["1", "2", "3", "4", "6", "8"]
    assert [c for c, vectors in tiles if vectors == "2"] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("step", [1, 2])
def test_micro_kernels_know_the_distances_of_taps_and_pixels_side_by_side(step: int) -> None:
    """Distances in parameters are more than there are registers: each comes back at each pixel."""
    image = rand(2, 9, 5, 11 * step)[..., ::step]
    p = problem(PADDED, image, rand(2, 20, 5, 11))
    spec = spec_of(p, exact=False)
    text = compiler.emit_c(compiler.lower(p.program, spec, Config(), detect(), p.sizes, "k"))
    (params,) = re.findall(r"MICRO void k_g\d_tile_0_4x1\((.*?)\)", text, re.DOTALL)
    told = set(re.findall(r"a_\w+", params))
    assert told == {"a_channel", "a_axis0", "a_axis1"} | (
        {"a_tap", "a_axis2"} if step > 1 else set()
    )


@pytest.mark.wide
def test_strips_of_all_kinds_and_their_groups() -> None:
    shapes = [
        (1, 2, 40, 70, 8),  # a strip of some lines
        (2, 1, 2, 5000, 20),  # a part of a line
        (900, 3, 2, 3, 40),  # many images
        (40, 8, 16, 64, 33),  # images that share sets of the first level
    ]
    held([padded(*shape) for shape in shapes], terms=41000)


TEXTS = {
    "by twos, 7x7": (
        """def conv_k(float(N,C,H,W) I, float(N,F,OH,OW) G) -> (D) {
            D(f,c,i,j) +=! G(n,f,y,x) * pad(I(n,c,2*y+i-3,2*x+j-3), 0) where i in 0:7, j in 0:7
        }""",
        ((2, 3, 19, 22), (2, 20, 10, 11)),
    ),
    "windows of the caller": (
        """def conv_k(float(N,C,H,W) I, float(N,F,OH,OW) G) -> (D) {
            D(f,c,i,j) +=! G(n,f,y,x) * I(n,c,y+i,x+j)
        }""",
        ((2, 5, 9, 12), (2, 18, 7, 10)),
    ),
    "groups": (
        """def conv_k(float(N,G,C,H,W) I, float(N,G,F,H,W) O) -> (D) {
            D(g,f,c,i,j) +=! O(n,g,f,y,x) * pad(I(n,g,c,y+i-1,x+j-1), 0) where i in 0:3, j in 0:3
        }""",
        ((3, 4, 5, 6, 7), (3, 4, 6, 6, 7)),
    ),
    "channels last": (
        """def conv_k(float(N,H,W,C) I, float(N,H,W,F) G) -> (D) {
            D(i,j,c,f) +=! G(n,y,x,f) * pad(I(n,y+i-1,x+j-1,c), 0) where i in 0:3, j in 0:3
        }""",
        ((2, 6, 9, 11), (2, 6, 9, 35)),
    ),
    "one side, dilated, double": (
        """def conv_k(double(N,C,W) I, double(N,F,OW) G) -> (D) {
            D(f,c,j) +=! G(n,f,x) * pad(I(n,c,3*x+2*j-4), 0) where j in 0:5
        }""",
        ((3, 7, 50), (3, 20, 17)),
    ),
    "three sides, backwards": (
        """def conv_k(float(N,C,D,H,W) I, float(N,F,D,H,W) G) -> (R) {
            R(f,c,l,i,j) +=! G(n,f,z,y,x) * pad(I(n,c,z+l-1,y-i+1,x-j+1), 0)
                where l in 0:2, i in 0:3, j in 0:3
        }""",
        ((2, 3, 4, 5, 6), (2, 17, 4, 5, 6)),
    ),
    "more border than image": (
        """def conv_k(float(N,C,H,W) I, float(N,F,OH,OW) G) -> (D) {
            D(f,c,i,j) +=! G(n,f,y,x) * pad(I(n,c,y+i-4,x+j-4), 0) where i in 0:5, j in 0:5
        }""",
        ((2, 3, 3, 2), (2, 16, 7, 6)),
    ),
    "added to what is there": (
        """def conv_k(float(N,C,H,W) I, float(N,F,H,W) G) -> (float(F,C,3,3) D) {
            D(f,c,i,j) = 1 where f in 0:F, c in 0:C
            D(f,c,i,j) += G(n,f,y,x) * pad(I(n,c,y+i-1,x+j-1), 0)
        }""",
        ((2, 3, 6, 9), (2, 21, 6, 9)),
    ),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", TEXTS)
def test_windows_layouts_and_groups(name: str) -> None:
    text, shapes = TEXTS[name]
    dtype = "float64" if "double" in text else "float32"
    held([problem(text, *(rand(*s, dtype=dtype) for s in shapes))], terms=240)


@pytest.mark.wide
def test_operands_of_any_strides() -> None:
    image, other = rand(2, 2, 6, 9, 40), rand(2, 9, 14, 20)
    held([problem(PADDED, image[:, 0, ::-1, :, 3:17], other.transpose(0, 3, 1, 2))], terms=260)
    held([problem(PADDED, image[:, 0, :, :, ::2], rand(2, 20, 20, 9).swapaxes(2, 3))], terms=360)


@pytest.mark.wide
@pytest.mark.parametrize("width", [32, 16])
def test_narrower_vectors(width: int) -> None:
    cc, machine = narrower(width)
    listed = [padded(2, 5, 6, 29, f) for f in (11, 3)]
    assert all("convolution weights of any" in titles_of(p, machine) for p in listed)
    differential([Case(p, exact=False) for p in listed], 350, cc, machine)


@pytest.mark.wide
def test_every_width_computes_the_same() -> None:
    p = padded(2, 5, 9, 12, 40)
    start = compiler.default_config(p.program, spec_of(p, exact=False), detect(), p.sizes)
    (group,) = {k.partition(".")[0] for k, v in start.items if v == "sliding_weights"}
    configs = [Config.of({**dict(start.items), f"{group}.vectors": n}) for n in (1, 2)]
    differential([Case(p, exact=False, config=c) for c in configs], 220)


@pytest.mark.parametrize(
    "text",
    [
        "def conv(float(N,C,W) I, float(F,C,3) K) -> (O) { O(n,f,x) +=! I(n,c,x+j) * K(f,c,j) }",
        "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
    ],
)
def test_what_is_no_weight_gradient_has_other_forms(text: str) -> None:
    shapes = ((2, 3, 12), (40, 3, 3)) if "conv" in text else ((5, 6), (6, 7))
    assert "weights" not in titles_of(problem(text, *(rand(*s) for s in shapes)))
