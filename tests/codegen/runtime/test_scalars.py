"""Rank-0 parameters by value."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tcdsl.codegen import runtime

pytestmark = pytest.mark.cc

TYPES: tuple[Any, ...] = (
    np.bool_, np.int8, np.uint64, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64,
)  # fmt: skip
GOOD = (True, -128, 2**64 - 2**11, -(2**53), 0.1, 0.1, 0.1, 0.1)


def _launcher(kernels: Any) -> Any:
    return kernels.launcher(
        "scalars",
        8,
        lambda *_: ((np.dtype(np.float64), (8,), None),),
        lambda *_: (),
        scalars=dict(enumerate(TYPES)),
    )


def _rounded(values: tuple[Any, ...]) -> list[float]:
    return [float(t(v)) for t, v in zip(TYPES, values, strict=True)]


def test_python_numbers_are_rounded_to_the_type(kernels: Any) -> None:
    k = _launcher(kernels)
    for _ in range(2):
        np.testing.assert_array_equal(k(*GOOD), _rounded(GOOD))
    assert len(kernels.misses) == 1


def test_numpy_scalars_and_0d_arrays_are_numbers(kernels: Any) -> None:
    k = _launcher(kernels)
    scalars = tuple(t(v) for t, v in zip(TYPES, GOOD, strict=True))
    arrays = tuple(np.array(s) for s in scalars)
    for args in (scalars, arrays, scalars, arrays, GOOD):
        np.testing.assert_array_equal(k(*args), _rounded(GOOD))
    assert len(kernels.misses) == 3


@pytest.mark.parametrize(
    ("position", "value"), [(1, 128), (1, -129), (2, -1), (2, 2**64), (3, 2**63), (3, -(2**63) - 1)]
)
def test_an_integer_that_does_not_fit_is_the_slow_paths(
    kernels: Any, position: int, value: int
) -> None:
    k = _launcher(kernels)
    k(*GOOD)
    args = (*GOOD[:position], value, *GOOD[position + 1 :])
    with pytest.raises(ValueError, match="does not fit"):
        k(*args)
    assert len(kernels.misses) == 2
    np.testing.assert_array_equal(k(*GOOD), _rounded(GOOD))


def test_what_is_no_number_is_the_slow_paths(kernels: Any) -> None:
    k = _launcher(kernels)
    for x in ("1", None, 1j, [1]):
        with pytest.raises(ValueError, match="does not fit"):
            k(*GOOD[:7], x)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.floats(allow_nan=True, allow_infinity=True) | st.floats(width=16) | st.floats(-1e-4, 1e-4)
)
@example(2.0**981)
@example(-(2.0**1023))
@example(65519.99)
@example(65520.0)
@example(float("nan"))
def test_halves_round_as_numpy_does(kernels: Any, value: float) -> None:
    k = _launcher(kernels)
    with np.errstate(over="ignore"):
        args = (*GOOD[:4], value, value, value, value)
        np.testing.assert_array_equal(k(*args), _rounded(args))


def test_a_scalar_in_a_bound_is_part_of_the_form(kernels: Any) -> None:
    k = kernels.launcher(
        "iota",
        1,
        lambda n: ((np.dtype(np.int64), (int(n),), None),),
        lambda n: (),
        scalars={0: np.int64},
        bounds=(0,),
    )
    for _ in range(3):
        for n in (3, 0, 5, np.int32(7), True):
            np.testing.assert_array_equal(k(n), np.arange(int(n)))
    assert len(kernels.misses) == 5
    with pytest.raises(ValueError, match="does not fit"):
        k(2.0)


def test_an_entry_for_several_values_plans_for_each(kernels: Any) -> None:
    out = np.full(9, -1)
    form = (out.dtype, out.shape, None)
    by_value = (np.dtype(np.int64),)
    entry = runtime.Entry(kernels.address("iota"), (), by_value, (form,), bounds=(0,))
    k = runtime.Launcher("iota", ("n",), ("o",), print, print)
    for n in (3, 5, 3, 9):
        k.install(entry, (n,), (out,))
    for n in (9, 3, 5, 5, 3):
        out[:] = -1
        assert k(n, out=out) is out
        np.testing.assert_array_equal(out, [*range(n), *[-1] * (9 - n)])


def test_many_values_of_a_scalar_in_a_bound_are_found_at_once(kernels: Any) -> None:
    k = kernels.launcher(
        "iota",
        1,
        lambda n: ((np.dtype(np.int64), (int(n),), None),),
        lambda n: (),
        scalars={0: np.int64},
        bounds=(0,),
    )
    for _ in range(2):
        for n in range(500):
            assert len(k(n)) == n
    assert len(kernels.misses) == 500
