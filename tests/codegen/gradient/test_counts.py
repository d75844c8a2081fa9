"""Gradients beside what an expert writes by hand: no more statements, reads, work and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import prod

import numpy as np
import pytest

from tcdsl.codegen.gradient.derivatives import Gradient
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.program.work import flops_of
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import statements
from tests.codegen.gradient.differences import differentiated, drawn, seeds_of
from tests.codegen.gradient.table import SIZES, TABLE, Costs
from tests.tiers import sampled


def costs(text: str, sizes: Mapping[str, int]) -> Costs:
    """Return what a definition does."""
    checked = check(parse(text))
    found = [*statements(checked.body)]
    reads = sum(len(reads_of(s.value)) for s in found)
    kept = sum(t.dtype.size_bytes * prod(e.evaluate(sizes) for e in t.shape) for t in checked.temps)
    return Costs(len(found), reads, flops_of(program_of(checked), sizes), kept)


def sizes_of(made: Gradient) -> dict[str, int]:
    """Return sizes for a derived text, with those that its own parameters bring."""
    sizes = dict(SIZES)
    by_name = {t.name: t for t in check(parse(made.text)).params}
    for given in made.given:
        tensor = by_name[given.name]
        for new, extent in zip(tensor.shape, given.shape, strict=True):
            sizes.setdefault(str(new), extent.evaluate(SIZES))
    return sizes


@sampled("name", TABLE, keep=5)
def test_no_more_than_by_hand(name: str) -> None:
    entry = TABLE[name]
    made = gradient(check(parse(entry.text)))
    derived, by_hand = costs(made.text, sizes_of(made)), costs(entry.by_hand, SIZES)
    more = {k: v - asdict(by_hand)[k] for k, v in asdict(derived).items()}
    allowed = asdict(entry.more)
    assert all(more[k] <= allowed[k] for k in more), f"{more}\n{made.text}"


@sampled("name", TABLE, keep=0, wide=12)
def test_what_is_written_by_hand_is_right(name: str, rng: np.random.Generator) -> None:
    d = differentiated(TABLE[name].text)
    hand = check(parse(TABLE[name].by_hand))
    args = [abs(a) for a in drawn(d.checked, SIZES, rng)]
    seeds = seeds_of(d.checked, args, rng)
    known = dict(zip((t.name for t in d.checked.params), args, strict=True))
    values = evaluate(d.forward, args, float64=True)
    known |= zip((t.name for t in d.forward.returns), values, strict=True)
    known |= zip((f"d_{t.name}" for t in d.checked.returns), seeds, strict=True)
    found = evaluate(hand, [known[t.name] for t in hand.params], float64=True)
    wanted = dict(zip((t.name for t in d.backward.returns), d.pull(args, seeds), strict=True))
    assert {t.name for t in hand.returns} == wanted.keys()
    for t, got in zip(hand.returns, found, strict=True):
        np.testing.assert_allclose(got, wanted[t.name], rtol=1e-7, atol=1e-9, err_msg=t.name)


def test_every_gap_has_a_reason() -> None:
    assert all(bool(e.why) == (e.more != Costs()) for e in TABLE.values())


@pytest.mark.parametrize(
    "body",
    [
        # the extreme is a result, of a sum, under another power, of another row, of turns
        "mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))  Y(n) = s(n)",
        "mx(n) max=! X(n, m)  s(n) +=! X(n, m) - mx(n)  Y(n) = s(n) + mx(n)",
        "mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))  Y(n) = 2.0 * mx(n) + log(s(n))",
        "mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n)) + 1  Y(n) = mx(n) + log(s(n))",
        "mx(n) max=! X(n, m)  E(n, m) = exp(X(n, m) - mx(n))  s(m) +=! E(n, m)  "
        "Y(n, m) = E(n, m) / s(m)",
        "mx(n) max=! X(n, m)  E(n, m) = exp(X(n, m) - mx(n))  s(n) +=! E(n, m) * E(n, m)  "
        "Y(n, m) = E(n, m) / s(n)",
        "mx(n) max=! X(n, m) where m in 0:n + 1  "
        "s(n) +=! exp(X(n, m) - mx(n)) where m in 0:n + 1  Y(n) = s(n)",
    ],
)
def test_an_extreme_that_counts_is_gone_through(body: str) -> None:
    text = gradient(check(parse(f"def f(float(N,M) X) -> (Y) {{ {body} }}"))).text
    assert "place" in text, text
