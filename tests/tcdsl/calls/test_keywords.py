"""Calls by keyword: generics, parameters by name and outputs, found by the launcher."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import TCError, TCTypeError
from tcdsl.grammar.types.dtypes import BY_NAME

pytestmark = pytest.mark.cc

EVERY = "def every<S=2, R=0>(float(N) A) -> (B) { B(i) = A(S * i + R) where i in 0:3 }"
CAST = "def cast<T, S=1>(float(N) A) -> (B) { B(i) = T(A(S * i)) where i in 0:2 }"
A = np.arange(40, dtype=np.float32)


class Watched:
    """A kernel that counts the calls that enter Python."""

    def __init__(self, text: str) -> None:
        self.slow = 0
        counted = self

        class Kernel(tc.Kernel):
            def _call_slowly(self, /, *args: Any, **keywords: Any) -> Any:
                counted.slow += 1
                return super()._call_slowly(*args, **keywords)

        made = tc.define(text)
        assert isinstance(made, tc.Kernel)
        self.kernel = Kernel(made.session, made.definition)

    def is_fast(self, *args: Any, **keywords: Any) -> bool:
        """Whether a second call with these does not enter Python."""
        self.kernel(*args, **keywords)
        slow, calls = self.slow, self.kernel.calls
        self.kernel(*args, **keywords)
        assert self.kernel.calls == calls + 1
        return self.slow == slow


def test_a_call_with_a_generic_does_not_decide_what_one_without_means() -> None:
    every = tc.define(EVERY)
    for _ in range(3):
        assert every(A, S=3).tolist() == [0, 3, 6]
        assert every(A).tolist() == [0, 2, 4]
        assert every(A, R=1).tolist() == [1, 3, 5]
        assert every(A, S=1).tolist() == [0, 1, 2]
    cast = tc.define(CAST)
    for _ in range(3):
        assert cast(A, T="float64").dtype == np.float64
        with pytest.raises(TCError, match="'T'"):
            cast(A)


def test_values_that_alternate_are_found() -> None:
    every = Watched(EVERY)
    values = [*itertools.product((1, 2, 5), (0, 3))]
    for s, r in values:
        every.kernel(A, S=s, R=r)
    slow = every.slow
    for s, r in values * 2:
        assert every.kernel(A, S=s, R=r).tolist() == [r, s + r, 2 * s + r]
        assert every.kernel(A, R=r, S=s).tolist() == [r, s + r, 2 * s + r]
        assert every.kernel(A=A, R=np.int32(r), S=s).tolist() == [r, s + r, 2 * s + r]
    assert every.slow == slow


def test_outputs_and_generics_come_together() -> None:
    every = Watched(EVERY)
    out = np.empty(3, np.float32)
    assert every.is_fast(A, S=3, out=out)
    assert out.tolist() == [0, 3, 6]
    assert every.is_fast(A, outputs=out, S=4)
    assert every.is_fast(A, S=4, out=None)
    slow = every.slow
    assert every.kernel(A, out=out, S=3) is out
    assert out.tolist() == [0, 3, 6]
    assert every.kernel(out=out, S=4, A=A) is out
    assert out.tolist() == [0, 4, 8]
    assert every.slow == slow
    with pytest.raises(TCTypeError, match="mean the same"):
        every.kernel(A, S=4, out=out, outputs=out)


@pytest.mark.parametrize("of", [lambda n: n, np.dtype, BY_NAME.get], ids=["str", "dtype", "ours"])
def test_types_by_keyword_alternate(of: Callable[[str], Any]) -> None:
    cast = Watched(CAST)
    for name in ("int32", "float64", "int32", "float64"):
        for step in (1, 2):
            found = cast.kernel(A, T=of(name), S=step)
            assert (found.dtype, found.tolist()) == (np.dtype(name), [0, step])


def test_types_that_last_are_found_and_others_still_right() -> None:
    cast = Watched(CAST)
    assert cast.is_fast(A, T="int32", S=2)
    assert cast.is_fast(A, T=np.float64)
    assert cast.is_fast(A, T=BY_NAME["float16"])
    made = "".join(["int", "16"])  # no string of a program
    assert cast.kernel(A, T=made).dtype == np.int16
    assert cast.kernel(A, T="int16").dtype == np.int16

    class Chosen:
        dtype = np.dtype(np.int32)

    chosen: Any = Chosen()
    assert cast.kernel(A, T=chosen).dtype == np.int32
    chosen.dtype = np.dtype(np.float64)
    assert cast.kernel(A, T=chosen).dtype == np.float64


def test_wrong_values_are_refused_after_right_ones() -> None:
    every, cast = Watched(EVERY), Watched(CAST)
    assert every.is_fast(A, S=1)
    assert cast.is_fast(A, T="int32")
    for wrong in (True, np.True_, 1.0, np.float32(1), "1", None):
        with pytest.raises(TCTypeError, match="expected an integer for generic 'S'"):
            every.kernel(A, S=wrong)
    with pytest.raises(TCTypeError, match="expected a scalar type"):
        cast.kernel(A, T=3)
    with pytest.raises(TCError):
        every.kernel(A, S=2**70)
    with pytest.raises(TCTypeError, match="has no parameter 'Q'"):
        every.kernel(A, Q=1)
    with pytest.raises(TCTypeError, match="'A' is given twice"):
        every.kernel(A, A=A, S=1)
    with pytest.raises(TCTypeError, match="misses 'A'"):
        every.kernel(S=1)
    with pytest.raises(TCError):  # out of A
        every.kernel(A, S=100)
    assert every.kernel(A, S=1).tolist() == [0, 1, 2]


def test_parameters_go_by_name_in_any_order() -> None:
    sub = Watched("def sub(float(N) a, float(N) b) -> (y) { y(i) = a(i) - b(i) }")
    b = np.ones(40, np.float32)
    assert sub.is_fast(a=A, b=b)
    slow = sub.slow
    for found in (sub.kernel(b=b, a=A), sub.kernel(A, b=b), sub.kernel(A, b)):
        assert (found == A - 1).all()
    assert (sub.kernel(b=A, a=b) == 1 - A).all()
    assert sub.slow == slow
    assert (sub.kernel(**{"".join(["", "b"]): b, "a": A}) == A - 1).all()


def test_names_of_a_text_come_before_those_of_outputs() -> None:
    k = Watched(
        "def k<outputs=1>(float(N) a, float(N) out) -> (y) { y(i) = a(i) - outputs * out(i) }"
    )
    b, y = np.ones(40, np.float32), np.empty(40, np.float32)
    assert k.is_fast(A, b, out=y)
    assert (y == A - 1).all()
    assert k.is_fast(A, out=b)
    assert k.is_fast(A, b, out=y, outputs=3)
    assert (y == A - 3).all()
    for _ in range(3):
        assert (k.kernel(A, out=b) == A - 1).all()
        assert (k.kernel(A, outputs=2, out=b) == A - 2).all()
    with pytest.raises(TCTypeError, match="expected an integer for generic 'outputs'"):
        k.kernel(A, b, outputs=y)


def test_many_generics_are_right() -> None:
    names = [f"G{i}" for i in range(40)]
    heads = ", ".join(f"{n}=0" for n in names)
    body = " + ".join(["A(i)", *names])
    text = f"def many<{heads}>(float(N) A) -> (B) {{ B(i) = {body} }}"
    many = tc.define(text)
    for _ in range(2):
        for i, value in ((0, 1), (30, 2), (31, 3), (39, 4)):
            assert many(A, **{names[i]: value})[0] == value
        assert many(A, G0=1, G39=5)[0] == 6
        assert many(A)[0] == 0


def test_the_table_of_forms_stays_bounded() -> None:
    add = Watched("def add<S=0>(float(N) A) -> (B) { B(i) = A(i) + S }")
    made = tc.define("def add(float(N) A) -> (B) { B(i) = A(i) + 0 }")
    assert isinstance(made, tc.Kernel)
    call = made.call(A)
    entry = call.entry(made._dispatch.executable_for(call))
    for value in range(9000):  # what a call installs, without 9000 compilations
        add.kernel.install(entry, (A,), None, (value,))
    assert add.kernel(A, S=7)[1] in (1, 8)  # the form given up by chance, or the one above
    for value in (10**6, 10**6 + 1):
        assert add.kernel(A, S=value)[0] == value
