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


def profiled(*args: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcdsl", "profile", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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


def test_wrong_usage_runs_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('ran')\n")
    done = profiled("--trace", tmp_path / "none" / "trace.json", script, code=2)
    assert "there is no folder" in done.stderr
    assert not done.stdout
    assert "does not exist" in profiled(tmp_path / "none.py", code=2).stderr
