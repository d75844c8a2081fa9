"""Whatever the text, the check gives a checked definition or a `TCError`."""

from __future__ import annotations

import json
import re
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcdsl.grammar.check.bind import bind
from tcdsl.grammar.check.definition import check, want_bounded
from tcdsl.grammar.text.errors import ShapeError, TCError, TCSyntaxError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.text.stack import stack_for
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.typed import CheckedDef
from tests.tiers import drawn, sampled

DATA = Path(__file__).parents[2] / "data"
TEXTS = [
    entry["tc"]
    for name in ("tc_catalog", "tc_negative")
    for entry in json.loads((DATA / f"{name}.json").read_text())
]
WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+(?:\.[0-9]*)?|[-+*/%<>=!&|?:]+|[(),{}]")
SPICE = re.findall(
    r"\S+",
    "N M i j k A O 0 1 2 -1 0.5 + - * / % < == && ( ) , ? : = += +=! max=! where in exists "
    "min max float int32 uint8 bool float16 exp abs pad rand inf nan A.0 A.-1 ... for",
)


def survives(text: str) -> CheckedDef | None:
    try:
        program = parse(text)
        return check(program, program.defs[-1].name)
    except TCError:
        return None


@st.composite
def mutated(draw: st.DrawFn) -> str:
    words = WORDS.findall(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 4))):
        if not words:
            break
        at = draw(st.integers(0, len(words) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                words[at] = draw(st.sampled_from(SPICE))
            case 1:
                words.insert(at, draw(st.sampled_from(SPICE)))
            case 2:
                del words[at]
            case _:
                other = draw(st.integers(0, len(words) - 1))
                words[at], words[other] = words[other], words[at]
    return " ".join(words)


@drawn(50, 300, mutated())
def test_mutated_programs_check_or_raise_a_tcerror(text: str) -> None:
    survives(text)


@settings(max_examples=100)
@given(st.lists(mutated(), min_size=2, max_size=3), st.data())
def test_several_definitions_that_call_each_other(texts: list[str], data: st.DataObject) -> None:
    names = re.findall(r"def (\w+)", " ".join(texts))
    callee = data.draw(st.sampled_from(names or ["f"]))
    call = f" y = {callee} ( A , B ) "
    survives(" ".join(text.replace("{", "{" + call, 1) for text in texts))


@settings(max_examples=60)
@given(
    st.sampled_from([x for x in TEXTS if x.startswith("def")]),
    st.lists(st.lists(st.integers(0, 5), max_size=4).map(tuple), max_size=4),
)
def test_any_shapes_bind_or_raise_a_tcerror(text: str, shapes: list[Any]) -> None:
    definition = survives(text)
    if definition is None:
        return
    try:
        sizes = bind(definition, shapes, scalars=dict.fromkeys(definition.scalars, 3))
    except (ShapeError, TCError):
        return
    assert list(sizes) == list(definition.sizes)


LONG, QUITE_LONG = 10_000, 3_000


@pytest.mark.wide
@sampled(
    "value",
    [
        " + ".join(["A(i)"] * LONG),
        "A(i)" + " * 2" * QUITE_LONG,
        "1.0 + " * QUITE_LONG + "A(i)",
        "sqrt(2.0) + " * QUITE_LONG + "double(A(i))",
        "(" + "A(i) > 0.0 && " * QUITE_LONG + "A(i) < 1.0) ? A(i) : 0",
        "A(i" + " + 0" * QUITE_LONG + ")",
        " + ".join(f"A(i + {k})" for k in range(1000)),
    ],
    ids=["sum", "product", "literals", "builtins", "conjunction", "subscript", "stencil"],
    keep=3,
)
def test_a_chain_of_operators_may_be_as_long_as_one_likes(value: str) -> None:
    definition = survives(f"def f(float(N) A) -> (O) {{ O(i) = {value} }}")
    assert definition is not None
    assert isinstance(definition.body[0], t.Statement)


@pytest.mark.parametrize(
    "value",
    [
        "(" * 190 + "A(i)" + ")" * 190,
        "-" * 190 + "A(i)",
        "i > 0 ? " * 190 + "A(i)" + " : 0.0" * 190,
        "exp(" * 190 + "A(i)" + ")" * 190,
        "A(int32(" * 90 + "i" + "))" * 90,
        "I(" * 199 + "i" + ")" * 199,
    ],
    ids=["parentheses", "signs", "conditions", "calls", "casts and gathers", "gathers"],
)
def test_what_the_parser_lets_through_is_not_too_deep(value: str) -> None:
    text = f"def f(float(N) A, int32(N) I) -> (O) {{ O(i) = {value} where i in 0:N }}"
    assert survives(text) is not None


def test_the_stack_of_the_caller_does_not_matter() -> None:
    value = "I(" * 199 + "i" + ")" * 199
    program = parse(f"def f(int32(N) I) -> (O) {{ O(i) = {value} where i in 0:N }}")

    def deep(frames: int) -> CheckedDef:
        return deep(frames - 1) if frames else check(program)

    limit = sys.getrecursionlimit()
    assert deep(700).returns == check(program).returns
    assert sys.getrecursionlimit() == limit


def test_what_is_too_deep_for_any_stack_is_a_fault_of_the_text() -> None:
    def for_ever() -> None:
        for_ever()

    message = "'f' is deeper than the stack of Python"
    with pytest.raises(TCSyntaxError, match=message) as caught, stack_for("f"):
        for_ever()
    assert caught.value.diagnostics[0].code == "TC012"


def test_a_text_is_checked_on_a_small_stack() -> None:
    value = "I(" * 199 + "i" + ")" * 199
    text = f"def f(int32(N) I) -> (O) {{ O(i) = {value} where i in 0:N }}"
    found = []
    size = threading.stack_size(128 << 10)
    try:
        thread = threading.Thread(target=lambda: found.append(check(parse(text)).name))
        thread.start()
    finally:
        threading.stack_size(size)
    thread.join()
    assert found == ["f"]


def test_what_a_pass_raises_reaches_its_caller() -> None:
    with pytest.raises(TCSyntaxError) as caught:
        parse("def")
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[0] == "test_what_a_pass_raises_reaches_its_caller"


def test_calls_that_double_are_refused_before_work_is_spent_on_them() -> None:
    text = "def d0(float(N) A) -> (O) { O(i) = A(i) }\n" + "\n".join(
        f"def d{k + 1}(float(N) A) -> (O) {{ T = d{k}(A) O = d{k}(T) }}" for k in range(40)
    )
    with pytest.raises(TCError, match="more than 5000 statements after inlining"):
        want_bounded(parse(text))


@pytest.mark.parametrize(
    "clauses",
    [
        ", ".join(f"x{k} = x{k + 1} + x{k + 1}" for k in range(60)) + ", x60 = A(i)",
        ", ".join(f"x{k} = -x{k + 1}" for k in range(600)) + ", x600 = A(i)",
    ],
    ids=["exponential", "deep"],
)
def test_names_of_where_that_multiply_are_refused(clauses: str) -> None:
    with pytest.raises(TCError) as caught:
        check(parse(f"def f(float(N) A) -> (O) {{ O(i) = x0 where {clauses} }}"))
    assert caught.value.diagnostics[0].code == "TC130"


def test_polynomials_that_explode_are_given_up() -> None:
    sizes = ", ".join(f"float(N{k}) A{k}" for k in range(8))
    total = " + ".join(f"N{k}" for k in range(8))
    value = "A0(" + " * ".join([f"({total})"] * 30) + ")"
    definition = survives(f"def f({sizes}) -> (O) {{ O(i) = {value} where i in 0:3 }}")
    assert definition is not None
