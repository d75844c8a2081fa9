"""The three tiers: which tests run when, and which cases of a list stay in the first."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.tiers import drawn, sampled, share

TESTS = Path(__file__).parent
THREE = """
import pytest
from tests.tiers import drawn, sampled
def test_fast(): pass
@pytest.mark.cc
@sampled("x", range(3), keep=1)
def test_of_three(x): pass
@pytest.mark.wide
@pytest.mark.parametrize("x", range(2))
def test_wide(x): pass
@sampled("x", range(2), keep=1)
@sampled("y", range(2), keep=1)
def test_crossed(x, y): pass
@pytest.mark.deep
def test_deep(): pass
"""


def kept(count: int, keep: int) -> list[int]:
    cases = sampled("x", range(count), keep=keep).mark.args[1]
    return [case.values[0] for case in cases if not case.marks]


def test_the_kept_cases_are_the_first_and_evenly_spread() -> None:
    assert kept(12, 4) == [0, 3, 6, 9]
    assert kept(10, 3) == [0, 4, 7]
    assert kept(3, 5) == [0, 1, 2]
    assert kept(7, 1) == [0]
    cases = sampled("x", range(9), keep=2, wide=3).mark.args[1]
    assert [[m.name[0] for m in c.marks] for c in cases] == [
        [*x] for x in ("", *"wddw", "", *"dwd")
    ]
    deep = [pytest.param(n, marks=pytest.mark.deep) for n in range(2)]
    cases = sampled("x", [*deep, 2, 3], keep=1).mark.args[1]
    assert [[m.name for m in case.marks] for case in cases] == [["deep"], ["deep"], [], ["wide"]]


def test_cases_of_several_names_and_with_marks_stay_what_they_are() -> None:
    skip = pytest.mark.skip(reason="here")
    cases = sampled("x, y", [(1, 2), pytest.param(3, 4, marks=skip, id="b")], keep=1).mark.args[1]
    assert [case.values for case in cases] == [(1, 2), (3, 4)]
    assert [[m.name for m in case.marks] for case in cases] == [[], ["skip", "wide"]]
    assert [case.id for case in cases] == [None, "b"]


def tiers_of(count: int, keep: int) -> str:
    cases = sampled("x", range(count), keep=keep).mark.args[1]
    return "".join(case.marks[0].name[0] if case.marks else "f" for case in cases)


def test_half_of_the_others_are_wide_where_nobody_says_how_many() -> None:
    assert [tiers_of(n, 1) for n in (1, 3, 4)] == ["f", "fww", "fwdw"]
    assert tiers_of(9, 1) == "fwdwdwdwd"


def test_few_examples_are_drawn_always_a_third_of_many_in_wide_runs_and_all_in_deep_ones() -> None:
    seen = []

    @drawn(3, 20, st.integers())
    def held(value: int) -> None:
        seen.append(value)

    few, *more = held.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert few == 3
    assert [(c.values, [m.name for m in c.marks]) for c in more] == [
        ((6,), ["wide"]), ((20,), ["deep"])
    ]  # fmt: skip
    held(3)
    assert len(seen) == 3
    held(20)
    assert len(seen) > 3 + 10  # a value that was drawn before counts, and is not run again


@sampled(
    "option, ran, left",
    [
        ([], 3, ["6 wide tests wait for --wide", "2 deep tests wait for --deep"]),
        (["--wide"], 9, ["2 deep tests wait for --deep"]),
        (["--wide", "-m", "wide"], 6, ["2 deep tests wait for --deep"]),
        (["--deep"], 11, []),
        (["--deep", "-m", "deep"], 2, []),
        (["--deep", "--share", "1/2"], 7, []),
        (["--deep", "--share", "2/2"], 4, []),
    ],
    keep=1,
)
def test_a_tier_runs_when_it_is_asked_for(
    tmp_path: Path, option: list[str], ran: int, left: list[str]
) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_three.py").write_text(THREE)
    command = [sys.executable, "-m", "pytest", "-c", str(TESTS.parent / "pyproject.toml")]
    command += ["--rootdir", str(tmp_path), "-p", "no:cacheprovider", *option, str(tmp_path)]
    run = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert f"{ran} passed" in run.stdout, run.stdout + run.stderr
    assert [line for line in run.stdout.splitlines() if "wait for" in line] == left
    if option in ([], ["--wide"], ["--deep"]):
        assert f"mark cc: {3 if option else 1} run, 0 skipped" in run.stdout


def test_each_test_is_in_one_share_whenever_and_wherever_it_runs() -> None:
    names = [f"tests/test_a.py::test_b[{n}]" for n in range(1000)]
    shares = [[n for n in names if share(f"{k}/10")(n)] for k in range(1, 11)]
    assert sorted(n for part in shares for n in part) == sorted(names)
    assert all(60 < len(part) < 140 for part in shares)
    assert share("10/10")(names[0])  # not by Python's hash, which each process salts
    assert all(share("1/1")(n) for n in names)
    for wrong in ("0/10", "11/10", "3", "3/", "-1/2", "1/2/3", ""):
        with pytest.raises(pytest.UsageError, match="which of how many"):
            share(wrong)


def test_ci_runs_a_share_of_a_long_tier(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(TESTS.parent / ".ci" / "run", tmp_path / ".ci")
    pytest_here = tmp_path / ".venv" / "bin" / "pytest"
    pytest_here.parent.mkdir(parents=True)
    pytest_here.write_text("#!/bin/sh\necho pytest $*\n")
    pytest_here.chmod(0o755)
    command = [str(tmp_path / ".ci" / "run"), "deep", "3/10", "wide", "deep"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [x for x in run.stdout.splitlines() if x.startswith("pytest")] == [
        "pytest --deep -m deep -n auto --share 3/10",
        "pytest --wide -m wide -n auto",
        "pytest --deep -m deep -n auto",
    ]


@pytest.mark.parametrize(
    ("part", "words"),
    [("lint", "run '.ci/run install' first"), ("paint", "there is no part 'paint'")],
)
def test_ci_names_the_cure_where_nothing_is_installed(
    tmp_path: Path, part: str, words: str
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(TESTS.parent / ".ci" / "run", tmp_path / ".ci")
    command = [str(tmp_path / ".ci" / "run"), part]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode
    assert words in run.stderr


@pytest.mark.parametrize("tool", ["mypy", "python"])
def test_ci_fails_where_one_of_two_parts_at_once_does(tmp_path: Path, tool: str) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(TESTS.parent / ".ci" / "run", tmp_path / ".ci")
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("mypy", "pytest", "python"):
        (tools / name).write_text(f"#!/bin/sh\necho {name} ran\nexit {int(name == tool) * 3}\n")
        (tools / name).chmod(0o755)
    command = [str(tmp_path / ".ci" / "run"), "types+wheel"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode
    assert f"{tool} ran" in run.stdout
