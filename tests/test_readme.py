"""The README is true: its Python runs, its commands exist, its two front commands are whole."""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import tcdsl as tc

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


IN_PYTORCH = README.split("\n## In PyTorch\n")[1].split("\n## ")[0]


def blocks(language: str, text: str = README.replace(IN_PYTORCH, "")) -> list[str]:
    """Return the blocks of a language; those for PyTorch stand in a section of their own."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.cc
def test_its_python_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(blocks("python"))
    assert code.count("tc.define") >= 6
    assert code.count("seconds=5") == 1
    code = code.replace("seconds=5", "seconds=0.3")  # a search of any length is this one
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "subscript 0 of 'E' is 12, outside [0, 10)" in printed
    for comment in re.findall(r"^print\(.*?\)  # (<.*)$", code, re.MULTILINE):
        assert comment in printed.splitlines()


@pytest.mark.cc
@pytest.mark.torch
def test_its_python_for_pytorch_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    # All but the last step, in which torch's own compiler takes ten seconds.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    code = "\n".join(blocks("python", IN_PYTORCH))
    assert "tct.nn.TC" in code
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.startswith("TC(\n  fcrelu(float(B, M) I")


def test_the_gradients_it_shows_are_those_that_are_printed(tmp_path: Path) -> None:
    from tcdsl.cli import main

    shown = README.split("```\ndef d_mm")[1].split("```")[0]
    printed = ""
    for name in ("mm", "same"):
        texts = [t for t in _definitions("\n".join(blocks("python"))) if f"def {name}(" in t]
        (tmp_path / "f.tc").write_text(texts[0])
        done = CliRunner().invoke(main, ["grad", str(tmp_path / "f.tc"), "--def", name])
        printed += done.output
    assert printed == f"def d_mm{shown}"


def test_what_it_names_of_the_package_is_there() -> None:
    names = {*re.findall(r"\btc\.([a-z]\w*)", README)}
    assert {"define", "set_num_threads"} <= names
    assert [name for name in sorted(names) if not hasattr(tc, name)] == []


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


def _definitions(code: str) -> list[str]:
    """Return the texts that python code defines kernels by."""
    return [a or b for a, b in re.findall(r'"""(.*?)"""|"(def .*?)"', code, re.DOTALL)]


SIZES = "B=3,M=4,N=5"


@pytest.mark.cc
def test_every_command_in_the_readme_runs(tmp_path: Path) -> None:
    """But the demo, which has a test of its own."""
    from tcdsl.cli import main

    file, pair, script = (tmp_path / n for n in ("layer.tc", "pair.tc", "script.py"))
    file.write_text(
        "def layer(float(B,M) I, float(N,M) W) -> (O) { O(b, n) +=! I(b, m) * W(n, m) }"
    )
    pair.write_text("def pair(float(B,M) I) -> (O) { O(b) +=! I(b, m) }")
    script.write_text("import tcdsl\ntcdsl.ones(3) + 1\n")
    database = ["--cache", str(tmp_path / "tuned.db")]
    more = {
        "autotune": ["--trials", "1", "--quiet", *database],
        "bench": ["--seconds", "0.1", *database],
    }
    rows = re.findall(r"^\| `tcdsl (\w+)([^`]*)`", README, re.MULTILINE)
    for name, rest in rows:
        if name == "demo":
            continue
        lines = [rest.replace("\\|", "|")]
        if "[" in rest:  # an option: without it, and with it
            lines = [re.sub(r"\[.*?\]", "", rest), rest.replace("[", "").replace("]", "")]
        if name == "cache":
            lines = [f" {x}" for x in ("list", "show", "best", "path")]
        for line in lines:
            at = pair if "|" in line else file
            line = line.replace("FILE", str(at)).replace("SCRIPT", str(script))
            words = shlex.split(line.replace("...", SIZES))
            words += more.get(name, [])
            if name == "cache" and words != ["path"]:
                words += ([] if words == ["list"] else ["pair B=2"]) + database
            done = CliRunner().invoke(main, [name, *words])
            assert done.exit_code == 0, f"tcdsl {name} {words}: {done.output}"


def test_every_option_in_the_readme_exists() -> None:
    from tcdsl.cli import main

    for name, rest in re.findall(r"^\| `tcdsl (\w+)([^`]*)`", README, re.MULTILINE):
        known = {o for p in main.commands[name].params for o in p.opts}
        for word in shlex.split(rest.replace("\\|", " ").replace("[", " ").replace("]", " ")):
            if word.startswith("--"):
                assert word in known, f"tcdsl {name} has no {word}"
