"""Long and deep texts: nothing legal is too much for a stack, and work grows with the text."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings.binding import Bound
from tcdsl.calls.bindings.variant import Variant, spec_for
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.loops.shorten import LONGEST
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text import stack
from tcdsl.grammar.text.parser import lark_parser, parse
from tcdsl.kernel import Kernel
from tests.tiers import sampled

pytestmark = pytest.mark.cc


def long_sum(n: int) -> str:
    terms = " + ".join(f"A(i) * {k}.5" for k in range(n))
    return f"def f(float(N) A, int32(N) I) -> (O) {{ O(i) = {terms} }}"


def choices(n: int) -> str:
    chain = "".join(f"A(i) < {k}.0 ? {k}.5 : " for k in range(n))
    return f"def f(float(N) A, int32(N) I) -> (O) {{ O(i) = {chain}A(i) }}"


def arms(n: int) -> str:
    chain = "".join(f"A(i) < {k}.0 ? A(i) * {k}.5 : " for k in range(n))
    return f"def f(float(N) A, int32(N) I) -> (O) {{ O(i) = {chain}A(i) * A(i) }}"


def arms_of_two(n: int) -> str:
    chain = "".join(f"A(i) < {k}.0 ? {'AB'[k % 2]}(i) * {k}.5 : " for k in range(n))
    return f"def f(float(N) A, int32(N) I) -> (O) {{ B(i) = A(i) * A(i) O(i) = {chain}A(i) }}"


def gathers(n: int) -> str:
    at = f"{'I(' * n}i{')' * n}"
    return f"def f(float(N) A, int32(N) I) -> (O) {{ O(i) = A({at}) where i in 0:N }}"


def conditions(n: int) -> str:
    chain = " && ".join(f"A(i) > {k}.0" for k in range(n))
    return f"def f(float(N) A, int32(N) I) -> (O) {{ O(i) = {chain} ? A(i) : -A(i) }}"


def statements(n: int) -> str:
    lines = "\n".join(f"T{k + 1}(i) = T{k}(i) + A(i)" for k in range(n))
    return f"def f(float(N) A, int32(N) I) -> (O) {{ T0(i) = A(i) {lines} O(i) = T{n}(i) }}"


def reductions(n: int) -> str:
    lines = "\n".join(f"T{k + 1}(i) = T{k}(i) S{k} +=! T{k}(j) * A(j)" for k in range(n))
    total = " + ".join(f"S{k}" for k in range(n))
    head = "def f(float(N) A, int32(N) I) -> (O)"
    return f"{head} {{ T0(i) = A(i) {lines} O(i) = T{n}(i) + {total} }}"


def kernel(text: str) -> Kernel:
    defined = tc.define(text, tune="off")
    assert isinstance(defined, Kernel)
    return defined


def agrees(text: str, *, backwards: bool = True) -> None:
    """Hold a kernel against the reference, and its gradient against the gradient's."""
    k = kernel(text)
    args = [np.linspace(-0.5, 1, 7, dtype=np.float32), np.arange(7, dtype=np.int32)[::-1].copy()]
    out = k(*args)
    (expected,) = evaluate(k.variant().checked, args)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    if backwards:
        _, pull = k.vjp(*args)
        assert np.isfinite(pull(np.ones(7, np.float32))).all()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(long_sum(330), marks=pytest.mark.wide),
        pytest.param(choices(190), marks=pytest.mark.deep),
        pytest.param(arms(190), marks=pytest.mark.deep),
        pytest.param(arms_of_two(190), marks=pytest.mark.wide),
        pytest.param(gathers(190), marks=pytest.mark.wide),
        pytest.param(conditions(330), marks=pytest.mark.wide),
    ],
    ids=["sum", "choices", "arms", "arms of two", "gathers", "conditions"],
)
def test_what_the_language_allows_compiles_and_goes_back(text: str) -> None:
    agrees(text)


@pytest.mark.wide
@pytest.mark.parametrize("text", [long_sum(2000), statements(400)], ids=["sum", "statements"])
def test_a_text_may_be_long(text: str) -> None:
    agrees(text, backwards=text.count("T1") == 0)


@sampled("text", [long_sum(9), gathers(60)], ids=["sum", "gathers"], keep=1)
def test_calls_from_deep_recursion_compile(text: str) -> None:
    def deep(frames: int) -> None:
        if frames:
            deep(frames - 1)
        else:
            agrees(text)

    deep(700)


@sampled("text", [gathers(20), choices(191)], ids=["gathers", "choices"], keep=1)
def test_calls_from_small_stacks_compile(text: str) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            agrees(text)
        except BaseException as error:
            errors.append(error)
            raise

    size = threading.stack_size(128 << 10)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(size)
    thread.join()
    assert not errors


def test_no_emitted_statement_is_longer_than_a_bound() -> None:
    text = kernel(long_sum(300)).text({"N": 40})
    code = text[text.index("*/") :]
    assert max(line.count(" + ") for line in code.splitlines()) <= LONGEST + 4


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count the calls of Python functions in this thread and in those that it starts."""
    stack._stacks.end_idle()  # those that wait for work are counted by nobody
    count = [0]

    def profile(_: FrameType, event: str, __: object) -> None:
        count[0] += event == "call"

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def work_of(text: str, *, backwards: bool) -> dict[str, int]:
    """Return how many calls each step from text to C makes."""
    done: dict[str, int] = {}

    def step(name: str, work: Callable[[], Any]) -> Any:
        with counted() as count:
            result = work()
        done[name] = count[0]
        return result

    program = step("parse", lambda: parse(text))
    checked = step("check", lambda: check(program))
    if backwards:
        made = step("gradient", lambda: gradient(checked))
        checked = step("check of it", lambda: check(parse(made.text)))
    variant = step("program", lambda: Variant(Bound(checked, detect(), 1)))
    sizes = dict.fromkeys(checked.sizes, 1000)
    spec = spec_for(variant, sizes)
    config = step("config", lambda: variant.default_config(spec, sizes))
    args = (variant.program, spec, config, variant.machine, sizes, "f")
    unit = step("lower", lambda: compiler.lower(*args))
    step("emit", lambda: compiler.emit_c(unit))
    return done


@pytest.mark.parametrize(
    "backwards",
    [False, pytest.param(True, marks=pytest.mark.wide)],
    ids=["forward", "backward"],
)
@pytest.mark.parametrize(
    ("text", "n"),
    [
        (long_sum, 70),
        pytest.param(choices, 40, marks=pytest.mark.deep),
        pytest.param(gathers, 40, marks=pytest.mark.wide),
        pytest.param(arms, 30, marks=pytest.mark.deep),
        pytest.param(arms_of_two, 30, marks=pytest.mark.wide),
        pytest.param(conditions, 60, marks=pytest.mark.wide),
    ],
    ids=["sum", "choices", "gathers", "arms", "arms of two", "conditions"],
)
def test_twice_the_text_is_twice_the_work(
    text: Callable[[int], str], n: int, backwards: bool
) -> None:
    lark_parser()  # built at the first use
    once, twice = (work_of(text(k), backwards=backwards) for k in (n, 2 * n))
    for name, calls in once.items():
        assert twice[name] <= 2.25 * calls + 2000, f"{name}: {calls} calls, then {twice[name]}"


def test_a_condition_stands_once_in_the_gradient() -> None:
    two, many = (gradient(check(parse(arms(k)))).text for k in (2, 12))
    assert "A(i) < 0.0 ? d_O(i) * 0.5 : A(i) < 1.0 ? d_O(i) * 1.5 : 2.0 * d_O(i) * A(i)" in two
    assert many.count("<") == 12
    assert gradient(check(parse(conditions(40)))).text.count("> 39.0") == 1


@pytest.mark.parametrize(
    ("text", "n", "backwards"),
    [
        pytest.param(statements, 40, False, marks=pytest.mark.wide),
        # past the longest run that is tried as one group: all read A once T is seen through
        pytest.param(reductions, 80, False, marks=pytest.mark.wide),
        # past the longest run that is tried as one group, where each has all 23 that follow it
        pytest.param(statements, 100, True, marks=pytest.mark.wide),
        (statements, 15, False),
    ],
    ids=["statements", "reductions", "gradient", "some"],
)
def test_twice_the_statements_are_twice_the_work(
    text: Callable[[int], str], n: int, backwards: bool
) -> None:
    lark_parser()
    once, twice = (work_of(text(k), backwards=backwards) for k in (n, 2 * n))
    for name in ("lower", "emit") if backwards else ():  # groups of up to 24 sums grow until then
        del once[name]
    for name, calls in once.items():
        assert twice[name] <= 2.3 * calls + 2000, f"{name}: {calls} calls, then {twice[name]}"
