"""The choice of a size-generic executable of the CPU: by the program, and by what it asked."""

from __future__ import annotations

import json

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.choose.nominal import nominal_sizes
from tcdsl.codegen.forms.base.regime import Asked, Regime
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.proofs.signs import maximum, minimum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.parser import parse
from tests.codegen.programs import PROGRAMS
from tests.tiers import sampled

MACHINE = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.0, 2)
ADD = "def add(float(N,M) A, float(N,M) B) -> (C) { C(i, j) = A(i, j) + B(i, j) }"
SUMS = "def sums(float(M,N) A) -> (O) { O(m) +=! A(m, n) }"
COLUMNS = "def columns(float(M,N) A) -> (O) { O(n) +=! A(m, n) }"
PLACES = "def places(float(M,N) A) -> (O) { O(m) argmax=! A(m, n) }"
PARTED = """def parted(float(N,D,P) X) -> (Y) {
  B(n, d) +=! X(n, d, p)
  S(n) +=! B(n, d)
  Y(n, d, p) = X(n, d, p) - B(n, d) * S(n)
}"""
SIZES = (1, 2, 3, 5, 7, 8, 16, 17, 64, 97, 128, 1000, 1009, 4096)


def program(text: str) -> Program:
    return program_of(check(parse(text)))


def choice(p: Program, *values: int) -> tuple[Config, Regime]:
    ranks = (len(p.buffer(name).shape) for name in p.operands)
    spec = Spec(None, tuple(Layout(r, True, r - 1 if r else None) for r in ranks), 2)
    return compiler.generic_choice(p, spec, MACHINE, dict(zip(p.sizes, values, strict=True)))


@sampled("name", PROGRAMS, keep=4)
def test_sizes_of_a_regime_have_its_choice(name: str) -> None:
    p = program(PROGRAMS[name].text)
    config, regime = choice(p, *(40 + i for i, _ in enumerate(p.sizes)))
    for entry in PROGRAMS[name].sizes:
        values = tuple(entry[n] for n in p.sizes)
        other, its = choice(p, *values)
        assert its.holds(entry)
        if regime.holds(entry):
            assert other == config


def test_rows_that_come_from_memory_are_fetched_ahead() -> None:
    """As those of known sizes are: what fits in a cache has an executable without it."""
    p = program(SUMS)
    for shape, is_far in (((4096, 4096), True), ((512, 512), False)):
        config, regime = choice(p, *shape)
        assert config.get("g0.prefetch") is is_far
        assert regime.holds({"M": 5000, "N": 5000}) is is_far


@pytest.mark.parametrize("text", [PROGRAMS["matmul"].text, COLUMNS])
def test_what_asks_nothing_has_one_choice(text: str) -> None:
    p = program(text)
    made = [choice(p, *(n + i for i, _ in enumerate(p.sizes))) for n in SIZES]
    assert {regime for _, regime in made} == {Regime()}
    assert len({config for config, _ in made}) == 1


@pytest.mark.parametrize(
    ("text", "knob", "of"),
    [
        (ADD, "g0.stream", {(3, 5): False, (2048, 2047): False, (2048, 2048): True}),
        (
            SUMS,
            "g0.split",
            {(4, 5): False, (4, 40_000): True, (8, 40_000): False, (1009, 1009): False},
        ),
        (
            PROGRAMS["softmax"].text,
            "g0.stream",
            {(3, 5): False, (4096, 1023): False, (4096, 1024): True, (40_000, 255): False},
        ),
        (PLACES, "g0.form", {(9, 15): "nest", (9, 16): "arg_lanes", (1, 1000): "arg_lanes"}),
        (PARTED, "g0.form", {(7, 9, 40): "reduction", (8, 9, 40): "rows", (97, 1, 1): "rows"}),
    ],
)
def test_what_has_no_one_answer_asks(
    text: str, knob: str, of: dict[tuple[int, ...], object]
) -> None:
    p = program(text)
    made = {sizes: choice(p, *sizes) for sizes in of}
    assert {sizes: config.get(knob) for sizes, (config, _) in made.items()} == of
    for sizes, (config, _) in made.items():
        for other, regime in made.values():
            if regime.holds(dict(zip(p.sizes, sizes, strict=True))):
                assert other == config


def test_the_text_of_a_regime_is_one() -> None:
    p = program(PARTED)
    spec = Spec(None, (Layout(3, True, 2),) * 2, 2)

    def text(*values: int) -> str:
        sizes = dict(zip(p.sizes, values, strict=True))
        config, _ = compiler.generic_choice(p, spec, MACHINE, sizes)
        unit = compiler.lower_generic(p, spec, config, MACHINE, sizes, "parted")
        return compiler.emit_c(unit)

    assert text(8, 1, 1) == text(1009, 64, 40)
    assert text(2, 3, 5) == text(7, 4096, 1) != text(8, 1, 1)


CONVOLUTION = """def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
  O(n, f, y, x) +=! pad(I(n, c, y + i - 1, x + j - 1), 0) * K(f, c, i, j) where y in 0:H, x in 0:W
}"""
WEIGHTS = """def weights(float(N,C,H,W) I, float(N,F,H,W) G) -> (D) {
  D(f, c, i, j) +=! G(n, f, y, x) * pad(I(n, c, y + i - 1, x + j - 1), 0) where i in 0:3, j in 0:3
}"""
POOL = """def pool(float(H,W) I, float(K,L) T) -> (O) {
  O(y, x) +=! I(y + i, x + j) * T(i, j)
}"""


@pytest.mark.parametrize("text", [CONVOLUTION, WEIGHTS])
def test_convolutions_of_many_columns_have_one_choice(text: str) -> None:
    """Their sums are no windows of a stencil, whatever sizes: nobody asks for these."""
    p = program(text)
    assert len({choice(p, *(low + i for i, _ in enumerate(p.sizes)))[1] for low in (24, 90)}) == 1


def test_of_a_convolution_is_asked_whether_columns_fill_two_thirds_of_vectors() -> None:
    p = program(CONVOLUTION)
    columns = (2, 10, 11, 16, 17, 21, 22, 100)
    found = {n: choice(p, 9, 10, 11, 12, n) for n in columns}
    forms = [any(v == "sliding" for _, v in found[n][0].items) for n in columns]
    assert forms == [False, False, True, True, False, False, True, True]
    assert [least for _, least, _ in found[22][1].answers] == [22, 8]
    assert found[16][0] == found[100][0], "of few columns that fill vectors there is no other text"
    long = choice(p, 9, 200, 11, 12, 10)[0]
    assert any(v == "sliding" for _, v in long.items)


def test_the_size_of_a_window_is_asked_for_by_few_questions() -> None:
    p = program(POOL)
    windows = {}
    for k in range(1, 10):
        config, regime = choice(p, 40, 50, k, k)
        windows[config.get("g0.window")] = k
        assert len(regime.answers) < 20
        held = [n for n in range(1, 10) if regime.holds({"H": 40, "W": 50, "K": n, "L": n})]
        assert held == [k]
    assert len(windows) == 9


def test_nominal_sizes_give_all_ranges_values() -> None:
    for entry in PROGRAMS.values():
        p = program(entry.text)
        sizes = dict(nominal_sizes(p))
        assert [*sizes] == [*p.sizes]
        for s in p.statements:
            known = [r.extent for r in s.ranges if {*r.extent.symbols()} <= {*sizes}]
            assert all(e.evaluate(sizes) > 0 for e in known), (entry.text, sizes)


# ---- kept in files


def test_a_regime_comes_back_from_json() -> None:
    n, m = Size.symbol("N"), Size.symbol("M")
    asked = Asked({"N": 2000, "M": 3})
    blocks = maximum(Size.const(1), n // 1024) * m
    assert not asked.at_least(blocks, 8)
    assert asked.at_least(n * n - m * 5 + 1, 0)
    assert not asked.at_least(minimum(n, m) * ((n + m) % 7), 99)
    assert asked.at_least(Size.const(4), 4)  # is so at all sizes
    regime = asked.regime
    assert len(regime.answers) == 3
    back = Regime.from_plain(json.loads(json.dumps(regime.to_plain())), ("N", "M"))
    assert back == regime
    assert back.holds({"N": 2000, "M": 3})
    assert not back.holds({"N": 8192, "M": 3})


def nested(depth: int) -> object:
    return [[1, ["max", nested(depth - 1)]]] if depth else []


@pytest.mark.parametrize(
    "value",
    [
        None, {}, "N", [1], [[[], 1]], [[[], "1", True]], [[[], 1, 1]], [[7, 1, True]],
        [[[[1.5, ["N", False]]], 1, True]], [[[["N", 1]], 1, True]],
        [[[[1, ["K", False]]], 1, True]], [[[[1, [["N", False]]]], 1, True]],
        [[[[1, ["max"]]], 1, True]], [[[[1, ["/", []]]], 1, True]],
        [[[[1, ["**", [], []]]], 1, True]], [[nested(40), 1, True]],
    ],
)  # fmt: skip
def test_what_is_no_regime_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"regime|answer|size|term"):
        Regime.from_plain(value, ("N", "M"))
