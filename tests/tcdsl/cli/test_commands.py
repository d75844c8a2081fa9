"""Each command: what it prints, its exit code, its JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tcdsl import warming
from tcdsl.ahead import worker
from tcdsl.cli import main

pytestmark = pytest.mark.cc

FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n) = fmax(O(b_, n) + b(n), 0)
}
"""
TWO = FCRELU + "def half(float(N) A) -> (B) { B(i) = A(i) / 2 }"
SIZES = "B=5,M=7,N=3"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "fc.tc").write_text(FCRELU)
    (tmp_path / "two.tc").write_text(TWO)
    (tmp_path / "bad.tc").write_text("def f(float(N) A) -> (B) { B(i) = A(i, j) }")
    return tmp_path


def tcdsl(*args: object, code: int = 0, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, [str(a) for a in args], input=text)
    assert result.exit_code == code, result.output
    return result


def data(*args: object) -> Any:
    return json.loads(tcdsl(*args, "--json").stdout)


def test_check_prints_signatures(files: Path) -> None:
    assert tcdsl("check", files / "two.tc").stdout.splitlines() == [
        "fcrelu(I: float32(B, M), W: float32(N, M), b: float32(N)) -> O: float32(B, N)",
        "half(A: float32(N)) -> B: float32(N)",
    ]
    told = data("check", files / "two.tc")
    assert [d["name"] for d in told["definitions"]] == ["fcrelu", "half"]
    assert told["diagnostics"] == []


def test_check_reads_standard_input() -> None:
    assert "fcrelu(" in tcdsl("check", "-", text=FCRELU).stdout


def test_a_fault_is_shown_with_its_place_and_the_exit_code_is_1(files: Path) -> None:
    result = tcdsl("check", files / "bad.tc", code=1)
    assert f"{files / 'bad.tc'}:1:" in result.stderr
    assert "error[TC" in result.stderr
    assert "Traceback" not in result.stderr


def test_show_tells_ranges_forms_and_work(files: Path) -> None:
    shown = tcdsl("show", files / "fc.tc", "--sizes", SIZES).stdout
    assert "m in 0:M  summed over" in shown
    assert "210 flops" in shown or "flops" in shown
    (one,) = data("show", files / "fc.tc", "--sizes", SIZES)
    assert one["statements"][0]["form"].startswith("g0: ")
    assert one["bytes"] == 4 * (5 * 7 + 3 * 7 + 3 + 5 * 3)
    assert one["flops"] == 5 * 3 * 7 * 2 + 5 * 3 * 2


def test_show_tells_of_a_copy_that_the_compiler_adds(files: Path) -> None:
    text = "def f(float(N) A) -> (O) { O(i) = A(i)  O(i) max=! O(i) + A(i) where i in 1:N }"
    (files / "copy.tc").write_text(text)
    (one,) = data("show", files / "copy.tc", "--sizes", "N=5")
    assert [s["text"] for s in one["statements"]][1] == "O.copy = O"
    assert all("form" in s for s in one["statements"])
    assert data("check", files / "copy.tc")["definitions"][0]["name"] == "f"


def test_show_without_sizes_needs_none(files: Path) -> None:
    assert "flops" not in tcdsl("show", files / "fc.tc").stdout


def test_a_file_with_several_definitions_asks_which(files: Path) -> None:
    result = tcdsl("show", files / "two.tc", code=2)
    assert "choose one with --def" in result.stderr
    assert tcdsl("show", files / "two.tc", "--def", "half").stdout.startswith("half(")
    assert (
        "no definition 'third'" in tcdsl("show", files / "two.tc", "--def", "third", code=2).stderr
    )


def test_emit_prints_c_with_sizes_baked_in_or_for_any(files: Path) -> None:
    exact = tcdsl("emit", files / "fc.tc", "--sizes", SIZES).stdout
    assert "sizes: B=5 M=7 N=3" in exact
    generic = tcdsl("emit", files / "fc.tc").stdout
    assert "sizes: any" in generic
    assert exact.count("tc_exe_fcrelu") == generic.count("tc_exe_fcrelu") == 1


def test_emit_prints_cuda_for_an_architecture(files: Path) -> None:
    exact = tcdsl("emit", files / "fc.tc", "--sizes", SIZES, "--target", "cuda:sm_90").stdout
    assert '#include "prelude.cuh"' in exact
    assert "sizes: B=5 M=7 N=3" in exact
    assert "__global__ void __launch_bounds__(" in exact
    generic = tcdsl("emit", files / "fc.tc", "--target", "cuda").stdout
    assert "tc_i32 B, tc_i32 M" in generic  # addresses of 32 bits
    result = tcdsl("emit", files / "fc.tc", "--target", "cuda:sm_1", code=1)
    assert "unknown GPU architecture 'sm_1'" in result.stderr
    assert "expected 'cpu'" in tcdsl("emit", files / "fc.tc", "--target", "gpu", code=1).stderr


@pytest.mark.nvrtc
def test_emit_writes_files_that_stand_alone(files: Path) -> None:
    folder = files / "made"
    result = tcdsl(
        "emit", files / "fc.tc", "--target", "cuda:sm_80", "--standalone", folder, "--cubin"
    )
    names = ("fcrelu.cu", "fcrelu.h", "fcrelu.cubin")
    assert result.stdout.splitlines() == [str(folder / n) for n in names]
    assert (folder / "fcrelu.cubin").read_bytes().startswith(b"\x7fELF")
    assert "#include" not in (folder / "fcrelu.cu").read_text()
    assert "fcrelu_launch_of" in (folder / "fcrelu.h").read_text()
    assert "-arch=sm_80" in (folder / "fcrelu.h").read_text()


def test_options_of_files_that_stand_alone_are_checked(files: Path) -> None:
    result = tcdsl("emit", files / "fc.tc", "--cubin", code=2)
    assert "--cubin goes with --standalone DIR" in result.stderr
    several = ("--sizes", "B=1|2,M=7,N=3", "--standalone", files / "made")
    assert "one set of sizes" in tcdsl("emit", files / "fc.tc", *several, code=2).stderr
    assert not (files / "made").exists()
    cpu = tcdsl("emit", files / "fc.tc", "--target", "cpu", "--standalone", files / "made", code=2)
    assert "--standalone is for a GPU" in cpu.stderr


def test_run_checks_the_answer_and_keeps_results(files: Path) -> None:
    np.save(files / "b.npy", np.full(3, 100, np.float32))
    result = tcdsl(
        "run", files / "fc.tc", "--sizes", SIZES,
        "--input", f"b={files / 'b.npy'}", "--output", f"O={files / 'O.npy'}",
    )  # fmt: skip
    assert "right" in result.stdout
    assert np.load(files / "O.npy").min() > 50
    (report,) = data("run", files / "fc.tc", "--sizes", SIZES)
    assert report["right"] is True


def test_generics_are_given_by_name(files: Path) -> None:
    text = "def every<S, T>(T(N) A) -> (B) { B(i) = A(S * i) }"
    (files / "every.tc").write_text(text)
    assert tcdsl("check", files / "every.tc").stdout == "every(A: float32(N)) -> B: float32(N)\n"
    given = ("--generic", "S=3", "--generic", "T=int8")
    assert "B: int8 ((N + 2) / 3)" in tcdsl("show", files / "every.tc", *given).stdout
    (report,) = data("run", files / "every.tc", "--sizes", "N=10", *given)
    assert report["results"][0]["shape"] == [4]
    assert report["right"] is True
    assert "A[i * 3]" in tcdsl("emit", files / "every.tc", "--sizes", "N=10", *given).stdout
    assert "S=1" in tcdsl("show", files / "every.tc", code=1).stderr
    assert "no generic 'Q'" in tcdsl("show", files / "every.tc", "--generic", "Q=1", code=2).stderr
    assert "'x' is no type" in tcdsl("show", files / "every.tc", "--generic", "T=x", code=2).stderr


def test_missing_sizes_are_named(files: Path) -> None:
    said = tcdsl("run", files / "fc.tc", "--sizes", "B=1,N=2", code=1).stderr
    assert "M is missing" in said
    assert said.endswith("as in --sizes B=...,M=...,N=...\n")


def test_sizes_that_cannot_be_read_are_wrong_usage(files: Path) -> None:
    for command in ("show", "run", "emit", "warm"):
        said = tcdsl(command, files / "fc.tc", "--sizes", "B=x", code=2).stderr
        assert "--sizes: cannot read sizes 'B=x'" in said


def test_autotune_bench_and_cache_work_together(files: Path) -> None:
    cache = ("--cache", files / "tuned.db")
    tuned = data("autotune", files / "fc.tc", "--sizes", SIZES, "--trials", 2, *cache, "--quiet")
    assert tuned[0]["sizes"] == {"B": 5, "M": 7, "N": 3}
    (bench,) = data("bench", files / "fc.tc", "--sizes", SIZES, "--seconds", 0.05, *cache)
    assert [r["label"] for r in bench["rows"]] == ["untuned", "tuned", "reference"]
    (problem,) = data("cache", "list", *cache)
    assert problem["name"] == "fcrelu B=5 M=7 N=3"
    assert "fcrelu B=5 M=7 N=3" in tcdsl("cache", "list", *cache).stdout
    shown = data("cache", "show", "fcrelu", *cache)
    assert len(shown["trials"]) >= 2
    assert "partition = " in tcdsl("cache", "best", "fcrelu", *cache).stdout
    tcdsl("cache", "export", files / "copy.db", *cache)
    other = ("--cache", files / "other.db")
    assert tcdsl("cache", "merge", files / "copy.db", *other).stdout == "1 configs came in\n"
    assert data("cache", "best", "fcrelu", *other)["config"] == problem["config"]
    tcdsl("cache", "prune", "--days", 0, *cache)
    assert not data("cache", "show", "fcrelu", *cache)["trials"]
    assert "configs" in tcdsl("cache", "path", *cache).stdout


@pytest.mark.wide
def test_cache_show_draws_the_history(files: Path) -> None:
    pytest.importorskip("matplotlib")
    cache = ("--cache", files / "tuned.db")
    tcdsl("autotune", files / "fc.tc", "--sizes", SIZES, "--trials", 1, *cache, "--quiet")
    tcdsl("cache", "show", "fcrelu", *cache, "--plot", files / "history.png")
    assert (files / "history.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", [("demo",), ("cache", "show", "fcrelu", "--plot", "h.png")])
def test_what_the_extra_brings_is_asked_for_first(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = tcdsl(*command, code=1)
    assert result.output == 'Error: this needs matplotlib: pip install "tcdsl[demo]"\n'


def test_an_unknown_problem_is_an_error(files: Path) -> None:
    assert "no problem 'x'" in tcdsl("cache", "best", "x", "--cache", files / "t.db", code=1).stderr


def test_doctor_finds_this_machine_fit() -> None:
    found = {f["name"]: f for f in data("doctor", "--quick")}
    assert found["kernel"]["state"] == "ok"
    assert found["compiler"]["state"] == "ok"
    assert "+ kernel" in tcdsl("doctor", "--quick").stdout


def test_doctor_names_the_cure_where_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCDSL_CC", "/nonexistent/cc")
    result = tcdsl("doctor", "--quick", code=1)
    assert "! compiler" in result.stdout
    assert "tcdsl[zig]" in result.stdout


def test_grad_prints_the_gradient_and_the_training_forward(files: Path) -> None:
    shown = tcdsl("grad", files / "two.tc", "--def", "half").stdout
    assert shown == (
        "def d_half(float32(N) A, float32(N) d_B) -> (d_A) {\n  d_A(i) +=! d_B(i) / 2.0\n}\n"
    )
    with_shapes = tcdsl("grad", files / "two.tc", "--def", "half", "--shapes").stdout
    assert with_shapes == shown.replace("(d_A)", "(float32(N) d_A)")
    both = tcdsl("grad", files / "fc.tc", "--forward").stdout
    assert both.startswith("def fcrelu_forward(")
    assert "def d_fcrelu(" in both
    assert "d_W(n, m) +=! a_O_1(b_, n) * I(b_, m)" in both
    assert "fcrelu_forward(" in tcdsl("check", "-", text=both).stdout


def test_batch_prints_the_definition_over_a_batch(files: Path) -> None:
    shown = tcdsl("batch", files / "two.tc", "--def", "half").stdout
    assert shown == "def batched_half(float(B_2, N) A) -> (B) {\n  B(b, i) = A(b, i) / 2\n}\n"
    last = tcdsl("batch", files / "two.tc", "A=-1", "--def", "half", "--out", "1").stdout
    assert last == "def batched_half(float(N, B_2) A) -> (B) {\n  B(i, b) = A(i, b) / 2\n}\n"
    twice = tcdsl("batch", "-", "A=1", text=shown).stdout
    assert "B(b_2, b, i) = A(b, b_2, i) / 2" in twice
    refused = tcdsl("batch", files / "fc.tc", "W", "c=0", code=2).output
    assert "no parameter 'c'; it has I, W, b" in refused
    assert (
        "expected a dimension for 'W', got 'x'"
        in tcdsl("batch", files / "fc.tc", "W=x", code=2).output
    )


ANY_RANK = """
def scale(float(...) A, float(...) w) -> (O) { O(...) = A(...) * w(...) }
def rows(float(..., D) X) -> (S) { S(...) +=! X(..., d) }
"""


@pytest.mark.wide
def test_a_rank_is_assumed_and_said_or_chosen(tmp_path: Path) -> None:
    (tmp_path / "any.tc").write_text(ANY_RANK)
    result = tcdsl("check", tmp_path / "any.tc")
    assert result.stdout.splitlines() == [
        "scale(A: float32(D0, D1), w: float32(D0, D1)) -> O: float32(D0, D1)",
        "rows(X: float32(D0, D1, D)) -> S: float32(D0, D1)",
    ]
    assert "scale: '...' stands for 2 dimensions here, see --rank" in result.stderr
    result = tcdsl("check", tmp_path / "any.tc", "--rank", 0)
    assert result.stdout.splitlines()[1] == "rows(X: float32(D)) -> S: float32"
    assert result.stderr == ""
    shown = tcdsl("show", tmp_path / "any.tc", "--def", "rows", "--rank", 1).stdout
    assert "param  X: float32 (D0, D)" in shown
    text = tcdsl("emit", tmp_path / "any.tc", "--def", "rows", "--sizes", "D0=4,D=8").stdout
    assert "def rows(float(D0, D) X) -> (S)" in text
    assert tcdsl("bench", tmp_path / "any.tc", "--def", "rows", "--sizes", "D0=4,D=8").stdout


def test_run_takes_the_ranks_of_files_and_of_sizes(tmp_path: Path) -> None:
    (tmp_path / "any.tc").write_text(ANY_RANK)
    a, w = np.ones((3, 1, 4), np.float32), np.full((2, 1), 3, np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "w.npy", w)
    given = [f"--input=A={tmp_path / 'a.npy'}", f"--input=w={tmp_path / 'w.npy'}"]
    keep = f"--output=O={tmp_path / 'o.npy'}"
    tcdsl("run", tmp_path / "any.tc", "--def", "scale", *given, keep)
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), a * w)
    (report,) = data("run", tmp_path / "any.tc", "--def", "rows", "--sizes", "D0=4,D1=2,D=8")
    assert report["right"]
    assert report["results"][0]["shape"] == [4, 2]


@pytest.mark.wide
def test_warm_compiles_files_and_tells_faults_at_the_end(files: Path) -> None:
    rows = data("warm", files / "two.tc", "--sizes", "B=5|6,M=7,N=3", "--grad", "--quiet")
    assert [(r["name"], r["part"], r["sizes"]) for r in rows if r["part"] != "forward"] == [
        ("fcrelu", "kernel", {"B": 5, "M": 7, "N": 3}),
        ("fcrelu", "kernel", {"B": 6, "M": 7, "N": 3}),
        ("fcrelu", "backward", {"B": 5, "M": 7, "N": 3}),
        ("fcrelu", "backward", {"B": 6, "M": 7, "N": 3}),
        ("half", "kernel", {"N": 3}),
        ("half", "backward", {"N": 3}),
    ]
    assert all(r["seconds"] > 0 and not r["error"] for r in rows)
    result = tcdsl("warm", files / "fc.tc", files / "two.tc", "--sizes", "B=5", code=1)
    (half,) = result.stdout.splitlines()
    assert half.startswith("half any sizes: ")
    needs = "fcrelu needs the sizes B, M, N; M, N are missing: B=...,M=...,N=..."
    assert result.stderr.splitlines() == [
        "3 of 3 compiled, 2 failed",
        "2 of 3 parts could not be compiled",
        f"fcrelu B=5: {needs}",
        f"fcrelu B=5: {needs}",
    ]
    tcdsl("warm", "-", "--generic", "T=float64", "--rank", 1, "--jobs", 1, "--quiet",
          text="def add<T>(T(...) A, T(...) B) -> (C) { C(...) = A(...) + B(...) }")  # fmt: skip


def test_warm_refuses_what_no_definition_has(files: Path) -> None:
    two = files / "two.tc"
    for options, told in (
        (["--wrt", "W"], "--wrt goes with --grad"),
        (["--def", "hal"], "there is no definition 'hal'; did you mean 'half'?"),
        (["--generic", "T=1"], "fcrelu has no generic 'T'; it has none"),
    ):
        assert told in tcdsl("warm", two, *options, code=2).stderr
    assert tcdsl("warm", two, "--sizes", "Q=1", code=1).stderr == (
        "no kernel has a size 'Q'; it has B, M, N\n"
    )
    assert "fcrelu(" not in tcdsl("warm", files / "bad.tc", code=1).stdout


def test_warm_that_is_interrupted_says_what_is_kept(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(tasks: Any, jobs: int) -> Iterator[worker.Done]:
        yield worker.Done(0, 0.1, "")
        raise KeyboardInterrupt

    monkeypatch.setattr(warming, "run_all", ended)
    result = tcdsl("warm", files / "two.tc", code=130)
    assert result.stderr == "1 of 2 compiled, which are kept\ninterrupted\n"
