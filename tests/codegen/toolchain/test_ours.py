"""A process of ours imports our package and nothing of the user's folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tcdsl.codegen.toolchain.ours import start
from tcdsl.grammar.text.errors import CompileError


def test_neither_a_users_files_nor_its_terminal_reach_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("json.py", "tcdsl.py"):
        (tmp_path / name).write_text("raise SystemExit('a file of the user')")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "asked.py").write_text(
        "import json, os, sys, tcdsl\n"
        "own = os.getsid(0) == os.getpid()\n"
        "print(tcdsl.__file__, own, os.environ['ADDED'], *sys.argv[1:])\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    process = start("asked", "7", env={"ADDED": "yes"}, stdout=subprocess.PIPE, text=True)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    package = sys.modules["tcdsl"].__file__
    assert package is not None
    where, *rest = said.split()
    assert os.path.samefile(where, package)
    assert rest == ["True", "yes", "7"]


@pytest.mark.parametrize("executable", [None, "", "/nowhere/python"])
def test_where_python_is_a_part_of_a_program_that_is_told(
    monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(CompileError, match=r"'/nowhere/python' cannot be|does not know what"):
        start("asked")
