"""Parts that candidates share: micro-kernels, and phases with what they call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tcdsl.autotune.targets.cpu.bench import CpuBench
from tcdsl.autotune.targets.cpu.parts import Parts
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.grammar.text.errors import CompileError
from tests.autotune.programs import problem

_PRODUCT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
_CONVOLUTION = (
    "def conv(float(N,C,H,W) X, float(O,C,3,3) F) -> (Y) "
    "{ Y(n, o, h, w) +=! X(n, c, h + i, w + j) * F(o, c, i, j) }"
)
_MICRO = "static TC_MICRO void {name}_tile(float *c) {{\n  *c = {value};\n}}\n\n"
_PLAN = "static int {name}_plan(float *c) {{\n  {name}_tile(c);\n  return {value};\n}}\n"
_CALLING = "static TC_MICRO void {name}_more(float *c) {{\n  {name}_tile(c);\n}}\n\n"
_ARGS = "const tc_args *args, char *workspace, tc_i64 begin, tc_i64 end"
_HELPER = "static void {name}_pack(float *c) {{\n  *c = {value};\n}}\n\n"
_PHASE = (
    f"static tc_i32 {{name}}_panel({_ARGS}) {{{{\n  {{name}}_{{called}}(0);\n  return 0;\n}}}}\n"
)


def _candidate(name: str, value: int, *texts: str, called: str = "tile") -> Emitted:
    text = "".join(texts or (_MICRO, _PLAN)).format(name=name, value=value, called=called)
    return Emitted(name, f"{text}{name}_plan, {name}_panel")


class _Compiler:
    """Notes what it is given; refuses what is linked with objects if told so."""

    def __init__(self, *, links: bool = True) -> None:
        self.texts: list[tuple[str, Sequence[str]]] = []
        self.links = links

    def __call__(
        self, text: str, flags: Sequence[str], is_unwanted: Callable[[], bool]
    ) -> Path | CompileError:
        self.texts.append((text, flags))
        if flags and "-c" not in flags and not self.links:
            return CompileError("an object is gone")
        return Path(f"/{len(self.texts)}.so")


def _never() -> bool:
    return False


def test_a_micro_kernel_that_candidates_have_alike_is_compiled_once_for_all_units() -> None:
    compiler = _Compiler()
    parts = Parts(compiler)
    parts.build([_candidate("k1", 1), _candidate("k2", 2), _candidate("k3", 1)], _never)
    parts.build([_candidate("k4", 2)], _never)
    (objects, how), (unit, linked), (later, with_what) = compiler.texts
    assert (objects.count("TC_MICRO"), how[0]) == (2, "-c")
    assert (unit.count("TC_MICRO"), unit.count("= 1"), linked[1:]) == (3, 0, ("/1.so",))
    assert ("tile" in later, later.count("return 2"), with_what[1:]) == (False, 1, ("/1.so",))


def test_so_is_a_phase_with_what_it_calls_but_not_what_a_plan_calls_too() -> None:
    compiler = _Compiler()
    more = _PHASE.replace("_panel", "_more").replace("{name}_{called}(0)", "end")
    alike = [_candidate(n, 1, _HELPER, _PHASE, more, called="pack") for n in ("k1", "k2")]
    Parts(compiler).build(alike, _never)
    (objects, _), (unit, linked) = compiler.texts
    assert (objects.count("_panel"), objects.count("*c = 1"), "k1" in objects) == (0, 1, False)
    assert (unit.count("*c = 1"), unit.count("part_"), linked[1:]) == (0, 6, ("/1.so",))
    planned = (_HELPER, _PHASE, _PLAN.replace("tile", "pack"))
    compiler = _Compiler()
    Parts(compiler).build([_candidate("k1", 1, *planned, called="pack")], _never)
    assert compiler.texts == [(_candidate("k1", 1, *planned, called="pack").text, ())]


def test_a_phase_that_is_all_there_is_stays_with_its_candidate() -> None:
    compiler = _Compiler()
    unit = [_candidate(n, 1, _HELPER, _PHASE, called="pack") for n in ("k1", "k2")]
    Parts(compiler).build(unit, _never)
    assert compiler.texts == [("\n".join(k.text for k in unit), ())]


def test_parts_that_call_parts_are_linked_with_them() -> None:
    compiler = _Compiler()
    parts = Parts(compiler)
    parts.build([_candidate("k1", 1)], _never)
    parts.build([_candidate("k2", 1, _MICRO, _CALLING, _PHASE, called="more")], _never)
    parts.build([_candidate("k3", 1, _MICRO, _CALLING, _PHASE, called="more")], _never)
    *_, (unit, linked) = compiler.texts
    assert len(compiler.texts) == 5
    assert ("return 0" in unit, {*linked[1:]}) == (False, {"/1.so", "/3.so"})


def test_what_calls_a_function_of_the_library_is_its_candidate_s() -> None:
    compiler = _Compiler()
    imported = "static void (*tc_pack)(float *c);\n\n"
    phase = _PHASE.replace("{name}_{called}(0)", "{name}_tile(0);\n  tc_pack(0)")
    texts = imported, _MICRO, phase
    Parts(compiler).build([_candidate("k1", 1, *texts)], _never)
    (objects, _), (unit, _) = compiler.texts
    assert ("tc_pack" in objects, "TC_MICRO" in objects, unit.count("tc_pack")) == (False, True, 2)


@pytest.mark.cc
def test_candidates_are_given_the_functions_that_they_import() -> None:
    of = problem(_CONVOLUTION, {"N": 1, "C": 16, "H": 6, "W": 18, "O": 16})
    source = of.emit(of.space.default)
    ((_, built),) = of.builder.build([source], 1)
    assert isinstance(built, Built)
    CpuBench(of.case()).load(built.load)  # it is checked
    if of.machine.has_masks:
        assert ".imports = 1" in source.text


def test_what_cannot_be_linked_is_tried_whole() -> None:
    compiler = _Compiler(links=False)
    assert Parts(compiler).build([_candidate("k1", 1)], _never) == Path("/3.so")
    assert compiler.texts[-1] == (_candidate("k1", 1).text, ())


@pytest.mark.cc
@pytest.mark.skipif(find_compiler().kind != "gcc", reason="others know of a function who calls it")
def test_candidates_are_right_that_are_linked_with_tiles_of_others() -> None:
    of = problem(_PRODUCT, {"M": 48, "K": 64, "N": 64})
    first = dict(of.space.default.items)
    sources = [of.emit(Config.of(first | {"g0.rows": rows})) for rows in (1, 3)]
    assert "TC_MICRO" in sources[0].text
    bench = CpuBench(of.case())
    for source in sources:
        ((_, built),) = of.builder.build([source], 1)
        assert isinstance(built, Built)
        bench.load(built.load)  # it is checked
