"""Kernels of any rank against NumPy's broadcasting, and against the reference evaluator."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.grammar.types.dtypes import FLOAT32
from tcdsl.kernel import Kernel
from tests.tcdsl.differential import VIEWS, Array, poisoned, same, small_numbers, viewed
from tests.tiers import sampled

pytestmark = pytest.mark.cc

ADD = "def add<T>(T(...) A, T(...) B) -> (C) { C(...) = A(...) + B(...) }"
NORM = """def norm(float(..., D) X) -> (S, Y) {
  S(...) +=! X(..., d) * X(..., d)
  Y(..., d) = X(..., d) * rsqrt(S(...) + 1.0)
}"""
TOTAL = "def total(float(...) X) -> (s) { s +=! X(...) }"


def kernel(text: str, name: str | None = None) -> Kernel:
    defined = tc.define(text, name, tune="off")
    assert isinstance(defined, Kernel)
    return defined


def pair(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two shapes that broadcast."""
    longest = [int(rng.choice((0, 1, 2, 3, 5, 17))) for _ in range(rng.integers(0, 5))]
    shapes = []
    for _ in range(2):
        shape = [1 if rng.random() < 0.3 else n for n in longest]
        shapes.append(tuple(shape[rng.integers(0, len(shape) + 1) :]))
    return shapes[0], shapes[1]


@pytest.fixture(scope="module")
def add() -> Kernel:
    return kernel(ADD)


@sampled("name", ["float32", "float64", "int32", "float16"], keep=1)
@pytest.mark.parametrize("pairs", [8, pytest.param(100, marks=pytest.mark.deep)])
def test_pairs_of_shapes_are_added_as_numpy_adds_them(add: Kernel, name: str, pairs: int) -> None:
    rng, dtype = np.random.default_rng(pairs), np.dtype(name)
    for _ in range(pairs):
        shapes = pair(rng)
        view = VIEWS[rng.integers(0, len(VIEWS))]
        a, b = (viewed(small_numbers(s, dtype, rng), view) for s in shapes)
        want = a + b
        assert same(add(a, b), want), (shapes, view)
        out = poisoned(want.shape, dtype, "sliced" if want.ndim else "c")
        assert add(a, b, out=out) is out
        assert same(out, want), (shapes, view)


def test_numbers_and_arrays_of_rank_0_are_repeated(add: Kernel) -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert same(add(a, 2.0), a + np.float32(2))
    assert same(add(np.float32(2), a), a + np.float32(2))
    assert same(add(np.array(3, np.float32), a[0, 0]), np.array(3, np.float32))


def test_what_does_not_broadcast_is_refused_with_both_arguments(add: Kernel) -> None:
    a, b = np.ones((3, 4), np.float32), np.ones((5, 4), np.float32)
    with pytest.raises(ShapeError) as refusal:
        add(a, b)
    assert str(refusal.value) == (
        "add(A, B): expected B of shape (D0, D1) with D0 = 3, got (5, 4)\n"
        "  D0 = 3 comes from A, shape (3, 4), declared T(...)"
    )
    assert same(add(a, b[:3]), a + b[:3])  # and the next call is right


def test_shapes_of_one_rank_and_repetition_share_an_executable() -> None:
    k = kernel(ADD)
    rng = np.random.default_rng(0)
    for shapes in [((3, 4), (3, 4)), ((5, 1), (5, 1)), ((2, 7), (2, 7)), ((1, 1), (1, 1))]:
        a, b = (small_numbers(s, np.dtype(np.float32), rng) for s in shapes)
        assert same(k(a, b), a + b)
    generics = {"T": FLOAT32}
    shared = k.session.variant(k.definition, generics, None, ((3, 4), (3, 4)))
    assert len(shared.executables) == 1  # of all sizes and ranks
    assert k.session.variant(k.definition, generics, None, ((1, 9), (1, 9))) is shared
    assert k.session.variant(k.definition, generics, None, ((3, 4), (3, 1))) is not shared


@sampled("shape", [(7,), (3, 7), (2, 3, 7), (2, 1, 3, 7), (0, 7), (4, 0), (2, 0, 3)], keep=3)
@sampled("view", VIEWS, keep=1)
def test_rows_of_any_rank_are_normalised(shape: tuple[int, ...], view: str) -> None:
    k = KERNELS.setdefault("norm", kernel(NORM))
    x = viewed(small_numbers(shape, np.dtype(np.float32), np.random.default_rng(1)), view)
    s, y = k(x)
    assert same(s, (x * x).sum(-1, dtype=np.float32))  # halves: exact in any order
    np.testing.assert_allclose(y, x / np.sqrt(s[..., None] + 1), rtol=3e-6)


KERNELS: dict[str, Kernel] = {}


@sampled("shape", [(), (5,), (3, 5), (2, 3, 5), (0, 3), (1, 1, 1, 2)], keep=3)
def test_what_stands_only_on_the_right_is_reduced(shape: tuple[int, ...]) -> None:
    x = small_numbers(shape, np.dtype(np.float32), np.random.default_rng(2))
    assert same(KERNELS.setdefault("total", kernel(TOTAL))(x), x.sum(dtype=np.float32))
    if x.size and x.ndim:
        text = "def peak(float(...) X) -> (m, i) { m max=! X(...)  i argmax=! X(...) }"
        m, i = KERNELS.setdefault("peak", kernel(text))(x)
        assert (m, i) == (x.max(), x.argmax())


@pytest.mark.wide
def test_dimensions_beside_dots_are_first_last_or_both() -> None:
    text = """
    def lead(float(...) X) -> (O) { O(i) +=! X(i, ...) }
    def swap(float(N, ..., M) X) -> (O) { O(j, ..., i) = X(i, ..., j) }
    def matmul(float(..., M, K) A, float(..., K, N) B) -> (C) {
      C(..., i, j) +=! A(..., i, k) * B(..., k, j)
    }
    def lookup(float(V, D) W, int32(...) I) -> (O) { O(..., d) = W(I(...), d) }
    def scatter<V>(float(..., D) dO, int32(...) I) -> (float(V, D) dW) {
      dW(I(...), d) +=! dO(..., d)
    }
    def shifted(float(...) X) -> (O) {
      O(..., i) = pad(X(..., i - 1), 0) where i in 0:X.-1
    }"""
    t: Any = tc.define(text, tune="off")
    rng = np.random.default_rng(3)
    for shape in [(4, 3), (4, 2, 3), (2, 4, 5, 3)]:
        x = small_numbers(shape, np.dtype(np.float32), rng)
        assert same(t.lead(x), x.sum(tuple(range(1, x.ndim)), dtype=np.float32))
        assert same(t.swap(x), np.ascontiguousarray(x.swapaxes(0, -1)))
        want = np.zeros_like(x)
        want[..., 1:] = x[..., :-1]
        assert same(t.shifted(x), want)
        i = rng.integers(0, 6, shape).astype(np.int32)
        w = small_numbers((6, 5), np.dtype(np.float32), rng)
        assert same(t.lookup(w, i), w[i])
        d = small_numbers((*shape, 5), np.dtype(np.float32), rng)
        sums = np.zeros((6, 5), np.float32)
        np.add.at(sums, i, d)
        assert same(t.scatter(d, i, V=6), sums)
    for a, b in [
        ((4, 3), (3, 5)),
        ((2, 4, 3), (3, 5)),
        ((2, 1, 4, 3), (7, 3, 5)),
        ((3, 4, 3), (1, 3, 5)),
    ]:
        x, y = (small_numbers(s, np.dtype(np.float32), rng) for s in (a, b))
        assert same(t.matmul(x, y), np.matmul(x, y))


def test_calls_in_the_language_take_any_ranks() -> None:
    text = """
    def net(float(...) X, float(...) w, float b) -> (Y) {
      h = scale(X, w)
      g = scale(h, b)
      Y(...) = relu(g(...)) + X(...)
    }
    def scale(float(...) x, float(...) f) -> (float(...) y) { y(...) = x(...) * f(...) }"""
    net = kernel(text, "net")
    rng = np.random.default_rng(4)
    for a, b in [((3, 4), (4,)), ((3, 1), (2, 1, 4)), ((5,), (5,)), ((), (3,)), ((2, 0), (1,))]:
        x, w = (small_numbers(s, np.dtype(np.float32), rng) for s in (a, b))
        want = np.maximum(x * w * np.float32(2), 0) + x
        assert same(net(x, w, 2.0), np.asarray(want, np.float32))


def test_loops_and_temporaries_of_any_rank() -> None:
    scan = kernel(
        """def scan(float(T, ...) X, float(...) start) -> (H) {
          H(0, ...) = start(...) where exists X(0, ...)
          for t in 0:T { u(...) = X(t, ...) * 2.0  H(t + 1, ...) = H(t, ...) + u(...) }
        }"""
    )
    rng = np.random.default_rng(5)
    for shape, at in [((3,), ()), ((3, 4), (4,)), ((3, 2, 4), (1, 4)), ((3, 2, 4), ())]:
        x, start = (small_numbers(s, np.dtype(np.float32), rng) for s in (shape, at))
        want = np.concatenate([np.broadcast_to(start, (1, *shape[1:])), 2 * x]).cumsum(0)
        assert same(scan(x, start), want.astype(np.float32))


def test_outputs_may_be_inputs(add: Kernel) -> None:
    a, b = np.ones((2, 3), np.float32), np.arange(3, dtype=np.float32)
    add(a, b, out=a)
    assert same(a, 1 + np.broadcast_to(b, (2, 3)))


# ---- what needs a rank and has no arrays


def test_without_arrays_a_rank_is_chosen() -> None:
    norm = kernel(NORM)
    with pytest.raises(TCTypeError, match=r"any rank.*\n.*norm.with_rank\(2\)"):
        norm.variant()
    assert norm.with_rank(1).variant().checked.sizes == ("D0", "D")
    assert norm.with_rank(0).variant().checked.sizes == ("D",)
    x = np.ones((2, 3), np.float32)
    assert same(norm.with_rank(1)(x).S, norm(x).S)
    with pytest.raises(ShapeError, match="expected X with 2 dimensions"):
        norm.with_rank(1)(x[0])
    assert kernel("def f(float(N) A) -> (B) { B(i) = A(i) }").with_rank(3).variant()


def test_names_of_sizes_tell_the_rank() -> None:
    norm = kernel(NORM)
    assert "S(i0) +=! X(i0, d)" in norm.text({"D0": 4, "D": 5})
    assert "S(i0, i1) +=! X(i0, i1, d)" in norm.text({"D0": 4, "D1": 2, "D": 5})
    with pytest.raises(ShapeError, match=r"norm has the sizes K at no rank.* it has D, D0"):
        norm.text({"K": 3})


@pytest.mark.wide
def test_tuning_takes_arrays_shapes_and_sizes_of_any_rank(tmp_path: Any) -> None:
    database = tmp_path / "tuned.db"
    norm = tc.define(NORM, cache=database)
    assert isinstance(norm, Kernel)
    wanted: dict[str, Any] = {"trials": 1, "quiet": True}
    by_sizes = norm.autotune(D0=4, D=32, **wanted)
    assert by_sizes is not None
    x = np.ones((4, 32), np.float32)
    assert norm.tuned_config(x) == by_sizes
    assert norm.tuned_config(x[None]) is None
    assert norm.autotune((1, 4, 32), **wanted) is not None
    assert norm.tuned_config(x[None]) is not None
    assert norm.autotune(x[0], **wanted) is not None


def test_a_text_that_is_right_at_some_rank_only_is_defined() -> None:
    k = kernel("def f(float(...) A) -> (O) { O(i) +=! A(i) * A(..., i) }")
    a: Array = np.arange(3, dtype=np.float32)
    assert same(k(a), a * a)
    with pytest.raises(TCTypeError, match=r"error\[TC10[34]\]"):
        k(np.ones((2, 3), np.float32))


# ---- neighbours that stand together are one loop

FLOAT_ADD = ADD.replace("<T>", "").replace("T(", "float(")


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
@pytest.mark.parametrize("text", [FLOAT_ADD, TOTAL])
def test_dimensions_that_stand_together_are_walked_as_one(text: str, target: str) -> None:
    k = kernel(text)
    flat, square = {"D0": 4096}, {"D0": 8, "D1": 4, "D2": 8, "D3": 16}
    loops = [k.text(sizes, target=target).count("for (") for sizes in (flat, square)]
    assert loops[0] == loops[1]
    assert not re.search(r"for \(\w+ i[012] ", k.with_rank(4).text(target=target))


BIASED = "def bias(float(...,N) A, float(N) B) -> (C) { C(..., n) = A(..., n) + B(n) }"
ROWS = "def rows(float(...,N) A) -> (S) { S(...) +=! A(..., n) }"
FIXED = {  # as somebody would write them who knows the ranks
    BIASED: """def bias(float(D0,D1,D2,N) A, float(N) B) -> (C) {
        C(i0, i1, i2, n) = A(i0, i1, i2, n) + B(n) }""",
    ROWS: """def rows(float(D0,D1,D2,N) A) -> (S) {
        S(i0, i1, i2) +=! A(i0, i1, i2, n) }""",
    TOTAL: """def total(float(D0,D1,D2,D3) X) -> (s) {
        s +=! X(i0, i1, i2, i3) }""",
    FLOAT_ADD: """def add(float(D0,D1,D2,D3) A, float(D0,D1,D2,D3) B) -> (C) {
        C(i0, i1, i2, i3) = A(i0, i1, i2, i3) + B(i0, i1, i2, i3) }""",
}


def emitted(k: Kernel, *args: Array) -> str:
    """Return the code for a call with these arrays, without its header."""
    call = k.call(*args)
    v = call.variant
    text = v.text(call.spec, v.default_config(call.spec, call.sizes), call.sizes)
    return text[text.index("*/") :]


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
@sampled("text", FIXED, keep=2)
def test_the_code_is_that_of_the_text_of_fixed_rank(text: str, target: str) -> None:
    dots, fixed = kernel(text), kernel(FIXED[text])
    sizes = {n: 4 + d for d, n in enumerate(fixed.variant().checked.sizes)}
    shape = tuple(sizes.values())
    for given in (sizes, None):
        bound = dots if given else dots.with_shapes(*_shapes(dots, shape))
        texts = [k.text(given, target=target) for k in (bound, fixed)]
        assert texts[0][texts[0].index("#include" if target == "cpu" else "extern") :] in texts[1]
    padded = [np.zeros((*s[:-1], s[-1] + 3), np.float32)[..., :-3] for s in _shapes(dots, shape)]
    assert emitted(dots, *padded) == emitted(fixed, *padded)


def _shapes(k: Kernel, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [shape if p != "B" or k.name != "bias" else shape[-1:] for p in k.params]


def test_only_what_lies_together_is_walked_as_one() -> None:
    k = kernel(FLOAT_ADD)
    whole = np.zeros((4, 5, 6, 7), np.float32)
    rows = r"; i\d < tc_min_i64\(end \* \d+, (\d+)\)"
    lying: dict[str, tuple[tuple[Array, ...], int | None]] = {
        "all": ((whole, whole), None),
        "rows apart": ((np.zeros((4, 5, 6, 9), np.float32)[..., :7], whole), 120),
        "planes apart": ((np.zeros((4, 8, 6, 7), np.float32)[:, :5], whole), 4),
        "planes repeated": ((whole, whole[0, 0]), 20),
        "a number for each plane": ((whole, np.zeros((4, 5, 1, 1), np.float32)), 20),
    }
    for name, (args, outer) in lying.items():
        text = emitted(k, *args)
        found = re.findall(rows, text)
        assert found == ([] if outer is None else [str(outer)]), name
        if outer is None:
            assert "< 840" in text, name
    between = emitted(k, whole, np.zeros((4, 1, 1, 7), np.float32))
    assert "first0 % 30" in between  # 5 x 6 rows for each of 4


def test_a_warning_names_the_line_of_the_caller() -> None:
    with pytest.warns(UserWarning, match="TC150") as caught:
        kernel("def sums(float(...) A) -> (O) { O(...) += A(...) }")
    with pytest.warns(UserWarning, match="TC150") as again:
        tc.define_all("def sums(float(...) A) -> (O) { O(...) += A(...) }")
    assert [w.filename for w in (*caught, *again)] == [__file__] * 2
