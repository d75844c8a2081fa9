"""Micro-kernels that candidates share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tcdsl.autotune.targets.cpu.bench import CpuBench
from tcdsl.autotune.targets.cpu.micro_kernels import MicroKernels
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.grammar.text.errors import CompileError
from tests.autotune.programs import problem

_PRODUCT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
_MICRO = "static TC_MICRO void {name}_tile(float *c) {{\n  *c = {value};\n}}\n\n"
_REST = "static int {name}_panel(float *c) {{\n  {name}_tile(c);\n  return 0;\n}}\n"
_CALLING = "static TC_MICRO void {name}_more(float *c) {{\n  {name}_tile(c);\n}}\n\n"


def _candidate(name: str, value: int, more: str = "") -> Emitted:
    return Emitted(name, (_MICRO + more + _REST).format(name=name, value=value))


class _Compiler:
    """Notes what it is given; refuses what is linked with objects if told so."""

    def __init__(self, *, links: bool = True) -> None:
        self.texts: list[tuple[str, Sequence[str]]] = []
        self.links = links

    def __call__(
        self, text: str, flags: Sequence[str], is_unwanted: Callable[[], bool]
    ) -> Path | CompileError:
        self.texts.append((text, flags))
        if flags not in ((), ("-c",)) and not self.links:
            return CompileError("an object is gone")
        return Path(f"/{len(self.texts)}.so")


def _never() -> bool:
    return False


def test_a_micro_kernel_that_candidates_have_alike_is_compiled_once_for_all_units() -> None:
    compiler = _Compiler()
    micro_kernels = MicroKernels(compiler)
    micro_kernels.build([_candidate("k1", 1), _candidate("k2", 2), _candidate("k3", 1)], _never)
    micro_kernels.build([_candidate("k4", 2)], _never)
    (objects, how), (unit, linked), (later, with_what) = compiler.texts
    assert (objects.count("TC_MICRO"), how) == (2, ("-c",))
    assert (unit.count("k1_tile(c);"), unit.count("k3_tile"), linked) == (2, 0, ("/1.so",))
    assert ("k2_tile(c);" in later, later.count("*c = 2"), with_what) == (True, 0, ("/1.so",))


def test_one_that_stands_on_more_of_its_candidate_is_its_own() -> None:
    compiler = _Compiler()
    MicroKernels(compiler).build([_candidate(n, 1, _CALLING) for n in ("k1", "k2")], _never)
    (objects, _), (unit, _) = compiler.texts
    assert objects.count("TC_MICRO") == 1
    assert unit.count("static TC_MICRO") == 2  # k1_more and k2_more, which call k1_tile
    assert unit.count("k1_tile(c);") == 4


def test_what_cannot_be_linked_is_tried_whole() -> None:
    compiler = _Compiler(links=False)
    assert MicroKernels(compiler).build([_candidate("k1", 1)], _never) == Path("/3.so")
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
