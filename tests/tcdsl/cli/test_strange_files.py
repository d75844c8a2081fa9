"""Commands on files that are no tuning files, or a stranger's: a message, and nothing changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.store import TuningStore
from tcdsl.cli import main
from tcdsl.codegen.machine.config import Config

KEY = ProblemKey("abc", ("float32",), "c", (100,), "cpu avx512", 2, "gcc 12", "1")
TEXT = "def f(float(N) x) -> (y) { y(n) = 2 * x(n) }"


def run(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["show", "f"],
        ["best", "f"],
        ["prune"],
        ["export", "new.db"],
        ["merge", "good.db"],
    ],
)
def test_a_file_that_is_no_store_is_refused_as_it_is(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    TuningStore(Path("good.db")).close()
    notes = tmp_path / "notes.tc"
    notes.write_text(TEXT)
    code, output = run("cache", *command, "--cache", notes)
    assert code == 1
    assert output == f"{notes} is not a tuning file: it is no SQLite database\n"
    assert notes.read_text() == TEXT
    assert not [p.name for p in tmp_path.iterdir() if p.name[:4] not in ("note", "good")]
    assert [p.name for p in tmp_path.glob("notes*")] == ["notes.tc"]


@pytest.mark.cc
def test_autotune_does_not_touch_a_text_that_is_given_as_its_cache(tmp_path: Path) -> None:
    text = tmp_path / "f.tc"
    text.write_text(TEXT)
    code, output = run("autotune", text, "--sizes", "N=8", "--trials", 1, "--cache", text)
    assert code == 1
    assert "is not a tuning file: it is no SQLite database" in output
    assert [p.name for p in tmp_path.iterdir()] == ["f.tc"]
    assert text.read_text() == TEXT


def test_a_merge_of_anything_is_a_message(tmp_path: Path) -> None:
    here = tmp_path / "here.db"
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, code, message in (
        ("folder", 2, "is a directory"),
        ("none", 2, "does not exist"),
        ("empty", 1, "is not a tuning file: it is empty"),
        ("pipe", 1, "is not a tuning file: it is a pipe"),
    ):
        got, output = run("cache", "merge", tmp_path / name, "--cache", here)
        assert (got, message in output) == (code, True), output
    assert not here.exists()


def test_names_are_shown_without_what_a_terminal_would_obey(tmp_path: Path) -> None:
    path, name = tmp_path / "t.db", "f\x1b]0;x\x07\x1b[31m\u202eN=1"
    with TuningStore(path) as store:
        store.add_problem(KEY, name, f"def {name}\n\ty")
        (row,) = store.propose(KEY, [Config.of({"mr": 1})], "model")
        store.set_failed(row.id, "compile", "\x1b[2J")
        store.set_best(KEY, Config.of({"mr": 1}), 10.0, 12.0, "tuned")
    for command in (["list"], ["show", "f"], ["best", "f"], ["show", "x\x1b[31m"]):
        _, output = run("cache", *command, "--cache", path)
        assert not set(output) & {"\x1b", "\x07", "\u202e"}, output
    assert (
        "def f\ufffd]0;x\ufffd\ufffd[31m\ufffdN=1\n\ty\n"
        in run("cache", "show", "f", "--cache", path)[1]
    )
