"""Weight gradients of convolutions against the reference: windows, layouts, knobs; no spills."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.problem import Index
from tcdsl.codegen.forms.contraction.weights.kernel import PixelRun, runs_of
from tcdsl.codegen.forms.contraction.weights.problem import Axis
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.proofs.sizes import Size
from tests.codegen.assembly import held_in_registers
from tests.codegen.harness import Case, Problem, differential, expected, problem, run_cases, spec_of
from tests.codegen.under_configs import narrower
from tests.tiers import sampled

Array = np.ndarray[Any, np.dtype[Any]]

pytestmark = pytest.mark.cc

SIDES = ("z", "y", "x")
ZEN4 = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.6, 1, crosses_lines=True)
AVX2 = replace(ZEN4, isa="avx2", vector_bytes=32, registers=16)


def rand(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    return np.random.default_rng((*shape, seed)).standard_normal(shape).astype(dtype)


def text_of(
    window: Sequence[int],
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    *,
    groups: bool = False,
    dtype: str = "float",
    op: str = "+=!",
) -> str:
    """Return the weight gradient of a convolution with a window of one to three sides."""
    pixels = SIDES[3 - len(window) :]
    taps = [f"k{v}" for v in pixels]
    subs = [f"{stride}*{v} + {dilation}*{t} - {pad}" for v, t in zip(pixels, taps, strict=True)]
    g, size = ("g,", "G,") if groups else ("", "")
    image = f"I(n,{g}c,{','.join(subs)})"
    image = f"pad({image}, 0)" if pad else image
    shape = ",".join(v.upper() for v in pixels)
    where = [f"{t} in 0:{k}" for t, k in zip(taps, window, strict=True)]
    where += [f"{v} in 0:{v.upper()}" for v in pixels]
    sizes = ",".join(f"S{v}" for v in pixels)
    result = "d_K" if op == "+=!" else f"{dtype}({size}F,C,{','.join(map(str, window))}) d_K"
    return (
        f"def run({dtype}(N,{size}F,{shape}) d_O, {dtype}(N,{size}C,{sizes}) I) -> ({result}) {{"
        f" d_K({g}f,c,{','.join(taps)}) {op} d_O(n,{g}f,{','.join(pixels)}) * {image}"
        f" where {', '.join(where)} }}"
    )


def weights(
    n: int,
    c: int,
    f: int,
    image: Sequence[int],
    window: Sequence[int],
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    dtype: str = "float",
) -> Problem:
    spans = [dilation * (k - 1) + 1 for k in window]
    pixels = [(h + 2 * pad - k) // stride + 1 for h, k in zip(image, spans, strict=True)]
    kind = "float64" if dtype == "double" else "float32"
    return problem(
        text_of(window, stride, pad, dilation, dtype=dtype),
        rand(n, f, *pixels, dtype=kind),
        rand(n, c, *image, seed=1, dtype=kind),
    )


def forms(p: Problem) -> set[str]:
    found = compiler.describe(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes)
    return {form for _, form in found}


def check(problems: Sequence[Problem], terms: int = 2000) -> None:
    for p in problems:
        assert all("convolution weights" in form for form in forms(p)), forms(p)
    differential([Case(p, exact=True) for p in problems], terms=terms)


CASES = {
    "padded": weights(2, 5, 40, (7, 9), (3, 3), pad=1),
    "unpadded": weights(2, 4, 16, (8, 11), (3, 3)),
    "by twos": weights(3, 3, 33, (11, 13), (3, 3), stride=2, pad=1),
    "wide window, few channels": weights(1, 3, 64, (19, 21), (7, 7), stride=2, pad=3),
    "one side": weights(3, 6, 20, (41,), (5,), pad=2),
    "three sides": weights(2, 3, 18, (5, 6, 7), (3, 2, 3), pad=1),
    "dilated by threes": weights(2, 2, 17, (16, 15), (3, 3), stride=3, pad=3, dilation=2),
    "few columns": weights(2, 9, 3, (9, 9), (3, 3), pad=1),
    "one of everything": weights(1, 1, 1, (2, 3), (1, 1)),
    "one tap across": weights(2, 5, 19, (9, 10), (3, 1), pad=1),
    "more border than image": weights(2, 3, 16, (3, 4), (5, 5), pad=4),
    "double": weights(2, 5, 21, (7, 9), (3, 3), pad=1, dtype="double"),
}


def any_number(**sizes: Any) -> None:
    """Hold one executable against the reference, whatever the number of images is."""
    found = [weights(n, **sizes) for n in (4, 1, 3, 33)]
    differential([Case(p, exact=True, left_open=("N",)) for p in found], terms=10000)


def test_it_serves_any_number_of_images() -> None:
    any_number(c=5, f=40, image=(7, 9), window=(3, 3), pad=1)


def test_it_serves_any_number_of_images_smaller_than_their_window() -> None:
    one = weights(4, 5, 40, (2, 2), (3, 3), pad=1)
    assert not any("convolution weights" in form for form in forms(one))  # taps slide over pixels
    spec = replace(spec_of(one, exact=True), sizes=tuple(one.sizes.items())[1:], open=("N",))
    opened = compiler.open_choice(one.program, spec, detect(), one.sizes)
    assert opened is not None
    config, regime = opened
    assert not regime.answers
    assert config.group(0)["form"] == "convolution_weights"
    any_number(c=5, f=40, image=(2, 2), window=(3, 3), pad=1)


@pytest.mark.wide
def test_it_serves_any_number_of_images_of_any_kind() -> None:
    any_number(c=6, f=64, image=(1, 1), window=(3, 3), pad=1)
    any_number(c=3, f=33, image=(4, 4), window=(3, 3), stride=2, pad=1)
    any_number(c=2, f=40, image=(4, 5), window=(7, 7), pad=3, dtype="double")
    any_number(c=6, f=64, image=(26, 24), window=(3, 3), pad=1)
    any_number(c=3, f=33, image=(11, 13), window=(3, 3), stride=2, pad=1)
    any_number(c=2, f=40, image=(19, 21), window=(7, 7), stride=2, pad=3, dtype="double")
    any_number(c=6, f=20, image=(41,), window=(5,), pad=2)
    any_number(c=60, f=70, image=(7, 6), window=(3, 3))


@sampled("name", CASES, keep=2)
def test_windows(name: str) -> None:
    check([CASES[name]])


@pytest.mark.parametrize("window", [(1, 1), (3, 3)])
def test_columns_are_not_the_taps_of_an_image_that_needs_no_padding(
    window: tuple[int, int],
) -> None:
    """Read with the roles exchanged, taps would fill one or three lanes of a vector."""
    p = weights(4, 5, 40, (9, 9), window)
    spec = replace(spec_of(p, exact=True), sizes=tuple(p.sizes.items())[1:], open=("N",))
    for machine in (ZEN4, AVX2):
        config = Config.of({"g0.form": "convolution_weights"})
        ((_, form),) = compiler.describe(p.program, spec, config, machine, p.sizes)
        assert form.endswith("packed b"), "40 columns, which lie apart"
    any_number(c=5, f=40, image=(9, 9), window=window)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(12))
def test_random_windows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found: list[Problem] = []
    while len(found) < 10:
        sides = int(rng.choice([1, 2, 2, 2, 3]))
        n, c, f = (int(rng.integers(1, high)) for high in (4, 10, 41))
        window = [int(k) for k in rng.integers(1, 8 if sides < 3 else 4, sides)]
        stride, pad, dilation = (int(rng.integers(low, 4)) for low in (1, 0, 1))
        image = [int(h) for h in rng.integers(1, 24 if sides < 3 else 9, sides)]
        spans = [dilation * (k - 1) + 1 for k in window]
        if any(h + 2 * pad < k for h, k in zip(image, spans, strict=True)):
            continue
        dtype = "double" if rng.random() < 0.2 else "float"
        p = weights(n, c, f, image, window, stride, pad, dilation, dtype)
        if all("convolution weights" in form for form in forms(p)):
            found.append(p)
    check(found)


def test_groups_and_updates() -> None:
    grouped = problem(text_of((3, 3), 1, 1, groups=True), rand(2, 3, 17, 6, 7), rand(2, 3, 4, 6, 7))
    check([grouped])
    update = text_of((3, 3), 1, 1, op="+=")
    out = rand(17, 4, 3, 3, seed=5)
    start = out.copy()
    p = problem(update, rand(2, 17, 6, 7), rand(2, 4, 6, 7), outs=[out])
    assert all("convolution weights" in form for form in forms(p)), forms(p)
    ((got,),) = run_cases([Case(p, exact=True)])
    (want,) = expected(problem(text_of((3, 3), 1, 1), *p.args))
    np.testing.assert_allclose(got, start + want, atol=1e-4)


def test_operands_that_the_program_makes() -> None:
    text = (
        "def run(float(N,F,X) G, float(N,C,W) I) -> (d_K) { D(n,f,x) = tanh(G(n,f,x)) "
        "J(n,c,w) = exp(I(n,c,w)) T(f,c,k) +=! D(n,f,x) * J(n,c,2*x+k) where k in 0:3 "
        "d_K(f,c,k) = 2 * T(f,c,k) }"
    )
    p = problem(text, rand(2, 17, 9), rand(2, 3, 20, seed=1))
    assert any("convolution weights" in form for form in forms(p)), forms(p)
    differential([Case(p, exact=True)], terms=100)


def test_the_other_factor_may_be_the_padded_one() -> None:
    text = (
        "def run(float(N,F,X) G, float(N,C,W) I) -> (O) "
        "{ O(f,c,j) +=! pad(G(n,f,x-2), 0) * I(n,c,x+j) where j in 0:3, x in 0:W-2 }"
    )
    p = problem(text, rand(2, 17, 9), rand(2, 3, 15, seed=1))
    differential([Case(p, exact=True)], terms=100)


@pytest.mark.deep
def test_any_strides() -> None:
    d_o, image = rand(2, 20, 6, 7), rand(2, 5, 6, 7, seed=1)

    def last(x: Array) -> Array:  # channels last
        return np.ascontiguousarray(np.moveaxis(x, 1, -1)).transpose(0, 3, 1, 2)

    def apart(x: Array) -> Array:
        return np.repeat(np.repeat(x, 2, axis=3), 2, axis=1)[:, ::2, :, ::2]

    def back(x: Array) -> Array:
        return np.ascontiguousarray(x[::-1, ::-1, ::-1, ::-1])[::-1, ::-1, ::-1, ::-1]

    views = (last, apart, back, lambda x: np.asfortranarray(x))
    operands = [(d_o, image), *((v(d_o), v(image)) for v in views), (last(d_o), image)]
    text = text_of((3, 3), 1, 1)
    outs = [None, last(np.zeros((20, 5, 3, 3), np.float32)), np.zeros((3, 3, 5, 20), np.float32).T,
            np.zeros((40, 5, 3, 6), np.float32)[::-2, :, :, ::2]]  # fmt: skip
    problems = [problem(text, *x) for x in operands]
    problems += [problem(text, d_o, image, outs=[o]) for o in outs[1:]]
    check(problems)


def test_what_is_not_finite_stays_where_it_is() -> None:
    p = weights(2, 3, 16, (6, 7), (3, 3), pad=1)
    d_o, image = p.args
    image[1, 2, 0, 0] = np.nan
    d_o[0, 5, 2, 3] = np.inf
    ((got,),) = run_cases([Case(p, exact=True)])
    (want,) = expected(p)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


def test_convolutions_are_not_their_own_weight_gradients() -> None:
    text = (
        "def run(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) "
        "{ O(n,f,y,x) +=! I(n,c,y+i,x+j) * K(f,c,i,j) }"
    )
    p = problem(text, rand(1, 3, 9, 9), rand(5, 3, 3, 3))
    assert not any("weights" in form for form in forms(p))


@pytest.mark.deep
def test_every_knob_value_computes_the_same() -> None:
    p = weights(3, 5, 40, (9, 10), (3, 3), pad=1)
    machine, spec = detect(), spec_of(p, exact=True)
    start = compiler.default_config(p.program, spec, machine, p.sizes)
    cases = [Case(p, exact=True)]
    ((form, *_), *_) = compiler.choices(p.program, spec, machine, p.sizes)["fused"]
    for knob in form.knobs:
        for value in knob.values[:: max(1, len(knob.values) // 3)]:
            values = {**dict(start.items), f"g0.{knob.name}": value}
            cases.append(Case(p, exact=True, config=Config.of(values)))
    assert len(cases) > 8
    differential(cases, terms=300)


@pytest.mark.deep
def test_strips_are_as_long_as_the_cache_allows() -> None:
    machine = replace(detect(), l2_bytes=20 << 10)
    long = weights(2, 3, 20, (700,), (5,), pad=2)
    channels_last = np.ascontiguousarray(np.moveaxis(long.args[0], 1, -1)).transpose(0, 2, 1)
    problems = [
        long,
        problem(text_of((5,), 1, 2), channels_last, long.args[1]),
        weights(1, 2, 40, (5, 301), (3, 3), stride=2, pad=1),
        weights(3, 2, 17, (20, 7), (3, 3), pad=1),
    ]
    differential([Case(p, exact=True) for p in problems], 2000, machine=machine)


def test_the_number_of_threads_changes_no_bit() -> None:
    p = weights(4, 3, 20, (30, 31), (3, 3), pad=1)
    one, many = run_cases([Case(p, exact=True, threads=t) for t in (1, 7)])
    np.testing.assert_array_equal(one[0], many[0])


@pytest.mark.deep
@pytest.mark.parametrize("width", [32, pytest.param(16, marks=pytest.mark.deep)])
def test_narrower_vectors(width: int) -> None:
    problems = [CASES[n] for n in ("padded", "by twos", "double", "wide window, few channels")]
    differential([Case(p, exact=True) for p in problems], 500, *narrower(width))


@pytest.mark.wide
def test_no_accumulator_leaves_its_register() -> None:
    for p in (
        weights(2, 8, 64, (14, 14), (3, 3), pad=1),
        weights(2, 3, 64, (28, 28), (7, 7), stride=2, pad=3),
        weights(2, 16, 16, (14, 14), (3, 3), pad=1),
    ):
        unit = compiler.lower(p.program, spec_of(p, exact=True), Config(), detect(), p.sizes, "k")
        held_in_registers(unit, r"\w*_tile_\w+")


@pytest.mark.parametrize(("machine", "channels"), [(ZEN4, 16), (ZEN4, 5), (AVX2, 16), (AVX2, 5)])
def test_rows_of_a_square_share_one_loop_over_groups(machine: Machine, channels: int) -> None:
    """A compiler takes for one loop a row as long as for the rest of a way back."""
    p = weights(8, channels, 32, (15, 17), (3, 3), pad=1)
    spec = replace(spec_of(p, exact=True), sizes=tuple(p.sizes.items())[1:], open=("N",))
    opened = compiler.open_choice(p.program, spec, machine, p.sizes)
    assert opened is not None
    config, _ = opened
    unit = compiler.lower_generic(p.program, spec, config, machine, p.sizes, "k")
    _, finish = compiler.emit_c(unit).split(" k_g0_finish(")
    adding = finish[finish.index("; group < ") : finish.index("tc_transpose")]
    assert finish.count("; group < ") == 1
    assert re.search(r"for \(.*\+\+\) \{\s*square\[\w+\] \+= tc_load", adding)
    assert ("tc_min_i64" in adding) == (channels == 5), "45 rows are no whole squares, 144 are"


def test_runs_have_the_taps_that_exist() -> None:
    i = Index("x", Size.const(6)), Index("j", Size.const(3))
    padded = Axis(*i, extent=6, taps=3, step=1, spread=1, first=-1, low=0, high=6)
    inner = PixelRun(range(1, 5), (0, 1, 2))
    runs = (PixelRun(range(1), (1, 2)), inner, PixelRun(range(5, 6), (0, 1)))
    assert runs_of(padded, range(3)) == runs
    assert runs_of(padded, range(1)) == (PixelRun(range(1, 6), (0,)),)
    backwards = replace(padded, step=-1, first=4)  # 4 - x + j, below 6
    assert runs_of(backwards, range(3)) == (
        PixelRun(range(1), (0, 1)), PixelRun(range(1, 5), (0, 1, 2)), PixelRun(range(5, 6), (1, 2))
    )  # fmt: skip
