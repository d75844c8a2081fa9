"""Each diagnostic code that the sources use is documented and its text is held by a test."""

from __future__ import annotations

import re
from pathlib import Path

from tcdsl.grammar.text.codes import explanations

ROOT = Path(__file__).parents[2]
USED = re.compile(r'"(TC\d{3})"')
ROW = re.compile(r"^\| (TC\d{3}) \| \S", re.MULTILINE)
TESTED = re.compile(r"(?:error|warning)\[(TC\d{3})\]: \S")


def found(pattern: re.Pattern[str], *globs: str) -> set[str]:
    paths = [path for glob in globs for path in ROOT.glob(glob)]
    assert paths
    return {code for path in paths for code in pattern.findall(path.read_text(encoding="utf-8"))}


def used() -> set[str]:
    return found(USED, "grammar/**/*.py", "codegen/**/*.py", "autotune/**/*.py", "tcdsl/**/*.py")


def test_each_code_is_a_row_of_the_reference_and_each_row_is_used() -> None:
    rows = ROW.findall((ROOT / "grammar/LANGUAGE.md").read_text(encoding="utf-8"))
    assert sorted(set(rows)) == sorted(rows), "a code has two rows"
    assert used() == set(rows) == explanations().keys()
    assert all(row.fault and row.cure for row in explanations().values())


def test_the_text_of_each_code_is_held_by_a_test() -> None:
    assert used() - found(TESTED, "tests/**/*.py", "tests/golden/**/*.txt") == set()
