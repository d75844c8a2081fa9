"""Calls of kernels: values, outputs, sizes, layouts, errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import BoundsError, ShapeError, TCTypeError
from tcdsl.kernel import Kernel
from tests.tiers import sampled

pytestmark = pytest.mark.cc

ADD = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }"
MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
MOMENTS = """
def moments(float(B,N) X) -> (mean, var) {
  mean(b) +=! X(b, n) / N
  var(b) +=! (X(b, n) - mean(b)) * (X(b, n) - mean(b)) / N
}
"""


def kernel(text: str, **options: Any) -> Kernel:
    defined = tc.define(text, **options)
    assert isinstance(defined, Kernel)
    return defined


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def test_a_single_definition_is_callable_and_has_its_def() -> None:
    add = kernel(ADD)
    assert add.definition.name == "add"
    assert getattr(add, "add") is add  # noqa: B009 - a checker knows no such member
    with pytest.raises(AttributeError, match="no attribute or definition 'mul'; the text has add"):
        _ = add.mul
    np.testing.assert_array_equal(add(normal(5), normal(5)), 2 * normal(5))


def test_several_definitions_come_by_name() -> None:
    both = tc.define(ADD + MM)
    assert isinstance(both, tc.Definitions)
    assert [k.name for k in both] == ["add", "mm"]
    assert both["mm"] is both.mm
    with pytest.raises(AttributeError, match="no definition 'mul'; the text has add, mm"):
        _ = both.mul


def test_one_of_several_can_be_chosen() -> None:
    assert kernel(ADD + MM, name="mm").name == "mm"


def test_arguments_may_be_named() -> None:
    a, b = normal(3), normal(4)[1:]
    np.testing.assert_array_equal(kernel(ADD)(B=b, A=a), a + b)


@pytest.mark.parametrize("word", ["out", "outputs"])
def test_an_output_buffer_is_written_and_returned(word: str) -> None:
    c = np.empty(7, np.float32)
    assert kernel(ADD)(normal(7), normal(7), **{word: c}) is c
    np.testing.assert_array_equal(c, 2 * normal(7))


def test_several_returns_are_a_named_tuple() -> None:
    x = normal(4, 9)
    result = kernel(MOMENTS)(x)
    np.testing.assert_allclose(result.mean, x.mean(1), atol=1e-6)
    np.testing.assert_allclose(result.var, x.var(1), rtol=1e-5)
    outs = (np.empty(4, np.float32), np.empty(4, np.float32))
    again = kernel(MOMENTS)(x, out=outs)
    assert again.mean is outs[0]
    np.testing.assert_array_equal(outs[1], result.var)


def test_a_hundred_sizes_compile_two_executables() -> None:
    mm = kernel(MM)
    for n in range(100):
        a, b = normal(n % 7 + 1, n), normal(n, 2 * n + 1)
        np.testing.assert_allclose(mm(a, b), a @ b, atol=1e-4)
    assert len(mm.variant().executables) == 2


@sampled(
    "view",
    [
        lambda x: x.T.copy().T,
        lambda x: np.repeat(x, 2, 0)[::2],
        lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: np.pad(x, 2)[2:-2, 2:-2],
    ],
    keep=3,
)
def test_any_stride_is_taken_without_a_copy(view: Any) -> None:
    a, b = view(normal(13, 17)), view(normal(17, 11))
    np.testing.assert_allclose(kernel(MM)(a, b), a @ b, atol=1e-4)
    out = np.zeros((11, 26), np.float32).T[::2]
    kernel(MM)(a, b, out=out)
    np.testing.assert_allclose(out, a @ b, atol=1e-4)


def test_strides_that_are_no_multiple_of_the_item_are_taken_too() -> None:
    packed = np.zeros(6, dtype=[("flag", "i1"), ("value", "f4")])
    packed["value"] = normal(6)
    np.testing.assert_array_equal(kernel(ADD)(packed["value"], normal(6)), 2 * normal(6))
    kernel(ADD)(normal(6), normal(6), out=packed["value"])
    np.testing.assert_array_equal(packed["value"], 2 * normal(6))


def test_an_output_may_be_the_view_of_an_input_that_is_read_at_the_same_point() -> None:
    add, a = kernel(ADD), normal(100)
    expected = a + a
    add(a, a, out=a)
    np.testing.assert_array_equal(a, expected)
    assert add.variant().signature.inplace == ((0, 0), (0, 1))


def test_an_output_may_lie_where_an_input_is_only_asked_for_its_size() -> None:
    count = kernel("""def count(float(N) x, float(N) step) -> (float(N) y) {
      y(n) = 0 where exists x(n)
      for n in 1:N { y(n) = y(n - 1) + step(n) }
    }""")
    x, step = normal(50), np.arange(50, dtype=np.float32)
    count(x, step, out=x)
    np.testing.assert_array_equal(x, np.cumsum(step))
    assert count.variant().signature.inplace == ((0, 0),)


def test_an_output_may_begin_as_an_input_and_be_written_over() -> None:
    """The way of the library to write parts of a tensor; what lies there already is not copied."""
    head = "def put(float(A,B) x, int64(N) i, float(N,B) v) -> (float(A,B) y) {\n"
    x, i, v = normal(50, 3), np.array([1, 48, 1]), normal(3, 3)
    for first, then, is_proved in (
        ("y(a, b) = x(a, b)", "y(i(n), b) = v(n, b)", True),
        ("y(a, b) = x(a, b)", "y(i(n), b) += v(n, b)", True),
        ("y(a, b) = 2 * x(a, b)", "y(i(n), b) += v(n, b)", True),
        ("y(a, b) = x(a, b)", "y(i(n), b) += x(i(n) - 1, b)", False),
        ("y(a, b) = x(a, b)", "y(i(n), b) = x(n, b)", False),
        ("y(a, b) = x(A - 1 - a, b)", "y(i(n), b) = v(n, b)", False),
        ("y(a, b) = x(a, b) where a in 0:9", "y(i(n), b) += v(n, b)", False),
    ):
        put, there = kernel(f"{head}{first}\n{then} }}"), x.copy()
        expected = put(x, i, v)
        put(there, i, v, out=there)
        np.testing.assert_array_equal(there, expected)
        assert put.variant().signature.inplace == ((0, 0),) * is_proved


def test_an_output_that_begins_with_zeros_is_no_view_of_an_input() -> None:
    for rest in ("", "y(i) = 3 where i in 3:4"):
        some = kernel(f"def f(float(N) x) -> (float(N) y) {{ y(i) = x(i) where i in 0:2\n{rest} }}")
        there = np.arange(5, dtype=np.float32)
        expected = some(there)
        np.testing.assert_array_equal(some(there, out=there), expected)
        assert expected[1] == 1


def test_an_output_that_overlaps_an_input_otherwise_is_right_too() -> None:
    add, a, square = kernel(ADD), normal(100), normal(12, 12)
    expected = a[:-1] + a[1:]
    add(a[:-1], a[1:], out=a[1:])
    np.testing.assert_array_equal(a[1:], expected)
    product = square @ square
    kernel(MM)(square, square, out=square)
    np.testing.assert_allclose(square, product, atol=1e-4)


def test_outputs_that_share_memory_with_each_other_are_refused() -> None:
    both = np.empty(4, np.float32)
    with pytest.raises(ShapeError, match="two outputs overlap"):
        kernel(MOMENTS)(normal(4, 2), out=(both, both))


def test_a_last_dimension_of_extent_1_does_not_hide_the_stride_of_the_one_before() -> None:
    column = kernel("def column(float(N) A) -> (C) { C(i, j) = A(i) where j in 0:1 }")
    out = np.zeros((5, 6), np.float32)
    column(normal(5), out=out[:, 2:5:3])
    np.testing.assert_array_equal(out[:, 2], normal(5))
    assert np.count_nonzero(out) == 5


def test_an_empty_output_may_have_any_strides() -> None:
    add, empty = kernel(ADD), np.zeros((0, 3), np.float32)
    rows = kernel("def rows(float(N,M) A) -> (C) { C(i, j) = A(i, j) }")
    assert empty.strides == (0, 0)
    assert rows(empty, out=empty) is empty
    assert add(normal(0), normal(0), out=normal(0)).shape == (0,)


def test_an_output_of_stride_0_is_refused() -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (3,), (0,))
    with pytest.raises(ShapeError, match="'C' has stride 0"):
        kernel(ADD)(normal(3), normal(3), out=out)


@pytest.mark.parametrize(
    ("shape", "strides", "meets"),
    [
        ((3, 5), (8, 4), True),
        ((5, 3), (4, 8), True),
        ((3, 2), (2, 16), True),  # halves of elements
        ((3, 2), (8, 12), False),  # interleaved, each at a place of its own
        ((2, 2), (12, 8), False),
        ((3, 1), (8, 0), False),
    ],
)
def test_an_output_whose_elements_share_memory_is_refused(
    shape: tuple[int, int], strides: tuple[int, int], meets: bool
) -> None:
    room = np.zeros(50, np.float32)
    out = np.lib.stride_tricks.as_strided(room, shape, strides)
    rows = kernel("def rows(float(N,M) A) -> (C) { C(i, j) = A(i, j) }")
    a = normal(*shape)
    if meets:
        with pytest.raises(ShapeError, match=r"out 'C' has elements that share memory"):
            rows(a, out=out)
    else:
        np.testing.assert_array_equal(rows(a, out=out), a)


def test_an_update_starts_from_the_callers_buffer_or_from_the_identity() -> None:
    with pytest.warns(UserWarning, match="TC"):
        total = kernel("def total(float(N) A) -> (s) { s += A(i) }")
    np.testing.assert_allclose(total(normal(9)), normal(9).sum(), rtol=1e-5)
    s = np.array(10, np.float32)
    total(normal(9), out=s)
    np.testing.assert_allclose(s, 10 + normal(9).sum(), rtol=1e-5)


@pytest.mark.parametrize("turns", [0, 2])
def test_the_first_update_may_stand_in_loops(turns: int) -> None:
    text = """def f(float(N) A, int32 K) -> (s, P, m) {
        for t in 0:K { s += A(i) }
        for t in 0:K { for u in 0:2 { P(i) *= A(i) } }
        for t in 0:K { m max= A(i) } }"""
    with pytest.warns(UserWarning, match="TC"):
        f = kernel(text)
    a = normal(9)
    first = np.float32(10), np.full(9, 3, np.float32), np.float32(0.5)
    for given in ((0.0, 1.0, -np.inf), first):
        out = None if given is not first else tuple(np.array(x, np.float32) for x in given)
        s, p, m = f(a, turns, out=out) if out is not None else f(a, turns)
        np.testing.assert_allclose(s, given[0] + turns * a.sum(), rtol=1e-5)
        np.testing.assert_allclose(p, given[1] * np.ones(9) * a ** (2 * turns), rtol=1e-5)
        np.testing.assert_equal(m, max(given[2], a.max()) if turns else given[2])


def test_numbers_are_taken_by_value() -> None:
    scale = kernel("def scale(float(N) A, float a, int32 n) -> (B) { B(i) = a * A(i) + n }")
    numbers: list[Any] = [(2.0, 3), (np.float64(2), np.int64(3)), (np.array(2.0), True), (2, 3)]
    for a, n in numbers:
        np.testing.assert_allclose(scale(normal(5), a, n), 2 * normal(5) + int(n), rtol=1e-6)
    with pytest.raises(TCTypeError, match="expected n of type int32, got a number of type float64"):
        scale(normal(5), 2.0, 3.5)


def test_a_number_in_a_bound_is_a_size() -> None:
    first = kernel("def first(float(N) A, int32 n) -> (s) { s +=! A(i) where i in 0:n }")
    for n in (2, 5, 2, 0, 3):
        np.testing.assert_allclose(first(normal(5), n), normal(5)[:n].sum(), atol=1e-6)
    with pytest.raises(ShapeError):
        first(normal(5), 6)


def test_type_variables_come_from_the_arguments() -> None:
    twice = kernel("def twice<T>(T(N) A) -> (B) { B(i) = A(i) + A(i) }")
    for dtype in (np.float32, np.float64, np.int8, np.uint64):
        x = np.arange(5).astype(dtype)
        got = twice(x)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, 2 * x)


def test_integer_generics_come_by_keyword() -> None:
    every = kernel("def every<S=2>(float(N) A) -> (B) { B(i) = A(S * i) }")
    np.testing.assert_array_equal(every(normal(9)), normal(9)[::2])
    np.testing.assert_array_equal(every(normal(9), S=3), normal(9)[::3])


def test_a_wrong_size_names_argument_symbol_and_origin() -> None:
    with pytest.raises(ShapeError) as error:
        kernel(MM)(normal(3, 4), normal(5, 6))
    assert str(error.value) == (
        "mm(A, B): expected B of shape (K, N) with K = 4, got (5, 6)\n"
        "  K = 4 comes from A, shape (3, 4), declared float(M,K)"
    )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda k: k(normal(3, 4)), TCTypeError, "misses 'B'"),
        (lambda k: k(*[normal(3, 3)] * 3), TCTypeError, "takes 2 arguments, got 3"),
        (lambda k: k(normal(3, 3), normal(3, 3), A=1), TCTypeError, "'A' is given twice"),
        (lambda k: k(normal(3, 3), D=normal(3, 3)), TCTypeError, "no parameter 'D'"),
        (lambda k: k(normal(3), normal(3, 3)), ShapeError, "expected A with 2 dimensions"),
        (
            lambda k: k(normal(3, 3).astype("f8"), normal(3, 3)),
            TCTypeError,
            "expected A of type float32, got float64",
        ),
        (
            lambda k: k(normal(3, 3).astype("c8"), normal(3, 3)),
            TCTypeError,
            "type complex64, which the language does not have",
        ),
        (
            lambda k: k(normal(3, 3), normal(3, 3), out=np.empty((3, 2), np.float32)),
            ShapeError,
            r"expected out 'C' of shape \(M, N\) = \(3, 3\), got \(3, 2\)",
        ),
        (
            lambda k: k(normal(3, 3), normal(3, 3), out=np.empty((3, 3))),
            TCTypeError,
            "expected out 'C' of type float32, got float64",
        ),
    ],
)
def test_a_wrong_call_says_what_was_expected(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(kernel(MM))


def test_a_subscript_outside_its_tensor_is_an_index_error() -> None:
    gather = kernel("def gather(float(N) A, int32(M) I) -> (B) { B(i) = A(I(i)) }")
    index = np.array([2, 0, 1], np.int32)
    np.testing.assert_array_equal(gather(normal(3), index), normal(3)[index])
    index[1] = 3
    with pytest.raises(BoundsError, match=r"subscript 0 of 'A' is 3, outside \[0, 3\)"):
        gather(normal(3), index)
    with pytest.raises(IndexError):
        gather(normal(3), index)


def test_empty_operands_give_empty_or_initial_results() -> None:
    mm = kernel(MM)
    assert mm(normal(0, 3), normal(3, 2)).shape == (0, 2)
    np.testing.assert_array_equal(mm(normal(2, 0), normal(0, 3)), np.zeros((2, 3)))


def test_a_kernel_may_be_kept_to_one_thread() -> None:
    code = f"""
import contextlib, glob, numpy as np, tcdsl as tc
text, a = {MM!r}, np.ones((600, 600), np.float32)

def workers():
    names = []
    for comm in glob.glob("/proc/self/task/*/comm"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # ended meanwhile
            names.append(open(comm).read().strip())
    return names.count("tcdsl worker")

for threads in (1, 2):
    mm = tc.define(text, threads=threads)
    mm(a, a)
    mm(a, a)
    print(workers())
"""
    environment = os.environ | {"TCDSL_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "1"]


def test_many_threads_call_one_kernel() -> None:
    mm, a = kernel(MM), normal(90, 90)
    expected = mm(a, a)
    right: list[bool] = []

    def work() -> None:
        right.extend(np.array_equal(mm(a, a), expected) for _ in range(30))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert right == [True] * 120


@pytest.mark.torch
def test_torch_tensors_go_in_and_come_out() -> None:
    import torch

    a, b = torch.randn(5, 3), torch.randn(4, 3).T
    got = kernel(MM)(a, b)
    assert isinstance(got, torch.Tensor)
    torch.testing.assert_close(got, a @ b)
    out = torch.zeros(5, 4)
    assert kernel(MM)(a, b, out=out) is out
    torch.testing.assert_close(out, a @ b)


def test_results_of_calls_that_nobody_reads_are_left_out() -> None:
    texts = tc.define(
        """
        def two(float(M,K) A, float(K,N) B) -> (C, D) {
          C(i, j) +=! A(i, k) * B(k, j)
          D(i, j) = C(i, j)
        }
        def first(float(M,K) A, float(K,N) B) -> (E) { C, D = two(A, B) E(i, j) = 2 * C(i, j) }
        def none(float(M,K) A, float(K,N) B) -> (E) { C, D = two(A, B) E(i, k) = 2 * A(i, k) }
        """,
        tune="off",
    )
    assert isinstance(texts, tc.Definitions)
    a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    assert texts.first(a, b).tolist() == [[8] * 5] * 3
    assert texts.none(a, b).tolist() == [[2] * 4] * 3


@pytest.mark.parametrize(
    "budget",
    [{"seconds": -1}, {"seconds": float("nan")}, {"seconds": "5"}, {"trials": -1},
     {"trials": float("inf")}],
    ids=["negative", "nan", "text", "negative trials", "endless trials"],
)  # fmt: skip
def test_a_budget_that_is_none_is_refused(budget: dict[str, Any]) -> None:
    (name,) = budget
    with pytest.raises(TCTypeError, match=f"{name} is .*; expected a number from 0 on"):
        tc.define(ADD, **budget)
    with pytest.raises(TCTypeError, match=f"{name} is .*; expected a number from 0 on"):
        kernel(ADD).autotune(N=4, **budget)


def test_a_bool_of_numpys_is_an_integer_as_pythons_is() -> None:
    """It has no ``__index__``: everywhere else in NumPy a bool counts as 0 or 1."""
    text = "def f(float(N) A, int32 K, int32 c) -> (C) { C(i) = A(i) * c where i in 0:K }"
    k: Any = tc.define(text, tune="off")
    a = np.arange(1, 5, dtype=np.float32)
    for one in (True, np.bool_(True), np.array(True)):
        for _ in range(2):
            np.testing.assert_array_equal(k(a, one, one), a[:1])
            assert k(a, np.bool_(False), one).shape == (0,)
