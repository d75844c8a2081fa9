"""The way back of a recorded call is built aside while the call is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tcdsl import Tensor
from tcdsl.calls import to_come
from tcdsl.calls.bindings import aside
from tcdsl.calls.bindings.aside import Aside
from tcdsl.codegen.runtime import Entry
from tcdsl.core import from_numpy
from tcdsl.derived import beforehand
from tcdsl.ops.table import op_of_text
from tests.codegen.compiled import noted, recorded

pytestmark = pytest.mark.cc

TURNED = "def turned(float(M,N) A, float k) -> (B) { B(j, i) +=! k * A(r, i) * A(r, j) }"
SCALED = """
def scaled(float(M,N) A, float(N) s) -> (B) { B(i, j) = s(j) * A(i, j) }
def scaled_vjp(float(M,N) d_B, float(M,N) A, float(N) s) -> (d_A, d_s) {
  d_A(i, j) = s(j) * d_B(i, j)
  d_s(j) +=! A(i, j) * d_B(i, j)
}"""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the programs that this process compiles from here on, in a cache of its own."""
    assert isinstance(Entry, type), "the launcher is compiled before"
    monkeypatch.setattr(beforehand, "IS_USUAL", True)
    monkeypatch.setattr(beforehand, "usable_cores", lambda: 2)
    recorded(monkeypatch, tmp_path / "cache")
    return noted(monkeypatch, library=False)


@pytest.fixture
def begun(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return what is to be built aside, which is not begun."""
    tasks: list[bytes] = []

    class Busy(aside.Queue):
        def put(self, one: Aside) -> None:
            if one.module == aside.CALL:
                tasks.append(one.task)

    monkeypatch.setattr(aside, "_queue", Busy())
    return tasks


def ones(*shape: int) -> Tensor:
    made = from_numpy(np.ones(shape, np.float32))
    made.requires_grad = True
    return made


def back(results: Sequence[Tensor]) -> None:
    for result in results:
        result.backward(from_numpy(np.ones(result.shape, np.float32)))


def test_calls_find_what_was_built_whichever_goes_back_first(
    begun: list[bytes], compiled: list[str]
) -> None:
    for _ in range(2):  # as a later process
        op = op_of_text(TURNED)
        given = [ones(m, 5) for m in (3, 4, 6)]
        results = [op(a, 2.0) for a in given]
        for task in begun:
            to_come.build(task)
        before = len(compiled)
        back(results[::-1])
        assert len(compiled) == before
        for a in given:
            np.testing.assert_array_equal(a.grad.numpy(), np.full(a.shape, 20.0))
    assert len(begun) == 2, "none where what serves the call was compiled before"


def test_a_later_process_gives_the_first_sizes_to_the_same_call(
    begun: list[bytes], compiled: list[str]
) -> None:
    counts = []
    for _ in range(2):  # where all forward passes are at hand nothing is begun
        op = op_of_text(TURNED)
        back([op(ones(3, n), 2.0) for n in (5, 6)][::-1])
        counts.append(len(compiled))
    assert counts[1] == counts[0]


def test_a_gradient_of_its_own_text_is_begun_with_numbers_and_rows_apart(
    begun: list[bytes], compiled: list[str]
) -> None:
    op = op_of_text(SCALED, "scaled", vjp="scaled_vjp")
    wide = ones(4, 10)
    a = wide[:, :5]
    result = op(a, ones(5))
    (task,) = begun
    to_come.build(task)
    before = len(compiled)
    back([result])
    assert [n for n in compiled[before:] if n.startswith("scaled")] == []
    expected = np.repeat([1.0, 0.0], 5)
    np.testing.assert_array_equal(wide.grad.numpy(), np.tile(expected, (4, 1)))


def test_nothing_is_begun_where_nothing_is_recorded(begun: list[bytes]) -> None:
    op = op_of_text(TURNED)
    op(from_numpy(np.ones((3, 5), np.float32)), 2.0)
    assert begun == []


def test_nothing_is_begun_of_a_call_without_a_float_output(begun: list[bytes]) -> None:
    op = op_of_text("def best<T>(T(M,N) A) -> (O) { O(m) argmax=! A(m, n) }")
    assert op(ones(3, 5)).tolist() == [0, 0, 0]
    assert begun == []
