"""Micro-kernels that candidates of a unit share."""

from __future__ import annotations

import pytest

from tcdsl.autotune.targets.cpu.joined import joined
from tcdsl.autotune.worker.builder import Built
from tcdsl.autotune.worker.emitted import Emitted
from tcdsl.codegen.machine.config import Config
from tests.autotune.programs import problem

_PRODUCT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
_MICRO = "static TC_MICRO void {name}_tile(float *c) {{\n  *c = {value};\n}}\n\n"
_REST = "static int {name}_panel(float *c) {{\n  {name}_tile(c);\n  return 0;\n}}\n"
_CALLING = "static TC_MICRO void {name}_more(float *c) {{\n  {name}_tile(c);\n}}\n\n"


def _candidate(name: str, value: int, more: str = "") -> Emitted:
    return Emitted(name, (_MICRO + more + _REST).format(name=name, value=value))


def test_a_micro_kernel_that_candidates_have_alike_stands_once() -> None:
    text = joined([_candidate("k1", 1), _candidate("k2", 2), _candidate("k3", 1)])
    assert text.count("TC_MICRO") == 2
    assert text.count("k1_tile(c);") == 2
    assert text.count("k2_tile(c);") == 1
    assert "k3_tile" not in text


def test_one_that_stands_on_more_of_its_candidate_is_its_own() -> None:
    text = joined([_candidate(name, 1, _CALLING) for name in ("k1", "k2")])
    assert text.count("void k1_tile") == 1
    assert "void k2_tile" not in text
    assert "void k2_more" in text


@pytest.mark.cc
def test_candidates_that_share_a_tile_are_built_together() -> None:
    of = problem(_PRODUCT, {"M": 128, "K": 64, "N": 64})
    first = dict(of.space.default.items)
    blocks = [Config.of(first | {"g0.rows": rows}) for rows in (1, 3)]
    sources = [of.emit(config) for config in blocks]
    text = joined(sources)
    assert text.count("TC_MICRO") == sources[0].text.count("TC_MICRO") > 0
    built = dict(of.builder.build(sources, len(sources)))
    assert [isinstance(built[n], Built) for n in range(2)] == [True, True]
