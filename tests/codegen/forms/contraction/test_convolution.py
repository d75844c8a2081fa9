"""Convolutions with static tap lists against the reference: shapes, halos, gradients, no spills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.assembly import held_in_registers
from tests.codegen.harness import Array, Case, Problem, differential, problem, run_cases, spec_of
from tests.codegen.under_configs import narrower

pytestmark = pytest.mark.cc
RNG = np.random.default_rng(20)
ZEN4 = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.6, 1, crosses_lines=True)
AVX2 = replace(ZEN4, isa="avx2", vector_bytes=32, registers=16)


def rand(*shape: int, dtype: str = "float32") -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def titles_of(p: Problem, machine: Machine | None = None, config: Config | None = None) -> str:
    """Return the forms of all statements."""
    found = compiler.describe(
        p.program, spec_of(p, exact=True), config or Config(), machine or detect(), p.sizes
    )
    return ", ".join(form for _, form in found)


def held(listed: Sequence[Problem], terms: int) -> None:
    """Hold problems against the reference, after a look at their form."""
    for p in listed:
        assert "convolution" in titles_of(p), p.program.text
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


BATCHES = (4, 1, 3, 17)


def held_at_all_batches(make: Callable[[int], Problem], terms: int) -> None:
    """Hold one executable against the reference, whatever the number of images is."""
    differential([Case(make(n), exact=True, left_open=("N",)) for n in BATCHES], terms)


def test_it_serves_any_number_of_images() -> None:
    held_at_all_batches(lambda n: forward((n, 3, 9, 17), (40, 3, 3, 3)), terms=27)


def test_pieces_with_fewer_lines_than_the_first_are_verified_on_one_thread() -> None:
    """Where ends of the loop over lines are known, a condition keeps the last out of tables."""
    text = """def up(float(C,H,W) I, float(C,F,5,5) K) -> (float(F, 2*H + 3, 2*W + 3) O) {
        O(f, 2*y + i, 2*x + j) +=! I(c,y,x) * K(c,f,i,j) }"""
    p = problem(text, rand(3, 7, 7), rand(3, 6, 5, 5))
    differential([Case(p, exact=True, threads=1)], terms=27)


@pytest.mark.wide
def test_it_serves_any_number_of_images_of_any_kind() -> None:
    kinds: tuple[dict[str, int], ...] = (
        {"stride": 2, "pad": 1},
        {"pad": 0},
        {"stride": 3, "pad": 2, "dilation": 2},
    )
    for kind in kinds:
        held_at_all_batches(partial(_forward_of, kind), terms=18)
    for stride in (1, 2, 3):
        back = partial(backward, kernel=(5, 20, 3, 3), stride=stride)
        held_at_all_batches(lambda n, back=back: back((n, 5, 6, 9)), terms=45)  # type: ignore[misc]
    for name, text in TEXTS.items():
        held_at_all_batches(partial(_text_of, text, SHAPES[name]), terms=54)


def _text_of(text: str, shapes: Sequence[tuple[int, ...]], n: int) -> Problem:
    (_, *image), *others = shapes
    return problem(text, rand(n, *image), *(rand(*shape) for shape in others))


def _forward_of(kind: dict[str, int], n: int) -> Problem:
    return forward((n, 2, 8, 13), (20, 2, 3, 3), **kind)  # type: ignore[arg-type]


def test_the_choice_for_any_number_of_images_hangs_on_none() -> None:
    """And there is none where a form would be slower by it, or images are in the weights."""
    found = set()
    for n in BATCHES:
        p = forward((n, 3, 9, 17), (40, 3, 3, 3))
        spec = spec_of(p, exact=True, left_open=("N",))
        found.add(compiler.open_choice(p.program, spec, detect(), p.sizes))
    assert len(found) == 1
    assert None not in found
    product = problem("def f(float(N,K) A, float(K,M) B) -> (O) { O(n,m) +=! A(n,k) * B(k,m) }",
                      rand(30, 40), rand(40, 50))  # fmt: skip
    assert not is_opened(product)


def test_strided_pixels_of_any_images_are_a_convolution_where_registers_are_many() -> None:
    """Of known numbers, and side by side, they are a contraction, which packs them."""
    found = {}
    for stride in (1, 2):
        p = forward((3, 20, 16, 17), (40, 20, 1, 1), stride=stride, pad=0)
        assert "convolution" not in titles_of(p, ZEN4)
        spec = spec_of(p, exact=True, left_open=("N",))
        for machine in (ZEN4, AVX2):
            opened = compiler.open_choice(p.program, spec, machine, p.sizes)
            found[stride, machine.isa] = opened and opened[0].group(0)["form"]
    assert found.pop((2, "avx512")) == "convolution"
    assert [*found.values()] == [None] * 3
    if not detect().has_few_registers:
        strided = partial(forward, kernel=(40, 20, 1, 1), stride=2, pad=0)
        held_at_all_batches(lambda n: strided((n, 20, 9, 7)), terms=20)


def test_few_terms_are_summed_by_tiles_that_go_to_few_pieces_of_lines() -> None:
    """A tile turned around writes a piece of a line for each column: of 14 or 16 pixels, not 6."""
    stem = forward((2, 3, 56, 56), (64, 3, 7, 7), stride=2, pad=3)
    few = forward((2, 3, 32, 32), (32, 3, 3, 3))
    assert "convolution 14x2" in titles_of(stem, ZEN4)
    assert "convolution 16x1" in titles_of(few, ZEN4)


def test_few_columns_are_vectors_where_strides_part_the_pixels() -> None:
    """One too: pixels apart would be gathered one by one."""
    few = [forward((2, 5, 13, 17), (f, 5, 3, 3), stride=2) for f in (1, 2, 3, 6)]
    few += [forward((2, 5, 7, 4), (f, 5, 3, 3)) for f in (1, 3)]  # or lines are short
    assert all("convolution" in titles_of(p, ZEN4) for p in few)
    assert "convolution" not in titles_of(forward((2, 5, 13, 17), (6, 5, 3, 3)), ZEN4)
    held(few, terms=45)


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


@pytest.mark.wide
def test_the_gradient_by_the_image_is_a_convolution() -> None:
    held([backward((2, 5, 9, 17), (5, 20, 3, 3)), backward((1, 4, 6, 5), (4, 17, 2, 4))], terms=45)


ODD = """def conv_i(float(N,F,H,W) G, float(F,C,3,3) K) -> (float(N,C,2*H-1,2*W-1) D) {
    D(n,c,2*y,2*x) +=! G(n,f,y-i,x-j) * K(f,c,2*i+1,2*j+1)
        where y in 0:H, x in 0:W, i in 0:1, j in 0:1
    D(n,c,2*y,2*x+1) +=! pad(G(n,f,y-i,x-j+1),0) * K(f,c,2*i+1,2*j)
        where y in 0:H, x in 0:W-1, i in 0:1, j in 0:2
    D(n,c,2*y+1,2*x) +=! pad(G(n,f,y-i+1,x-j),0) * K(f,c,2*i,2*j+1)
        where y in 0:H-1, x in 0:W, i in 0:2, j in 0:1
    D(n,c,2*y+1,2*x+1) +=! pad(G(n,f,y-i+1,x-j+1),0) * K(f,c,2*i,2*j)
        where y in 0:H-1, x in 0:W-1, i in 0:2, j in 0:2
}"""


@pytest.mark.deep
def test_the_residues_of_a_strided_gradient_share_tasks() -> None:
    odd = problem(ODD, rand(2, 4, 6, 9), rand(4, 18, 3, 3))
    third = backward((1, 3, 5, 7), (3, 16, 2, 4), stride=3)  # of some residues there are no taps
    listed = [backward((2, 5, 9, 17), (5, 20, 3, 3), stride=2), odd]
    assert all(titles_of(p).count("g0") == len(p.program.statements) for p in listed)
    held([*listed, third], terms=45)


def test_packers_of_single_elements_are_compiled_once() -> None:
    """Nor is gcc spared what finds vectors in them, as in all else that is spelled out."""
    p = problem(ODD, rand(2, 4, 6, 9), rand(4, 18, 3, 3))
    unit = compiler.lower(p.program, spec_of(p, exact=True), Config(), ZEN4, p.sizes, "k")
    packers = [f for f in unit.functions if f.linkage == "apart"]
    text = compiler.emit_c(unit)
    assert packers
    for f in packers:
        assert not f.is_spelled_out
        assert text.count(f"TC_APART void {f.name}(") == 1
    assert sum(text.count(f" {f.name}(") for f in packers) > 2 * len(packers), "pieces share them"
    phases = [f for f in unit.functions if f.linkage == "phase" and "convolution" in f.name]
    assert phases
    assert all(f.is_spelled_out for f in phases)


def test_an_epilogue_is_not_spelled_out() -> None:
    p = problem(EPILOGUE, rand(2, 3, 9, 17), rand(21, 3, 3, 3), rand(21), rand(2, 21, 9, 17))
    unit = compiler.lower(p.program, spec_of(p, exact=True), Config(), ZEN4, p.sizes, "k")
    assert {f.is_spelled_out for f in unit.functions if f.linkage == "micro"} == {True}
    assert {f.is_spelled_out for f in unit.functions if f.linkage != "micro"} == {False}


EPILOGUE = """def layer(float(N,C,H,W) I, float(F,C,KH,KW) K, float(F) B, float(N,F,H,W) R) -> (O) {
    O(n,f,y,x) +=! pad(I(n,c,y+i-1,x+j-1), 0) * K(f,c,i,j) where y in 0:H, x in 0:W
    O(n,f,y,x) = max(O(n,f,y,x) + B(f) + R(n,f,y,x), 0)
}"""


def test_epilogues_run_on_the_tile() -> None:
    p = problem(EPILOGUE, rand(2, 3, 9, 17), rand(21, 3, 3, 3), rand(21), rand(2, 21, 9, 17))
    assert "convolution" in titles_of(p)
    assert "epilogue" in titles_of(p)
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
    "groups": ((2, 3, 2, 6, 13), (3, 29, 2, 3, 3)),
    "one side": ((3, 4, 50), (20, 4, 5)),
    "three sides": ((1, 2, 4, 6, 9), (17, 2, 3, 3, 3)),
    "no padding": ((2, 3, 9, 21), (24, 3, 3, 2)),
    "padded on one side": ((2, 3, 9, 21), (24, 3, 3, 2)),
    "scaled": ((2, 3, 9, 21), (24, 3, 3, 2), ()),
}


@pytest.mark.deep
def test_indices_in_other_roles() -> None:
    listed = [problem(text, *(rand(*s) for s in SHAPES[n])) for n, text in TEXTS.items()]
    held(listed, terms=54)


def test_what_exists_is_honoured_whatever_it_is() -> None:
    p = forward((1, 2, 6, 18), (16, 2, 3, 3))
    p.args[0][0, 1, 0, 0], p.args[0][0, 0, 5, 17], p.args[0][0, 0, 3, 9] = np.inf, np.nan, -np.inf
    held([p], terms=18)


@pytest.mark.deep
def test_operands_of_any_strides() -> None:
    wide = rand(2, 2, 6, 9, 40)
    image, kernel = wide[:, 0, ::-1, :, 3:20], rand(3, 3, 6, 20).transpose(3, 2, 0, 1)
    text = forward((2, 6, 9, 17), (20, 6, 3, 3)).program.text
    apart = problem(text, wide[:, 0, :, :, ::2], kernel)
    held([problem(text, image, kernel), problem(text, image, kernel[:, ::-1]), apart], terms=54)
    # pixels whose distance is known at run time only have no static offsets: they are copied
    assert "stencil 1x1" in titles_of(apart)  # the copy


@pytest.mark.deep
def test_sizes_without_points_and_generic_ones_are_left_to_others() -> None:
    empty = forward((0, 3, 9, 17), (20, 3, 3, 3))
    assert "convolution" not in titles_of(empty)
    p = forward((2, 3, 9, 17), (20, 3, 3, 3))
    differential([Case(empty, exact=True), Case(p, exact=False)], terms=27)


@pytest.mark.wide
def test_every_knob_value_computes_the_same() -> None:
    p = forward((3, 2, 5, 23), (37, 2, 3, 5), pad=2)
    machine, spec = detect(), spec_of(p, exact=True)
    start = compiler.default_config(p.program, spec, machine, p.sizes)
    ((form, *_), *_) = compiler.choices(p.program, spec, machine, p.sizes)["fused"]
    assert form.name == "convolution"
    cases = []
    for knob in form.knobs:
        for value in knob.values[:: max(1, len(knob.values) // 4)]:
            config = Config.of({**dict(start.items), f"g0.{knob.name}": value})
            cases.append(Case(p, exact=True, config=config))
    assert len(cases) > 5
    differential(cases, terms=30)


@pytest.mark.deep
@pytest.mark.parametrize("width", [32, 16])
def test_narrower_vectors(width: int) -> None:
    cc, machine = narrower(width)
    listed = [
        forward((1, 3, 6, 13), (11, 3, 3, 3)),
        forward((1, 3, 6, 13), (7, 3, 3, 3), dtype="float64"),
        backward((1, 3, 5, 9), (3, 11, 3, 3), stride=2),
    ]
    assert all("convolution" in titles_of(p, machine) for p in listed)
    differential([Case(p, exact=True) for p in listed], 27, cc, machine)


@pytest.mark.wide
def test_no_accumulator_leaves_its_register() -> None:
    """The loops of every register tile refer to no vector on the stack."""
    if detect().registers < 32:
        pytest.skip("with 16, tiles at a border lay one to three vectors of some 30 steps down")
    for p, tile in (
        (forward((1, 64, 14, 56), (64, 64, 3, 3)), "14x2"),
        (forward((1, 16, 14, 56), (16, 16, 5, 5), pad=2), "28x1"),
        (backward((1, 64, 14, 28), (64, 64, 3, 3), stride=2), "14x2"),
    ):
        spec = spec_of(p, exact=True)
        unit = compiler.lower(p.program, spec, Config(), detect(), p.sizes, "k")
        held_in_registers(unit, r"\w*_tile\d+")
        assert tile in titles_of(p)


# ---- random convolutions


def random_problem(rng: np.random.Generator) -> Problem:
    """Return a convolution of one to three sides, forward or by the image, maybe in groups."""

    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    sides = draw(1, 3)
    dtype = "float64" if draw(0, 4) == 0 else "float32"
    groups = draw(2, 3) if draw(0, 4) == 0 else 0
    images, channels, columns = draw(1, 3), draw(1, 9), draw(8, 40)
    window = [draw(1, (7, 5, 3)[sides - 1]) for _ in range(sides)]
    pixels, taps, extents, reads, ranges = [], [], [], [], []
    for d, k in enumerate(window):
        step, spread, pad = draw(1, 3), draw(1, 2), draw(0, 3)
        sign = "-" if draw(0, 2) == 0 else "+"
        y, i = f"x{d}", f"k{d}"
        reach = spread * (k - 1)
        extent = draw(max(1, reach + 1 - 2 * pad), reach + (21, 11, 5)[sides - 1])
        count = draw(1, max(1, (extent + 2 * pad) // step))
        shift = -pad if sign == "+" else draw(0, reach)
        pixels.append(y)
        taps.append(i)
        extents.append(extent)
        reads.append(f"{step}*{y}{sign}{spread}*{i}{shift:+d}")
        ranges.append(f"{y} in 0:{count}")
    g = ("g",) if groups else ()
    inner = ", ".join((*g, "c", *reads))
    sizes = ",".join(f"S{d}" for d in range(sides))
    windows = ",".join(f"K{d}" for d in range(sides))
    many = "G," if groups else ""
    epilogue = draw(0, 3)
    points = ",".join(("n", *g, "f", *pixels))
    later = ("", f"O({points}) = max(O({points}), 0)", f"O({points}) = O({points}) * b(f)",
             f"O({points}) = tanh(O({points}) + b(f))")[epilogue]  # fmt: skip
    text = f"""def conv({dtype}(N,{many}C,{sizes}) I, {dtype}({many}F,C,{windows}) K, {dtype}(F) b)
        -> (O) {{
        O({points}) +=! pad(I(n,{inner}), 0) * K({",".join((*g, "f", "c", *taps))})
            where {", ".join(ranges)}
        {later}
    }}"""
    head = (groups,) if groups else ()
    return problem(
        text,
        rng.standard_normal((images, *head, channels, *extents)).astype(dtype),
        rng.standard_normal((*head, columns, channels, *window)).astype(dtype),
        rng.standard_normal(columns).astype(dtype),
    )


def random_gradient(rng: np.random.Generator) -> Problem:
    """Return a gradient by the image, by residues of a stride."""
    images, columns, channels, high, wide, kh, kw, stride, pad = (
        int(rng.integers(low, most + 1))
        for low, most in ((1, 3), (1, 9), (8, 40), (1, 9), (1, 33), (1, 5), (1, 7), (1, 3), (0, 3))
    )
    gradient = (images, columns, high, wide)
    return backward(gradient, (columns, channels, kh, kw), stride=stride, pad=pad)


def held_at_random(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    listed = [random_problem(rng) for _ in range(count)]
    listed += [random_gradient(rng) for _ in range(count // 5)]
    assert sum("convolution" in titles_of(p) for p in listed) > count // 2
    differential([Case(p, exact=True) for p in listed], terms=9 * 49)
    opened = [Case(p, exact=True, left_open=("N",)) for p in listed if is_opened(p)]
    assert len(opened) > count // 2
    differential(opened, terms=9 * 49)


def is_opened(p: Problem) -> bool:
    """Whether there is an executable for any number of images."""
    spec = spec_of(p, exact=True, left_open=("N",))
    return compiler.open_choice(p.program, spec, detect(), p.sizes) is not None


@pytest.mark.deep
def test_random_convolutions() -> None:
    held_at_random(0, 6)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1, 21))
def test_many_random_convolutions(seed: int) -> None:
    held_at_random(seed, 20)


@pytest.mark.parametrize(
    ("channels", "columns", "wide", "is_contraction"),
    [
        (3, 5, 56, True),
        (3, 8, 56, False),
        (16, 10, 14, True),
        (3, 5, 7, False),
        (200, 5, 56, False),
    ],
)
def test_columns_that_leave_vectors_empty_are_a_contractions(
    channels: int, columns: int, wide: int, *, is_contraction: bool
) -> None:
    text = """def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
        O(n,f,y,x) +=! I(n,c,y+i,x+j) * K(f,c,i,j)
    }"""
    machine = replace(detect(), isa="avx2", vector_bytes=32, registers=16)
    p = problem(text, rand(2, channels, 8, wide + 2), rand(columns, channels, 3, 3))
    assert ("contraction" in titles_of(p, machine)) is is_contraction


PADDED = """def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
    O(n,f,y,x) +=! pad(I(n,c,y+i-1,x+j-1), 0) * K(f,c,i,j) where y in 0:H, x in 0:W
}"""


@pytest.mark.parametrize("columns", [10, 20])
def test_an_infinite_weight_beyond_a_border_adds_nothing(columns: int) -> None:
    weights = rand(columns, 3, 3, 3)
    weights[:, :, 0, 0] = np.inf  # what the first line and the first pixels meet is no pixel
    (got,) = run_cases([Case(problem(PADDED, np.abs(rand(2, 3, 6, 56)), weights), exact=True)])[0]
    assert not np.isnan(got).any()
    assert np.isfinite(got[:, :, 0]).all()
    assert np.isfinite(got[:, :, :, 0]).all()


def test_the_gradient_by_few_channels_is_a_convolution() -> None:
    text = """def conv_i(float(N,F,H,W) G, float(F,C,3,3) K) -> (float(N,C,H,W) D) {
        D(n,c,y,x) +=! pad(G(n,f,y-i+1,x-j+1), 0) * K(f,c,i,j)
    }"""
    machine = replace(detect(), isa="avx2", vector_bytes=32, registers=16)
    p = problem(text, rand(2, 16, 6, 56), rand(16, 5, 3, 3))
    assert "contraction" not in titles_of(p, machine)
