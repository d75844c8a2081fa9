"""What the original refused: legal now and right, or refused with a message that says why."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import RangeError, ShapeError, TCError, TCSyntaxError, TCTypeError
from tcdsl.kernel import Kernel

DATA = Path(__file__).parents[2] / "data"
NEGATIVE: dict[str, str] = {
    e["name"]: e["tc"] for e in json.loads((DATA / "tc_negative.json").read_text())
}
RUNS = (
    "sum1D_v0",
    "ellipsis_rank",
    "E12",
    "E14_nonaffine_bound",
    "E20",
    "TCC",
    "TCE",
    "unchecked_indirect",
    "builtin_as_index",
)
WARNED = ("uninit_*=", "uninit_min=")
REFUSED_CALL = ("E8", "E25", "unknown_entry_point", "constant_dim_mismatch")
# The code of every refusal of a text; what each says is held by the grammar's own tests.
REFUSED: dict[str, tuple[type[TCError], str]] = {
    "E1": (TCSyntaxError, "TC004"),
    "returns_without_parens": (TCSyntaxError, "TC004"),
    "and_keyword": (TCSyntaxError, "TC006"),
    "multi_assign": (TCSyntaxError, "TC005"),
    "semicolon": (TCSyntaxError, "TC002"),
    "missing_assignment_op": (TCSyntaxError, "TC003"),
    "scalar_type_expected": (TCSyntaxError, "TC018"),
    "min_one_arg": (TCSyntaxError, "TC007"),
    "unclosed_def": (TCSyntaxError, "TC010"),
    "IndirectWhere": (RangeError, "TC205"),
    "reduction_without_op": (TCTypeError, "TC104"),
    "3fcrelu_undefined": (TCTypeError, "TC102"),
    "index_with_float": (TCTypeError, "TC301"),
    "average_pool_where": (TCTypeError, "TC104"),
    "output_never_assigned": (TCTypeError, "TC110"),
    "builtin_arity": (TCTypeError, "TC106"),
    "duplicate_param": (TCTypeError, "TC101"),
    "scalar_as_tensor": (TCTypeError, "TC107"),
    "non_bool_and": (TCTypeError, "TC302"),
    "narrowing_output": (TCTypeError, "TC303"),
    "output_rank_mismatch": (TCTypeError, "TC113"),
    "untyped_param": (TCSyntaxError, "TC014"),
    "float_range_bound": (TCTypeError, "TC301"),
    "float_index_literal": (TCTypeError, "TC301"),
    "TCB": (RangeError, "TC202"),
    "PartialAssignWithoutWhere": (RangeError, "TC201"),
    "broadcast_without_where": (RangeError, "TC201"),
    "RestoreCandidates_NotATCid": (TCSyntaxError, "TC011"),
    "triangular_domain": (RangeError, "TC203"),
    "python_bad_fusion": (TCSyntaxError, "TC011"),
}


def kernel(name: str) -> Kernel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        defined = tc.define(NEGATIVE[name], tune="off")
    assert isinstance(defined, Kernel)
    return defined


def numbers(*shape: int) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_every_entry_has_its_place() -> None:
    placed = [*RUNS, *WARNED, *REFUSED_CALL, *REFUSED]
    assert sorted(placed) == sorted(NEGATIVE)


@pytest.mark.parametrize("name", REFUSED)
def test_text_is_refused_with_a_place_and_a_code(name: str) -> None:
    error, code = REFUSED[name]
    with pytest.raises(error, match=rf"^<text>:\d+:\d+: error\[{code}\]: .") as refusal:
        tc.define(NEGATIVE[name])
    assert name == "python_bad_fusion" or "^" in str(refusal.value)  # an empty text has no line


@pytest.mark.cc
def test_an_index_that_only_where_names_repeats_the_sum() -> None:
    a = numbers(5)
    np.testing.assert_array_equal(kernel("sum1D_v0")(a), [a.sum()])


@pytest.mark.cc
def test_a_copy_of_any_rank_is_legal() -> None:
    copy = kernel("ellipsis_rank")
    for shape in ((), (3,), (2, 3), (2, 1, 3)):
        np.testing.assert_array_equal(copy(numbers(*shape)), numbers(*shape))


@pytest.mark.cc
@pytest.mark.parametrize("length", [12, 40])
def test_a_scalar_may_bound_an_index(length: int) -> None:
    k, b = kernel("E12"), numbers(length)
    for a in (0, 1, 3):
        want = np.array([b[i : i + a].sum() for i in range(10)], np.float32)
        np.testing.assert_array_equal(k(a, b), want)
        np.testing.assert_array_equal(k(np.int32(a), b, out=np.ones(10, np.float32)), want + 1)
    with pytest.raises(ShapeError, match="f"):
        k(length, b)
    with pytest.raises(TCError):
        k(-1, b)


@pytest.mark.cc
def test_a_bound_that_does_not_fit_the_data_is_found_at_the_call() -> None:
    k = kernel("E14_nonaffine_bound")
    for n in (1, 3, 20):  # i + j reaches 9 + n * n - 1
        with pytest.raises(ShapeError):
            k(numbers(n))


@pytest.mark.cc
def test_a_temporary_is_legal() -> None:
    np.testing.assert_array_equal(kernel("E20")(numbers(1)), numbers(1))


@pytest.mark.cc
def test_an_index_may_be_called_as_a_builtin() -> None:
    np.testing.assert_array_equal(kernel("builtin_as_index")(numbers(3)), numbers(3))


@pytest.mark.cc
def test_diagonal_reads_are_checked_at_the_call() -> None:
    tcc, x = kernel("TCC"), numbers(3, 6, 4)
    i, j = np.arange(3)[:, None], np.arange(4)
    np.testing.assert_array_equal(tcc(x), x[i, i + j, j].sum(1))
    with pytest.raises(ShapeError):
        tcc(numbers(3, 5, 4))
    tce, y = kernel("TCE"), numbers(3, 4, 5, 8, 11)
    i, j = np.arange(5)[:, None], np.arange(3)
    np.testing.assert_array_equal(tce(y), y[j, j + 1, i, i + 3, 2 * i + j].sum(1))
    with pytest.raises(ShapeError):
        tce(numbers(3, 4, 5, 8, 10))


@pytest.mark.cc
def test_an_indirect_read_is_checked() -> None:
    lut, table = kernel("unchecked_indirect"), numbers(6)
    index = np.array([5, 0, 3], np.int32)
    np.testing.assert_array_equal(lut(table, index), table[index])
    for wrong in (6, -1, 2**31 - 1, -(2**31)):
        with pytest.raises(IndexError, match=str(wrong)):
            lut(table, np.array([0, wrong], np.int32))


@pytest.mark.cc
@pytest.mark.parametrize("name", WARNED)
def test_an_update_of_what_has_no_value_warns_and_starts_from_the_identity(name: str) -> None:
    with pytest.warns(UserWarning, match=r"warning\[TC150\]: '(\*|min)=' starts from"):
        k = tc.define(NEGATIVE[name], tune="off")
    assert isinstance(k, Kernel)
    combine = np.multiply if "*" in name else np.minimum
    a = numbers(3, 4) - 2
    np.testing.assert_array_equal(k(a), combine.reduce(a, axis=1))
    start = np.array([2, -5, 0], np.float32)
    want = combine(start, combine.reduce(a, axis=1))
    np.testing.assert_array_equal(k(a, out=start), want)


@pytest.mark.cc
def test_calls_that_do_not_fit_are_refused_with_the_reason() -> None:
    fill = kernel("E8")
    np.testing.assert_array_equal(fill(3), np.full(10, 3, np.int32))
    for number in (2.5, np.float32(2), np.zeros(3, np.int32)):
        with pytest.raises(TCError, match="expected a"):
            fill(number)
    one = kernel("E25")
    np.testing.assert_array_equal(one(numbers(1)), numbers(1))
    with pytest.raises(ShapeError, match=r"expected a with 1 dimension"):
        one(numbers(1, 1))
    with pytest.raises(ShapeError, match=r"expected a of shape \(1,\)"):
        one(numbers(2))
    with pytest.raises(TCTypeError, match="no definition 'g'; the text has f"):
        tc.define(NEGATIVE["unknown_entry_point"], name="g")
    ten = kernel("constant_dim_mismatch")
    np.testing.assert_array_equal(ten(numbers(10)), numbers(10))
    with pytest.raises(ShapeError, match="10"):
        ten(numbers(9))
