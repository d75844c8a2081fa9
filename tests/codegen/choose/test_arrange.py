"""What arranging a partition asks: each form of each group once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tcdsl.codegen.choose import compiler, forms
from tcdsl.codegen.choose.arrange import AnyForm, arrange
from tcdsl.codegen.choose.fuse import partitions
from tcdsl.codegen.choose.nominal import nominal_sizes
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.codegen.programs import PROGRAMS
from tests.tiers import sampled

MACHINE = Machine("avx512", 64, 32, 32 << 10, 8, 1 << 20, 32 << 20, 2, 3.0, 2)


@sampled("name", ["matmul", "conv", "softmax", "batchnorm"], keep=1)
def test_each_form_is_asked_of_each_group_once(name: str) -> None:
    p = program_of(check(parse(PROGRAMS[name].text)))
    asked: Counter[tuple[object, ...]] = Counter()

    def counted(form: AnyForm) -> AnyForm:
        def matches(ctx: Any) -> bool:
            asked[form.name, ctx.group.members, ctx.group.local, ctx.operands] += 1
            return form.matches(ctx)

        return replace(form, matches=matches)

    ranks = (len(p.buffer(x).shape) for x in p.operands)
    layouts = tuple(Layout(r, True, r - 1 if r else None) for r in ranks)
    sizes = tuple((n, 40 + i) for i, n in enumerate(p.sizes))
    for spec in (Spec(sizes, layouts, 2), Spec(None, layouts, 2)):
        for partition in partitions(p):
            asked.clear()
            offered = tuple(map(counted, forms.CPU))
            found = arrange(p, spec, partition, MACHINE, sizes, offered)
            assert {*asked.values()} == {1}
            assert [c.prefix for c in found.contexts] == [
                f"g{i}" for i, _ in enumerate(found.contexts)
            ]


def test_parts_of_a_product_are_asked_of_forms_with_tiles_only() -> None:
    """What stands behind a product is cut off, part by part: most of an arrangement's time."""
    text = """def f(float(M,K) A, float(K,N) B) -> (C, D) {
        C(m,n) +=! A(m,k) * B(k,n)
        D(m,n) = exp(C(m,n)) + C(m,n) }"""
    p = program_of(check(parse(text)))
    asked: set[tuple[str, int]] = set()

    def noted(form: AnyForm) -> AnyForm:
        def matches(ctx: Any) -> bool:
            asked.add((form.name, len(ctx.group.statements)))
            return form.matches(ctx) and len(ctx.group.statements) == 1

        return replace(form, matches=matches)

    layouts = (Layout(2, True, 1),) * 4
    sizes = tuple((n, 40) for n in p.sizes)
    (whole,) = (x for x in partitions(p) if len(x.groups) == 1)
    offered = tuple(map(noted, forms.CPU))
    found = arrange(p, Spec(sizes, layouts, 2), whole, MACHINE, sizes, offered)
    assert len(found.contexts) == 2
    assert {name for name, n in asked if n == 2} == {x.name for x in forms.CPU if x.has_tiles}


def test_costs_of_all_sizes_are_those_that_each_is_arranged_for() -> None:
    p = program_of(check(parse(PROGRAMS["conv"].text)))
    ranks = (len(p.buffer(x).shape) for x in p.operands)
    spec = Spec(None, tuple(Layout(r, True, r - 1) for r in ranks), 2)
    usual = nominal_sizes(p)
    config = compiler.generic_choice(p, spec, MACHINE, dict(usual))[0]
    arrange.cache_clear()
    for n in (24, 40, 56):
        sizes = {name: size if size < 16 else n for name, size in usual}
        call = tuple(sorted(sizes.items()))
        alone = arrange(p, spec, partitions(p)[0], MACHINE, call, forms.CPU)
        wanted = 0.0
        for i, ctx in enumerate(alone.contexts):
            knobs = config.group(i)
            wanted += alone.forms[i][str(knobs.pop("form"))].cost_ns(ctx, knobs)
        assert compiler.cost_ns(p, spec, config, MACHINE, sizes) == pytest.approx(wanted)
    assert arrange.cache_info().misses == 4, "one is for all of them"
