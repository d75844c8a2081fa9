"""`tcdsl profile` runs a script and prints where its time went, however it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cc

SCRIPT = """\
import sys
import torch
x = torch.ones(4, 3)
assert (x + x).sum().item() == 24
print(sys.argv[1:], __name__)
"""


def profiled(
    *args: object, code: int = 0, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcdsl", "profile", *map(str, args)]
    nothing = subprocess.DEVNULL
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, stdin=nothing
    )
    assert done.returncode == code, done.stderr
    return done


def test_a_script_prints_what_it_prints_and_its_kernels_are_told(tmp_path: Path) -> None:
    script, trace = tmp_path / "script.py", tmp_path / "trace.json"
    script.write_text(SCRIPT)
    done = profiled("--as-torch", "--trace", trace, script, "--rows", 3)
    assert done.stdout == "['--rows', '3'] __main__\n"
    names = [line.split(" ")[0] for line in done.stderr.splitlines()]
    assert {"Name", "add", "sum"} <= {*names}
    assert "Kernels: " in done.stderr
    assert {e["name"] for e in json.loads(trace.read_text())["traceEvents"]} >= {"add", "sum"}


def test_a_script_that_fails_has_its_traceback_and_its_table(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import tcdsl as tc\ntc.ones(2) + 1\nraise KeyError('mine')\n")
    told = profiled(script, code=1).stderr
    assert "KeyError: 'mine'" in told
    assert "add" in told
    script.write_text("raise SystemExit(3)\n")
    assert "Self CPU time total: 0.000us" in profiled(script, code=3).stderr


BEGINNING = """\
import os, sys, warnings
warnings.warn("mind")
print(os.path.isabs(__file__), sys.argv[0] == os.path.basename(__file__))
"""


@pytest.mark.parametrize(
    ("end", "said", "code"),
    [
        ("open('no such file')", "FileNotFoundError: [Errno 2]", 1),
        ("import tcdsl as tc; tc.define('def f(')", "SyntaxError", 1),
        ("input()", "EOFError", 1),
        ("sys.exit('that is all')", "that is all", 1),
        ("raise KeyboardInterrupt", "interrupted", 130),
        ("n = os.fork()\nif n: os.waitpid(n, 0)\nelse: sys.stdout = None\nsys.exit(4)", "", 4),
    ],
)
def test_a_script_ends_as_under_python(end: str, said: str, code: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(BEGINNING + end)
    done = profiled(script.name, code=code, cwd=tmp_path)
    assert done.stdout == "True True\n"
    assert f"{script}:2: UserWarning: mind" in done.stderr
    assert said in done.stderr
    assert done.stderr.count("Self CPU time total") == 1
    if "Error" in said:
        assert f'Traceback (most recent call last):\n  File "{script}", line 4' in done.stderr


def test_wrong_usage_runs_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('ran')\n")
    done = profiled("--trace", tmp_path / "none" / "trace.json", script, code=2)
    assert "there is no folder" in done.stderr
    assert not done.stdout
    assert "does not exist" in profiled(tmp_path / "none.py", code=2).stderr
