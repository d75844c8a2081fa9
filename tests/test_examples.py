"""Every example runs and is listed; the definitions of examples/*.tc are right on every side."""

from __future__ import annotations

import functools
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet  # what pytest.param gives; it has no public name
from click.testing import CliRunner

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.parser import parse
from tests.codegen.gradient.differences import assert_gradient, differentiated_def, floats
from tests.tcdsl.differential import assert_close, reference, results
from tests.texts import EXAMPLES, Example, arguments, commands, examples
from tests.tiers import sampled

ALL = examples()
# Integers in, or integers out.
WITHOUT_GRADIENT = {"edit_distance", "brightest"}


def scripts() -> Iterator[ParameterSet]:
    """Yield the scripts and, for those that train in PyTorch, the backend of its compiler.

    One waits for torch's own, which takes ten seconds and more for each; all of them do in `deep`.
    """
    without = {*EXAMPLES.glob("train_*.py"), EXAMPLES / "shown.py"}
    for path in sorted({*EXAMPLES.glob("*.py")} - without):
        if not path.stem.startswith("torch_"):
            yield pytest.param(path, None, id=path.stem)
            continue
        for backend in ("aot_eager", "inductor"):
            often = (backend == "inductor") == (path.stem == "torch_fcrelu")
            often &= path.stem != "torch_resnet"  # a minute
            marks = [pytest.mark.torch, pytest.mark.wide if often else pytest.mark.deep]
            yield pytest.param(path, backend, marks=marks, id=f"{path.stem} {backend}")


@pytest.mark.cc
@pytest.mark.parametrize(("path", "backend"), [*scripts()])
def test_an_example_runs_and_is_listed(
    path: Path,
    backend: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if backend:
        torch = pytest.importorskip("torch")
        compiles = functools.partial(torch.compile, backend=backend)
        monkeypatch.setattr(torch, "compile", compiles)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert f"`{path.name}`" in (EXAMPLES / "README.md").read_text()


@pytest.mark.cc
@sampled(
    "path", sorted(EXAMPLES.glob("train_*.py")), ids=lambda p: p.stem, keep=0, wide=3
)  # a small one: tcdsl/as_torch/test_scripts.py
def test_a_script_written_for_pytorch_trains(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert len(path.read_text().splitlines()) < 150
    said = train(path, tmp_path, "-m", "tcdsl.as_torch")
    assert f"plot: {path.stem}.png" in said
    if path.stem == "train_gpt":
        assert "the dog sat on the log" in said
    assert f"`{path.name}`" in (EXAMPLES / "README.md").read_text()


@pytest.mark.cc
@pytest.mark.torch
@pytest.mark.deep
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("train_*.py")), ids=lambda p: p.stem)
def test_the_same_script_trains_under_pytorch(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("torch")
    assert f"plot: {path.stem}.png" in train(path, tmp_path)


# Each script asserts its figure itself; these are smaller than what it does by default.
SMALL = {
    "train_resnet": ["--width", "8"],
    "train_tc_layer": ["--trials", "0"],
}


def train(path: Path, folder: Path, *how: str) -> str:
    """Run a script that trains in a folder; return what it says."""
    command = [sys.executable, *how, str(path), *SMALL.get(path.stem, [])]
    root = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=root
    )
    assert done.returncode == 0, done.stderr
    assert (folder / f"{path.stem}.png").read_bytes().startswith(b"\x89PNG")
    return done.stdout


def test_every_row_of_the_list_is_in_a_table() -> None:
    for block in (EXAMPLES / "README.md").read_text().split("\n\n"):
        if block.startswith("|"):
            assert block.splitlines()[1].startswith("|---")


def test_every_text_is_listed_and_survives_the_formatter() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    for path in {e.path for e in ALL}:
        assert f"`{path.name}`" in listed
        program = parse(path.read_text())
        assert parse(format_program(program)) == program


@pytest.mark.cc
@pytest.mark.parametrize("larger", [(0,), pytest.param((0, 2), marks=pytest.mark.deep)])
@sampled("example", ALL, ids=lambda e: e.name, keep=10, wide=14)
def test_a_text_computes_what_the_reference_computes(
    example: Example, larger: tuple[int, ...], rng: np.random.Generator
) -> None:
    kernel = example.kernel()
    for more in larger:  # an executable of its own, then one for any size
        sizes = {n: x + more * (n in ("B", "N", "T", "M")) for n, x in example.sizes.items()}
        checked = kernel.variant().checked
        args = arguments(checked, sizes, rng)
        for got, want in zip(
            results(kernel(*args)), reference(checked, args, float64=True), strict=True
        ):
            assert_close(got, want, 200)


@sampled("example", ALL, ids=lambda e: e.name, keep=8, wide=12)
def test_a_text_has_the_gradient_of_central_differences(
    example: Example, rng: np.random.Generator
) -> None:
    checked = example.kernel().variant().checked
    if example.name in WITHOUT_GRADIENT:
        with pytest.raises(TCError, match="TC140"):
            differentiated_def(checked)
        return
    args = arguments(checked, example.sizes, rng)
    for i in floats(checked):
        args[i] = args[i].astype(np.float64)
    assert_gradient(differentiated_def(checked), args, rng)


@pytest.mark.cc
@pytest.mark.parametrize(("file", "line"), commands())
def test_the_commands_in_the_texts_run(file: str, line: str) -> None:
    from tcdsl.cli import main

    program, *args = shlex.split(line)
    assert program == "tcdsl"
    assert f"examples/{file}" in args
    done = CliRunner().invoke(
        main, [str(EXAMPLES / file) if a == f"examples/{file}" else a for a in args]
    )
    assert done.exit_code == 0, done.output
    assert done.output


def test_the_gradient_by_hand_is_the_one_that_is_derived() -> None:
    """What examples/lookups.tc says of itself."""
    program = parse((EXAMPLES / "lookups.tc").read_text())
    for name in ("embedding", "embedding_bag"):
        derived = differentiated_def(check(program, name)).backward
        by_hand = check(program, f"{name}_gradient")
        assert sorted(_lines(derived.text)) == sorted(_lines(by_hand.text))


def _lines(text: str) -> list[str]:
    """Return the statements of a definition."""
    return [line.strip() for line in text.splitlines()[1:] if "!" in line]
