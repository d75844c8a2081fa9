"""What arranging a partition asks: each form of each group once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tcdsl.codegen.choose import forms
from tcdsl.codegen.choose.arrange import AnyForm, arrange
from tcdsl.codegen.choose.fuse import partitions
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
