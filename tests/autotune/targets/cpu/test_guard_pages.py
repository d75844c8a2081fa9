"""Memory between guard pages."""

from __future__ import annotations

import numpy as np
import pytest

from tcdsl.autotune.targets.cpu.guard_pages import CANARY, GuardedArray, GuardedBytes, Place
from tcdsl.autotune.worker.case import Operand


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
