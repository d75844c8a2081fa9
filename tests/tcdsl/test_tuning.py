"""Tuning of kernels as a user asks for it: found again, by calls and by other processes."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.autotune import tuner
from tcdsl.autotune.store.store import TuningStore
from tcdsl.calls.at_calls import FirstCallTuning
from tcdsl.calls.problems import problem_of_sizes
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.errors import CompileError, ShapeError, TCTypeError
from tcdsl.kernel import Kernel
from tests.tiers import sampled

pytestmark = pytest.mark.cc

ROOT = Path(__file__).parents[2]
TEXT = "def axpy(float(M,N) A, float(N) b, float a) -> (C) { C(m, n) = a * A(m, n) + b(n) }"
MATMUL = "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"


def kernel(cache: Path, text: str = TEXT, **options: Any) -> Kernel:
    made = tc.define(text, cache=cache, **options)
    assert isinstance(made, Kernel)
    return made


def operands(m: int = 30, n: int = 50) -> tuple[Any, Any, float]:
    rng = np.random.default_rng(m)
    a = rng.standard_normal((m, n), dtype=np.float32)
    return a, rng.standard_normal(n, dtype=np.float32), 1.5


def serving(k: Kernel) -> list[Config]:
    return [x.config for x in k.variant().executables]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Config]:
    """Return a cache in which one size was tuned, and its config."""
    cache = tmp_path_factory.mktemp("tuned") / "configs.db"
    config = kernel(cache).autotune(*operands(), trials=4, quiet=True)
    assert isinstance(config, Config)
    return cache, config


def test_a_tuned_config_is_used_by_the_same_kernel_and_by_a_new_one(
    tuned: tuple[Path, Config],
) -> None:
    cache, config = tuned
    k = kernel(cache)
    a, b, s = operands()
    np.testing.assert_allclose(k(a, b, s), s * a + b, rtol=1e-5, atol=1e-6)
    assert serving(k) == [config]
    assert k.tuned_config(a, b, s) == config


def test_it_is_found_by_another_process(tuned: tuple[Path, Config]) -> None:
    cache, config = tuned
    code = (
        "import sys, numpy as np, tcdsl as tc\n"
        f"k = tc.define({TEXT!r}, cache=sys.argv[1])\n"
        "print(k.tuned_config(np.zeros((30, 50), 'f4'), np.zeros(50, 'f4'), 1.0).to_json())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(cache)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Config.from_json(done.stdout) == config


def test_names_do_not_matter(tuned: tuple[Path, Config]) -> None:
    cache, config = tuned
    other = tc.define(
        "def f(float(H,W) X, float(W) y, float z) -> (Q) { Q(i, j) = z * X(i, j) + y(j) }",
        cache=cache,
    )
    assert isinstance(other, Kernel)
    assert other.tuned_config(*operands()) == config


def test_another_size_stride_or_setting_does_not_find_it(tuned: tuple[Path, Config]) -> None:
    cache, _ = tuned
    a, b, s = operands()
    assert kernel(cache).tuned_config(*operands(31)) is None
    assert kernel(cache).tuned_config(np.asfortranarray(a), b, s) is None
    assert kernel(cache, tune="off").tuned_config(a, b, s) is None
    assert kernel(cache, threads=1).tuned_config(a, b, s) is None


def test_sizes_that_were_called_use_what_is_tuned_later(tmp_path: Path) -> None:
    k = kernel(tmp_path / "configs.db")
    a, b, s = operands(8, 9)
    before = k(a, b, s)
    config = k.autotune(a, b, s, trials=2, quiet=True)
    np.testing.assert_allclose(k(a, b, s), before, rtol=1e-5, atol=1e-6)
    assert config in serving(k)


@pytest.mark.wide
def test_several_sizes_give_a_config_each(tmp_path: Path) -> None:
    k = kernel(tmp_path / "configs.db")
    found = k.autotune(M=range(3, 5), N=[7], trials=1, quiet=True)
    assert [*found] == [(("M", 3), ("N", 7)), (("M", 4), ("N", 7))]
    assert all(isinstance(c, Config) for c in found.values())


def test_shapes_mean_sizes(tmp_path: Path) -> None:
    k = kernel(tmp_path / "configs.db")
    config = k.autotune((5, 6), (6,), (), trials=1, quiet=True)
    assert k.tuned_config(*operands(5, 6)) == config


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda k: k.autotune(), TCTypeError, r"as in autotune\(M=100\)"),
        (lambda k: k.autotune(*operands(), M=3), TCTypeError, "give one of them"),
        (lambda k: k.autotune(M=3), ShapeError, "N is missing"),
        (lambda k: k.autotune(M=3, N=4, Q=5), ShapeError, "no size 'Q'"),
        (lambda k: k.autotune(M=3, N="4"), TCTypeError, "expected a size or sizes for 'N'"),
        (lambda k: k.autotune(M=3, N=[]), ShapeError, "'N' names no size"),
        (lambda k: k.autotune(M=3, N=4, target="tpu"), TCTypeError, "expected 'cpu', 'cuda'"),
    ],
)
def test_a_wrong_request_says_what_is_meant(
    tmp_path: Path, call: Any, error: type, text: str
) -> None:
    with pytest.raises(error, match=text):
        call(kernel(tmp_path / "configs.db"))


def test_first_call_tunes_once_for_each_size(tmp_path: Path) -> None:
    k = kernel(tmp_path / "configs.db", tune="first-call", trials=2, seconds=2000)
    a, b, s = operands(6, 7)
    np.testing.assert_allclose(k(a, b, s), s * a + b, rtol=1e-5, atol=1e-6)
    config = k.tuned_config(a, b, s)
    assert config is not None
    assert serving(k) == [config]
    k(a, b, s)
    assert k.tuned_config(a, b, s) == config


@pytest.mark.parametrize("error", [CompileError("no compiler"), MemoryError("no memory")])
def test_a_call_whose_tuner_cannot_work_runs_untuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(tuner, "tune", fail)
    a, b, s = operands(6, 7)

    def answer(k: Kernel) -> Any:
        found = k(a, b, s)
        for search in [*k._dispatch._online.values()]:
            search.wait(1000)
        return found

    for when in ("first-call", "online"):
        with pytest.warns(UserWarning, match=f"runs untuned: {error}"):
            found = answer(kernel(tmp_path / "configs.db", tune=when, trials=2))
        np.testing.assert_allclose(found, s * a + b, rtol=1e-5, atol=1e-6)


def test_online_answers_right_while_it_searches_and_ends_with_the_best(tmp_path: Path) -> None:
    k = kernel(tmp_path / "configs.db", tune="online", trials=3, seconds=2000)
    a, b, s = operands(16, 17)
    expected = s * a + b
    for _ in range(3):
        np.testing.assert_allclose(k(a, b, s), expected, rtol=1e-5, atol=1e-6)
    for search in [*k._dispatch._online.values()]:
        search.wait(1000)
    for _ in range(12):
        np.testing.assert_allclose(k(a, b, s), expected, rtol=1e-5, atol=1e-6)
    assert not k._dispatch._online
    assert k.tuned_config(a, b, s) in serving(k)


@pytest.mark.wide
def test_an_untuned_size_takes_a_tuned_ones_config_only_where_the_model_puts_it_above_its_default(
    tmp_path: Path,
) -> None:
    """Where the rules of the default stop short of what the model likes best: a few sizes do."""
    k = kernel(tmp_path / "none.db", MATMUL)
    near = problem_of_sizes(k.variant(), {"M": 32, "K": 512, "N": 64})
    better = worse = None
    for m, n in itertools.product((7, 16, 24, 31), (17, 33, 50)):
        sizes = {"M": m, "K": 512, "N": n}
        space = problem_of_sizes(k.variant(), sizes).space
        limit = space.cost_ns(space.default)
        for config in filter(near.space.holds, space.neighbours(space.default)):
            if space.cost_ns(config) < limit:
                better = better or (sizes, config, config)
            elif space.cost_ns(config) > limit:
                worse = worse or (sizes, config, space.default)
    assert better is not None
    assert worse is not None
    for name, (sizes, stored, expected) in (("better", better), ("worse", worse)):
        database = tmp_path / f"{name}.db"
        with TuningStore(database) as store:
            store.add_problem(near.key, near.name, near.text)
            store.set_best(near.key, stored, 1.0, 2.0, "tuned")
        k = kernel(database, MATMUL)
        rng = np.random.default_rng(0)
        a = rng.standard_normal((sizes["M"], sizes["K"]), dtype=np.float32)
        b = rng.standard_normal((sizes["K"], sizes["N"]), dtype=np.float32)
        np.testing.assert_allclose(k(a, b), a @ b, rtol=1e-4, atol=1e-4)
        assert serving(k) == [expected]


def test_who_calls_while_another_thread_tunes_runs_what_that_one_found() -> None:
    firsts, begun, may_end = FirstCallTuning(), threading.Event(), threading.Event()
    seen: list[str] = []

    def tune_long() -> None:
        begun.set()
        may_end.wait()
        seen.append("tuned")

    def call() -> None:
        firsts.once("spec", lambda: seen.append("tuned twice"))
        seen.append("called")

    first = threading.Thread(target=firsts.once, args=("spec", tune_long))
    first.start()
    begun.wait()
    second = threading.Thread(target=call)
    second.start()
    firsts.once("another spec", lambda: seen.append("another"))  # not held up
    may_end.set()
    first.join()
    second.join()
    assert seen == ["another", "tuned", "called"]


BAD: dict[str, dict[str, Any]] = {
    "a value out of its set": {"g0.rows": 17},
    "a truth value for a number": {"g0.rows": True},
    "a value of another kind": {"g0.rows": "many"},
    "another partition": {"partition": "mine"},
    "another form": {"g0.form": "mine"},
    "a knob of nobody": {"g7.rows": 1},
}


@sampled("what", BAD, keep=2)
def test_a_config_of_a_file_that_is_none_of_the_programs_is_a_warning(
    tmp_path: Path, what: str
) -> None:
    cache = tmp_path / "configs.db"
    k = kernel(cache, MATMUL)
    a = np.ones((12, 20), np.float32)
    b = np.ones((20, 16), np.float32)
    problem = problem_of_sizes(k.variant(), {"M": 12, "N": 16, "K": 20})
    default = problem.space.default
    assert "g0.rows" in dict(default.items)
    with TuningStore(cache) as store:
        store.set_best(problem.key, Config.of(dict(default.items) | BAD[what]), 1.0, 2.0, "merged")
    with pytest.warns(UserWarning, match="none of this program's") as caught:
        assert (k(a, b) == 20).all()
    assert len(caught) == 1
    assert serving(k) == [default]


def test_rows_of_a_file_do_not_mislead_a_search(tmp_path: Path) -> None:
    cache = tmp_path / "configs.db"
    k = kernel(cache, MATMUL)
    problem = problem_of_sizes(k.variant(), {"M": 4, "N": 5, "K": 6})
    mine = Config.of(dict(problem.space.default.items) | {"g0.rows": 17})
    with TuningStore(cache) as store:
        (row,) = store.propose(problem.key, [mine], "model")
        store.set_timed({row.id: (1e-3, [])})
        store.set_best(problem.key, mine, 1e-3, 1e-3, "merged")
    config = k.autotune(M=4, N=5, K=6, trials=1, quiet=True)
    assert problem.space.holds(config)


@pytest.mark.parametrize("what", ["text", "folder"])
def test_calls_do_not_need_their_tuning_file(tmp_path: Path, what: str) -> None:
    cache = tmp_path / "notes.txt"
    cache.write_text("mine") if what == "text" else cache.mkdir()
    k = kernel(cache)
    a, b, s = operands()
    with pytest.warns(UserWarning, match=r"notes\.txt is not a tuning file"):
        np.testing.assert_allclose(k(a, b, s), s * a + b, rtol=1e-5, atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        kernel(cache)(a, b, s)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(OSError, match=r"notes\.txt is not a tuning file"):
        k.autotune(a, b, s, trials=1, quiet=True)


def test_a_call_under_way_while_tuning_ends_leaves_nothing_stale(
    tuned: tuple[Path, Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever clears the table waits until what was chosen before is in it, and clears that too."""
    k = kernel(tuned[0])
    arguments, slow = operands(), []
    settled, meant = k._dispatch.is_settled, k._host.call_of
    threads: list[threading.Thread] = []
    could_forget: list[bool] = []

    def forget(variant: Any) -> None:
        could_forget.append(k._host._lock.held.acquire(blocking=False))
        if could_forget[0]:
            k._host._lock.held.release()
        asked.set()
        k._forget_choices(variant)

    def is_settled(call: Any) -> bool:
        if not threads:
            threads.append(threading.Thread(target=forget, args=(call.variant,)))
            threads[0].start()
            asked.wait(60)
        return settled(call)

    def counted(given: Any) -> Any:
        slow.append(given)
        return meant(given)

    asked = threading.Event()
    monkeypatch.setattr(k._dispatch, "is_settled", is_settled)
    monkeypatch.setattr(k._host, "call_of", counted)
    k(*arguments)
    threads[0].join()
    assert could_forget == [False]
    for calls in (2, 2):
        k(*arguments)
        assert len(slow) == calls
