"""An executable of first sizes along rows serves any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcdsl as tc
from tcdsl.calls.bindings import aside, meanwhile
from tcdsl.calls.bindings.ownsizes import OwnSizes
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Spec
from tests.codegen.compiled import noted

pytestmark = pytest.mark.cc

SOFTMAX = """def softmax(float(B,N) X) -> (Y) {
    M(b) max=! X(b,n)
    S(b) +=! exp(X(b,n) - M(b))
    Y(b,n) = exp(X(b,n) - M(b)) / S(b)
}"""
ENTROPY = """def entropy(float(B,N) X, int64(B) I) -> (l) {
    M(b) max=! X(b,n)
    S(b) +=! exp(X(b,n) - M(b))
    l +=! (log(S(b)) + M(b) - X(b,I(b))) / B
}"""
BATCHES = (6, 5, 1, 70, 300)
Array = npt.NDArray[Any]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the programs that this process compiles from here on, in a cache of its own."""
    tc.define("def f(float(N) A) -> (B) { B(i) = A(i) }")(np.ones(1, np.float32))

    class Busy(aside.Queue):
        def put(self, one: aside.Aside) -> None:
            pass

    monkeypatch.setattr(aside, "_queue", Busy())
    monkeypatch.setattr(meanwhile, "FOLLOWS", False)
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path / "cache"))
    return noted(monkeypatch, library=False)


def rows(batch: int, length: int = 13) -> Array:
    return np.random.default_rng(batch).standard_normal((batch, length), np.float32)


def softmax_of(x: Array) -> Array:
    e: Array = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    found: Array = e / e.sum(axis=1, keepdims=True)
    return found


def softmaxes(kernel: Any, batches: Sequence[int] = BATCHES, length: int = 13) -> list[Array]:
    found = []
    for n in batches:
        y = kernel(rows(n, length))
        np.testing.assert_allclose(y, softmax_of(rows(n, length)), rtol=1e-5)
        found.append(y)
    return found


def leave_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(_: OwnSizes, of: Spec) -> Spec:
        return of

    monkeypatch.setattr(OwnSizes, "_left_open", exact)


def alone(text: str, name: str, i: int) -> Any:
    """Return a kernel of a text of its own: none has what another has compiled."""
    other = f" def other{i}(float(N) A) -> (B) {{ B(i) = A(i) }}"
    return getattr(tc.define(text + other), name)


@pytest.mark.parametrize("length", [3, 13, 100])
def test_other_batches_compile_nothing(length: int, compiled: list[str]) -> None:
    kernel = tc.define(SOFTMAX)
    softmaxes(kernel, (*BATCHES, *BATCHES), length)
    assert compiled == ["softmax"]
    (one,) = kernel.variant().executables
    assert one.spec.open == ("B",)


def test_other_lengths_have_what_serves_all(compiled: list[str]) -> None:
    """And batches of the first length keep theirs, whichever came between."""
    kernel = tc.define(SOFTMAX)
    first = softmaxes(kernel)
    softmaxes(kernel, (5, 300), length=14)
    softmaxes(kernel, (3,))
    assert compiled == ["softmax"] * 2
    for before, after in zip(first, softmaxes(kernel), strict=True):
        np.testing.assert_array_equal(before, after)
    assert compiled == ["softmax"] * 2


def test_bits_are_those_of_exact_sizes(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = softmaxes(tc.define(SOFTMAX))

    leave_nothing_open(monkeypatch)
    for i, n in enumerate(BATCHES):
        kernel = alone(SOFTMAX, "softmax", i)
        np.testing.assert_array_equal(kernel(rows(n)), opened[i])
    assert compiled == ["softmax"] * (1 + len(BATCHES))


def test_a_later_process_finds_it_by_its_record(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = softmaxes(tc.define(SOFTMAX))
    for name in ("open_choice", "default_config", "generic_choice", "lower_generic", "lower"):
        monkeypatch.setattr(compiler, name, None)
    later = softmaxes(tc.define(SOFTMAX), BATCHES[::-1])
    for before, after in zip(first, later[::-1], strict=True):
        np.testing.assert_array_equal(before, after)
    assert compiled == ["softmax"]


def test_rows_of_strides_of_their_own_do_not_get_it(compiled: list[str]) -> None:
    kernel = tc.define(SOFTMAX)
    softmaxes(kernel)
    for n in BATCHES:
        x = rows(n, 26)[:, ::2]
        np.testing.assert_allclose(kernel(x), softmax_of(x), rtol=1e-5)
        y = np.asfortranarray(rows(n))
        np.testing.assert_allclose(kernel(y), softmax_of(y), rtol=1e-5)


def test_means_over_rows_and_the_way_back_serve_any_number(compiled: list[str]) -> None:
    kernel = tc.define(ENTROPY).with_grad(copy=False)
    for n in BATCHES:
        x, at = rows(n), np.arange(n) % 13
        loss, pull = kernel(x, at)
        p = softmax_of(x)
        expected = -np.log(p[np.arange(n), at]).mean()
        np.testing.assert_allclose(float(loss), expected, rtol=1e-4)
        found = pull(np.float32(1))
        p[np.arange(n), at] -= 1
        np.testing.assert_allclose(
            found if isinstance(found, np.ndarray) else found[0], p / n, atol=1e-6
        )
    assert len(compiled) == 2


def test_no_row_is_no_beginning(compiled: list[str]) -> None:
    kernel = tc.define(SOFTMAX)
    assert kernel(rows(0)).shape == (0, 13)
    softmaxes(kernel)
    assert len(compiled) == 2


def test_batches_of_another_regime_have_what_serves_all(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs that no cache holds go past the caches: the first batch is none of them."""
    kernel = tc.define("def f(float(N,K) X) -> (Y) { M(n) max=! X(n,k)  Y(n,k) = X(n,k) - M(n) }")
    of = kernel.variant()
    assert isinstance(of.machine, Machine)
    long = 4096
    batches = 3, 2 + of.machine.own_l3_bytes // (4 * long), 5
    for n in (*batches, *batches):
        x = rows(n, long)
        np.testing.assert_array_equal(kernel(x), x - x.max(axis=1, keepdims=True))
    assert len(compiled) == 2
    first, *_ = of.executables
    assert first.spec.open == ("N",)
    assert first.config.get("g0.stream") is False


def one(n: int) -> tuple[Array, ...]:
    return (rows(n),)


def image(n: int) -> tuple[Array, ...]:
    return (rows(n, 3 * 10 * 12).reshape(n, 3, 10, 12),)


def table(n: int) -> tuple[Array, ...]:
    return rows(9, 70), np.arange(2 * n).reshape(n, 2) % 9


OTHERS: dict[str, tuple[str, Callable[[int], tuple[Array, ...]], Callable[..., Any]]] = {
    "sums": (
        "def f(float(B,N) X) -> (Y) { Y(b) +=! X(b,n) }",
        one,
        lambda x: x.sum(axis=1, dtype=np.float64),
    ),
    "means over images": (
        "def f(float(B,C,H,W) X) -> (Y) { Y(b,c) +=! X(b,c,y,x) / (H * W) }",
        image,
        lambda x: x.mean(axis=(2, 3), dtype=np.float64),
    ),
    "a pool": (
        """def f(float(B,C,H,W) X) -> (Y) {
            Y(b,c,y,x) max=! X(b,c,2*y+i,2*x+j) where i in 0:2, j in 0:2, y in 0:H/2, x in 0:W/2
        }""",
        image,
        lambda x: x.reshape(len(x), 3, 5, 2, 6, 2).max(axis=(3, 5)),
    ),
    "an embedding": (
        "def f(float(V,E) W, int64(B,T) I) -> (Y) { Y(b,t,e) = W(I(b,t), e) }",
        table,
        lambda w, i: w[i],
    ),
    "running sums": (
        """def f(float(B,N) X) -> (Y) {
            Y(b,n) = X(b,n) where n in 0:1
            for n in 1:N { Y(b,n) = Y(b,n-1) + X(b,n) }
        }""",
        one,
        lambda x: x.cumsum(axis=1, dtype=np.float64),
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_so_do_others_whose_outermost_size_is_of_independent_results(
    what: str, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, operands, judge = OTHERS[what]
    kernel, found = tc.define(text), []
    for n in (*BATCHES, *BATCHES):
        found.append(kernel(*operands(n)))
        np.testing.assert_allclose(found[-1], judge(*operands(n)), rtol=1e-5, atol=1e-5)
    assert compiled == ["f"]
    (executable,) = kernel.variant().executables
    assert executable.spec.open

    leave_nothing_open(monkeypatch)
    for i, n in enumerate(BATCHES):
        np.testing.assert_array_equal(alone(text, "f", i)(*operands(n)), found[i])


def test_products_keep_sizes_of_their_own(compiled: list[str]) -> None:
    kernel = tc.define("def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    kernel(np.ones((5, 6), np.float32), np.ones((6, 7), np.float32))
    (one,) = kernel.variant().executables
    assert one.spec.is_exact
