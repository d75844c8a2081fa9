"""Lists that processes add to: found again, merged where two have added at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain import records
from tcdsl.codegen.toolchain.listed import Listed
from tests.codegen.compiled import recorded

PARTS = ("a text", "a machine")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    recorded(monkeypatch, tmp_path / "cache")
    return tmp_path / "cache"


def numbers(values: Iterable[object]) -> list[int]:
    found = []
    for value in values:
        if not isinstance(value, int):
            raise ValueError("it is no number")
        found.append(value)
    return sorted(found)


def listed() -> Listed[list[int]]:
    """Return the list as another process has it."""
    return Listed("answers", PARTS, numbers)


def files(cache: Path) -> int:
    return len([*cache.glob("objects/*/*.json")])


def test_a_list_is_written_in_place_of_the_one_before(cache: Path) -> None:
    mine, other = listed(), listed()
    assert mine.found == []
    mine.write([1], "f")
    assert mine.found == other.found == [1]
    other.write([*other.found, 2], "f")
    assert mine.found == [1, 2]
    assert files(cache) == 1
    mine.write([1, 2], "f")  # the same: it stays
    assert listed().found == [1, 2]


def test_what_two_add_at_once_is_there(cache: Path) -> None:
    mine, other = listed(), listed()
    assert mine.found == other.found == []
    mine.write([1], "f")
    other.write([2], "f")
    assert files(cache) == 2
    assert mine.found == [1, 2]
    mine.write([*mine.found, 3], "f")
    assert files(cache) == 1
    assert other.found == [1, 2, 3]


def test_a_list_is_read_where_it_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = listed()
    mine.write([1], "f")
    assert mine.found == [1]
    with monkeypatch.context() as patch:
        patch.setattr(records, "read_all", None)
        assert mine.found == [1]
    listed().write([4], "f")
    assert mine.found == [1, 4]


def test_a_folder_in_which_nothing_changes_is_not_gone_through(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = listed(), listed()
    mine.write([1], "f")
    (folder,) = cache.glob("objects/*")
    for expected in ([1], [1, 2]):
        assert mine.found == expected, "one that has just changed may do so again"
        os.utime(folder, (1e9, 1e9))
        assert mine.found == expected
        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", None)
            assert mine.found == expected
            assert mine.known == expected
        other.write([*other.found, 2], "f")
    for path in folder.iterdir():
        path.unlink()
    assert mine.found == []


@pytest.mark.parametrize("value", [["x"], "x", {"x": 1}, None])
def test_another_shape_is_removed(cache: Path, value: object) -> None:
    mine = listed()
    mine.write([1], "f")
    records.write("answers", PARTS, value, "f")
    assert mine.found == [1]
    assert files(cache) == 1


def test_without_a_generator_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "generator", lambda: None)
    mine = listed()
    mine.write([1], "f")
    assert mine.found == []
