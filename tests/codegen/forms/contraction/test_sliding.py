"""Convolutions of unknown sizes against the reference: steps, short lines, ragged, empty ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.forms.contraction.any_sizes import held_as, titles_of
from tests.codegen.harness import Array, Case, Problem, differential, problem, spec_of
from tests.codegen.under_configs import narrower

pytestmark = pytest.mark.cc
ZEN4 = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.6, 1, crosses_lines=True)
RNG = np.random.default_rng(21)


def rand(*shape: int, dtype: str = "float32") -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def held(listed: Sequence[Problem], terms: int) -> None:
    held_as("convolution of any size", listed, terms)


GROUPS = """def conv(float(N,G,C,H,W) I, float(G,F,C,3,3) K) -> (O) {
    O(n,g,f,y,x) +=! pad(I(n,g,c,y+i-1,x+j-1), 0) * K(g,f,c,i,j) where y in 0:H, x in 0:W
}"""


def test_images_of_groups_are_read_where_they_lie() -> None:
    sizes = [(2, 2, 3, 11, 37), (3, 1, 2, 1, 5), (1, 2, 3, 2, 1), (0, 2, 1, 4, 4), (1, 2, 0, 3, 9)]
    listed = [problem(GROUPS, rand(*s), rand(s[1], 25, s[2], 3, 3)) for s in sizes]
    assert titles_of(listed[0]).count("g0: convolution of any size") == 2, "padding and sum are one"
    differential([Case(p, exact=False) for p in listed], 27)


PLAIN = """def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
    O(n,f,y,x) +=! pad(I(n,c,y+i-1,x+j-1), 0) * K(f,c,i,j) where y in 0:H, x in 0:W
}"""


def generic_text(p: Problem) -> str:
    spec = spec_of(p, exact=False)
    return compiler.emit_c(compiler.lower(p.program, spec, Config(), ZEN4, p.sizes, "k"))


def test_rows_at_the_ends_of_lines_ask_for_their_taps() -> None:
    sizes = [(2, 3, 11, 37), (3, 2, 1, 5), (1, 3, 2, 1), (0, 1, 4, 4), (1, 0, 3, 9), (2, 2, 0, 3)]
    listed = [problem(PLAIN, rand(*s), rand(70, s[1], 3, 3)) for s in sizes]
    text = generic_text(listed[0])
    tile = text[text.index("k_g0_tile_14x2(") :]
    tile = tile[: tile.index("\n}")]
    assert tile.count("if (0 >= before)") == 1, "the first pixel, under the first tap"
    assert tile.count("if (15 < behind)") == 1, "the last one, under the last tap"
    assert tile.count("if (") == 2
    differential([Case(p, exact=False) for p in listed], 27)


def test_volumes_are_read_where_they_lie() -> None:
    text = """def conv(float(N,C,D,H,W) I, float(F,C,3,3,3) K) -> (O) {
        O(n,f,z,y,x) +=! pad(I(n,c,z+l-1,y+i-1,x+j-1), 0) * K(f,c,l,i,j)
            where z in 0:D, y in 0:H, x in 0:W
    }"""
    p = problem(text, rand(1, 2, 3, 4, 20), rand(40, 2, 3, 3, 3))
    assert titles_of(p).count("convolution of any size") == 2
    differential([Case(p, exact=False)], 54)


LINE = """def conv(float(N,C,W) I, float(F,C,3) K) -> (O) {{
    O(n,f,x) +=! pad(I(n,c,{}), 0) * K(f,c,j) where x in 0:{}
}}"""


@pytest.mark.parametrize(
    ("at", "count"),
    [
        ("x+j-1", "W+9"),  # more is missing at the end than any tap reaches
        ("x+j-5", "W+5"),  # pixels without taps at the begin
        ("2*x+j", "(W+1)/2"),
        ("2*x-j+1", "(W+2)/2"),
        ("x+2*j-2", "W"),
        ("x-3*j+4", "W+2"),
        ("x+j-1", "13"),  # whatever W is
        ("x+j+2", "W"),
    ],
)
def test_any_border_of_a_line(at: str, count: str) -> None:
    text = LINE.format(at, count)
    sizes = [(2, 3, 37), (1, 2, 1), (2, 1, 2), (1, 3, 15), (1, 1, 30)]
    held([problem(text, rand(*s), rand(40, s[1], 3)) for s in sizes], terms=9)


def test_pixels_and_lines_without_taps_of_their_own_have_borders_too() -> None:
    text = """def conv(float(N,C,H,W) I, float(F,C,{}) K) -> (O) {{
        O(n,f,y,x) +=! pad(I(n,c,{}), 0) * K(f,c,j) where y in 0:H+3, x in 0:(W+3)/2
    }}"""
    for at in ("y-1,2*x+j-1", "y+j-1,2*x-1"):
        held([problem(text.format(3, at), rand(2, 3, 6, 19), rand(20, 3, 3))], terms=9)
    volume = """def conv(float(N,D,H,W) I, float(F,3,3) K) -> (O) {
        O(n,f,z,y,x) +=! pad(I(n,z-1,y+i-1,x+j-1), 0) * K(f,i,j)
            where z in 0:D+2, y in 0:H, x in 0:W
    }"""
    held([problem(volume, rand(2, 3, 5, 20), rand(40, 3, 3))], terms=9)


STRIDED = """def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
    O(n,f,y,x) +=! pad(I(n,c,2*y+i-1,2*x+j-1), 0) * K(f,c,i,j)
        where y in 0:(H-1)/2+1, x in 0:(W-1)/2+1
}"""


def test_one_executable_serves_ragged_tiny_and_empty_sizes() -> None:
    shapes = [
        (2, 3, 9, 37, 40),
        (1, 1, 1, 1, 17),
        (0, 3, 5, 6, 20),
        (3, 2, 4, 15, 9),
        (1, 0, 3, 5, 12),
        (2, 4, 9, 37, 1),  # one column too: pixels apart would be gathered
        (1, 2, 1, 2, 3),
    ]
    held(
        [problem(STRIDED, rand(n, c, h, w), rand(f, c, 3, 3)) for n, c, h, w, f in shapes], terms=27
    )


WIDE = "def conv(float(N,C,W) I, float(F,C,{}) K) -> (O) {{ O(n,f,x) +=! I(n,c,{}) * K(f,c,j) }}"


def test_rows_of_wide_windows_are_walked_in_pieces() -> None:
    for taps, at in ((10, "x+j"), (11, "2*x+j"), (12, "x-j+11")):
        held([problem(WIDE.format(taps, at), rand(2, 3, 31), rand(12, 3, taps))], terms=3 * taps)


TEXTS = {
    "short lines in groups": (
        """def conv(float(N,G,C,H,W) I, float(G,F,C,3,3) K) -> (O) {
            O(n,g,f,y,x) +=! pad(I(n,g,c,y+i-1,x+j-1), 0) * K(g,f,c,i,j) where y in 0:H, x in 0:7
        }""",
        ((2, 3, 2, 6, 7), (3, 18, 2, 3, 3)),
    ),
    "columns side by side": (
        """def conv(float(N,C,H,W) I, float(3,3,C,F) K) -> (O) {
            O(n,y,x,f) +=! I(n,c,2*y+i,2*x+j) * K(i,j,c,f)
        }""",
        ((2, 5, 7, 35), (3, 3, 5, 20)),
    ),
    "dilated, one side": (
        """def conv(double(N,C,W) I, double(F,C,5) K) -> (O) {
            O(n,f,x) +=! pad(I(n,c,3*x+2*j-3), 0) * K(f,c,j) where x in 0:W/3
        }""",
        ((3, 4, 50), (20, 4, 5)),
    ),
    "three sides, backwards": (
        """def conv(float(N,C,D,H,W) I, float(F,C,2,3,3) K) -> (O) {
            O(n,f,z,y,x) +=! pad(I(n,c,z+l-1,y+i-1,2*x-j+2), 0) * K(f,c,l,i,j)
                where z in 0:D, y in 0:H, x in 0:W/2
        }""",
        ((1, 2, 4, 6, 9), (17, 2, 2, 3, 3)),
    ),
    "in groups, by twos": (
        """def conv(float(N,G,C,H,W) I, float(G,F,C,3,3) K) -> (O) {
            O(n,g,f,y,x) +=! pad(I(n,g,c,2*y+i-1,2*x+j-1), 0) * K(g,f,c,i,j)
                where y in 0:(H-1)/2+1, x in 0:(W-1)/2+1
        }""",
        ((2, 3, 2, 9, 31), (3, 18, 2, 3, 3)),
    ),
    "in groups, spread rows": (
        """def conv(double(N,G,C,H,W) I, double(G,F,C,3,3) K) -> (O) {
            O(n,g,f,y,x) +=! pad(I(n,g,c,y+2*i-2,x+j-1), 0) * K(g,f,c,i,j) where y in 0:H, x in 0:W
        }""",
        ((2, 3, 2, 9, 31), (3, 14, 2, 3, 3)),
    ),
    "in groups, one side": (
        """def conv(float(N,G,C,W) I, float(G,F,C,3) K) -> (O) {
            O(n,g,f,x) +=! pad(I(n,g,c,x+j-1), 0) * K(g,f,c,j) where x in 0:W
        }""",
        ((5, 3, 4, 41), (3, 23, 4, 3)),
    ),
    "in groups, three sides": (
        """def conv(float(N,G,C,D,H,W) I, float(G,F,C,2,3,3) K) -> (O) {
            O(n,g,f,z,y,x) +=! pad(I(n,g,c,z+l-1,y+i-1,x+j-2), 0) * K(g,f,c,l,i,j)
                where z in 0:D, y in 0:H, x in 0:W
        }""",
        ((1, 2, 2, 4, 6, 19), (2, 23, 2, 2, 3, 3)),
    ),
    "in groups, the gradient by the image": (
        """def conv_i(float(N,G,F,H,W) D, float(G,F,C,3,3) K) -> (float(N,G,C,H,W) E) {
            E(n,g,c,y,x) +=! pad(D(n,g,f,y-i+1,x-j+1), 0) * K(g,f,c,i,j)
        }""",
        ((2, 3, 5, 6, 19), (3, 5, 17, 3, 3)),
    ),
    "the gradient by the image": (
        """def conv_i(float(N,F,H,W) G, float(F,C,3,3) K) -> (float(N,C,H,W) D) {
            D(n,c,y,x) +=! pad(G(n,f,y-i+1,x-j+1), 0) * K(f,c,i,j)
        }""",
        ((2, 5, 6, 19), (5, 17, 3, 3)),
    ),
    "a height only, by twos": (
        """def conv(float(N,C,H,W) I, float(F,C,3) K) -> (O) {
            O(n,f,y,x) +=! pad(I(n,c,y+i-1,2*x), 0) * K(f,c,i) where y in 0:H, x in 0:(W-1)/2+1
        }""",
        ((2, 5, 7, 35), (20, 5, 3)),
    ),
    "a height only, the gradient by the image": (
        """def conv_i(float(N,F,H,W) G, float(F,C,3,3) K) -> (D) {
            D(n,c,2*y+1,2*x) +=! pad(G(n,f,y-i+1,x), 0) * K(f,c,2*i,1)
                where y in 0:H, x in 0:W, i in 0:2, c in 0:C
        }""",
        ((2, 5, 6, 19), (5, 17, 3, 3)),
    ),
    "a wide window, padded": (
        """def conv(float(N,C,H,W) I, float(F,C,3,9) K) -> (O) {
            O(n,f,y,x) +=! pad(I(n,c,y+i-1,x+j-4), 0) * K(f,c,i,j) where y in 0:H, x in 0:W
        }""",
        ((2, 2, 5, 21), (11, 2, 3, 9)),
    ),
    "a wide window, the gradient by the image": (
        """def conv_i(float(N,F,H,W) G, float(F,C,3,10) K) -> (float(N,C,H,W) D) {
            D(n,c,y,x) +=! pad(G(n,f,y-i+1,x-j+3), 0) * K(f,c,i,j)
        }""",
        ((2, 3, 5, 19), (3, 10, 3, 10)),
    ),
    "epilogue": (
        """def layer(float(N,C,H,W) I, float(F,C,3,3) K, float(F) B) -> (O) {
            O(n,f,y,x) +=! I(n,c,2*y+i,2*x+j) * K(f,c,i,j)
            O(n,f,y,x) = max(O(n,f,y,x) + B(f), 0)
        }""",
        ((2, 3, 9, 37), (21, 3, 3, 3), (21,)),
    ),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", TEXTS)
def test_indices_in_other_roles(name: str) -> None:
    text, shapes = TEXTS[name]
    dtype = "float64" if "double" in text else "float32"
    held([problem(text, *(rand(*s, dtype=dtype) for s in shapes))], terms=54)


@pytest.mark.wide
def test_operands_of_any_strides() -> None:
    wide = rand(2, 2, 6, 9, 40)
    kernel = rand(3, 3, 6, 20).transpose(3, 2, 0, 1)
    held([problem(STRIDED, wide[:, 0, ::-1, :, 3:20], kernel)], terms=54)
    differential([Case(problem(STRIDED, wide[:, 0, :, :, ::2], kernel), exact=False)], 54)


@pytest.mark.wide
@pytest.mark.parametrize("width", [32, 16])
def test_narrower_vectors(width: int) -> None:
    cc, machine = narrower(width)
    listed = [problem(STRIDED, rand(1, 3, 6, 29), rand(f, 3, 3, 3)) for f in (11, 4)]
    assert all("convolution of any size" in titles_of(p, machine) for p in listed)
    listed.append(problem(GROUPS, rand(2, 2, 3, 6, 19), rand(2, 13, 3, 3, 3)))
    differential([Case(p, exact=False) for p in listed], 27, cc, machine)


@pytest.mark.wide
def test_every_width_computes_the_same() -> None:
    p = problem(STRIDED, rand(2, 3, 9, 37), rand(40, 3, 3, 3))
    start = compiler.default_config(p.program, spec_of(p, exact=False), detect(), p.sizes)
    (group,) = {k.partition(".")[0] for k, v in start.items if v == "sliding"}
    configs = [Config.of({**dict(start.items), f"{group}.vectors": n}) for n in (1, 2)]
    differential([Case(p, exact=False, config=c) for c in configs], 27)


def test_lines_of_any_length_slide_where_a_window_has_a_width() -> None:
    text = (
        "def conv(float(N,C,W) I, float(F,C,{}) K) -> (O) {{ O(n,f,x) +=! I(n,c,x+j) * K(f,c,j) }}"
    )
    window, point = (problem(text.format(n), rand(2, 3, 12), rand(40, 3, n)) for n in (3, 1))
    masked, plain = (replace(detect(), isa=isa) for isa in ("avx512", "avx2"))
    for machine in (masked, plain):
        assert "convolution of any size" in titles_of(window, machine)
    assert "contraction" in titles_of(point, masked)


def test_windows_of_a_height_only_slide_where_pixels_are_apart() -> None:
    text, shapes = TEXTS["a height only, the gradient by the image"]
    for part, slides in ((text, True), (text.replace("2*y+1,2*x", "y,x"), False)):
        p = problem(part, *(rand(*s) for s in shapes))
        assert ("convolution of any size" in titles_of(p)) is slides
