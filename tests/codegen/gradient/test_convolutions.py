"""Gradients of convolutions of every kind are PyTorch's; those of strided ones have residues."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.differences import assert_gradient, differentiated_def, drawn, seeds_of
from tests.codegen.gradient.layers import CONV
from tests.tiers import sampled

STRIDED_POOL = """def pool<K=3, S=2>(float(N,C,H,W) I) -> (O) {
  O(n, c, y, x) OP I(n, c, S * y + i, S * x + j) where i in 0:K, j in 0:K
}"""
TRANSPOSED = """def transposed<S=2>(float(N,C,H,W) I, float(C,F,KH,KW) K) -> (O) {
  O(n, f, S * y + i, S * x + j) +=! I(n, c, y, x) * K(c, f, i, j)
}"""
GROUPED = """def grouped<S=2>(float(N,G,C,H,W) I, float(G,F,C,KH,KW) K) -> (O) {
  O(n, g, f, y, x) +=! I(n, g, c, S * y + i, S * x + j) * K(g, f, c, i, j)
}"""
IMAGE = {"N": 2, "C": 2, "F": 3, "KH": 3, "KW": 3}


class Case(NamedTuple):
    """A definition, what torch calls it, sizes, generics, how many statements d_I has."""

    text: str
    twin: Callable[..., Any]
    sizes: dict[str, int]
    generics: dict[str, int]
    statements: int


def conv(h: int, w: int, statements: int, **generics: int) -> Case:
    g = {"SH": 1, "SW": 1, "PH": 0, "PW": 0, "DH": 1, "DW": 1, **generics}

    def twin(torch: Any, x: Any, k: Any, b: Any) -> Any:
        pairs = [(g[f"{c}H"], g[f"{c}W"]) for c in "SPD"]
        return torch.nn.functional.conv2d(x, k, b, *pairs)

    return Case(CONV, twin, {**IMAGE, "H": h, "W": w}, generics, statements)


def transposed(step: int) -> Case:
    def twin(torch: Any, x: Any, k: Any) -> Any:
        return torch.nn.functional.conv_transpose2d(x, k, stride=step)

    return Case(TRANSPOSED, twin, {**IMAGE, "H": 3, "W": 4}, {"S": step}, 1)


def pool(op: str, k: int, s: int, statements: int) -> Case:
    def twin(torch: Any, x: Any) -> Any:
        f = torch.nn.functional
        return f.max_pool2d(x, k, s) if op == "max=!" else f.avg_pool2d(x, k, s) * k * k

    text = STRIDED_POOL.replace("OP", op)
    return Case(text, twin, {"N": 2, "C": 2, "H": 8, "W": 9}, {"K": k, "S": s}, statements)


def grouped(step: int) -> Case:
    def twin(torch: Any, x: Any, k: Any) -> Any:
        n, g, c, h, w = x.shape
        out = torch.nn.functional.conv2d(
            x.reshape(n, g * c, h, w), k.reshape(-1, *k.shape[2:]), stride=step, groups=g
        )
        return out.reshape(n, g, -1, *out.shape[2:])

    return Case(GROUPED, twin, {**IMAGE, "G": 2, "H": 6, "W": 7}, {"S": step}, step * step)


CASES = {
    "stride 1": conv(5, 6, 1),
    "stride 1, padded": conv(5, 4, 1, PH=1, PW=2),
    "stride 2": conv(7, 8, 4, SH=2, SW=2),
    "stride 2, padded": conv(7, 6, 4, SH=2, SW=2, PH=1, PW=1),
    "stride 3, padded": conv(8, 10, 9, SH=3, SW=3, PH=1, PW=2),
    "strides 1 and 3": conv(6, 7, 3, SW=3, PH=1),
    "dilation 2": conv(7, 7, 1, DH=2, DW=2, PH=2, PW=1),
    "stride 2, dilation 2": conv(9, 8, 1, SH=2, SW=2, DH=2, DW=2, PH=1),
    "stride 2, dilation 3": conv(9, 8, 4, SH=2, SW=2, DH=3, DW=3, PW=1),
    "stride 4": conv(9, 8, 16, SH=4, SW=4, PH=1),
    "groups": grouped(1),
    "groups, stride 2": grouped(2),
    "transposed": transposed(1),
    "transposed, stride 2": transposed(2),
    "transposed, stride 3": transposed(3),
    "maxima of 3 by 2": pool("max=!", 3, 2, 4),
    "maxima of 2 by 2": pool("max=!", 2, 2, 1),
    "maxima of 2 by 3": pool("max=!", 2, 3, 1),
    "sums of 3 by 1": pool("+=!", 3, 1, 1),
    "sums of 3 by 2": pool("+=!", 3, 2, 4),
}
OFTEN = {"stride 2, padded", "stride 2, dilation 3", "transposed, stride 2", "maxima of 3 by 2"}

ONCE = {*OFTEN, "stride 2, dilation 2", "stride 4", "groups, stride 2", "maxima of 2 by 3"}


@pytest.mark.torch
@sampled(
    "name", [pytest.param(n, marks=() if n in OFTEN else pytest.mark.deep) for n in CASES], keep=1
)
def test_gradients_are_torchs(name: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    case = CASES[name]
    d = differentiated_def(check(parse(case.text), generics=case.generics))
    args = drawn(d.checked, case.sizes, rng)
    seeds = seeds_of(d.checked, args, rng)
    inputs = [torch.tensor(a, requires_grad=True) for a in args]
    out = case.twin(torch, *inputs)
    wanted = torch.autograd.grad((out * torch.tensor(seeds[0])).sum(), inputs)
    for got, want in zip(d.pull(args, seeds), wanted, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.wide
@sampled(
    "name", [pytest.param(n, marks=() if n in ONCE else pytest.mark.deep) for n in CASES], keep=3
)
def test_residues_have_a_statement_each(name: str) -> None:
    case = CASES[name]
    text = differentiated_def(check(parse(case.text), generics=case.generics)).gradient.text
    assert len(re.findall(r"^  d_I\(", text, re.MULTILINE)) == case.statements, text
    assert "min(max(" not in text


@pytest.mark.deep
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "transposed, stride 2" else pytest.mark.deep) for n in CASES],
)
def test_second_derivatives(name: str, rng: np.random.Generator) -> None:
    case = CASES[name]
    first = differentiated_def(check(parse(case.text), generics=case.generics))
    args = drawn(first.checked, case.sizes, rng)
    seeds = seeds_of(first.checked, args, rng)
    second = differentiated_def(first.backward)
    assert_gradient(second, [*args, *first.kept(args), *seeds], rng)
