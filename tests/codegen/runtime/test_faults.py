"""What goes wrong is said: by kernels, by callers of the runtime, by the build."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl.codegen import runtime
from tcdsl.grammar.text.errors import InternalError

pytestmark = pytest.mark.cc

F4 = np.dtype(np.float32)


@pytest.mark.parametrize("n", [8, 100_000])  # serial; in parallel
def test_a_subscript_out_of_bounds_raises(kernels: Any, two_threads: None, n: int) -> None:
    k = kernels.gather()
    a, i = np.arange(10, dtype=np.float32), np.zeros(n, np.int32)
    np.testing.assert_array_equal(k(a, i), np.zeros(n))
    for value in (10, -1):
        i[n // 2] = value
        with pytest.raises(IndexError, match=rf"tensor 0, dimension 0: {value} not in \[0, 10\)"):
            k(a, i)
    i[n // 2] = 9
    assert k(a, i)[n // 2] == 9
    assert kernels.misses == ["gather"]


def test_on_error_must_raise(kernels: Any) -> None:
    a, i = np.zeros(2, np.float32), np.full(1, 7, np.int32)
    forms = ((F4, (2,), None), (i.dtype, (1,), None))
    entry = runtime.Entry(kernels.address("gather"), (1, 2), forms, ((F4, (1,), None),))
    seen: list[Any] = []
    k = runtime.Launcher("g", ("a", "i"), ("o",), print, lambda *e: seen.append(e))
    with pytest.raises(InternalError, match="on_error returned"):
        k.run(entry, (a, i))
    assert seen == [(0, 0, 7, 2)]


def test_a_phase_or_a_plan_that_fails_is_an_internal_error(kernels: Any) -> None:
    k = runtime.Launcher("broken", (), ("o",), print, print)
    entry = runtime.Entry(kernels.address("broken"), (0,), (), ((F4, (), None),))
    with pytest.raises(InternalError, match="kernel broken failed: a phase returned 3"):
        k.run(entry, ())
    entry = runtime.Entry(kernels.address("broken"), (1,), (), ((F4, (), None),))
    with pytest.raises(InternalError, match="plan of an executable returned 1"):
        k.run(entry, ())


def test_an_executable_of_another_abi_is_refused(kernels: Any) -> None:
    with pytest.raises(InternalError, match="ABI 99"):
        runtime.Entry(kernels.address("other_abi"), (), (), ())
    with pytest.raises(ValueError, match="is 0"):
        runtime.Entry(0, (), (), ())


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"sizes": [1]}, TypeError, "expected a tuple"),
        ({"sizes": ("1",)}, TypeError, "int"),
        ({"params": (F4, (1, 2))}, TypeError, "an operand is a dtype or"),
        ({"params": (F4, (F4, 3, None))}, TypeError, "expected a tuple"),
        ({"params": ("f4",)}, TypeError, "an operand is a dtype or"),
        ({"params": (np.dtype(">f4"),)}, TypeError, "native byte order"),
        ({"params": (np.dtype("U3"),)}, TypeError, "native byte order"),
        ({"params": ((F4, (3, 4), (1,)),)}, ValueError, "shape and strides differ"),
        ({"params": ((F4, (-3,), None),)}, ValueError, "negative extent"),
        ({"params": ((F4, (1,) * 65, None),)}, ValueError, "64 dimensions"),
        ({"params": ((F4, (2**62,), None),)}, ValueError, "too large"),
        ({"params": ((F4, (2**33, 2**33), None),)}, ValueError, "too large"),
        ({"params": ((F4, (2, 2), (2**61, 2**61)),)}, ValueError, "too large"),
        ({"params": ((F4, (3, 3), (-(2**60), 2**60)),)}, ValueError, "too large"),
        ({"params": ((F4, (2**63,), None),)}, OverflowError, "int too"),
        ({"params": (F4,) * 600}, ValueError, "at most 512"),
        ({"returns": ((F4, (3,), (0,)),)}, ValueError, "stride 0"),
        ({"inplace": ((0, 9),)}, ValueError, "inplace is made of"),
        ({"inplace": (3,)}, TypeError, "expected a tuple"),
        ({"bounds": (0,)}, ValueError, "integer parameters"),
        ({"bounds": (0, 0, 0)}, ValueError, "integer parameters"),
        ({"bounds": 3}, TypeError, "expected a tuple"),
    ],
)
def test_a_wrong_entry_is_refused(kernels: Any, change: Any, error: Any, text: str) -> None:
    form = (F4, (3,), None)
    good: dict[str, Any] = {
        "sizes": (3,),
        "params": (form, form),
        "returns": (form,),
        "inplace": ((0, 0),),
    }
    runtime.Entry(kernels.address("add1"), **good)
    with pytest.raises(error, match=text):
        runtime.Entry(kernels.address("add1"), **{**good, **change})


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"params": "ab"}, TypeError, "expected a tuple"),
        ({"returns": ()}, ValueError, "1 return or more"),
        ({"params": ("a",) * 600}, ValueError, "at most 512"),
        ({"returns": ("a", "b")}, TypeError, "tuple type"),
        ({"returns": ("a", "b"), "result_type": list}, TypeError, "tuple type"),
    ],
)
def test_a_wrong_launcher_is_refused(change: Any, error: Any, text: str) -> None:
    good: dict[str, Any] = {
        "name": "k",
        "params": ("a",),
        "returns": ("o",),
        "slow": print,
        "on_error": print,
    }
    runtime.Launcher(**good)
    with pytest.raises(error, match=text):
        runtime.Launcher(**{**good, **change})


def test_a_launcher_that_was_not_initialised_says_so() -> None:
    k = runtime.Launcher.__new__(runtime.Launcher)
    with pytest.raises(TypeError, match="not initialised"):
        k(1)
    k.__init__("k", (), ("o",), print, print)  # type: ignore[misc]
    with pytest.raises(TypeError, match="initialised once"):
        k.__init__("k", (), ("o",), print, print)  # type: ignore[misc]


def test_what_slow_raises_comes_through() -> None:
    def slow(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError(f"{args} {kwargs}")

    k = runtime.Launcher("k", ("a",), ("o",), slow, print)
    with pytest.raises(ZeroDivisionError, match=r"\(1, 2\) \{'out': 3, 'x': 4\}"):
        k(1, 2, out=3, x=4)
    with pytest.raises(ZeroDivisionError, match=r"\(\) \{\}"):
        k()
