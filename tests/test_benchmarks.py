"""The benchmarks run: on a layer or a row each, that of a GPU without one."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu.py"


def run(
    *options: str, script: Path = SCRIPT, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *options],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_benchmark", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_gpu_it_says_so_and_what_runs_without_one() -> None:
    done = run(CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert "--simulate runs without a GPU" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_section_is_refused_with_the_known_ones() -> None:
    done = run("--only", "speed")
    assert done.returncode == 2
    assert "no section speed; there are facts, checks" in done.stderr


def test_a_section_that_fails_costs_its_own_result_only() -> None:
    def broken(setting: Any, seconds: float) -> dict[str, Any]:
        raise ValueError("no such thing")

    found = script()._guarded(broken, None, 1.0, "broken")
    assert found["error"] == "ValueError: no such thing"
    assert "seconds" in found


@pytest.mark.deep
@pytest.mark.nvrtc
@pytest.mark.cusim
def test_every_section_runs_on_the_simulated_device(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = run("--simulate", "--json", str(path), "--commit", "abc")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(path.read_text())
    assert report["commit"] == "abc"
    assert report["checks"]["is_complete"]
    assert report["checks"]["kernels"] > 20
    assert [r["name"] for r in report["torch"]["rows"]] == ["matmul 9x7x5", "softmax 3x40"]
    assert len(report["tuning"]["rows"]) == 3
    assert {k: e.split(":")[0] for k, e in report["tuning"]["planted"].items()} == {
        "crash": "crash",
        "hang": "slow",
    }


@pytest.mark.deep
@pytest.mark.torch
@pytest.mark.cc
def test_the_table_of_gradients_checks_and_times_a_layer(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    options = ("--only", "130x77x41", "--seconds", "0.05", "--json", str(path))
    done = run(*options, script=ROOT / "benchmarks" / "gradients.py")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(path.read_text())["layers"]
    assert row["ratio"] > 0
    assert all("contraction" in form for form in row["forms"])


@pytest.mark.deep
@pytest.mark.torch
@pytest.mark.cc
def test_the_table_of_examples_for_pytorch_checks_and_times_a_layer(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    options = ("--only", "fcrelu 100", "--seconds", "0.05", "--json", str(path))
    done = run(*options, script=ROOT / "benchmarks" / "torch_layers.py")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(path.read_text())
    (row,) = report["layers"]
    assert len(row["time_us"]) == 8  # four routes, forward and step
    assert len(report["load"]) == 2


@pytest.mark.deep
@pytest.mark.cc
def test_the_table_of_first_uses_counts_executables_and_compilers(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    first_use = ROOT / "benchmarks" / "first_use.py"
    done = run("--only", "cold add", "--json", str(path), script=first_use)
    assert done.returncode == 0, done.stdout + done.stderr
    exact, generic = json.loads(path.read_text())["rows"]
    assert (exact["step"], generic["step"]) == ("exact", "generic")
    assert exact["made"] >= 1
    assert exact["compiler_s"] > 0
    assert generic["made"] == 0  # sums of elements of any shape have one executable
    assert "cold add: exact" in done.stdout


@pytest.mark.wide
def test_rows_of_first_uses_outlive_one_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import first_use
    import first_use_runs

    wrong = first_use.Row("wrong", first_use_runs.run_cold, "no program", False, {})
    rows = (wrong, *(row for row in first_use.rows() if row.name == "import"))
    monkeypatch.setattr(first_use, "rows", lambda: iter(rows))
    path = tmp_path / "report.json"
    assert first_use.table("", 1, path) == 1
    assert "wrong: its process ended with 1" in capsys.readouterr().out
    (row,) = json.loads(path.read_text())["rows"]
    assert row["step"] == "and first define"
    assert row["cpu_ms"] > 0


@pytest.mark.deep
@pytest.mark.torch
@pytest.mark.cc
def test_first_uses_end_a_script_after_the_first_step_of_its_optimizer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import first_use

    names = {row.name for row in first_use.rows()}
    scripts = sorted(p.name for p in (ROOT / "examples").glob("train_*.py"))
    assert {f"{state} {name}" for name in scripts for state in ("cold", "warm")} <= names
    script = tmp_path / "script.py"
    script.write_text(
        "import shown\n"  # what the scripts share lies beside them
        "import argparse\n"
        "argparse.ArgumentParser().parse_args()\n"  # the benchmark's options are not its own
        "print('no row of the table')\n"
        "import torch\n"
        "x = torch.zeros(2, requires_grad=True)\n"
        "optimizer = torch.optim.AdamW([x], lr=0.5)\n"  # it steps as its base does
        "(x + 1).sum().backward()\n"
        "optimizer.step()\n"
        "raise AssertionError('this is behind the step')\n"
    )
    code = (
        f"import json, sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r})\n"
        "import first_use_runs\n"
        f"first_use_runs.run_script(lambda **s: print(json.dumps(s)), {str(script)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run_script", "script.py"],
        capture_output=True,
        text=True,
        env=os.environ | {"TCDSL_CACHE": str(tmp_path / "cache")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()  # a table reads nothing but rows
    row = json.loads(line)
    assert row["step"] == "import and first step"
    assert row["made"] >= 1


@pytest.mark.wide
@pytest.mark.cc
def test_a_model_of_single_operations_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import models

    model = models.language_model(width=8, symbols=11, length=3)
    losses = [model.step(2) for _ in range(8)]
    assert losses[-1] < losses[0] - 0.01
    assert len({*losses}) == len(losses)


@pytest.mark.wide
@pytest.mark.torch
@pytest.mark.cc
def test_the_table_of_the_library_checks_and_times_a_call_and_a_step(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    for only, names in (
        ("add of 16", ["add of 16", "add of 16, recorded", "add of 16, and back"]),
        ("tiny MLP", ["step of a tiny MLP, 2x8-8-4"]),
    ):
        options = ("--only", only, "--seconds", "0.02", "--json", str(path))
        done = run(*options, script=ROOT / "benchmarks" / "library.py")
        assert done.returncode == 0, done.stdout + done.stderr
        rows = json.loads(path.read_text())["rows"]
        assert [r["name"] for r in rows] == names
        assert all(r["ratio"] > 0 and r["aim"] and "error" not in r for r in rows)
    assert rows[0]["alive_bytes"]["ours"] > 0
    assert "miss their aim, worst first" in done.stdout


@pytest.mark.wide
def test_the_table_of_the_library_has_every_op_that_is_compared_with_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import library_calls

    from tests.tcdsl.ops.samples import FAMILIES

    text = " ".join(call.expression for call in library_calls.calls())
    words = {*re.findall(r"\w+", text), *library_calls.BY_OPERATOR, *library_calls.LEFT_OUT}
    names = {sample.name for family in FAMILIES for sample in family()}
    assert names - words == set()


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The benchmark's own modules, for a test only."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("suite")
    for name in [n for n in sys.modules if n.partition(".")[0] in {"suite", "suite_parts"}]:
        del sys.modules[name]


@pytest.mark.wide
def test_every_workload_of_the_suite_is_a_program_with_a_name_of_its_own(suite: Any) -> None:
    from tcdsl.definitions import define

    names = [w.name for w in suite.workloads()]
    assert len(names) == len({*names}) >= 110
    for workload in suite.workloads():
        k = define(workload.text)
        assert len(k.params) == len(workload.inputs)
    for name in suite.random_shapes(2, seed=3):
        assert suite.find(name).text == suite.find(name).text
        assert len(define(suite.find(name).text).params) == len(suite.find(name).inputs)


def test_a_suites_ratio_is_of_the_best_peer_to_ours_untuned(suite: Any) -> None:
    times = {
        "tcdsl untuned": 2.0,
        "tcdsl tuned": 1.0,
        "numpy": 9.0,
        "torch": 8.0,
        "torch last": 6.0,
    }
    row: dict[str, Any] = {"us": times}
    suite.judge(row)
    assert (row["ours"], row["best"], row["ratio"]) == (2.0, "torch last", 3.0)
    alone: dict[str, Any] = {"us": {"tcdsl untuned": 2.0}}
    suite.judge(alone)
    assert (alone["best"], alone["ratio"]) == (None, None)


def test_results_differ_where_one_is_infinite_or_no_number(suite: Any) -> None:
    inf, nan = np.inf, np.nan
    theirs = np.array([-inf, inf, nan, 4.0])
    assert suite.distance(np.array([-inf, inf, nan, 3.0]), theirs) == 0.25
    for wrong in ([inf, inf, nan, 4], [-inf, 5, nan, 4], [-inf, inf, 0, 4], [-inf, inf, nan, nan]):
        assert not suite.distance(np.array(wrong), theirs) <= 1


def test_the_worst_random_shapes_of_each_form_are_listed_and_timed_again(
    suite: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {suite.form_of(n) for n in suite.random_shapes(1, 5, ["conv", "scan"])} == {
        "conv",
        "scan",
    }
    rows = [
        {"form": form, "random": f"random {form} 5 {i}", "workload": f"{form} {i}", "kind": "any",
         "best": "torch", "ratio": ratio}
        for form, ratios in {"conv": (0.5, 2.0, 1.0), "scan": (0.9, 0.8, None)}.items()
        for i, ratio in enumerate(ratios)
    ]  # fmt: skip
    assert [row["workload"] for row in suite.worst_of(rows, 2)] == [
        "conv 0",
        "conv 2",
        "scan 1",
        "scan 0",
    ]
    suite.summary(rows)
    said = capsys.readouterr().out
    assert re.search(r"^scan +2 +0.85 +0.80 +1$", said, re.MULTILINE)
    first, second = said.split("worst of ")[1:]
    assert first.startswith("conv:\n    0.50  conv 0  (torch)  random conv 5 0\n")
    assert second.startswith("scan:\n    0.80  scan 1")


@pytest.mark.deep
@pytest.mark.torch
@pytest.mark.cc
def test_the_suite_times_a_workload_in_processes_of_its_peers(tmp_path: Path) -> None:
    path, picture = tmp_path / "report.json", tmp_path / "picture.png"
    options = ("--only", "softmax 500x26", "--seconds", "0.05", "--generic")
    kept = ("--json", str(path), "--png", str(picture))
    done = run(*options, *kept, script=ROOT / "benchmarks" / "suite.py")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(path.read_text())["rows"]
    assert {*row["us"]} == {"tcdsl untuned", "torch", "torch-avx512"}
    assert {clock: len(both) for clock, both in row["generic"].items()} == {"wall": 2, "cpu": 2}
    assert "generic over exact" in done.stdout
    assert not row["wrong"]
    assert row["flops"] > 500 * 26
    assert picture.read_bytes()[1:4] == b"PNG"


def test_a_kernel_without_a_verdict_is_listed_and_the_others_are_tuned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import never_slower

    from tcdsl.autotune.store.trial import UntunedError

    def tuned(name: str, seconds: float) -> str:
        if name == "thin small":
            raise UntunedError("it was not timed")
        return f"tuned for {seconds:g} s"

    monkeypatch.setattr(never_slower, "tuned", tuned)
    names = ["add small", "thin small", "conv small"]
    monkeypatch.setattr(sys, "argv", ["never_slower.py", "--seconds", "3", *names])
    with pytest.raises(SystemExit) as ended:
        never_slower.main()
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if line.endswith("tuned for 3 s")] == [
        "add small: tuned for 3 s",
        "conv small: tuned for 3 s",
    ]
    assert err == "thin small failed: it was not timed\n"


def test_a_report_is_there_whole_or_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from reports import keep

    path = tmp_path / "new" / "report.json"
    keep({"rows": [1]}, path)
    with path.open() as before:
        keep({"rows": [1, 2]}, path)
        assert json.load(before) == {"rows": [1]}, "not written over"
    assert json.loads(path.read_text()) == {"rows": [1, 2]}
    assert [p.name for p in path.parent.iterdir()] == ["report.json"]
