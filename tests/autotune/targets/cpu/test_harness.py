"""Guarded memory, the comparison with the reference, and what is compared of a big output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tcdsl.autotune.targets.cpu.guard_pages import CANARY, GuardedArray, GuardedBytes, Place
from tcdsl.autotune.targets.cpu.harness import difference
from tcdsl.autotune.worker.case import Case, Expected, Operand, positions_to_check


def operand(shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Operand:
    return Operand("x", "float32", shape, strides, "out")


@pytest.mark.parametrize("place", ["after", "before"])
@pytest.mark.parametrize("size", [1, 100, 4096, 5000])
def test_bytes_touch_the_guard_page_of_their_side(place: Place, size: int) -> None:
    with GuardedBytes(size, place) as memory:
        edge = memory.address + size if place == "after" else memory.address
        assert edge % 4096 == 0
        assert memory.bytes.size == size
        assert memory.is_intact()


def test_alignment_leaves_less_than_itself_before_the_page() -> None:
    with GuardedBytes(100, "after", 64) as memory:
        assert memory.address % 64 == 0
        assert 0 <= -(memory.address + 100) % 4096 < 64


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((3, 5), None), ((3, 5), (1, 3)), ((4,), (-2,)), ((3, 4), (8, 2)), ((2, 0), None), ((), None)],
)
@pytest.mark.parametrize("place", ["after", "before"])
def test_a_guarded_array_has_its_strides_and_its_first_element_at_its_address(
    place: Place, shape: tuple[int, ...], strides: tuple[int, ...] | None
) -> None:
    x = operand(shape, strides)
    data = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    array = GuardedArray(x, place, None)
    array.reset(0xFF)
    assert np.isnan(array.values).all()
    array.values[...] = data
    assert np.array_equal(array.values, data)
    assert tuple(s // 4 for s in array.values.strides) == x.element_strides or 0 in shape
    if data.size:
        assert array.address == array.values.__array_interface__["data"][0]
    assert array.fault() is None


def test_a_write_between_the_elements_is_found() -> None:
    array = GuardedArray(operand((3,), (2,)), "after", None)
    array.reset(0)
    assert array.fault() is None
    np.ndarray((5,), np.float32, array._memory.bytes.data)[1] = 7
    assert array.fault() == "bytes between its elements were written"


def test_a_write_beside_the_elements_is_found() -> None:
    array = GuardedArray(operand((3,)), "after", None)
    array._memory._room[0] ^= CANARY
    assert array.fault() == "bytes next to it were written"


def floats(*values: float) -> Expected:
    return Expected(np.array(values), None, 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        ([1.0, np.nan], [1.0, np.nan]),
        ([np.inf, -np.inf], [np.inf, -np.inf]),
        ([1.0 + 5e-7, 2.0], [1.0, 2.0]),
        ([], []),
    ],
)
def test_equal_answers_have_no_difference(got: list[float], wanted: list[float]) -> None:
    assert difference(np.array(got, np.float32), floats(*wanted)) is None


@pytest.mark.parametrize(
    ("got", "wanted", "text"),
    [
        ([1.0, 2.5], [1.0, 2.0], "expected 2.0 at (1), got 2.5; 1 of 2"),
        ([1.0, np.nan], [1.0, 2.0], "expected 2.0 at (1), got nan"),
        ([1.0, 2.0], [1.0, np.nan], "expected nan at (1), got 2.0"),
        ([np.inf, 2.0], [1e30, 2.0], "got inf"),
        ([1e30, 2.0], [np.inf, 2.0], "expected inf"),
        ([np.inf, 2.0], [-np.inf, 2.0], "expected -inf"),
    ],
)
def test_a_difference_says_where_it_is_largest(
    got: list[float], wanted: list[float], text: str
) -> None:
    assert text in str(difference(np.array(got, np.float32), floats(*wanted)))


def test_integers_have_to_be_equal_and_bools_to_be_0_or_1() -> None:
    whole = Expected(np.array([1, 2]), None, 5.0, 5.0)
    assert difference(np.array([1, 2], np.int32), whole) is None
    assert "expected 2 at (1), got 3" in str(difference(np.array([1, 3], np.int32), whole))
    truth = Expected(np.array([True, False]), None, 0, 0)
    assert difference(np.array([1, 0], np.uint8).view(np.bool_), truth) is None
    assert difference(np.array([2, 0], np.uint8).view(np.bool_), truth) is not None


def test_a_difference_at_chosen_positions_names_the_element() -> None:
    got = np.zeros((100, 50), np.float32)
    got[7, 9] = 1
    chosen = Expected(np.zeros(3), np.array([0, 7 * 50 + 9, 4999]), 0.0, 0.0)
    assert "at (7, 9), got 1.0" in str(difference(got, chosen))


def test_a_small_output_is_compared_whole() -> None:
    assert positions_to_check((256, 256), np.random.default_rng(0)) is None


@pytest.mark.parametrize("shape", [(1000, 1000), (3, 100_000), (1_000_000,), (2, 3, 4, 50_000)])
def test_of_a_big_output_every_border_line_is_compared(shape: tuple[int, ...]) -> None:
    chosen = positions_to_check(shape, np.random.default_rng(0))
    assert chosen is not None
    assert len(chosen) == len(set(chosen.tolist())) > 4096
    index = np.unravel_index(chosen, shape)
    for d, extent in enumerate(shape):
        lines = set(index[d].tolist())
        assert {*range(min(64, extent)), *range(max(0, extent - 64), extent)} <= lines


def test_a_case_survives_its_folder(tmp_path: Path) -> None:
    import ml_dtypes

    operands = (
        Operand("a", "bfloat16", (2, 3), (1, 2), "in"),
        Operand("n", "int32", (), None, "scalar"),
        Operand("e", "float32", (0, 3), None, "in"),
        Operand("o", "bool", (70_000,), None, "update"),
        Operand("p", "float64", (), None, "out"),
    )
    rng = np.random.default_rng(0)
    data = (
        rng.standard_normal((2, 3)).astype(ml_dtypes.bfloat16),
        np.asarray(7, np.int32),
        np.zeros((0, 3), np.float32),
        rng.integers(0, 2, 70_000).astype(bool),
        None,
    )
    expected = (
        Expected(np.array([True]), np.array([5]), 0.0, 0.0),
        Expected(np.array([1.5]), None, 0.25, 0.5),
    )
    Case(operands, data, expected, (2, 3), 2).save(tmp_path)
    loaded = Case.load(tmp_path)
    assert loaded.operands == operands
    assert (loaded.sizes, loaded.threads) == ((2, 3), 2)
    for before, after in zip(data, loaded.data, strict=True):
        if before is None:
            assert after is None
        else:
            assert after is not None
            assert after.dtype == before.dtype
            assert np.array_equal(np.asarray(before), np.asarray(after))
    for wanted, found in zip(expected, loaded.expected, strict=True):
        assert np.array_equal(wanted.values, found.values)
        assert (wanted.atol, wanted.rtol) == (found.atol, found.rtol)
        assert (wanted.positions is None) == (found.positions is None)
