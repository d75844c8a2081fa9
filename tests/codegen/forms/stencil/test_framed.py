"""Large windows where masks are dear: they run in a copy of the image with what surrounds it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of
from tests.codegen.pages import between_pages
from tests.codegen.under_configs import narrower

pytestmark = pytest.mark.cc

DEAR = replace(detect(), isa="avx2", vector_bytes=32, registers=16)
CHEAP = replace(detect(), isa="avx512", vector_bytes=64, registers=32)


def window(
    size: tuple[int, int],
    k: int,
    pads: tuple[int, int],
    step: int = 1,
    *,
    fill: str = "0",
    apart: int = 1,
    behind: str = "",
) -> Problem:
    """Return windows of k x k taps over two images, each of its own."""
    outs = [(n + 2 * p - apart * (k - 1) - 1) // step + 1 for n, p in zip(size, pads, strict=True)]
    at = f"{step} * h + {apart} * i - {pads[0]}, w + {apart} * j - {pads[1]}"
    if step > 1:
        outs[1] = size[1] + 2 * pads[1] - apart * (k - 1)
    text = f"""def f(float(C,H,W) I, float(C,{k},{k}) K) -> (O) {{
      O(c, h, w) +=! pad(I(c, {at}), {fill}) * K(c, i, j) where h in 0:{outs[0]}, w in 0:{outs[1]}
      {behind}
    }}"""
    return problem(text, rand(2, *size), rand(2, k, k))


def emitted(p: Problem, machine: object = DEAR) -> str:
    assert isinstance(machine, type(DEAR))
    unit = compiler.lower(p.program, spec_of(p, exact=True), Config(), machine, p.sizes, "k")
    return compiler.emit_c(unit)


PROBLEMS = {
    "square": window((28, 28), 7, (3, 3)),
    "one vector and a rest": window((14, 13), 5, (2, 2)),
    "few rows": window((9, 40), 5, (2, 2)),
    "all around": window((12, 10), 5, (4, 4)),
    "rows by twos": window((21, 20), 5, (2, 2), 2),
    "taps apart": window((20, 24), 5, (4, 4), apart=2),
    "filled with ones": window((16, 18), 5, (2, 2), fill="1.5"),
    "an epilogue": window((16, 18), 5, (2, 2), behind="O(c, h, w) = fmax(O(c, h, w), 0)"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_block_has_a_border(name: str) -> None:
    text = emitted(PROBLEMS[name])
    assert "in a frame]" in text
    assert "tc_loadm" not in text
    assert "tc_range" not in text


def test_small_windows_and_cheap_masks_need_no_copy() -> None:
    assert "frame" not in emitted(window((28, 28), 3, (1, 1)))
    assert "frame" not in emitted(PROBLEMS["square"], CHEAP)
    assert "frame" not in emitted(window((28, 28), 7, (0, 0))), "it has no border"
    assert "frame" not in emitted(window((300, 300), 5, (2, 2))), "it has few"


def test_a_frame_changes_no_result() -> None:
    cases = [Case(p, exact=True) for p in PROBLEMS.values()]
    parts = Config.of({"g0.form": "stencil", "g0.parts": 4})
    cases.append(Case(PROBLEMS["square"], exact=True, config=parts))
    differential(cases, 50, *narrower(32))


def test_frames_that_hardly_see_the_image_are_none() -> None:
    """A line's copy is whole vectors: with fewer columns it went beyond the image and the frame."""
    cases = []
    for left in (-60, -36, -33, -30, 18, 22, 24, 27, 30):
        text = f"""def f(float(C,H,W) I, float(C,7,7) K) -> (O) {{
          O(c, h, w) +=! pad(I(c, h + i - 3, w + j + {left}), 0) * K(c, i, j)
            where h in 0:20, w in 0:32
        }}""".replace("+ -", "- ")
        p = problem(text, rand(2, 20, 28), rand(2, 7, 7))
        assert ("in a frame]" in emitted(p)) == (left in (-30, 18))
        cases.append(Case(p, exact=True))
    differential(cases, 50, *narrower(32))


@pytest.mark.parametrize("place", ["before", "after"])
def test_nothing_outside_of_an_image_is_read(place: str) -> None:
    with between_pages(PROBLEMS["square"], "before" if place == "before" else "after") as p:
        differential([Case(p, exact=True)], 50, *narrower(32))
