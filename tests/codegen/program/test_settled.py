"""Borders that the sizes of a call do not have are gone from executables for all that have none."""

from __future__ import annotations

from itertools import product

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.forms.base.regime import Asked
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.program.padding import padding_of
from tcdsl.codegen.program.settled import settled
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.harness import Case, Problem, differential, problem, rand, spec_of

IMAGE = """def image(float(N,F,Y,X) G, float(F,C,K,L) W) -> (float(N,C,Y + K - 1,X + L - 1) D) {
  D(n, c, y, x) +=! pad(G(n, f, y - i, x - j), 0) * W(f, c, i, j)
}"""
FIXED = """def fixed(float(N,C,H,W) I, float(F,C) K) -> (O) {
  O(n, f, y, x) +=! pad(I(n, c, y, x), 0) * K(f, c) where y in 0:6, x in 0:9
}"""
BACK = """def back(float(N,F,Y,X) G, float(F,C,K,L) W, float(H) h, float(V) v) -> (D) {
  D(n, c, y, x) +=! pad(G(n, f, y - i, x - j), 0) * W(f, c, i, j) where y in 0:H, x in 0:V
}"""
# numbers that are not known before a call, or change in it
TURNS = """def turns(float(N,C) I, float(C,F) K) -> (float(N,N,F) O) {
  for t in 0:N {
    O(t, x, f) +=! pad(I(x - t, c), 0) * K(c, f)
  }
}"""
ENDS = TURNS.replace("pad(I(x - t, c), 0)", "(x < t ? I(x, c) : 0)")
COUNT = """def count(float(N,C) I, float(C,F) K, int32 s) -> (O) {
  O(x, f) +=! (x < N ? I(x, c) : 0) * K(c, f) where x in 0:s
}"""

CUT = """def cut(float(N,H) I, float(N,F) K, float(P) at) -> (O) {
  O(y, f) +=! pad(I(n, y), 0) * K(n, f) where y in 0:P
}"""


def image(n: int, f: int, y: int, x: int, c: int, k: int, w: int) -> Problem:
    return problem(IMAGE, rand(n, f, y, x), rand(f, c, k, w, seed=1))


def fixed(n: int, c: int, h: int, w: int, f: int) -> Problem:
    return problem(FIXED, rand(n, c, h, w), rand(f, c, seed=1))


def back(n: int, f: int, y: int, x: int, c: int, k: int, w: int) -> Problem:
    sides = rand(y + k - 1), rand(x + w - 1)
    return problem(BACK, rand(n, f, y, x), rand(f, c, k, w, seed=1), *sides)


def asked_of(p: Problem) -> tuple[Asked, str, int]:
    asked = Asked(p.sizes)
    found = settled(p.program, asked.at_least)
    return asked, found.what, sum(padding_of(s) is not None for s in found.program.statements)


@pytest.mark.parametrize(
    ("p", "what", "paddings"),
    [
        (image(2, 3, 5, 6, 4, 1, 1), "K=1 L=1 D.factor", 0),
        (image(2, 3, 5, 6, 4, 3, 1), "L=1", 1),
        (image(2, 3, 5, 6, 4, 2, 3), "", 1),
        (fixed(2, 3, 6, 9, 4), "O.factor", 0),
        (fixed(2, 3, 5, 9, 4), "", 1),
        (fixed(2, 3, 6, 8, 4), "", 1),
        (back(2, 3, 5, 6, 4, 1, 1), "K=1 L=1 D.factor", 0),
        (back(2, 3, 5, 6, 4, 3, 1), "L=1", 1),
        (back(2, 3, 5, 6, 4, 3, 2), "", 1),
        (problem(CUT, rand(4, 6), rand(4, 3, seed=1), rand(5)), "", 1),
        (problem(TURNS, rand(1, 3), rand(3, 2, seed=1)), "", 1),
        (problem(ENDS, rand(1, 3), rand(3, 2, seed=1)), "", 1),
        (problem(COUNT, rand(4, 3), rand(3, 2, seed=1), 2), "", 1),
    ],
)
def test_borders_that_a_call_does_not_have_are_gone(p: Problem, what: str, paddings: int) -> None:
    assert asked_of(p)[1:] == (what, paddings)


def test_borders_that_every_call_has_ask_nothing() -> None:
    text = IMAGE.replace("K,L", "3,3").replace("K - 1", "2").replace("L - 1", "2")
    asked, what, paddings = asked_of(problem(text, rand(2, 3, 5, 6), rand(3, 4, 3, 3, seed=1)))
    assert (asked.regime.answers, what, paddings) == ((), "", 1)


def test_a_read_that_moves_less_than_its_border_stays_behind_it() -> None:
    """Without points nothing is read: in front of the loop over them there may be no element."""
    text = "def f(float(N) v, float(M,P) K) -> (O) { O(p) +=! (m < N ? v(0) : 0) * K(m, p) }"
    assert asked_of(problem(text, rand(5), rand(4, 3, seed=1)))[1] == ""


def choice(p: Problem) -> Config:
    return compiler.generic_choice(p.program, spec_of(p, exact=False), detect(), p.sizes)[0]


def test_both_sides_of_a_border_are_right_and_have_names_of_their_own() -> None:
    images = [image(2, 3, 5, 6, 4, 1, 1), image(1, 3, 1, 1, 1, 1, 1), image(2, 3, 5, 6, 4, 3, 2)]
    images += [image(2, 3, 0, 6, 4, 1, 1), image(2, 0, 5, 6, 4, 1, 1)]
    lines = [fixed(2, 3, h, w, 4) for h, w in ((6, 9), (8, 11), (4, 9), (0, 9), (6, 8))]
    ways = [back(2, 3, 5, 6, 4, 1, 1), back(2, 3, 5, 6, 4, 3, 2), back(2, 3, 1, 1, 4, 1, 1)]
    ways += [back(0, 3, 5, 6, 4, 1, 1), back(2, 3, 0, 6, 4, 1, 1)]
    for listed in (images, lines, ways):
        assert len({choice(p).get("settled") for p in listed}) == 2
        differential([Case(p, exact=False, of_call=True) for p in listed], 12)


def test_a_program_is_settled_only_by_the_name_of_its_config() -> None:
    """What a config does not say is gone is there, whatever the sizes that it is lowered at."""
    with_border, without = fixed(2, 3, 5, 9, 4), fixed(2, 3, 6, 9, 4)
    spec = spec_of(without, exact=False)

    def text(config: Config, at: Problem) -> str:
        unit = compiler.lower_generic(at.program, spec, config, detect(), at.sizes, "k")
        return compiler.emit_c(unit)

    for config in (choice(with_border), Config()):
        assert text(config, without) == text(config, with_border)
    config = choice(without)
    assert text(config, without) == text(config, fixed(7, 5, 60, 90, 2))
    assert text(config, without) != text(choice(with_border), with_border)
    with pytest.raises(ScheduleError, match="settled is"):
        text(config, with_border)


def test_a_config_of_a_file_is_settled_at_no_sizes_that_have_the_border() -> None:
    with_border, without = fixed(2, 3, 5, 9, 4), fixed(2, 3, 6, 9, 4)
    config, generic = choice(without), spec_of(without, exact=False)
    known = spec_of(without, exact=True), spec_of(with_border, exact=True)
    for spec, p in ((known[0], without), (known[1], with_border), (generic, with_border)):
        assert not compiler.is_legal(p.program, spec, config, detect(), p.sizes)
        with pytest.raises(ScheduleError, match="settled"):
            compiler.cost_ns(p.program, spec, config, detect(), p.sizes)
    assert compiler.cost_ns(without.program, generic, config, detect(), without.sizes) > 0


def test_the_regime_of_a_choice_has_what_it_was_settled_by() -> None:
    for p in (fixed(2, 3, 6, 9, 4), fixed(2, 3, 5, 9, 4), fixed(2, 3, 6, 8, 4)):
        spec = spec_of(p, exact=False)
        config, regime = compiler.generic_choice(p.program, spec, detect(), p.sizes)
        for h, w in product((0, 5, 6, 7, 60), (8, 9, 90)):
            other = fixed(2, 3, h, w, 4)
            if regime.holds(other.sizes):
                assert choice(other) == config
