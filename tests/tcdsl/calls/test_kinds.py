"""Forms of a kind that was met twice are bound to their extents without Python."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.bindings.traced import (
    ARE_APART,
    HAVE_ROOM,
    IS_LESS,
    IS_ZERO,
    Asked,
    Extent,
    are_apart,
    size_of,
)
from tcdsl.calls.call import KernelCall
from tcdsl.calls.kinds import Kinds

pytestmark = pytest.mark.cc

Arrays = tuple[Any, ...]
ADD = "def add<T>(T(...) A, T(...) B) -> (C) { C(...) = A(...) + B(...) }"
NORM = """def norm(float(..., N) X, float(N) g) -> (m, Y) {
  m(...) +=! X(..., n) / N
  Y(..., n) = (X(..., n) - m(...)) * g(n)
}"""
MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
HALVES = """def halves(float(N,M) A, float(M) B, float s) -> (C, D) {
  C(i, j) +=! A(2 * i + k, j) * B(j) * s where k in 0:2, i in 0:(N / 2)
  D(j) max=! A(i, j)
}"""
CONV = """def conv(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
  O(n, f, y, x) +=! pad(I(n, c, y + i - 1, x + j - 1), 0) * K(f, c, i, j)
      where y in 0:H, x in 0:W
}"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that Python makes, by definition."""
    names: list[str] = []
    of = KernelCall.of

    def noted(variant: Any, *given: Any) -> KernelCall:
        names.append(variant.name)
        return of(variant, *given)

    monkeypatch.setattr(KernelCall, "of", staticmethod(noted))
    return names


def drawn(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def convolved(image: Any, k: Any) -> Any:
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("ncyxij,fcij->nfyx", windows, k)


def halved(a: Any, b: Any, s: float) -> Any:
    even = len(a) // 2 * 2
    return a[:even].reshape(-1, 2, a.shape[1]).sum(1) * b * s, a.max(0)


CASES: dict[str, tuple[str, Callable[[int], Arrays], Callable[..., Any]]] = {
    "pointwise": (ADD, lambda i: (drawn(5 + i, 7, 3), drawn(7, 3)), np.add),
    "along rows": (
        NORM,
        lambda i: (drawn(4, 3 + i, 9 + i), drawn(9 + i)),
        lambda x, g: (m := x.mean(-1), (x - m[..., None]) * g),
    ),
    "a product": (MM, lambda i: (drawn(20 + i, 30 + 2 * i), drawn(30 + 2 * i, 9 + i)), np.matmul),
    "several": (HALVES, lambda i: (drawn(9 + i, 9 + i), drawn(9 + i), 0.5 * i), halved),
    "images": (CONV, lambda i: (drawn(2 + i, 3, 6, 7), drawn(4, 3, 3, 3)), convolved),
}


@pytest.mark.parametrize(
    "name",
    [
        "along rows",
        "a product",
        *(pytest.param(n, marks=pytest.mark.wide) for n in ("pointwise", "several", "images")),
    ],
)
def test_later_sizes_need_no_python(made: list[str], name: str) -> None:
    text, operands, reference = CASES[name]
    k = tc.define(text, tune="off")

    def check(*given: Any, **outs: Any) -> None:
        result, wanted = k(*given, **outs), reference(*given)
        each = zip(result, wanted, strict=True) if isinstance(wanted, tuple) else [(result, wanted)]
        for x, y in each:
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)

    for i in range(2):
        check(*operands(i))
    known = len(made)
    for i in (2, 3, 9, 30, 0, 1, 2):
        check(*operands(i))
    assert len(made) == known
    a, *rest = operands(11)
    check(np.asfortranarray(a), *rest)
    assert len(made) == known + 1, "of another layout"


def test_what_a_rule_does_not_hold_for_goes_the_long_way(made: list[str]) -> None:
    mm, add = tc.define(MM, tune="off"), tc.define(ADD, tune="off")
    for n in (4, 5, 6):
        mm(drawn(n, n), drawn(n, n))
        add(drawn(n, n), drawn(n))
    known = len(made)
    with pytest.raises(tc.ShapeError, match=r"expected B of shape .K, N. with K = 8"):
        mm(drawn(7, 8), drawn(9, 7))
    with pytest.raises(tc.ShapeError):
        add(drawn(7, 7), drawn(8))
    assert mm(drawn(7, 0), drawn(0, 7)).shape == (7, 7)
    assert add(drawn(7, 7), drawn(1)).shape == (7, 7)
    assert len(made) == known + 2
    a = drawn(8, 8)
    np.testing.assert_array_equal(add(a, a[0], out=a), drawn(8, 8) + drawn(8, 8)[0])
    for n in (3, 4, 5):  # in C order for NumPy, whatever the stride of an extent of 1
        np.testing.assert_array_equal(
            add(np.broadcast_to(a[0, :n], (1, n)), a[0, :n])[0], 2 * a[0, :n]
        )


@pytest.mark.wide
def test_ways_back_are_bound_as_their_forward_passes(made: list[str]) -> None:
    call = tc.define(MM, tune="off").with_grad(copy=False)
    for n in (5, 6, 7, 8, 9):
        a, b, d = drawn(n, n + 1), drawn(n + 1, n + 2), drawn(n, n + 2)
        result, pull = call(a, b)
        np.testing.assert_allclose(result, a @ b, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(pull(d).d_A, d @ b.T, rtol=1e-4, atol=1e-4)
        with pytest.raises(tc.ShapeError, match="expected d_C of shape"):
            pull(drawn(n, n + 3))
    assert made == ["mm", "d_mm"] * 2


@pytest.mark.wide
def test_the_first_sizes_keep_the_executable_of_their_own() -> None:
    mm = tc.define(MM, tune="off")
    first = drawn(33, 65), drawn(65, 17)
    before = mm(*first)
    for n in (40, 41, 42):
        mm(drawn(n, n), drawn(n, n))
    own = {c.spec.sizes for c in mm.variant().executables if c.spec.sizes is not None}
    mm.clear()  # the launcher forgets its forms
    for n in (43, 44, 45):
        mm(drawn(n, n), drawn(n, n))
    np.testing.assert_array_equal(mm(*first), before)
    assert {c.spec.sizes for c in mm.variant().executables if c.spec.sizes is not None} == own


def test_sizes_alternate_in_threads_and_in_a_forked_child(made: list[str]) -> None:
    norm, g = tc.define(NORM, tune="off"), np.ones(40, np.float32)
    for n in (3, 4):
        norm(drawn(5, n), g[:n])
    wrong: list[int] = []

    def alternate(sizes: tuple[int, ...]) -> bool:
        for n in sizes * 3:
            x = drawn(5, n)
            y = norm(x, g[:n]).Y
            if not np.allclose(y, x - x.mean(1, keepdims=True), atol=1e-5):
                wrong.append(n)
        return not wrong

    threads = [threading.Thread(target=alternate, args=(s,)) for s in ((9, 12, 30), (30, 8, 9))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads
        child = os.fork()
    if child == 0:
        os._exit(0 if alternate((31, 32)) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert alternate((31, 32))
    assert made == ["norm"] * 2


def test_tensors_are_bound_so_and_recorded(made: list[str]) -> None:
    from tcdsl import nn
    from tcdsl.library import ones

    layer: Any = nn.Linear(6, 4)
    known, losses = 0, []
    for n in range(2, 9):
        layer.zero_grad()
        if n == 5:
            known = len(made)
        loss = (layer(ones(n, 5, 6)) ** 2).sum()
        loss.backward()
        losses.append(float(loss.item()) / n)
        assert layer.bias.grad is not None
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)
    assert made[known:] == []


def test_rules_are_forgotten_where_calls_are_recorded(made: list[str]) -> None:
    from tcdsl.calls import record

    add = tc.define(ADD, tune="off")
    for n in (3, 4, 5):
        add(drawn(n), drawn(n))
    known = len(made)
    with record.recording() as seen:
        for n in (6, 7, 8):
            add(drawn(n), drawn(n))
    assert len(seen.seen) == 3
    assert len(made) == known + 6, "each is noted, then made"


def test_conditions_are_what_was_asked() -> None:
    asked = Asked()
    n, m = asked.extent(0, 6), asked.extent(1, 4)
    assert n * m - m * n == 0
    assert not asked.conditions, "a constant is asked nothing"
    assert n > m
    assert not 2 * n >= 13
    assert n // 2 == 3
    assert n % 4 == 2
    assert abs(m - n) == 2
    assert {str(size): what for size, what in asked.conditions} == {
        "1 - 0": IS_LESS,
        "2 * 0 - 13": IS_LESS,
        "0 / 2 - 3": IS_ZERO,
        "0 % 4 - 2": IS_ZERO,
        "0 - 1 - 2": IS_ZERO,
    }
    assert str(size_of(n * 2 + 1)) == "2 * 0 + 1"


def test_sizes_apart_are_one_condition() -> None:
    asked = Asked()
    n, m, fixed = asked.extent(0, 6), asked.extent(1, 4), asked.fixed(2, 5)
    sizes: dict[str, Extent | int] = {"N": n, "M": m, "K": fixed}
    assert fixed == 5
    assert are_apart((("K", 6), ("N", 6)), sizes), "by a number, whatever the extents are"
    assert [(str(size), what) for size, what in asked.conditions] == [("2 - 5", IS_ZERO)]
    assert are_apart((("N", 6), ("M", 3), ("K", 5)), sizes)
    of, what = [*asked.conditions][1]
    assert (of, what) == (((n.size, 6), (m.size, 3)), ARE_APART)
    assert not are_apart((("N", 6), ("K", 5)), sizes)
    assert [(str(size), what) for size, what in asked.conditions][2:] == [("0 - 6", IS_ZERO)]


def test_room_of_an_array_is_one_condition() -> None:
    asked = Asked()
    n, m = asked.extent(0, 6), asked.extent(1, 4)
    asked.room((3, 5), 4)
    assert not asked.conditions, "whatever the extents are"
    asked.room((n // 2, m), 4)
    asked.room((n // 2, m), 4)
    ((of, what),) = asked.conditions
    assert what == HAVE_ROOM
    assert isinstance(of, tuple)
    assert [(str(size), least) for size, least in of] == [("4", 1), ("0 / 2", 1), ("1", 1)]


def test_a_rule_refuses_what_no_memory_holds(made: list[str]) -> None:
    outer = tc.define("def outer(int8(N) A, int8(M) B) -> (C) { C(i, j) = A(i) + B(j) }")
    for n in (3, 4, 5):
        outer(np.ones(n, np.int8), np.ones(n, np.int8))
    known, large = len(made), np.empty(1 << 26, np.int8)
    with pytest.raises(tc.AllocationError, match="no memory for output 'C' of shape"):
        outer(large, large)
    assert len(made) == known + 1, "the rule does not hold"


@pytest.mark.wide
def test_kinds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcdsl.calls import kinds

    monkeypatch.setattr(kinds, "_MOST_KINDS", 4)
    add = tc.define(ADD, tune="off")
    for rank in range(1, 9):
        add(drawn(*(2,) * rank), drawn(2))
    found = add._host._kinds
    assert isinstance(found, Kinds)
    assert len(found._met) <= 4
