"""Pointwise definitions: an executable for flat operands of any rank, one for all other layouts."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.toolchain import records
from tests.tcdsl.calls.layouts import Array, layouts
from tests.tiers import sampled

pytestmark = pytest.mark.cc

ADD = "def add(float(...) A, float(...) B) -> (O) { O(...) = A(...) + B(...) }"


def outputs(x: Array) -> Iterator[Array]:
    """Yield buffers of the shape of x that lie otherwise."""
    for out in layouts(np.zeros_like(x)):
        yield out.copy() if out.base is None else out


SHAPES = [(5,), (1,), (0,), (17,), (3, 4), (16, 33), (33, 16), (1, 7), (7, 1), (3, 0), (2, 3, 4),
          (5, 1, 6), (2, 3, 4, 5), (3, 16, 2, 17)]  # fmt: skip


@sampled("shapes", [SHAPES[-4:-1], SHAPES], keep=1)
def test_all_ranks_sizes_and_layouts_make_two_executables(
    compiled: list[str], shapes: list[tuple[int, ...]]
) -> None:
    add: Any = tc.define(ADD)
    add(np.ones(3, np.float32), np.ones(3, np.float32))  # no first sizes with their own
    rng = np.random.default_rng(0)
    for i, shape in enumerate(shapes):
        for ones in {(False,) * len(shape), (*(len(shape) - 1) * (False,), True),
                     (True, *(len(shape) - 1) * (False,)), (True,) * len(shape)}:  # fmt: skip
            repeated = tuple(1 if one else n for n, one in zip(shape, ones, strict=True))
            a = rng.random(shape, dtype=np.float32)
            b = rng.random(repeated, dtype=np.float32)
            for x, y in zip(layouts(a), itertools.islice(itertools.cycle(layouts(b)), i, None),
                            strict=False):  # fmt: skip
                np.testing.assert_array_equal(add(x, y), x + y)
                out = next(itertools.islice(outputs(x + y), i % 6, None), np.empty_like(x + y))
                assert add(x, y, out=out) is out
                np.testing.assert_array_equal(out, x + y)
    assert len(compiled) == 2
    again: Any = tc.define(ADD)  # as another process
    a = rng.random((3, 2, 5), dtype=np.float32)
    np.testing.assert_array_equal(again(a, a), a + a)
    np.testing.assert_array_equal(again(a, a[:, :1]), a + a[:, :1])
    assert len(compiled) == 2


@pytest.mark.wide
def test_a_rank_that_no_process_had_lowers_nothing(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "generator", lambda: "0" * 32)
    first: Any = tc.define(ADD)
    a = np.arange(6, dtype=np.float32)
    first(a, a)
    first(a[:, None], a)
    assert len(compiled) == 2

    def refused(*_: Any) -> Any:
        raise AssertionError("it is lowered again")

    for name in ("generic_choice", "lower_generic", "lower", "default_config"):
        monkeypatch.setattr(compiler, name, refused)
    again: Any = tc.define(ADD)
    b = a.reshape(3, 2)
    np.testing.assert_array_equal(again(b, b), 2 * b)
    np.testing.assert_array_equal(again(b, b[:, :1]), b + b[:, :1])


TYPES = [np.float32, np.float64, np.float16, np.int8, np.int32, np.int64, np.uint16]
PROGRAMS: dict[str, tuple[str, Any]] = {
    "one": ("O(...) = A(...) * A(...)", lambda a, b, c: a * a),
    "two": ("O(...) = A(...) - B(...)", lambda a, b, c: a - b),
    "three": ("O(...) = C(...) > A(...) ? A(...) : B(...)", lambda a, b, c: np.where(c > a, a, b)),
    "a truth": ("O(...) = A(...) < B(...)", lambda a, b, c: a < b),
    "two results": (
        "O(...) = A(...) + B(...)  P(...) = O(...) - C(...)",
        lambda a, b, c: (a + b, a + b - c),
    ),
}


@sampled("dtype", TYPES, keep=1, wide=2)
@sampled("name", PROGRAMS, keep=1)
def test_operands_of_any_strides_give_what_dense_ones_give(dtype: Any, name: str) -> None:
    line, of = PROGRAMS[name]
    used = [p for p in "ABC" if f"{p}(" in line]
    params = ", ".join(f"T(...) {p}" for p in used)
    returns = "O, P" if " P(" in line else "O"
    text = f"def f<T>({params}) -> ({returns}) {{ {line} }}"
    f: Any = tc.define(text)
    rng = np.random.default_rng(1)
    for shape in ((37,), (18, 67), (5, 3, 40)):
        dense = [rng.integers(0, 50, shape).astype(dtype) for _ in "ABC"]
        for turn in range(7):
            views = [[*layouts(x)] for x in dense]
            given = [v[(turn * (k + 1)) % len(v)] for k, v in enumerate(views)]
            if turn == 5:  # one of them repeated along rows, in turn
                given = [x[..., :1] if k == turn % 3 else x for k, x in enumerate(given)]
            if turn == 6:
                given = [x[..., :1] if k else x for k, x in enumerate(given)]
            want = of(*given)
            got = f(*(x for x, p in zip(given, "ABC", strict=True) if p in used))
            for g, w in zip(*((got, want) if returns != "O" else ((got,), (want,))), strict=True):
                np.testing.assert_array_equal(g, np.broadcast_to(w, g.shape))


@pytest.mark.wide
@pytest.mark.parametrize("turned", [False, True])
def test_results_may_lie_in_their_operands(turned: bool) -> None:
    add: Any = tc.define(ADD)
    x = np.arange(40 * 33, dtype=np.float32).reshape(40, 33)
    b = np.arange(33 * 40, dtype=np.float32).reshape(33, 40).T if turned else x * 3
    for place in (x.copy(), np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1, ::-1]):
        want = place + b
        assert add(place, b, out=place) is place
        np.testing.assert_array_equal(place, want)
    y = np.zeros((40, 34), np.float32)
    want = y[:, :-1] + 1  # neither the same view nor apart
    np.testing.assert_array_equal(add(y[:, :-1], np.float32(1), out=y[:, 1:]), want)


@pytest.mark.deep
@pytest.mark.parametrize("shape", [(1 << 20, 3), (3, 1 << 20), (64, 300, 200)])
def test_parts_of_many_tasks_are_all_of_it(shape: tuple[int, ...]) -> None:
    add: Any = tc.define(ADD, threads=2)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    turned = np.ascontiguousarray(x.swapaxes(0, -1)).swapaxes(0, -1)
    for y in (x[..., :1], x[:1], turned, np.repeat(x, 2, -1)[..., ::2]):
        np.testing.assert_array_equal(add(x, y), x + y)


def test_what_is_dear_and_repeated_along_rows_is_computed_once_a_row() -> None:
    text = "def f(float(...) A, float(...) B) -> (O) { O(...) = A(...) * exp(B(...)) }"
    f: Any = tc.define(text)
    a, b = np.ones((4, 64), np.float32), np.zeros((4, 1), np.float32)
    assert f.call(a, a).view.is_flat
    assert f.call(a, b).view is None
    assert not f.call(a, a[:1]).view.is_flat
    np.testing.assert_array_equal(f(a, b), a)
    np.testing.assert_allclose(f(a, a[:1]), a * np.exp(a[:1]), rtol=1e-6)


def test_first_sizes_have_their_own_where_the_shared_one_is_slow(compiled: list[str]) -> None:
    f: Any = tc.define("def f(float(A,B,C) X) -> (O) { O(c,b,a) = X(a,b,c) }")
    for i, shape in enumerate([(3, 4, 19), (16, 3, 5), (2, 7, 70)]):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for _ in range(2):
            np.testing.assert_array_equal(f(x), x.transpose(2, 1, 0))
        assert len(compiled) == min(i + 1, 2), "own ones, those for any strides"
    assert "sizes: A=3 B=4 C=19" in compiled[0]
    assert "sizes: any" in compiled[1]
    g: Any = tc.define("def g(int8(A,B) X) -> (O) { O(b,a) = X(a,b) }")
    many = np.arange(400 * 330).reshape(400, 330).astype(np.int8)
    np.testing.assert_array_equal(g(many), many.T)
    assert "sizes: any" in compiled[-1], "of many it is the faster"


@sampled("dtype", ["float32", "int8", "int16", "int64", "float64"], keep=1, wide=3)
def test_any_dimension_of_an_operand_may_be_the_one_with_neighbours(dtype: str) -> None:
    kind = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    add: Any = tc.define(ADD.replace("float", kind))
    add(np.ones(3, dtype), np.ones(3, dtype))
    for shape in ((5, 18, 3, 7), (17, 2, 33, 4)):
        x = (np.arange(np.prod(shape)) % 101).astype(dtype).reshape(shape)
        for order in itertools.permutations(range(4)):
            y = x.transpose(order)
            ones = np.ascontiguousarray(y)
            for other in (ones, ones[:, ::-1, :, :1], ones[:1, :, :1], y[::-1]):
                np.testing.assert_array_equal(add(y, other), y + other)


@pytest.mark.wide
def test_long_rows_have_no_executable_of_their_own(compiled: list[str]) -> None:
    g: Any = tc.define("def g(float(A,B) X, float(B) Y) -> (O) { O(a,b) = X(a,b) + Y(b) }")
    x = np.arange(240, dtype=np.float32).reshape(3, 80)
    np.testing.assert_array_equal(g(x, x[0]), x + x[0])
    assert "sizes: any" in compiled[0]


@pytest.mark.deep
def test_ranks_that_are_met_at_once_do_not_wait_for_each_other(compiled: list[str]) -> None:
    """Whoever compiles for all ranks asks no other rank: its caller may wait for just that."""
    add: Any = tc.define(ADD)
    a = np.ones((3, 4), np.float32)
    first = add.call(a, a).variant
    assert first.rank_free is add.call(a[0], a[0]).variant.rank_free
    done: list[Array] = []
    other = threading.Thread(target=lambda: done.append(add(a[0], a[0])))
    with first._lock:
        other.start()
        other.join(60)
    assert len(done) == len(compiled) == 1


@pytest.mark.wide
def test_a_tuned_size_has_the_executable_of_its_config() -> None:
    add: Any = tc.define(ADD)
    a = np.ones((3, 5), np.float32)
    config = add.autotune(a, a, trials=2)
    add(a, a)
    made = add.call(a, a).variant.executables
    assert config in [c.config for c in made if c.spec.sizes is not None]
