"""Costs of all forms are told in one unit: the time of a call with the spec's threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tcdsl.codegen.choose import compiler, forms
from tcdsl.codegen.choose.arrange import arrange
from tcdsl.codegen.choose.fuse import partitions
from tcdsl.codegen.loops.loopir import Const
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.machine.wall import SERIAL_NS, divided_ns, wall_ns
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tests.autotune.programs import spec_of
from tests.codegen.programs import PROGRAMS
from tests.tiers import sampled

THREADS = (1, 2, 4, 8, 16, 32)

# By form: a program that it takes by default, of so many equal tasks that four threads take a
# quarter of the time.
LARGE: dict[str, tuple[str, dict[str, int]]] = {
    "contraction": (
        "def f(float(M,K) A, float(K,N) B) -> (O) { O(m,n) +=! A(m,k) * B(k,n) }",
        {"M": 1024, "K": 512, "N": 1024},
    ),
    "convolution": (
        "def f(float(B,C,H,W) I, float(D,C,3,3) K) -> (O) {"
        " O(b,d,y,x) +=! I(b,c,y+i,x+j) * K(d,c,i,j) }",
        {"B": 16, "C": 64, "H": 34, "W": 34, "D": 64},
    ),
    "pointwise": (
        "def f(float(N,M) A, float(N,M) B) -> (O) { O(n,m) = A(n,m) * B(n,m) }",
        {"N": 1024, "M": 1024},
    ),
    "reduction": ("def f(float(N,M) A) -> (O) { O(n) +=! A(n,m) }", {"N": 4096, "M": 1024}),
    "rows": (
        "def f(float(N,D) X) -> (Y) { m(n) max=! X(n,d)  Y(n,d) = exp(X(n,d) - m(n)) }",
        {"N": 4096, "D": 512},
    ),
    "arg_lanes": ("def f(float(N,M) A) -> (O) { O(n) argmax=! A(n,m) }", {"N": 512, "M": 8192}),
    "gather": (
        "def f(float(V,D) T, int32(N) I) -> (O) { O(n,d) = T(I(n),d) }",
        {"V": 1000, "D": 256, "N": 4096},
    ),
    "nest": (
        "def f(float(N,M) A) -> (O) { O(n,m) = A(n, (m * 7) % 13) where m in 0:M }",
        {"N": 4096, "M": 64},
    ),
    "scatter": (
        "def f(float(N,D) X, int32(N) I, float(V,D) T) -> (float(V,D) O) {"
        " O(v,d) = T(v,d)  O(I(n),d) += X(n,d) }",
        {"V": 4096, "D": 64, "N": 65536},
    ),
}


def forms_of(
    program: Program, spec: Spec, machine: Machine, sizes: Mapping[str, int]
) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield partition, form, its module and context for each group of a program."""
    values = tuple(sorted(sizes.items()))
    for partition in partitions(program):
        found = arrange(program, spec, partition, machine, values, forms.CPU)
        for i, ctx in enumerate(found.contexts):
            for name, module in found.forms[i].items():
                yield f"{partition.name} g{i}", name, module, ctx


def times(
    program: Program, spec: Spec, sizes: Mapping[str, int]
) -> dict[tuple[str, str], list[float]]:
    """Return the costs of all forms of a program at their values for the spec, by threads."""
    machine = detect()
    found: dict[tuple[str, str], list[float]] = {}
    chosen = {
        (place, name): module.default(ctx)
        for place, name, module, ctx in forms_of(program, spec, machine, sizes)
    }
    for threads in THREADS:
        one = replace(spec, threads=threads)
        for place, name, module, ctx in forms_of(program, one, machine, sizes):
            cost_ns = module.cost_ns(ctx, chosen[place, name])
            found.setdefault((place, name), []).append(cost_ns)
    return found


def test_a_call_waits_for_the_busiest_thread() -> None:
    assert wall_ns(1e6, 8, 1) == 1e6
    assert wall_ns(1e6, 8, 3) == 3e6 / 8
    assert wall_ns(SERIAL_NS, 8, 4) == SERIAL_NS  # a second thread does not pay
    assert wall_ns(1e6, 0, 4) == 1e6
    assert divided_ns(1e6, 1, 4) == 1e6
    assert divided_ns(1e6, 1e9, 4) == 1e6 / 4
    assert divided_ns(5e3, 1e9, 4) == 5e3 / 2  # not into more tasks than are worth claiming


@sampled("name", PROGRAMS, keep=4)
def test_more_threads_never_take_longer_and_share_no_more_than_there_is(name: str) -> None:
    entry = PROGRAMS[name]
    definition = check(parse(entry.text))
    sizes = entry.sizes[-1]
    spec = spec_of(definition, sizes, 1)
    for place, costs in times(program_of(definition), spec, sizes).items():
        for threads, cost in zip(THREADS, costs, strict=True):
            assert cost <= costs[0] * (1 + 1e-9), place
            assert cost >= costs[0] / threads * (1 - 1e-9), place
        assert costs == sorted(costs, reverse=True), place


@pytest.mark.parametrize("form", LARGE)
def test_every_form_takes_a_quarter_with_four_threads(form: str) -> None:
    text, sizes = LARGE[form]
    definition = check(parse(text))
    found = times(program_of(definition), spec_of(definition, sizes, 4), sizes)
    mine = {place: costs for place, costs in found.items() if place[1] == form}
    assert mine, [*found]
    for place, costs in mine.items():
        at = dict(zip(THREADS, costs, strict=True))
        # a scatter counts rows that are not met equally often
        assert at[1] / at[4] == pytest.approx(4, rel=0.2), place


@pytest.mark.parametrize("form", LARGE)
def test_the_cost_with_one_thread_is_what_the_plan_calls_serial(form: str) -> None:
    text, sizes = LARGE[form]
    definition = check(parse(text))
    program, spec = program_of(definition), spec_of(definition, sizes, 1)
    for _, name, module, ctx in forms_of(program, spec, detect(), sizes):
        if name != form:
            continue
        values = module.default(ctx)
        phases = [p.cost_ns for p in module.lower(ctx, values).phases]
        serial_ns = sum(float(e.value) for e in phases if isinstance(e, Const))
        assert all(isinstance(e, Const) for e in phases)
        assert module.cost_ns(ctx, values) == pytest.approx(serial_ns, rel=0.35)


def test_costs_of_groups_are_added_in_this_unit() -> None:
    text = """
    def f(float(M,K) A, float(K,N) B) -> (O) {
      T(m,n) +=! A(m,k) * B(k,n)
      O(m) max=! T(m,n)
    }"""
    definition = check(parse(text))
    program, sizes = program_of(definition), {"M": 1024, "K": 256, "N": 1024}
    machine = detect()

    def cost(threads: int) -> float:
        spec = spec_of(definition, sizes, threads)
        config = compiler.complete(
            program, spec, Config.of({"partition": partitions(program)[-1].name}), machine, sizes
        )
        return compiler.cost_ns(program, spec, config, machine, sizes)

    assert cost(1) / cost(4) == pytest.approx(4, rel=0.15)
