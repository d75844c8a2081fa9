"""Rules of the language that the evaluator could get wrong, by hand-made examples."""

from __future__ import annotations

import numpy as np

from tcdsl.codegen.reference import evaluate
from tcdsl.grammar.check import check
from tcdsl.grammar.parser import parse


def test_a_statement_that_initialises_its_target_reads_it_as_it_was() -> None:
    checked = check(parse("def f(float(N) A) -> (O) { O(i) = 2 * A(i)  O(i) max=! O(i) + A(i) }"))
    a = np.array([1, -2, 3], np.float32)
    np.testing.assert_array_equal(evaluate(checked, [a])[0], 3 * a)
