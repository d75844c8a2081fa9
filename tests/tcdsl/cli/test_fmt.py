"""`tcdsl fmt`: what it writes, prints and ends with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tcdsl.cli import main

TYPED = "# why\ndef f(float(N)A)->(B){B(i)=(A(i)) # twice\n + A(i)}"
PRETTY = "# why\ndef f(float(N) A) -> (B) {\n  B(i) = A(i)  # twice\n      + A(i)\n}\n"
WRONG = "def f(float(N)A)->(B){B(i) == A(i)}"


def fmt(*args: object, code: int, data: bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["fmt", *map(str, args)], input=data)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "typed.tc").write_text(TYPED)
    (tmp_path / "pretty.tc").write_text(PRETTY)
    (tmp_path / "wrong.tc").write_text(WRONG)
    return tmp_path


def test_it_writes_a_file_anew_and_keeps_its_comments_and_mode(files: Path) -> None:
    typed = files / "typed.tc"
    typed.chmod(0o640)
    result = fmt(typed, files / "pretty.tc", code=0)
    assert (result.stdout, result.stderr) == ("", f"formatted: {typed}\n")
    assert typed.read_text() == PRETTY
    assert typed.stat().st_mode & 0o777 == 0o640
    assert fmt(typed, code=0).stderr == ""
    assert len([*files.iterdir()]) == 3  # nothing was left beside it


def test_check_and_diff_write_nothing(files: Path) -> None:
    typed, before = files / "typed.tc", (files / "typed.tc").stat()
    result = fmt("--check", typed, files / "pretty.tc", code=1)
    assert (result.stdout, result.stderr) == ("", f"would be formatted: {typed}\n")
    assert fmt("--check", files / "pretty.tc", code=0).output == ""
    diff = fmt("--diff", typed, files / "pretty.tc", code=0).stdout
    assert diff.startswith(
        f"--- {typed}\n+++ {typed}\n@@ -1,3 +1,5 @@\n # why\n-def f(float(N)A)->"
    )
    assert "\n\\ No newline at end of file\n+def f(float(N) A) -> (B) {\n" in diff
    assert fmt("--diff", "--check", typed, code=1).stdout == diff
    assert (typed.read_text(), typed.stat().st_mtime_ns) == (TYPED, before.st_mtime_ns)
    subprocess.run(["patch", "-s", str(typed)], input=diff.encode(), check=True)
    assert typed.read_text() == PRETTY


def test_a_file_with_faults_stays_as_it_is_and_the_others_are_formatted(files: Path) -> None:
    result = fmt(files / "wrong.tc", files / "typed.tc", code=123)
    assert f"{files / 'wrong.tc'}:1:28: error[TC003]: '==' is not an assignment\n" in result.stderr
    assert (files / "wrong.tc").read_text() == WRONG
    assert (files / "typed.tc").read_text() == PRETTY
    assert fmt("--check", files / "wrong.tc", code=123).stdout == ""


def test_standard_input_goes_to_standard_output() -> None:
    assert fmt("-", code=0, data=TYPED.encode()).stdout == PRETTY
    assert fmt("-", code=0, data=PRETTY.encode()).stdout == PRETTY
    assert fmt("-", "--check", code=1, data=TYPED.encode()).output == ""
    assert "--- <stdin>\n" in fmt("-", "--diff", code=0, data=TYPED.encode()).stdout
    assert "<stdin>:1:28: error[TC003]" in fmt("-", code=123, data=WRONG.encode()).stderr


def test_line_ends_and_the_mark_of_the_encoding_stay(files: Path) -> None:
    windows = files / "windows.tc"
    windows.write_bytes(b"\xef\xbb\xbf" + TYPED.replace("\n", "\r\n").encode())
    fmt(windows, code=0)
    assert windows.read_bytes() == b"\xef\xbb\xbf" + PRETTY.replace("\n", "\r\n").encode()
    fmt("--check", windows, code=0)


def test_a_link_stays_a_link(files: Path) -> None:
    (files / "link.tc").symlink_to("typed.tc")
    fmt(files / "link.tc", code=0)
    assert (files / "link.tc").is_symlink()
    assert (files / "typed.tc").read_text() == PRETTY


def test_what_cannot_be_replaced_is_refused(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "latin.tc").write_bytes(b"# \xe9\n" + TYPED.encode())
    assert "latin.tc is not UTF-8 text: " in fmt(files / "latin.tc", code=123).stderr
    os.mkfifo(files / "pipe.tc")
    assert "it is no file that can be replaced" in fmt(files / "pipe.tc", code=123).stderr

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert fmt(files / "typed.tc", code=123).stderr == (
        f"'{files / 'typed.tc'}': No space left on device\n"
    )
    assert (files / "typed.tc").read_text() == TYPED
    assert not [*files.glob(".typed*")]


def test_wrong_usage() -> None:
    assert "Missing argument" in fmt(code=2).stderr
    assert "does not exist" in fmt("nowhere.tc", code=2).stderr
