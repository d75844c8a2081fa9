"""Outputs that are written over what is added to sums of products."""

from __future__ import annotations

import pytest

from tcdsl.codegen.program.inplace import inplace_pairs
from tcdsl.codegen.program.ssa import program_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse


@pytest.mark.parametrize("value", ["O(m,n) + c(m,n)", "c(m,n) * 2"])
def test_what_is_read_behind_a_sum_of_products_keeps_its_memory(value: str) -> None:
    # The output has parts of long sums while some of it is still to be read.
    text = f"""def f(float(M,K) A, float(K,N) B, float(M,N) c) -> (R, s) {{
        O(m,n) +=! A(m,k) * B(k,n)
        R(m,n) = {value}
        s(m) +=! O(m,n)
    }}"""
    assert inplace_pairs(program_of(check(parse(text)))) == ()
