"""Gradients as people read them: `tests/golden/grad`, with the training forward before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tcdsl.codegen.gradient.text import with_bare_results
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.ranks.ellipsis import bind_ranks
from tcdsl.grammar.text.nodes import Program
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.gradient.layers import CORNERS, LAYERS
from tests.codegen.gradient.test_layers import made
from tests.tiers import sampled

MATMUL = "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
FCRELU = """def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(i, n) +=! I(i, m) * W(n, m)
  O(i, n) = fmax(O(i, n) + b(n), 0)
}"""
CONV = """def conv<S=1>(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n, f, y, x) +=! pad(I(n, c, S * y + i - 1, S * x + j - 1), 0) * K(f, c, i, j)
      where y in 0:(H + S - 1) / S, x in 0:(W + S - 1) / S
}"""
POOL = """def pool(float(N,C,H,W) I) -> (O) {
  O(n, c, y, x) max=! I(n, c, 3 * y + i, 2 * x + j) where i in 0:3, j in 0:3
}"""
PATCHES = """def patches(float(N,C,H,W) I, float(F,C,4,4) K) -> (O) {
  O(n, f, y, x) +=! I(n, c, 4 * y + i, 4 * x + j) * K(f, c, i, j)
}"""


def checked(text: str, **generics: int) -> CheckedDef:
    return check(parse(text), generics=generics)


def broadcast() -> CheckedDef:
    text = "def scale(float(...) A, float(...) w) -> (O) { O(...) = A(...) * w(...) }"
    return check(Program((bind_ranks(parse(text), "scale", [(4, 5, 6), (5, 1)]),)))


def second(f: CheckedDef) -> CheckedDef:
    return check(parse(gradient(f).text))


TEXTS: dict[str, Callable[[], CheckedDef]] = {
    "matmul": lambda: checked(MATMUL),
    "matmul_second": lambda: second(checked(MATMUL)),
    "fcrelu": lambda: checked(FCRELU),
    "conv": lambda: checked(CONV),
    "conv_second": lambda: second(checked(CONV)),
    "conv_strided": lambda: checked(CONV, S=2),
    "conv_transposed": lambda: made(LAYERS["transposed"]).checked,
    "patches": lambda: checked(PATCHES),
    "max_pool": lambda: checked(POOL),
    "softmax": lambda: made(LAYERS["softmax"]).checked,
    "layer_norm": lambda: made(LAYERS["layer_norm"]).checked,
    "embedding": lambda: made(LAYERS["embed"]).checked,
    "scatter": lambda: made(LAYERS["scatter"]).checked,
    "cumulative_product": lambda: made(LAYERS["cum_prod"]).checked,
    "lstm": lambda: made(LAYERS["lstm"]).checked,
    "product": lambda: made(CORNERS["product with zeros"]).checked,
    "broadcast": broadcast,
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.wide) if n == "lstm" else n for n in TEXTS]
)
def test_gradient_reads_well(name: str, golden: Callable[[str, str], None]) -> None:
    found = gradient(TEXTS[name]())
    golden(f"{found.forward}\n{found.text}", f"grad/{name}.tc")


@sampled("name", TEXTS, keep=0, wide=6)
def test_bare_results_mean_the_same(name: str) -> None:
    found = gradient(TEXTS[name]())
    for text in (found.forward, found.text):
        bare = with_bare_results(text)
        a, b = check(parse(text)), check(parse(bare))
        assert (a.params, a.returns, a.temps, a.body) == (b.params, b.returns, b.temps, b.body)
        assert with_bare_results(bare) == bare
