"""Words of pixels under a window: rows of a panel lie where a table says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.contraction.words import BFLOATS, BYTES, FLOAT16_TILES, TILES
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.forms.contraction.matmuls import BF, Array
from tests.codegen.harness import Case, Problem, differential, problem, spec_of

pytestmark = pytest.mark.cc

MACHINE = replace(detect(), dots=(BYTES, BFLOATS, TILES, FLOAT16_TILES))
# types of images and weights, and words of them: pairs, quads, tiles
WORDS = (
    ("int16", "int8", (2,)),
    ("int8", "int8", (2, 4, 64)),
    ("uint8", "int8", (4, 64)),
    ("bfloat16", "bfloat16", (2, 32)),
    ("float16", "float16", (32,)),
)


def operand(dtype: str, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(shape)
    if dtype.startswith(("u", "int")):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(BF if dtype == "bfloat16" else dtype)


def window(a: str, b: str, channels: int, width: int, taps: tuple[int, int]) -> Problem:
    """Return lines of so many pixels under a window, summed in int32 or float32."""
    of = "int32" if a.endswith(("8", "int16")) else "float"
    text = (
        f"def conv({a}(N,C,H,W) I, {b}(F,C,KH,KW) K) -> ({of}(N,F,H-KH+1,W-KW+1) O) "
        f"{{ O(n,f,h,w) +=! {of}(I(n,c,h+kh,w+kw)) * {of}(K(f,c,kh,kw)) }}"
    )
    image = operand(a, (2, channels, taps[0] + 2, width + taps[1] - 1))
    return problem(text, image, operand(b, (19, channels, *taps)))


def test_rows_under_the_taps_of_a_window_are_woven() -> None:
    """Whole words and what is left of them, whole vectors and what is left of these."""
    shapes = (3, 37, (3, 3)), (4, 16, (2, 2)), (1, 5, (1, 2))
    panel = {"g0.columns": "I", "g0.method": "panel"}
    cases = [
        Case(p, exact=exact, config=Config.of({"g0.word": n, **(panel if exact else {})}))
        for a, b, words in WORDS
        for p in (window(a, b, *shape) for shape in shapes)
        for n in words
        for exact in (True, False)
    ]
    differential(cases, terms=30, machine=MACHINE)
    cc = find_compiler()
    text = replace(cc, flags=(*cc.flags, "-DTC_PORTABLE_TILES"))
    differential(cases[-6:], terms=30, cc=text, machine=MACHINE)


def test_they_are_woven_and_not_put_in_place_one_by_one() -> None:
    p = window("float16", "float16", 4, 37, (3, 3))
    config = Config.of({"g0.columns": "I", "g0.word": 32, "g0.method": "panel"})
    unit = compiler.lower(p.program, spec_of(p, exact=True), config, MACHINE, p.sizes, "k")
    assert "tc_weave2_v" in compiler.emit_c(unit)
