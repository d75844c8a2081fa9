"""The Python API of 2018: what is taken, what has no effect and says so, what is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from tcdsl.autotune.store.trial import TuneError, UntunedError  # noqa: E402
from tcdsl.grammar.text.errors import TCTypeError  # noqa: E402
from tcdsl.torch import compat  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.cc]

MATMUL = "def matmul(float(M,N) A, float(N,K) B) -> (output) { output(i, j) +=! A(i, k) * B(k, j) }"
A, B = torch.ones(3, 4), torch.ones(4, 5)


@pytest.fixture
def fresh() -> None:
    """Let warnings that come once come again."""
    compat._warn_once.cache_clear()


def searched(monkeypatch: Any, kernel: Any, *args: Any, **named: Any) -> dict[str, Any]:
    """Return what a search is asked for, without one."""
    asked: dict[str, Any] = {}

    def tune(problems: Any, **options: Any) -> list[Any]:
        asked.update(options, problems=problems)
        return []

    monkeypatch.setattr("tcdsl.autotune.tuner.tune", tune)
    kernel.autotune(*args, quiet=True, **named)
    return asked


def test_generations_times_population_are_trials(monkeypatch: Any, tmp_path: Path) -> None:
    matmul = tct.define(MATMUL, name="matmul")
    asked = searched(monkeypatch, matmul, A, B, generations=3, pop_size=7, cache=tmp_path / "a")
    assert (asked["trials"], asked["cache"]) == (21, tmp_path / "a")
    asked = searched(monkeypatch, matmul, (3, 4), (4, 5), generations=2, cache=True)
    assert (asked["trials"], asked["cache"]) == (200, matmul.database)
    assert asked["problems"][0].name == "matmul M=3 N=4 K=5"
    asked = searched(monkeypatch, matmul, A, B, generations=3, pop_size=7, trials=5)
    assert asked["trials"] == 5
    assert searched(monkeypatch, matmul, A, B)["trials"] is None


def test_what_the_search_of_today_has_not_says_so_once(monkeypatch: Any, fresh: None) -> None:
    matmul = tct.define(MATMUL)
    with pytest.warns(UserWarning, match=r"autotune\(crossover_rate=\.\.\.\) has no effect"):
        searched(monkeypatch, matmul, A, B, crossover_rate=80, number_elites=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        searched(monkeypatch, matmul, A, B, crossover_rate=70)
        searched(monkeypatch, matmul, A, B, gpus=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert searched(monkeypatch, matmul, A, B, **tct.autotuner_settings)["trials"] == 20
        small = tct.small_sizes_autotuner_settings
        assert searched(monkeypatch, matmul, A, B, **small)["trials"] == 20


def test_a_slip_of_the_pen_is_an_error_and_names_of_the_text_come_first(monkeypatch: Any) -> None:
    matmul = tct.define(MATMUL)
    with pytest.raises(TCTypeError, match="no keyword 'generation'; did you mean 'generations'"):
        matmul.autotune(A, B, generation=3)
    with pytest.raises(TCTypeError, match="generations and pop_size are numbers, got"):
        matmul.autotune(A, B, generations=-3)
    with pytest.raises(TCTypeError, match="there are no options 'convv'; did you mean 'conv'"):
        tct.Options("convv")
    with pytest.raises(AttributeError, match="options have no 'tiles'; did you mean 'tile'"):
        tct.Options("conv").tiles([1])
    text = "def f<threads=1>(float(N) x) -> (y) { y(i) = x(i) * threads }"
    one, three = (
        searched(monkeypatch, tct.define(text), A[0], threads=n)["problems"][0] for n in (1, 3)
    )
    assert one.key.text != three.key.text


def test_options_of_a_call_are_taken_and_said_to_have_no_effect(fresh: None) -> None:
    matmul = tct.define(MATMUL)
    with pytest.warns(UserWarning, match="mapping options have no effect: .* autotune"):
        found = matmul(A, B, options="mlp")
    assert torch.equal(found, A @ B)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = tct.Options("mlp").tile([1, 2]).mapToThreads([32])
        assert repr(options) == "Options('mlp')"
        assert torch.equal(matmul(A, B, options=[options, options]), A @ B)
        out = torch.empty(3, 5)
        assert matmul(A, B, options=None, outputs=out) is out
    weight = torch.nn.Parameter(B.clone())
    assert matmul(A, weight, options=options).requires_grad


def test_calls_look_into_a_file_of_their_own(tmp_path: Path) -> None:
    matmul, path = tct.define(MATMUL), tmp_path / "matmul.tc"
    best = matmul.autotune(A, B, cache=path, trials=0, quiet=True)
    assert matmul.tuned_config(A, B) is None
    assert matmul.with_cache(path).tuned_config(A, B) == best
    assert matmul.with_cache(path) is matmul.with_cache(str(path))
    for cache in (path, True, False, None):
        assert torch.equal(matmul(A, B, cache=cache), A @ B)


@pytest.mark.parametrize("key", ["reorder_function", "inject_kernel", "cuda_code", "grid", "block"])
def test_what_is_not_there_any_more_has_a_cure(key: str) -> None:
    with pytest.raises(TCTypeError, match=f"{key}= is not there any more\n  "):
        tct.define(MATMUL)(A, B, **{key: 1})


def test_a_name_of_the_text_is_no_keyword_of_2018() -> None:
    scale = tct.define("def scale<block=2>(float(N) grid) -> (y) { y(i) = grid(i) * block }")
    assert scale(grid=A[0], block=3).tolist() == [3] * 4
    assert scale(A[0], block=4).tolist() == [4] * 4


@pytest.mark.wide
def test_training_tunes_the_way_back_that_was_written(monkeypatch: Any) -> None:
    text = (
        "def scale<T>(T(N) x, T(N) g) -> (y) { y(i) = x(i) * g(i) }"
        "def back<T>(T(N) x, T(N) g, T(N) d_y) -> (d_x, d_g) {"
        "  d_x(i) = d_y(i) * g(i) d_g(i) = d_y(i) * x(i) }"
    )
    names: list[str] = []

    def tune(problems: Any, **options: Any) -> list[Any]:
        names.extend(p.name.split()[0] for p in problems)
        raise UntunedError("not now")

    monkeypatch.setattr("tcdsl.autotune.tuner.tune", tune)
    scale = tct.define(text, training=True, name="scale", backward="back")
    for args in ((A[0], torch.nn.Parameter(A[0].clone())), (A[0], A[0])):
        names.clear()
        with pytest.raises(TuneError, match="not now"):
            scale.autotune(*args, quiet=True)
        assert {*names} == {"scale", "back"}
    shaped = tct.define(text.replace("<T>", "").replace("T(", "float("), "scale", backward="back")
    names.clear()
    with pytest.raises(TuneError, match="not now"):
        shaped.autotune((4,), (4,), quiet=True)
    assert {*names} == {"scale", "back"}
    names.clear()
    with pytest.raises(TuneError, match="not now"):
        shaped.autotune((4,), (4,), quiet=True, training=False)
    assert names == ["scale"]


def test_two_functions_become_one_that_trains() -> None:
    def forward(x: Any, scale: float, y: Any) -> Any:
        return x * scale, y + 1

    def backward(x: Any, scale: float, y: Any, d_a: Any, d_b: Any) -> Any:
        assert d_a.is_contiguous()
        return d_a * scale, None, d_b

    f = tct.make_autograd(forward, backward)
    x, y = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda x, y: f(x, 2.0, y), (x, y))
    f(x, 2.0, y)[0].sum().backward()
    assert x.grad.tolist() == [2] * 3
    assert y.grad.tolist() == [0] * 3
    short = tct.make_autograd(lambda x, n: x * n, lambda x, n, d: d * n)
    assert torch.autograd.grad(short(x, 3).sum(), x)[0].tolist() == [3] * 3
    long = tct.make_autograd(lambda x: x * 1, lambda x, d: (d, d))
    with pytest.raises(TCTypeError, match="gave 2 gradients for 1 inputs"):
        long(x).sum().backward()
    with pytest.raises(TCTypeError, match="forward has no way back\n  give one: make_autograd"):
        tct.make_autograd(forward)(x, 1.0, y)[0].sum().backward()
