"""What goes by counting: places in triangles, choices, what a mask has chosen so far, divisors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl
from tests.tiers import sampled

torch = pytest.importorskip("torch")

tc: Any = tcdsl

pytestmark = [pytest.mark.torch, pytest.mark.cc]


def _same(call: Any, rtol: float = 0.0) -> None:
    """Hold the results of a call in the words of both libraries against each other."""
    ours, theirs = call(tc), call(torch)
    for mine, other in zip(ours, theirs, strict=True):
        assert str(mine.dtype) == str(other.dtype)
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol)


TRIANGLES = [(3, 4, 0), (4, 3, 1), (4, 4, -2), (900, 1000, 3), (1000, 900, -3)]
TRIANGLES += [(r, c, o) for r in (0, 1, 4) for c in (0, 1, 4) for o in range(-5, 6)]


@sampled("shape", TRIANGLES, keep=3, wide=20)
def test_places_in_triangles_are_torchs(shape: tuple[int, int, int]) -> None:
    _same(lambda t: (t.tril_indices(*shape), t.triu_indices(*shape)))


@sampled("r", [2, 3, 1], keep=1)
def test_choices_are_torchs(r: int) -> None:
    for n in (0, 1, r, 9):
        for again in (False, True):
            _same(lambda t, n=n, again=again: (t.combinations(t.arange(n), r, again),))


def _scattered(t: Any, count: int) -> Any:
    rng = np.random.default_rng(count)
    x, source = (t.from_numpy(rng.random(count)).requires_grad_() for _ in "xs")
    y = x.masked_scatter(t.from_numpy(rng.random(count) < 0.5), source)
    (y * y).sum().backward()
    return y, x.grad, source.grad


@pytest.mark.wide
@sampled("count", [7, 0, 40_000], keep=1, wide=3)  # the last in blocks, by several threads
def test_a_mask_takes_the_first_of_a_source(count: int) -> None:
    _same(lambda t: _scattered(t, count))


def test_a_source_that_is_too_short_or_another_type_is_refused_as_torchs() -> None:
    for source in ([1.0, 2.0], [1, 2, 3]):
        said = []
        for t in (tc, torch):
            with pytest.raises(RuntimeError) as refusal:
                t.zeros(3).masked_scatter_(t.ones(3).bool(), t.tensor(source))
            said.append(str(refusal.value))
        assert said[0] == said[1]


BITS = (5, 9, 14, 20, 30, 50, 62)


@sampled("bits", BITS, keep=0, wide=3)
def test_divisors_of_any_length_are_torchs(bits: int) -> None:
    rng = np.random.default_rng(bits)
    a, b = rng.integers(-(1 << bits), 1 << bits, (2, 500))
    a[:9], b[5:14] = 0, 0
    fits = 1 << bits < 2**31
    for dtype in ("int64", "int32", "int16")[: 3 if fits else 1]:
        x, y = a.astype(dtype), b.astype(dtype)
        if dtype == "int16":  # PyTorch multiplies these as int
            x, y = x // 256, y // 256
        _same(
            lambda t, x=x, y=y: [f(t.from_numpy(x), t.from_numpy(y)) for f in (t.gcd, t.lcm)],
        )


@pytest.mark.wide
@pytest.mark.parametrize("how", ["amax", "amin", "prod", "mean"])
def test_parts_are_combined_with_their_gradients_as_torchs(how: str) -> None:
    def call(t: Any) -> Any:
        rng = np.random.default_rng(1)
        x = t.from_numpy(rng.random((6, 5))).requires_grad_()
        source = t.from_numpy(rng.random((6, 4))).requires_grad_()
        y = t.index_reduce(x, 1, t.tensor([0, 4, 0, 2]), source, how)
        (y * y).sum().backward()
        return y, x.grad, source.grad

    _same(call, 1e-12)


def test_what_is_added_where_places_meet_is_torchs() -> None:
    def call(t: Any) -> Any:
        x, v = t.ones(5, 3, requires_grad=True), t.arange(12.0).view(4, 3).requires_grad_()
        y = x.index_put((t.tensor([0, 4, 0, -1]),), v, accumulate=True)
        (y * y).sum().backward()
        z = t.zeros(3, 3).index_put_((t.tensor([1, 1]), t.tensor([2, 2])), t.tensor(2.0), True)
        return y, x.grad, v.grad, z, z.index_put_((z > 1,), t.tensor(1.0), True)

    _same(call)


@sampled("count", [2, 1, 9], keep=1, wide=3)
def test_blocks_along_a_diagonal_are_torchs(count: int) -> None:
    def call(t: Any) -> Any:
        some = [t.full((1 + k % 2, k % 3), k + 1.0, requires_grad=True) for k in range(count)]
        y = t.block_diag(*some)
        (y * y).sum().backward()
        return y, *(x.grad for x in some)

    _same(call)


@pytest.mark.wide
@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 5, 4), (1, 6, 3, 2, 2)])
def test_channels_are_shuffled_as_torchs(shape: tuple[int, ...]) -> None:
    def call(t: Any) -> Any:
        x = t.from_numpy(np.random.default_rng(1).random(shape)).requires_grad_()
        y = t.nn.functional.channel_shuffle(x, 3)
        (y * t.arange(y.numel()).view(y.shape)).sum().backward()
        return y, x.grad

    _same(call)


def test_places_of_what_is_true_are_torchs() -> None:
    for shape in ((3, 5), (0, 4), (4, 0), (2, 3, 4)):
        m = np.random.default_rng(shape).random(shape) < 0.5
        _same(lambda t, m=m: (t.from_numpy(m).nonzero(), t.from_numpy(m).transpose(0, 1).nonzero()))


@pytest.mark.parametrize("accumulate", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_elements_are_put_as_if_of_one_dimension(accumulate: bool) -> None:
    def call(t: Any) -> Any:
        x, v = t.ones(3, 4, requires_grad=True), t.arange(3.0).requires_grad_()
        places = t.tensor([7, -1, 0])
        y = x.put(places, v, accumulate)
        (y * y).sum().backward()
        turned = t.zeros(3, 4).t()
        turned.put_(places, t.arange(3.0), accumulate)
        return y, x.grad, v.grad, t.zeros(3, 4).put_(places, t.arange(3.0), accumulate), turned

    _same(call)
    said = []
    for t in (tc, torch):
        for places in ([7], [0, 1]):
            with pytest.raises(IndexError) as refusal:
                t.zeros(3).put_(t.tensor(places), t.ones(1))
            said.append(str(refusal.value))
    assert said[:2] == said[2:]


@sampled("dtype", ["float32", "float64", "int64", "bool"], keep=1)
def test_columns_of_given_numbers_are_torchs(dtype: str) -> None:
    for shape, count in (((5, 100), 33), ((2, 3, 7), 1), ((3, 4), 0), ((0, 3), 5), ((3, 0), 0)):
        rng = np.random.default_rng((*shape, count))
        array = rng.integers(0, 2, shape).astype(dtype)
        places = rng.integers(0, max(shape[-1], 1), count)

        def call(t: Any, array: Any = array, places: Any = places) -> Any:
            x, i = t.from_numpy(array.copy()), t.from_numpy(places)
            turned = t.from_numpy(array.T.copy()).permute(tuple(range(array.ndim))[::-1])
            if not dtype.startswith("float"):
                return x.index_select(-1, i), turned.index_select(-1, i)
            y = x.requires_grad_().index_select(-1, i)
            (y * y).sum().backward()
            return y, x.grad, turned.index_select(-1, i)

        _same(call)
    for outside in (-1, 4):
        with pytest.raises(IndexError, match="index out of range in self"):
            tc.zeros(3, 4).index_select(1, tc.tensor([0, outside]))


@sampled("count", [3, 1, 64], keep=1)
def test_what_is_among_a_few_is_torchs(count: int) -> None:
    rng = np.random.default_rng(count)
    x, known = rng.integers(0, 50, (7, 30)), rng.integers(0, 50, count)
    _same(lambda t: (t.isin(t.from_numpy(x), t.from_numpy(known)),))


def test_a_tensor_alone_in_a_tuple_is_a_subscript() -> None:
    def call(t: Any) -> Any:
        x = t.arange(12.0).view(3, 4)
        mask, rows = x > 5, t.tensor([0, 2])
        y, z = x.clone(), x.clone()
        y[(mask,)], z[(rows,)] = 0.0, t.tensor(7.0)
        return x[(mask,)], x[(rows,)], y, z

    _same(call)
