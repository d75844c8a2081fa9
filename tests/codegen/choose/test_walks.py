"""What only walks is found, and a compiler does little for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.choose.walks import only_walks
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.toolchain import running
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse

MACHINE = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.0, 2)
PRODUCT = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
OF_BYTES = "def f(int8(M,K) A, int8(K,N) B) -> (C) { C(m, n) +=! int32(A(m, k)) * int32(B(k, n)) }"
WITH_EPILOGUE = """def f(float(M,K) A, float(K,N) B, float(N) D) -> (C) {
  P(m, n) +=! A(m, k) * B(k, n)
  C(m, n) = exp(P(m, n) + D(n))
}"""
BESIDE_A_SUM = """def f(float(M,K) A, float(K,N) B) -> (C, S) {
  C(m, n) +=! A(m, k) * B(k, n)
  S(k) +=! A(m, k)
}"""
SUM = "def f(float(M,K) A) -> (S) { S(m) +=! A(m, k) }"


def unit(text: str, is_exact: bool = False) -> Unit:
    p = program_of(check(parse(text)))
    sizes = {name: 40 + i for i, name in enumerate(p.sizes)}
    ranks = (len(p.buffer(name).shape) for name in p.operands)
    layouts = tuple(Layout(r, True, r - 1 if r else None) for r in ranks)
    spec = Spec(tuple(sizes.items()) if is_exact else None, layouts, 2)
    if is_exact:
        config = compiler.default_config(p, spec, MACHINE, sizes)
        return compiler.lower(p, spec, config, MACHINE, sizes, "f")
    config, _ = compiler.generic_choice(p, spec, MACHINE, sizes)
    return compiler.lower_generic(p, spec, config, MACHINE, sizes, "f")


def test_a_product_of_any_sizes_only_walks() -> None:
    assert only_walks(unit(PRODUCT))


@pytest.mark.parametrize("text", [WITH_EPILOGUE, BESIDE_A_SUM, SUM])
def test_what_computes_on_elements_itself_does_not(text: str) -> None:
    assert not only_walks(unit(text))


@pytest.mark.parametrize("text", [PRODUCT, OF_BYTES])
def test_nor_does_a_product_of_known_sizes_which_has_its_tiles(text: str) -> None:
    assert not only_walks(unit(text, is_exact=True))


@pytest.mark.cc
def test_its_text_alone_asks_a_compiler_for_little(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that waits has the flags of all: it is the text that says so."""
    if find_compiler().kind != "gcc":
        pytest.skip("others were not measured")
    texts: list[str] = []
    begin = running.Run.__init__

    def noted(self: running.Run, *args: object) -> None:
        begin(self, *args)  # type: ignore[arg-type]  # as it was called
        if self.source.name == "f":
            texts.append(self.source.text)

    monkeypatch.setattr(running.Run, "__init__", noted)
    k = tc.define(PRODUCT, tune="off")
    rng = np.random.default_rng(0)
    for m in (3, 5):
        a, b = (rng.integers(-9, 9, s).astype(np.float32) for s in ((m, 7), (7, 4)))
        assert (k(a, b) == a @ b).all()
    assert ["#pragma GCC optimize" in text for text in texts] == [False, True]
