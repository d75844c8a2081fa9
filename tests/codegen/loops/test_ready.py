"""Units that are made ready after others: the same texts, the same laws."""

from __future__ import annotations

import random

import pytest

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Block,
    Cast,
    Elem,
    Executable,
    Field,
    Function,
    Let,
    Opaque,
    Return,
    Table,
    Unit,
    Var,
)
from tcdsl.codegen.loops.ready import Before, ready
from tcdsl.grammar.text.errors import InternalError, ScheduleError
from tcdsl.grammar.types import dtypes as d
from tests.autotune.programs import FCRELU, GATHER, SOFTMAX, problem

_PROGRAMS = {
    "softmax": (SOFTMAX, {"N": 7, "D": 10}),
    "fcrelu": (FCRELU, {"B": 9, "M": 33, "N": 17}),
    "gather": (GATHER, {"V": 5, "D": 20, "N": 6}),
}


def _same(name: str, draws: int) -> None:
    text, sizes = _PROGRAMS[name]
    of, rng, before = problem(text, sizes), random.Random(0), Before()
    drawn = [of.space.default, *(of.space.sample(rng) for _ in range(draws))]
    for config in drawn:
        assert config is not None
        asked = of.program, of.spec, config, of.machine, of.sizes, "k"
        try:
            plain = compiler.emit_c(compiler.lower(*asked))
        except ScheduleError:
            continue
        assert compiler.emit_c(compiler.lower(*asked, before), before) == plain
        assert of.emit(config).text.count("tc_exe_c") == 1


def test_texts_of_configs_are_the_same_after_those_of_others() -> None:
    _same("softmax", 4)


@pytest.mark.wide
@pytest.mark.parametrize("name", _PROGRAMS)
def test_texts_of_many_configs_are_the_same_after_those_of_others(name: str) -> None:
    _same(name, 40)


_ZERO = b.const(0.0, d.FLOAT32)
_DONE = Return(b.const(0, d.INT32))
_PLAN = b.plan_function("q", _DONE)
_I = b.pointer("I", d.INT64, const=True)
_O = b.pointer("O", d.FLOAT32)
_AT = Elem("t", (b.c64(3),), I64)


def _unit(callee: Function, phase: Function, *tables: Table) -> Unit:
    return Unit("u", "u", (callee, phase, _PLAN), tables, (Executable("u", "q", ("p",)),))


def _data(k: int, p: Var) -> Let:
    return Let(p, Cast(Field(b.ARGS, f"data[{k}]", Opaque("char *")), p.type))


def test_a_function_is_checked_again_where_what_it_calls_has_changed() -> None:
    before = Before()
    phase = b.phase_function("p", b.block(b.do("g", b.c64(1)), _DONE))
    callee = Function("g", (b.i64("n"),), Block(()), "helper")
    for known in (None, before, before):
        ready(_unit(callee, phase), known)
    other = Function("g", (b.i64("n"), b.i64("m")), Block(()), "helper")
    with pytest.raises(InternalError, match="calls 'g' with 1 arguments"):
        ready(_unit(other, phase), before)


def test_a_function_is_checked_again_where_a_table_that_it_reads_has_changed() -> None:
    before, callee = Before(), Function("g", (), Block(()), "helper")
    phase = b.phase_function("p", b.block(_data(0, _O), Assign(b.load(_O, _AT), _ZERO), _DONE))
    ready(_unit(callee, phase, Table("t", I64, (1, 2, 3, 4))), before)
    with pytest.raises(InternalError, match="is outside"):
        ready(_unit(callee, phase, Table("t", I64, (1, 2))), before)


def test_a_function_is_checked_again_where_it_is_given_memory_of_callers() -> None:
    before = Before()
    body = Assign(b.load(_O, b.load(_I, 0)), _ZERO)  # it chooses an element by a plain load
    callee = Function("g", (_I, _O), body, "helper")
    own = Let(_I, Cast(b.WORKSPACE, _I.type))
    private = b.phase_function("p", b.block(own, _data(1, _O), b.do("g", _I, _O), _DONE))
    ready(_unit(callee, private), before)
    given = b.phase_function("p", b.block(_data(0, _I), _data(1, _O), b.do("g", _I, _O), _DONE))
    with pytest.raises(InternalError, match="depends on a plain load"):
        ready(_unit(callee, given), before)
