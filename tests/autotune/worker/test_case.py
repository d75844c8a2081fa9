"""A case in its folder, and what is compared of a big output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tcdsl.autotune.worker.case import Case, Expected, Operand, positions_to_check


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
