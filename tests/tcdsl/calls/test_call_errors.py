"""Whatever a call is given: its error is a TCError, and the built-in a Python user would catch."""

from __future__ import annotations

import array
import contextlib
import decimal
import fractions
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tcdsl as tc
from tcdsl.grammar.text.errors import AllocationError, NumberError, ShapeError, TCTypeError

pytestmark = pytest.mark.cc

TEXT = """
def axpy<T>(T(N) A, T a, int8 n) -> (B) { B(i) = a * A(i) + T(n) }
def head(float(N,M) A, int32 n, bool flag) -> (S, C) {
  S(i) +=! A(i, j) where j in 0:n
  C(i, j) = flag ? A(i, j) : 0
}
def every<K=2>(float(N) A, uint64 seed) -> (B) { B(i) = A(K * i) + rand(seed, i) where i in 0:N/K }
def table(float(N) A, float(M) B) -> (C) { C(i, j) = A(i) + B(j) }
def twice(float(N) A, float(M) B) -> (S) {
  T(i, j) = A(i) * B(j)
  U(i, j) = T(i, j) * T(i, j)
  V(i) max=! U(i, j)
  S(j) +=! T(i, j) / V(i)
}
def total(float(...) A) -> (s) { s +=! A(...) }
def grown(float(N) A) -> (B) { B(2000000000 * i) = A(i) }
"""
NAMES = ("axpy", "head", "every", "table", "total")


@pytest.fixture(scope="module")
def k() -> Any:
    return tc.define(TEXT, tune="off")


def full(*shape: int) -> Any:
    return np.broadcast_to(np.float32(1), shape)


# ---- numbers


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (128, "argument 'n' is 128, outside of int8: it holds -128 to 127"),
        (-129, "argument 'n' is -129, outside of int8"),
        (np.int64(200), "argument 'n' is 200, outside of int8"),
        (np.array(200), "argument 'n' is 200, outside of int8"),
        (2**70, f"argument 'n' is {2**70}, outside of int8"),
        (10**400, "argument 'n' is of 1329 bits, outside of int8"),
    ],
)
def test_an_integer_outside_of_its_type_names_the_parameter(k: Any, n: Any, text: str) -> None:
    a = np.ones(3)
    for _ in range(2):
        k.axpy(a, 2.0, 3)
        with pytest.raises((NumberError, TCTypeError)) as error:
            k.axpy(a, 2.0, n)
        assert text in str(error.value)
    assert issubclass(NumberError, OverflowError)


def test_numbers_of_other_kinds(k: Any) -> None:
    a = np.ones(3)
    np.testing.assert_array_equal(k.axpy(a, 2**70, True), np.full(3, 2.0**70 + 1))
    with pytest.raises(NumberError, match="'a' is an integer of 1329 bits, beyond float64"):
        k.axpy(a, 10**400, 1)
    for bad in (np.nan, np.inf, -np.inf, 2.0):
        with pytest.raises(
            TCTypeError, match="expected n of type int8, got a number of type float"
        ):
            k.axpy(a, 1.0, bad)
    other: list[Any] = [
        None,
        "1",
        b"1",
        1j,
        [1],
        decimal.Decimal(1),
        fractions.Fraction(1),
        object(),
    ]
    for bad in other:
        with pytest.raises(TCTypeError, match="'n'"):
            k.axpy(a, 1.0, bad)


# ---- sizes


def test_an_output_beyond_all_memory_is_named_with_its_bytes(k: Any) -> None:
    for rows, columns in ((1 << 40, 1 << 20), (1 << 40, 1 << 40), (1 << 48, 1 << 48)):
        with pytest.raises(AllocationError) as error:
            k.table(full(rows), full(columns))
        size = 4 * rows * columns
        assert str(error.value) == (
            f"table: no memory for output 'C' of shape (N, M) = ({rows}, {columns}): {size} bytes"
        )
    assert issubclass(AllocationError, MemoryError)


def test_so_is_a_temporary(k: Any) -> None:
    with pytest.raises(AllocationError, match=r"twice: no memory for '\w+' of shape .* bytes"):
        k.twice(full(1 << 32), full(1 << 32))


def test_memory_that_ends_in_a_known_form_is_an_error_of_ours(
    k: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    a, b = full(1 << 13), full(1 << 13)
    k.table(a, b)
    tc.empty_cache()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + (100 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        with pytest.raises(AllocationError, match=r"output 'C' .*: 268435456 bytes"):
            k.table(a, b)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert k.table(a, b).shape == (1 << 13, 1 << 13)


def test_sizes_that_repeat_without_end_are_served(k: Any) -> None:
    assert k.head(full(1 << 3, 1 << 20), 0, True, out=None).S.tolist() == [0] * 8
    assert k.table(full(0), full(1 << 40)).shape == (0, 1 << 40)


def test_more_operands_than_a_kernel_takes() -> None:
    params = ", ".join(f"float a{i}" for i in range(600))
    with pytest.raises(TCTypeError, match="601 parameters and returns, a kernel has at most 512"):
        tc.define(f"def f({params}) -> (O) {{ O = a0 }}", tune="off")
    params = ", ".join(f"float a{i}" for i in range(511))
    f: Any = tc.define(f"def f({params}) -> (O) {{ O = a0 + a510 }}", tune="off")
    assert f(*range(511)) == 510


# ---- arguments and outputs


@pytest.mark.parametrize(
    "out",
    [
        7,
        7.0,
        "out",
        [],
        (),
        (None,),
        [np.zeros(3)] * 2,
        {},
        {"B": np.zeros(3)},
        np.float64(3),
        object,
    ],
)
def test_what_is_no_output(k: Any, out: Any) -> None:
    with pytest.raises(tc.TCError):
        k.axpy(np.ones(3), 1.0, 1, out=out)
    with pytest.raises(tc.TCError):
        k.head(np.ones((2, 3), np.float32), 1, True, out=out)


@pytest.mark.parametrize("out", [7, np.int64(7), "out", [[7]]])
def test_an_output_is_memory_that_the_caller_keeps(out: Any) -> None:
    count = tc.define("def count(int64(N) A) -> (s) { s +=! A(i) }", tune="off")
    with pytest.raises(
        TCTypeError, match=r"^out 's': expected an array to write to, got "
    ) as caught:
        count(np.ones(3, np.int64), out=out)
    assert "numpy.empty(shape, dtype)" in str(caught.value)
    assert count(np.ones(3, np.int64), out=np.empty((), np.int64)) == 3


def test_a_misspelt_keyword_says_what_was_meant(k: Any) -> None:
    a = np.ones(3, np.float32)
    for name, cure in (("sed", "; did you mean 'seed'?"), ("x", "\n  its generics are K")):
        with pytest.raises(TCTypeError) as caught:
            k.every(a, **{name: 1})
        assert str(caught.value) == f"every(A, seed) has no parameter '{name}'{cure}"


def test_sizes_and_ranks_are_integers(k: Any) -> None:
    with pytest.raises(TCTypeError, match=r"^table: expected an integer for the size M, got '4'$"):
        k.table.flops(N=3, M="4")
    with pytest.raises(TCTypeError, match=r"^table: expected an integer for the size N, got 3\.5$"):
        k.table.output_shapes(N=3.5, M=4)
    assert k.table.output_shapes(N=np.int64(3), M=4) == {"C": (3, 4)}
    for rank in ("2", -1, 1.0, True):
        with pytest.raises(TCTypeError, match=r"^total: expected a number of dimensions from 0 on"):
            k.total.with_rank(rank)


def test_an_unknown_attribute_is_one_that_python_can_compare(k: Any) -> None:
    for of, name in ((k.table, "autotun"), (k, "tabel")):
        with pytest.raises(AttributeError) as caught:
            getattr(of, name)
        assert (caught.value.name, caught.value.obj) == (name, of)


def test_the_wrong_number_of_arguments(k: Any) -> None:
    a = np.ones(3)
    for args, named in (((), {}), ((a,) * 9, {}), ((a, 1, 1), {"A": a}), ((a, 1, 1), {"q": 1})):
        with pytest.raises(TCTypeError):
            k.axpy(*args, **named)
    with pytest.raises(ShapeError):
        k.axpy(np.ones((3, 3)), 1, 1)


# ---- anything


class Hostile:
    """Every question raises."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __index__(self) -> int:
        raise ZeroDivisionError

    __float__ = __array__ = __dlpack__ = __len__ = __hash__ = __index__

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError


class Claims(Hostile):
    """Says that it has memory."""

    def __dlpack_device__(self) -> Any:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return 7


DTYPES = ("f4", "f8", "i1", "i8", "u8", "?", "c8", "O", ">f4", "U3", "S2", "M8[s]", "g", "f2")
numbers = (
    st.integers()
    | st.floats()
    | st.booleans()
    | st.complex_numbers()
    | st.sampled_from([10**400, -(2**63), 2**63, 2**64, np.float16(1), np.True_, np.longdouble(1)])
)
arrays = st.builds(
    lambda shape, dtype, step: np.zeros(shape, dtype)[..., ::step],
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.sampled_from(DTYPES),
    st.sampled_from([1, 2, -1]),
)
oddities = st.sampled_from(
    [
        None, "x", b"x", [1.0], (1.0,), {}, {1}, range(3), object(), object, np.ndarray, np.float32,
        Claims, iter([1]), memoryview(b"abc"), array.array("f", [1, 2]),
        np.ma.masked, np.ma.zeros(3), np.zeros(3, ml_dtypes.bfloat16), np.zeros((), "f4"),
        np.zeros(3, [("a", "f4")]), np.zeros(3, np.void), full(1 << 40),
        np.zeros(3).view(np.memmap),
        np.lib.stride_tricks.as_strided(np.zeros(1), (0, 3), (3, 7)),
        np.zeros(17, "u1")[1:].view("f4"), NotImplemented,
        decimal.Decimal(1), np.datetime64("2020"), ..., slice(3), np.random.default_rng(0),
    ]
)  # fmt: skip
good = st.sampled_from([np.ones(3, np.float32), np.ones((2, 3), np.float32), 1, 2.5, np.ones(3)])
junk = good | numbers | arrays | oddities | st.builds(Hostile) | st.builds(Claims)


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=600, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(NAMES),
    st.lists(junk, max_size=4),
    st.dictionaries(st.sampled_from(["out", "outputs", "A", "n", "K", "T", "q"]), junk, max_size=2),
)
def test_a_call_gives_a_result_or_an_error_of_ours(
    k: Any, name: str, args: list[Any], named: dict[str, Any]
) -> None:
    with contextlib.suppress(tc.TCError):
        k[name](*args, **named)


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["axpy", "head"]), st.integers(0, 2), junk, st.none() | junk)
def test_so_does_one_with_a_single_fault(k: Any, name: str, at: int, bad: Any, out: Any) -> None:
    x = np.ones((2, 3), np.float32)
    args: list[Any] = [x[0], 2, 1] if name == "axpy" else [x, 2, True]
    args[at] = bad
    with contextlib.suppress(tc.TCError):
        k[name](*args, out=out)


def test_an_array_of_another_type_names_the_conversion(k: Any) -> None:
    with pytest.raises(TCTypeError) as error:
        k.head(np.ones((2, 3)), 3, True)
    assert str(error.value) == (
        "head(A, n, flag): expected A of type float32, got float64\n"
        "  declared float(N,M); pass A.astype('float32'), in torch A.to(torch.float32)"
    )
    assert k.head(np.ones((2, 3)).astype("float32"), 3, True).S.tolist() == [3, 3]


def test_a_float_for_an_integer_says_what_to_pass(k: Any) -> None:
    with pytest.raises(TCTypeError, match=r"got a number of type float64\n  pass an integer$"):
        k.axpy(np.ones(3), 1.0, 2.5)


@pytest.mark.parametrize(
    ("text", "got", "cure"),
    [
        (b"def f(float(N) A) -> (B) { B(i) = A(i) }", "got bytes", "value.decode()"),
        (None, "got NoneType", ""),
        (3, "got int", ""),
    ],
)
def test_what_is_no_text_is_not_defined(text: Any, got: str, cure: str) -> None:
    with pytest.raises(TCTypeError, match="expected definitions as a str or a path") as error:
        tc.define(text)
    assert got in str(error.value)
    assert cure in str(error.value)


def test_several_definitions_are_called_by_name(k: Any) -> None:
    with pytest.raises(TCTypeError, match=r"it has axpy, head, every, .*\n  call one .* T\.name"):
        k(np.ones(3))


@pytest.mark.parametrize("what", [TEXT, tc.define(TEXT, tune="off"), None])
def test_only_a_kernel_has_a_gradient(what: Any) -> None:
    with pytest.raises(TCTypeError, match="expected a kernel to differentiate, got"):
        tc.grad(what)


def test_a_setting_given_at_a_call_says_where_it_belongs(k: Any) -> None:
    a = np.ones((2, 3), np.float32)
    with pytest.raises(TCTypeError, match=r"no parameter 'copy'.*\n.*head\.with_grad\(copy="):
        k.head.vjp(a, 2, True, copy=False)
    with pytest.raises(TCTypeError, match=r"'checkpoint'.*\n.*head\.with_grad\(checkpoint="):
        k.head.vjp(a, 2, True, checkpoint=8)
    with pytest.raises(TCTypeError, match=r"'threads'.*\n.*tcdsl\.define\(text, threads="):
        k.head(a, 2, True, threads=1)
    assert k.head.with_grad(checkpoint=8)(a, 2, True)[0].S.tolist() == [2, 2]


def test_too_few_adjoints_may_be_given_by_name(k: Any) -> None:
    a = np.ones((2, 3), np.float32)
    _, pull = k.head.vjp(a, 2, True)
    with pytest.raises(TCTypeError) as error:
        pull(np.ones(2, np.float32))
    assert str(error.value) == (
        "d_head: expected 2 adjoints (d_S, d_C), got 1\n"
        "  give some by name, as d_S=...: those left out are zero"
    )
    assert pull(d_S=np.ones(2, np.float32)).tolist() == [[1, 1, 0], [1, 1, 0]]


def test_one_argument_is_counted_as_one(k: Any) -> None:
    with pytest.raises(TCTypeError, match=r"misses 'B': 1 argument was given$"):
        k.table(np.ones(3, np.float32))
