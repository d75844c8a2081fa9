"""`tcdsl demo` keeps its promises."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tcdsl.cli import main

ROOT = Path(__file__).parents[3]


@pytest.mark.cc
def test_the_demo_checks_tunes_times_and_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setattr("tcdsl.tools.demo._TIMING_S", 0.05)
    plot = tmp_path / "history.png"
    args = ["demo", "--seconds", "0.2", "--plot", plot, "--cache", tmp_path / "tuned.db"]
    result = CliRunner().invoke(main, [*map(str, args)])
    assert result.exit_code == 0, result.output
    assert "found again by a new kernel" in result.output
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert str(plot) in result.output
    accuracy = re.search(r"accuracy on the held-out third: ([\d.]+)%", result.output)
    assert accuracy is not None
    assert float(accuracy[1]) >= 96
    assert re.search(r"kernel calls: forward \d+, loss \d+, backward \d+", result.output)


@pytest.mark.deep
@pytest.mark.cc
def test_the_front_command_works_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    readme = (clone / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- demo command -->\n```sh\n(.*?)\n```", readme, re.DOTALL)
    assert block is not None
    done = subprocess.run(
        ["bash", "-c", f"{block[1]} --seconds 3"],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accuracy on the held-out third" in done.stdout
