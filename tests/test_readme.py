"""The README is true: its Python runs, its commands exist, its two front commands are whole."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.cc
def test_its_python_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(blocks("python"))
    assert code.count("tc.define") >= 6
    exec(compile(code, "README.md", "exec"), {})
    assert "subscript 0 of 'E' is 12, outside [0, 10)" in capsys.readouterr().out


def test_the_two_front_commands_are_one_line_each() -> None:
    commands = [c.strip() for c in blocks("sh")]
    assert len(commands) == 2
    assert all("\n" not in c and c.startswith("python3 -m venv .venv") for c in commands)
    assert commands[0].endswith("tcdsl demo")
    assert ".venv/bin/pytest" in commands[1]


def test_every_command_is_in_the_readme_and_has_help() -> None:
    from tcdsl.cli import main

    listed = re.findall(r"^\| `tcdsl (\w+)", README, re.MULTILINE)
    assert sorted(listed) == sorted(main.commands)
    for name, command in main.commands.items():
        assert command.help, f"tcdsl {name} has no help"
        for sub in getattr(command, "commands", {}).values():
            assert sub.help, f"tcdsl {name} {sub.name} has no help"


def test_every_option_in_the_readme_exists() -> None:
    from tcdsl.cli import main

    for name, rest in re.findall(r"^\| `tcdsl (\w+)([^`]*)`", README, re.MULTILINE):
        known = {o for p in main.commands[name].params for o in p.opts}
        for word in shlex.split(rest.replace("\\|", " ").replace("[", " ").replace("]", " ")):
            if word.startswith("--"):
                assert word in known, f"tcdsl {name} has no {word}"
