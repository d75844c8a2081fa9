"""What was chosen and compiled in one process is found by others, and lowered nowhere again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.autotune.targets.cpu.key import key_of
from tcdsl.calls.bindings import index, session, tuned
from tcdsl.calls.bindings.parsed import parsed
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain import contentfile, objects, records
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.host import detect
from tcdsl.grammar.check import definition
from tests.tiers import sampled

pytestmark = pytest.mark.cc

TEXT = "def sums(float(M,N) x, float(N) w) -> (y) { y(m) +=! x(m, n) * w(n) }"
X = np.linspace(-1, 1, 7 * 13, dtype=np.float32).reshape(7, 13)
W = np.linspace(2, 3, 13, dtype=np.float32)
NO_FILE = f"sums-{'0' * 32}-{'0' * 16}.so"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(records, "generator", lambda: "0" * 32)
    parsed.cache_clear()
    return tmp_path / "cache"


def call(text: str = TEXT, threads: int = 2) -> Any:
    """Call as a new process would: nothing that another kernel of the text knows is shared."""
    k: Any = tc.define(text, threads=threads)
    return k(X, W)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done from now on that a record saves."""
    done: list[str] = []

    def counted(name: str) -> None:
        real = getattr(compiler, name)

        def count(*args: Any, **kwargs: Any) -> Any:
            done.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(compiler, name, count)

    for name in (
        "default_config",
        "lower",
        "generic_choice",
        "lower_generic",
        "emit_c",
        "is_legal",
    ):
        counted(name)
    return done


ALL = ["default_config", "lower", "emit_c"]


def test_a_second_process_arranges_lowers_and_prints_nothing(work: list[str]) -> None:
    first = call()
    assert work == ALL
    work.clear()
    assert call().tobytes() == first.tobytes()
    assert work == []


TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(N - 1 - i) }"
FOR_ALL = ["generic_choice", "lower_generic", "emit_c"]


def calls_of_sizes(*sizes: int) -> None:
    k: Any = tc.define(TWICE)
    for n in sizes:
        np.testing.assert_array_equal(k(W[:n]), 2 * W[:n][::-1])


def test_a_size_that_no_process_had_is_served_by_what_serves_all(work: list[str]) -> None:
    calls_of_sizes(7, 5)
    assert work == [*ALL, *FOR_ALL]
    work.clear()
    calls_of_sizes(7, 3, 6, 1)
    assert work == []


@sampled(
    "regime",
    [None, [["N", 1, True]], [[[[["K"], 1]], 1, True]], [[[[["N"], 1]], 1 << 40, True]]],
    keep=2,
)
def test_a_choice_for_other_sizes_is_a_miss(
    monkeypatch: pytest.MonkeyPatch, work: list[str], regime: object
) -> None:
    write = records.write
    with monkeypatch.context() as patch:
        patch.setattr(
            records,
            "write",
            lambda kind, parts, v, name: write(
                kind, parts, [v[0], regime] if kind == "regime" else v, name
            ),
        )
        calls_of_sizes(7, 5)
    work.clear()
    calls_of_sizes(7, 5)
    assert work == ["generic_choice"]  # its object is found


@pytest.mark.wide
def test_other_sizes_and_strided_operands_are_found_too(work: list[str]) -> None:
    def calls() -> list[bytes]:
        k: Any = tc.define(TEXT)
        operands = ((X, W), (X[:5, :11], W[:11]), (X[::2, ::-1], W), (X[:0], W), (X[:, :1], W[:1]))
        return [k(x, w).tobytes() for x, w in operands]

    first = calls()
    assert work
    work.clear()
    assert calls() == first
    assert work == []


PROCESS = """
import json, sys, threading
import numpy as np
from tcdsl.codegen.toolchain import records
records.generator = lambda: "0" * 32
import tcdsl as tc
done = []
def count(frame, event, argument):
    is_function = frame.f_code.co_flags & 1  # bodies of modules and classes are none
    if event == "call" and is_function and frame.f_code.co_filename.endswith(places):
        done.append(frame.f_code.co_name)
places = "choose/arrange.py", "choose/compiler.py", "loops/emit.py", "program/ssa.py"
places += ("check/comprehension.py",)
threading.setprofile(count)  # deep texts are worked on in threads of their own
sys.setprofile(count)
k = tc.define(sys.argv[1], threads=2)
x = np.linspace(-1, 1, 7 * 13, dtype=np.float32).reshape(7, 13)
y = k(x, np.linspace(2, 3, 13, dtype=np.float32))
sys.setprofile(None)
makers = ("codegen.choose.compiler", "codegen.choose.forms", "codegen.loops.loopir")
makers += "codegen.program.program", "grammar.check.definition", "grammar.text.parser"
loaded = [m for m in makers if f"tcdsl.{m}" in sys.modules]
loaded += [m for m in ("lark",) if m in sys.modules]
print(json.dumps([y.tobytes().hex(), sorted(set(done)), loaded]))
"""


def process() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, TEXT]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return json.loads(out)


def test_a_fresh_process_enters_and_loads_none_of_what_makes_text() -> None:
    first = call()
    assert said(process()) == [first.tobytes().hex(), [], []]


@pytest.mark.wide
def test_two_processes_that_begin_at_once_keep_the_same() -> None:
    pair = [process(), process()]
    (a, made, loaded), (b, made_there, loaded_there) = map(said, pair)
    assert a == b
    assert {"codegen.choose.compiler", "codegen.choose.forms", "codegen.loops.loopir"} <= {
        *loaded,
        *loaded_there,
    }
    assert {"arrange", "lower", "emit", "program_of"} <= {*made, *made_there}
    assert said(process()) == [a, [], []]


# ---- what decides a text or an object decides a record


def with_another(text: str) -> Callable[[pytest.MonkeyPatch], Any]:
    return lambda patch: call(text)


def with_other_flags(patch: pytest.MonkeyPatch) -> Any:
    found = find_compiler()
    other = replace(found, flags=(*found.flags, "-DOTHER"))
    patch.setattr(index, "find_compiler", lambda: other)
    patch.setattr(objects, "find_compiler", lambda: other)
    return call()


def with_another_compiler(patch: pytest.MonkeyPatch) -> Any:
    other = replace(find_compiler(), version="99.1")
    patch.setattr(index, "find_compiler", lambda: other)
    patch.setattr(objects, "find_compiler", lambda: other)
    return call()


def with_another_generator(patch: pytest.MonkeyPatch) -> Any:
    patch.setattr(records, "generator", lambda: "1" * 32)
    return call()


def on_another_machine(patch: pytest.MonkeyPatch) -> Any:
    here = detect()
    patch.setattr(session, "detect", lambda: replace(here, l2_bytes=here.l2_bytes * 2))
    return call()


CHANGES: dict[str, Callable[[pytest.MonkeyPatch], Any]] = {
    "another text": with_another(TEXT.replace("x(m, n) * w(n)", "x(m, n) * w(n) * 1")),
    "another name": with_another(TEXT.replace("sums", "rows")),
    "another operator": with_another(TEXT.replace("* w", "+ w")),
    "threads": lambda patch: call(threads=1),
    "flags": with_other_flags,
    "compiler": with_another_compiler,
    "generator": with_another_generator,
    "machine": on_another_machine,
}


@sampled("change", CHANGES, keep=2)
def test_what_decides_an_object_decides_its_record(
    monkeypatch: pytest.MonkeyPatch, work: list[str], change: str
) -> None:
    call()
    work.clear()
    CHANGES[change](monkeypatch)
    assert "emit_c" in work
    monkeypatch.undo()


def test_how_a_text_is_laid_out_does_not_matter(work: list[str]) -> None:
    call()
    work.clear()
    call(f"# a comment\n{TEXT.replace(' ', '  ')}")
    assert work == []


@pytest.mark.deep
def test_what_a_definition_calls_belongs_to_it(work: list[str]) -> None:
    text = """
    def scaled(float(M,N) x, float(N) w) -> (z) {{ z(m, n) = {0} * x(m, n) * w(n) }}
    def sums(float(M,N) x, float(N) w) -> (y) {{ z = scaled(x, w)  y(m) +=! z(m, n) }}
    def other(float(N) x) -> (y) {{ y(i) = {1} * x(i) }}
    """

    def sums(scale: int, other: int) -> Any:
        kernels: Any = tc.define(text.format(scale, other))
        return kernels.sums(X, W)

    first = sums(2, 5)
    work.clear()
    np.testing.assert_array_equal(sums(2, 6), first)  # what it does not call is none of it
    assert work == []
    np.testing.assert_array_equal(sums(4, 6), 2 * first)
    assert work == ALL


def test_a_tuned_config_is_held_against_its_program_once(work: list[str]) -> None:
    first: Any = tc.define(TEXT)
    bound = first.call(X, W).variant
    spec = first.call(X, W).spec
    config = bound.default_config(spec, {"M": 7, "N": 13})
    other = Config.of({**dict(config.items), "g0.form": "no form"})
    work.clear()
    for asked in (1, 0):
        again = tc.define(TEXT).call(X, W).variant
        assert again.is_legal(spec, config)
        assert work.count("is_legal") == asked
        work.clear()
    for _ in range(2):  # what is wrong is said by the program, each time
        assert not tc.define(TEXT).call(X, W).variant.is_legal(spec, other)
    assert work.count("is_legal") == 2


def test_tuned_configs_are_looked_up_without_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    first: Any = tc.define(TEXT)
    call_of_first = first.call(X, W)
    bound, spec = call_of_first.variant, call_of_first.spec
    key = tuned.problem_key(bound, spec)
    assert key == key_of(bound.checked, spec, bound.machine)

    def refused(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("it is checked again")

    monkeypatch.setattr(definition, "check", refused)
    again: Any = tc.define(TEXT)
    assert tuned.problem_key(again.call(X, W).variant, spec) == key


# ---- what is lost or wrong


def files(cache: Path, suffix: str) -> list[Path]:
    return sorted(cache.glob(f"objects/*/*{suffix}"))


def test_without_its_object_a_record_is_nothing(cache: Path, work: list[str]) -> None:
    first = call()
    for path in files(cache, ".so"):
        path.unlink()
    work.clear()
    np.testing.assert_array_equal(call(), first)
    assert work == ALL
    work.clear()
    call()
    assert work == []


def test_without_records_an_object_is_found_by_its_text(cache: Path, work: list[str]) -> None:
    call()
    made = files(cache, ".so")
    for path in files(cache, ".json"):
        path.unlink()
    work.clear()
    call()
    assert work == ALL
    assert files(cache, ".so") == made
    assert len(files(cache, ".json")) == 4


def write_over(kind: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the records of a kind say something else, under the right key.

    Of executables of own sizes there is none then, which would say all; the one for all sizes says
    it of each.
    """
    write = records.write

    def written(k: str, parts: Sequence[str], v: Any, name: str) -> None:
        if kind == k == "own":
            v = [[*key, [value]] for *key, _ in v]
        if k == kind or k != "own":
            write(k, parts, value if k == kind != "own" else v, name)

    with monkeypatch.context() as patch:
        patch.setattr(records, "write", written)
        call()


@pytest.mark.wide
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("object", "../../etc/passwd"),
        ("object", NO_FILE),
        ("object", 7),
        ("choice", "{}"),
        ("choice", '{"partition": "of another program"}'),
        ("choice", '{"g0.form": 1e99}'),
        ("choice", ["g0.form"]),
        ("choice", None),
    ],
)
def test_a_record_that_says_something_else_is_a_miss(
    monkeypatch: pytest.MonkeyPatch, work: list[str], kind: str, value: object
) -> None:
    write_over(kind, value, monkeypatch)
    work.clear()
    np.testing.assert_allclose(call(), X @ W, rtol=1e-5)
    assert "emit_c" in work or "default_config" in work
    work.clear()
    call()
    assert "emit_c" not in work


@pytest.mark.parametrize(
    "value", [["{}", NO_FILE], ["{", NO_FILE], ["{}", "x"], [], "Spec()", 7, None]
)
def test_another_record_of_own_sizes_is_a_miss(
    monkeypatch: pytest.MonkeyPatch, work: list[str], value: object
) -> None:
    write_over("own", value, monkeypatch)
    work.clear()
    np.testing.assert_allclose(call(), X @ W, rtol=1e-5)
    assert "emit_c" not in work, "the choice and its object are known all the same"


def test_an_own_object_of_another_name_is_not_loaded(
    cache: Path, monkeypatch: pytest.MonkeyPatch, work: list[str]
) -> None:
    call(TEXT.replace("sums", "rows"))
    (other,) = files(cache, ".so")
    write_over("own", ["{}", other.name], monkeypatch)
    work.clear()
    np.testing.assert_allclose(call(), X @ W, rtol=1e-5)
    assert "emit_c" not in work


@pytest.mark.wide
def test_an_object_of_another_name_is_not_loaded(
    cache: Path, monkeypatch: pytest.MonkeyPatch, work: list[str]
) -> None:
    call(TEXT.replace("sums", "rows"))
    (other,) = files(cache, ".so")
    write_over("object", other.name, monkeypatch)
    work.clear()
    np.testing.assert_allclose(call(), X @ W, rtol=1e-5)
    assert "emit_c" in work


def test_a_text_that_is_asked_for_is_made(work: list[str]) -> None:
    call()
    work.clear()
    k: Any = tc.define(TEXT)
    assert "tc_exe_sums" in k.text({"M": 7, "N": 13})
    assert work == ALL


def test_records_are_pruned_with_their_objects(cache: Path) -> None:
    call()
    count, size = contentfile.size()
    assert count == len(files(cache, "")) == 6
    assert contentfile.prune() == size
    assert not files(cache, "")
    assert os.listdir(cache / "objects")
