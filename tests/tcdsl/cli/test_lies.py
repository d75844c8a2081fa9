"""Commands that are lied to: a message with the place and the cure, its exit code, no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tcdsl.cli import main

pytestmark = pytest.mark.cc

FC = """
def fc(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(i, n) +=! I(i, m) * W(n, m)
  O(i, n) = O(i, n) + b(n)
}
"""
SIZES = "B=5,M=7,N=3"


def tcdsl(*args: object, text: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(main, [str(a) for a in args], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("fc.tc").write_text(FC)
    Path("dir").mkdir()
    np.save("b.npy", np.ones(3, np.float32))
    whole = Path("b.npy").read_bytes()
    for name, data in {
        "empty": b"", "short": whole[:-5], "head": whole[:20], "noise": bytes(range(256)),
        "header": whole.replace(b"'descr'", b"'d\x00scr'"),
        "huge": whole.replace(b"(3,), }" + 20 * b" ", b"(" + 22 * b"9" + b",), }"),
    }.items():  # fmt: skip
        Path(f"{name}.npy").write_bytes(data)
    np.save("double.npy", np.ones(3))
    np.save("square.npy", np.ones((3, 3), np.float32))
    np.save("object.npy", np.array([{}, []], object), allow_pickle=True)
    np.save("words.npy", np.array(["a", "b"]))
    np.save("fields.npy", np.zeros(3, [("a", "f4")]))
    np.savez("many.npz", a=np.ones(3))
    return tmp_path


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("none.npy", "'none.npy' cannot be read: No such file or directory"),
        ("dir", "'dir' cannot be read: Is a directory"),
        ("empty.npy", "'empty.npy' is no .npy file"),
        ("noise.npy", "argument 'b': 'noise.npy' is no .npy file; numpy.save writes them\n"),
        ("many.npz", "'many.npz' is no .npy file"),
        ("fc.tc", "'fc.tc' is no .npy file"),
        ("short.npy", "'short.npy' holds no array of numbers: Failed to read all data"),
        ("head.npy", "'head.npy' holds no array of numbers: EOF"),
        ("header.npy", "'header.npy' holds no array of numbers:"),
        ("huge.npy", "'huge.npy' holds no array of numbers: Python int too large"),
        ("object.npy", "'object.npy' holds no array of numbers: Object arrays cannot be loaded"),
        ("words.npy", "'words.npy' holds <U1, expected numbers"),
        ("fields.npy", "argument 'b' has type [('a', '<f4')]"),
        ("double.npy", "expected b of type float32, got float64"),
        ("square.npy", "expected b with 1 dimension, got shape (3, 3)"),
    ],
)
def test_a_file_that_is_no_such_array_is_named(folder: Path, file: str, message: str) -> None:
    result = tcdsl("run", "fc.tc", "--sizes", SIZES, "--input", f"b={file}")
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("argument 'b'") <= 1


LIES: list[tuple[str, int, str]] = [
    ("run fc.tc --sizes B=5,M=7,N=4 --input b=b.npy", 1,
     "N = 4 is asked for, but N = 3 comes from b, shape (3,)"),
    ("run fc.tc --sizes b=5,M=7,N=3", 1, "fc has no size 'b'; its sizes are B, M, N"),
    (f"run fc.tc --sizes {SIZES} --input X=b.npy", 2, "fc has no parameter 'X'; it has I, W, b"),
    (f"run fc.tc --sizes {SIZES} --input b=b.npy --input b=b.npy", 2, "'b' is given twice"),
    (f"run fc.tc --sizes {SIZES} --input b", 2, "expected NAME=FILE.npy, got 'b'"),
    (f"run fc.tc --sizes {SIZES} --output P=p.npy", 2, "fc has no return 'P'; it has O"),
    (f"run fc.tc --sizes {SIZES} --output O=none/o.npy", 2, "--output: there is no folder 'none'"),
    (f"run fc.tc --sizes {SIZES} --output O=dir", 2, "'dir' is a directory, expected a file"),
    ("run fc.tc --sizes B=1|2,M=7,N=3 --output O=o.npy", 2, "--output takes one set of sizes"),
    (f"run fc.tc --sizes {SIZES} --seed -1", 2, "-1 is not in the range"),
    ("run fc.tc --sizes B=1..9999999,M=7,N=3", 2, "are more than 100,000 sizes"),
    ("run fc.tc --sizes B=1..999,M=1..999,N=3", 2, "998,001 combinations of sizes"),
    ("run fc.tc --sizes B=99999999999999999999,M=7,N=3", 2, "size 'B' is beyond 64 bits"),
    ("run fc.tc --sizes B=9999999999,M=7,N=3", 1, "there is no memory for this"),
    ("emit fc.tc --tuned", 2, "--tuned needs --sizes: a config is tuned for sizes"),
    ("emit fc.tc --target cuda --standalone /proc/none", 1, "/proc/none"),
    ("show fc.tc --def fcc", 2, "has no definition 'fcc'; did you mean 'fc'?"),
    ("grad fc.tc --generic S=4", 2, "fc has no generic 'S'; it has none"),
    (f"autotune fc.tc --sizes {SIZES} --seconds -1", 2, "expected a number from 0 on, got -1.0"),
    (f"autotune fc.tc --sizes {SIZES} --seconds nan", 2, "expected a number from 0 on, got nan"),
    (f"autotune fc.tc --sizes {SIZES} --seconds inf", 2, "expected a number from 0 on, got inf"),
    (f"autotune fc.tc --sizes {SIZES} --trials -1", 2, "-1 is not in the range"),
    (f"bench fc.tc --sizes {SIZES} --seconds inf", 2, "expected a number from 0 on, got inf"),
    ("cache prune --days -1", 2, "expected a number from 0 on, got -1.0"),
    ("cache prune --days nan", 2, "expected a number from 0 on, got nan"),
    ("demo --seconds nan", 2, "expected a number from 0 on, got nan"),
    ("demo --plot none/p.png", 2, "--plot: there is no folder 'none'"),
    ("check dir", 2, "'dir' is a directory"),
    ("check none.tc", 2, "'none.tc' does not exist"),
    ("check b.npy", 1, "b.npy is not UTF-8 text"),
    ("shwo fc.tc", 2, "No such command 'shwo'"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code", "message"), LIES, ids=[line for line, _, _ in LIES])
def test_a_lie_is_refused_in_words(folder: Path, line: str, code: int, message: str) -> None:
    result = tcdsl(*line.split())
    assert (result.exit_code, result.stdout.count("first call")) == (code, 0)
    assert message in " ".join(result.stderr.split())


def test_an_output_keeps_the_name_it_was_given(folder: Path) -> None:
    assert tcdsl("run", "fc.tc", "--sizes", SIZES, "--output", "O=o.dat").exit_code == 0
    assert np.load("o.dat").shape == (5, 3)
    assert not Path("o.dat.npy").exists()


def test_standard_input_may_be_empty_or_no_text(folder: Path) -> None:
    result = tcdsl("check", "-", text="")
    assert (result.exit_code, "<stdin>:1:1: error[TC" in result.stderr) == (1, True)
    result = tcdsl("check", "-", text=b"def \xff\xfe")
    assert (result.exit_code, "<stdin> is not UTF-8 text" in result.stderr) == (1, True)


def test_a_text_may_begin_with_the_mark_of_some_editors(folder: Path) -> None:
    Path("marked.tc").write_bytes(b"\xef\xbb\xbf" + FC.strip().replace("\n", "\r\n").encode())
    assert tcdsl("check", "marked.tc").stdout.startswith("fc(I: float32(B, M)")


def test_a_warning_is_shown_without_lines_of_ours(folder: Path) -> None:
    Path("sum.tc").write_text("def f(float(N) A) -> (B) { B(i) += A(i) }")
    for command in ("check", "show", "emit"):
        result = tcdsl(command, "sum.tc")
        assert result.exit_code == 0
        assert result.stderr.startswith("sum.tc:1:33: warning[TC150]: '+='")
        assert "app.py" not in result.stderr
        assert "define(" not in result.stderr


# ---- diagnostics as data


def test_check_gives_faults_as_data(folder: Path) -> None:
    Path("bad.tc").write_text("def f(float(N) A) -> (B) {\n  B(i) = A(i, j)\n}\n")
    result = tcdsl("check", "bad.tc", "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    told = json.loads(result.stdout)
    assert told["definitions"] == []
    first: dict[str, Any] = told["diagnostics"][0]
    assert sorted(first) == ["code", "label", "message", "notes", "severity", "span"]
    assert first["severity"] == "error"
    assert first["code"].startswith("TC")
    assert first["span"] == {
        "file": "bad.tc", "line": 2, "column": 10, "end_line": 2, "end_column": 17,
    }  # fmt: skip
    assert all(sorted(note) == ["label", "message", "span"] for note in first["notes"])


def test_check_gives_warnings_as_data_beside_what_is_right(folder: Path) -> None:
    text = "def f(float(N) A) -> (B) { B(i) += A(i) }"
    result = tcdsl("check", "-", "--json", text=text)
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert [d["name"] for d in told["definitions"]] == ["f"]
    assert [d["severity"] for d in told["diagnostics"]] == ["warning"]


# ---- ends from outside


def test_ctrl_c_ends_with_130_and_a_second_one_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first comes while a command reads its text, the second while it says so."""
    told: list[str] = []

    def echo(text: str, err: bool = False) -> None:
        signal.raise_signal(signal.SIGINT)
        told.append(text)

    def interrupted(path: Path) -> bytes:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it was not raised")

    monkeypatch.setattr("tcdsl.cli.app.click.echo", echo)
    monkeypatch.setattr(Path, "read_bytes", interrupted)
    assert tcdsl("check", "fc.tc").exit_code == 130
    assert told == ["interrupted"]


def test_a_search_that_was_stopped_before_it_found_anything_ends_with_130(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tcdsl.autotune.tuner.tune", lambda *args, **options: [])
    result = tcdsl("autotune", "fc.tc", "--sizes", SIZES, "--cache", "t.db")
    assert (result.exit_code, result.stdout) == (130, "")


def test_a_reader_that_leaves_is_no_error(folder: Path) -> None:
    code = "from tcdsl.cli import main; main(['emit', 'fc.tc'])"
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    assert run.stderr.read() == ""
    assert run.wait() == 1
