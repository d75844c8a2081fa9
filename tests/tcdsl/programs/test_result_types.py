"""Type variables that only a return has: given by keyword, from Python and in the language."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.codegen.reference.arithmetic import cast as converted
from tcdsl.grammar.text.errors import TCError, TCTypeError
from tcdsl.grammar.types.dtypes import ALL, BY_NAME

CAST = "def cast<R, T>(T(...) X) -> (R(...) Y) { Y(...) = R(X(...)) }"
VALUES = np.array([0, 1, 2.5, -3.7, 300, -1e6, 7e9, np.nan, np.inf])
PAIRS = [("float32", "float64"), ("float32", "int8")]
PAIRS += [(s.name, r.name) for s in ALL for r in ALL if (s.name, r.name) not in PAIRS]


@pytest.mark.cc
@pytest.mark.parametrize(
    "pairs", [PAIRS[:2], pytest.param(PAIRS[2:], marks=pytest.mark.wide)], ids=["two", "all"]
)
def test_a_cast_gives_the_type_it_is_asked_for(pairs: list[tuple[str, str]]) -> None:
    cast = tc.define(CAST, tune="off")
    for source, result in pairs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            x = converted(VALUES, BY_NAME[source])
            want = converted(x, BY_NAME[result])
        got = cast(x, R=result)
        assert got.dtype == numpy_dtype(BY_NAME[result])
        if result == "bfloat16":  # of which NumPy does not know that NaN is NaN
            got, want = got.astype(np.float32), want.astype(np.float32)
        np.testing.assert_array_equal(got, want, err_msg=f"{source} {result}")


@pytest.mark.cc
def test_types_by_keyword_stay_on_the_fast_path_and_go_into_derivatives() -> None:
    cast, x = tc.define(CAST, tune="off"), np.array([[1.5, -2.0]], np.float32)
    first = cast(x, R=np.float64)
    before = cast.calls
    np.testing.assert_array_equal(cast(x, R=np.float64), first)
    assert cast.calls == before + 1
    y, pull = cast.vjp(x, R=np.float64)
    assert y.dtype == np.float64
    np.testing.assert_array_equal(pull(np.array([[2.0, 3.0]])), np.array([[2, 3]], np.float32))
    assert cast.batched(X=0)(x, R="int16").dtype == np.int16
    with pytest.raises(TCTypeError, match=r"give it by keyword: cast\(..., R=float32\)"):
        cast(x)


@pytest.mark.cc
def test_calls_in_the_language_give_types_by_keyword() -> None:
    text = f"""{CAST}
    def sum<T>(float(N) A, T(N) B) -> (Y, Z) {{
      c = cast(A, R=T)
      d = cast(A, R=uint8)
      Y(i) = c(i) + B(i)
      Z(i) = d(i)
    }}"""
    a = np.array([1.5, 2.5], np.float32)
    y, z = tc.define_all(text, tune="off").sum(a, np.array([1e-9, 1.0]))
    np.testing.assert_array_equal(y, [1.5 + 1e-9, 3.5])
    np.testing.assert_array_equal(z, np.array([1, 2], np.uint8))
    assert z.dtype == np.uint8
    with pytest.raises(TCError, match=r"TC125.*the value of 'R=' is not a type"):
        tc.define_all(text.replace("R=T", "R=3")).sum(a, a)


@pytest.mark.wide
@pytest.mark.cc
def test_torchs_types_are_types() -> None:
    torch = pytest.importorskip("torch")
    tct = pytest.importorskip("tcdsl.torch")
    cast = tct.define(CAST, tune="off")
    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        y = cast(x, R=torch.float64)
        assert y.dtype == torch.float64
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(3))
    assert cast(x.detach(), R=torch.bfloat16).dtype == torch.bfloat16
