"""Numbers of expressions, and what is kept by them."""

from __future__ import annotations

from tcdsl.codegen.program.numbers import Numbers
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64


def doubled(name: str) -> typed.Expr:
    i = typed.IndexValue(name, INT64)
    return typed.Binary("+", i, i, INT64)


def test_a_fact_is_worked_out_once_for_equal_expressions_and_by_its_name() -> None:
    numbers, made = Numbers(), list[str]()

    def fact(name: str, e: typed.Expr) -> str:
        def make() -> str:
            made.append(name)
            return name

        return numbers.fact(name, e, make)

    assert [fact("a", doubled("i")), fact("a", doubled("i")), fact("b", doubled("i"))] == [
        "a",
        "a",
        "b",
    ]
    fact("a", doubled("j"))
    assert made == ["a", "b", "a"]
