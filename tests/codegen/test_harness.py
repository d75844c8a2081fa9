"""The harness that runs executables by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.grammar.types.dtypes import BY_NAME
from tests.codegen.harness import Case, differential, problem


@pytest.mark.cc
def test_types_of_one_text_have_executables_of_their_own() -> None:
    text = "def f<T>(T(N) A) -> (O) { O(i) = A(i) + A(i) }"
    numbers = (np.arange(9, dtype=dtype) for dtype in (np.float64, np.int8, np.float32))
    differential([Case(problem(text, a, T=BY_NAME[a.dtype.name]), exact=False) for a in numbers])
