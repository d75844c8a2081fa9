"""Numbers of chance on a CPU are those that PyTorch draws under the same seed."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import library
from tcdsl.utils import data
from tests.tiers import sampled

pytestmark = pytest.mark.cc

# Of PyTorch 2.13, seed 5.
RAND = [0.8302518725395203, 0.12611091136932373, 0.9074696898460388]
RANDN = [-0.4867807626724243, -0.6038215756416321]
INTEGERS = [1, 4, 7, 5, 6, 0]


def test_numbers_under_a_seed_are_the_known_ones() -> None:
    library.manual_seed(5)
    assert library.rand(3).tolist() == RAND
    library.manual_seed(5)
    assert library.randint(0, 10, (6,)).tolist() == INTEGERS
    library.manual_seed(5)
    one_by_one = [library.randn(1).item(), library.randn(1).item()]  # the second one was kept
    np.testing.assert_allclose(one_by_one, RANDN, rtol=1e-6)


def test_words_are_those_of_numpy_however_they_are_asked_for() -> None:
    source = library.Generator().manual_seed(11)
    known = np.random.RandomState(11)
    for count in (1, 622, 1, 1, 0, 2000, 623):
        found = source.words(count)
        assert found.tolist() == known.randint(0, 1 << 32, count, np.uint64).tolist()


def test_a_state_goes_on_where_it_was_taken_and_one_of_before_is_refused() -> None:
    source = library.Generator().manual_seed(3)
    library.randn(3, generator=source)
    state = source.get_state()
    expected = library.randn(5, generator=source).tolist()
    assert library.randn(5, generator=library.Generator().set_state(state)).tolist() == expected
    with pytest.raises(RuntimeError, match="of another generator"):
        source.set_state(library.zeros(120, dtype=library.uint8))
    with pytest.raises(RuntimeError, match="that get_state returned"):
        source.set_state(library.full((5056,), 255, dtype=library.uint8))


def test_a_copy_and_a_state_go_on_from_any_word() -> None:
    source = library.Generator().manual_seed(8)
    at = 0
    for count in (0, 624, 1, 4991, 3000, 90 * 624, 0, 5):  # on borders of blocks, and far over them
        source.words(count)
        at += count
        expected = np.random.RandomState(8).randint(0, 1 << 32, at + 700, np.uint64)[at:].tolist()
        again = library.Generator().set_state(source.get_state())
        for other in (copy.deepcopy(source), pickle.loads(pickle.dumps(source)), again):
            assert other.words(700).tolist() == expected
            assert other.initial_seed() == 8


def _same(make: Any, tolerance: float = 0.0) -> None:
    """Compare numbers of both libraries, and how many words they took."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    library.manual_seed(5)
    theirs, ours = make(torch).detach(), make(library).detach()
    found = ours.to(library.float64).numpy()
    np.testing.assert_allclose(found, theirs.double().numpy(), rtol=0, atol=tolerance)
    assert library.rand(1).item() == torch.rand(1).item()


@pytest.mark.torch
def test_numbers_are_pytorchs() -> None:
    for count in (1, 15, 16, 17, 31, 1000):
        _same(lambda m, n=count: m.rand(n))
        _same(lambda m, n=count: m.randn(n), 4e-6)
        _same(lambda m, n=count: m.randint(-5, 9, (n,)))
        _same(lambda m, n=count: m.randperm(n))
    _same(lambda m: m.zeros(5, 4).t().normal_(), 4e-6)
    _same(lambda m: m.rrelu(m.tensor([-1.0, 2.0, -3.0, 0.0]), training=True), 4e-6)
    _same(lambda m: m.zeros(4, 6)[:, ::2].t().uniform_(-0.3, 0.9))


@pytest.mark.torch
@pytest.mark.wide
def test_draws_of_as_many_numbers_as_they_need_are_pytorchs() -> None:
    """Few and many events, rates and shapes of 0, shapes below 1; a normal number that was kept."""
    import torch

    from tcdsl import distributions as ours

    rates = [0.5, 5.0, 0.0, 50.0, 9.9, 10.0] * 20
    trials, chances = [10.0, 100.0, 0.0, 5.0, 300.0], [0.5, 0.2, 0.3, 1.0, 0.97]

    def gammas(m: Any) -> Any:
        m.randn(1)
        of = ours if m is library else torch.distributions
        shape = m.tensor([0.2, 0.7, 1.0, 3.0] * 30, dtype=m.float64)
        made = [of.Gamma(shape, 1.0).sample(), of.Beta(shape, shape).sample(), m.randn(1).double()]
        return m.cat(made)

    _same(lambda m: m.poisson(m.tensor(rates)))
    _same(lambda m: m.poisson(m.tensor(rates).view(10, 12).t()))
    _same(lambda m: m.binomial(m.tensor(trials * 20), m.tensor(chances * 20)))
    _same(gammas, 1e-12)


@pytest.mark.torch
def test_normal_numbers_of_tensors_are_pytorchs() -> None:
    """Of as many words, however many: in pairs, in groups of 16, the last of them once more."""
    for shape in ((3,), (15, 1), (2, 16), (3, 7, 5)):

        def drawn(m: Any, shape: tuple[int, ...] = shape) -> Any:
            spread = m.ones(shape) / 4
            return m.normal(spread, 2 * spread) + m.zeros(shape).normal_(0.5, 0.25)

        _same(drawn, 4e-6)
    for least in (-1.0, float("nan")):
        with pytest.raises(RuntimeError, match="expects all elements of std"):
            library.normal(library.zeros(3), library.tensor([2.0, least, 1.0]))


@pytest.mark.torch
@pytest.mark.wide
@pytest.mark.parametrize("rates", [[0.3, 2.5], [8.0, 30.0, 12.0]])
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_events_of_many_rates_are_drawn_in_parts(rates: list[float], name: str) -> None:
    """As many numbers are taken as events need, so that those drawn next are PyTorch's as well."""
    _same(lambda m: m.poisson(m.tensor(rates * 5000, dtype=getattr(m, name))))


# Terms of rounding: sizes of the numbers, here below 8, times a few units in the last place.
TYPES = {"float32": 4e-6, "float64": 1e-14, "float16": 8e-3, "bfloat16": 6e-2}


@pytest.mark.torch
@pytest.mark.wide
@pytest.mark.parametrize("name", TYPES)
def test_numbers_of_any_type_are_pytorchs(name: str) -> None:
    near = TYPES[name]
    for n in (0, 1, 2, 15, 16, 17, 31, 1000):

        def empty(m: Any, n: int = n) -> Any:
            return m.empty(n, dtype=getattr(m, name))

        _same(lambda m: empty(m).uniform_(-0.3, 0.9))
        _same(lambda m: empty(m).normal_(0.5, 2.0), 2 * near)
        _same(lambda m: empty(m).random_())
        _same(lambda m: empty(m).bernoulli_(0.3))
        _same(lambda m: m.bernoulli(empty(m).uniform_()))
        _same(lambda m: empty(m).exponential_(1.5), 2 * near)
        _same(lambda m: empty(m).geometric_(0.3))
        _same(lambda m, n=n: m.cat([m.randn(3), m.randn(n), m.randn(4)]), 4e-6)


@pytest.mark.torch
@pytest.mark.wide
def test_integers_of_any_range_and_type_are_pytorchs() -> None:
    for name in ("int64", "int32", "int16", "int8", "uint8", "bool"):
        _same(lambda m, name=name: m.empty(40, dtype=getattr(m, name)).random_())
    for low, high in (
        (0, 2**28 - 1), (0, 2**28), (0, 2**32 + 5), (0, 2**63 - 1), (-(2**63), 2**63 - 1),
    ):  # fmt: skip
        _same(lambda m, low=low, high=high: m.randint(low, high, (21,)) % 1000003)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda m: m.zeros(5, 4).t(),
    "every second": lambda m: m.zeros(40)[::2],
    "permuted": lambda m: m.zeros(2, 3, 4).permute(2, 0, 1),
    "cut": lambda m: m.zeros(4, 3)[:, :2],
    "cut and transposed": lambda m: m.zeros(4, 6)[:, ::2].t(),
    "of one row": lambda m: m.zeros(4, 1, 6).permute(2, 1, 0),
}


@pytest.mark.torch
@pytest.mark.wide
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strided_tensors_are_filled_in_pytorchs_order(layout: str) -> None:
    make = LAYOUTS[layout]
    for name in ("uniform_", "normal_", "random_", "exponential_", "bernoulli_", "log_normal_"):
        _same(lambda m, name=name: getattr(make(m), name)(), 2e-4)
    _same(lambda m: m.rand_like(make(m)))
    _same(lambda m: m.randn_like(make(m)), 4e-6)
    _same(lambda m: make(m).bernoulli_(m.rand(make(m).shape)))


@pytest.mark.torch
def test_states_are_pytorchs_both_ways() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    torch.rand(700)
    torch.randn(3)
    library.set_rng_state(library.from_numpy(torch.get_rng_state().numpy().copy()))
    assert library.rand(5).tolist() == torch.rand(5).tolist()
    torch.set_rng_state(torch.from_numpy(library.get_rng_state().numpy().copy()))
    assert library.rand(5).tolist() == torch.rand(5).tolist()


def _orders(m: Any, d: Any) -> list[float]:
    numbers, found = list(range(103)), []
    m.manual_seed(9)
    every: list[dict[str, Any]] = [{"shuffle": True}, {}]
    for settings in [*every, {"shuffle": True, "generator": m.Generator()}]:
        if "generator" in settings:
            settings["generator"].manual_seed(4)
        for _ in range(2):
            for batch in d.DataLoader(numbers, batch_size=10, **settings):
                found += batch.tolist()
    found += list(d.RandomSampler(numbers, True, 70)) + list(d.RandomSampler(numbers, False, 250))
    found += list(d.SubsetRandomSampler(numbers))
    for replacement in (True, False):
        found += list(d.WeightedRandomSampler([0.1, 0.2, 3, 4, 0.5] * 5, 9, replacement))
    for part in d.random_split(numbers, [50, 53]):
        found += list(part.indices)
    found += list(d.distributed.DistributedSampler(numbers, 3, 1, seed=4))
    return [*found, *m.rand(3).tolist()]


@pytest.mark.torch
def test_loaders_and_samplers_give_pytorchs_orders() -> None:
    torch = pytest.importorskip("torch")
    assert _orders(library, data) == _orders(torch, torch.utils.data)


@pytest.mark.torch
@pytest.mark.wide
def test_draws_by_weights_are_pytorchs() -> None:
    for shape in ((7,), (3, 300)):
        for count, replacement in ((1, False), (1, True), (5, False), (5, True)):
            _same(
                lambda m, s=shape, c=count, r=replacement: m.multinomial(m.rand(*s), c, r)
            )  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize(
    ("shape", "sizes", "order"),
    [((2,), (3, 2), (0, 1)), ((2, 1, 4), (2, 3, 4), (1, 2, 0)), ((3, 1, 2), (3, 3, 2), (2, 1, 0))],
)
def test_repeated_tensors_are_drawn_in_pytorchs_order(
    shape: tuple[int, ...], sizes: tuple[int, ...], order: tuple[int, ...]
) -> None:
    def make(m: Any) -> Any:
        return m.linspace(0.2, 0.7, math.prod(shape)).reshape(shape).expand(sizes).permute(order)

    _same(lambda m: m.rand_like(make(m)))
    _same(lambda m: m.bernoulli(make(m)))
    _same(lambda m: m.tensor(m.rand_like(make(m)).stride()))


def test_only_the_words_of_the_last_draw_are_given_back() -> None:
    source, known = (library.Generator().manual_seed(7) for _ in range(2))
    words = known.words(40).tolist()
    row = source.row(10)
    source.give_back(row, 4)
    row = source.row(8)
    assert row.numpy().view(np.uint32).tolist() == words[6:14]
    assert source.words(1).tolist() == words[14:15]
    source.give_back(row, 4)  # another thread has drawn: they would come twice
    assert source.words(1).tolist() == words[15:16]
    row = source.row(10)
    source.manual_seed(7)
    source.give_back(row, 4)
    assert source.words(5).tolist() == words[:5]


RANGES = [
    (3, None), (-5, None), (-(2**63), None), (0, 4000), (-4001, 5), (0, 2**30), (4097, 4098),
    (0, 70000), (0, 128), (0, 129), (-3, 5),
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*out of bounds")
@sampled("name", ["int8", "uint8", "int64", "float16", "float32"], keep=2)
def test_integers_at_the_bounds_of_a_type_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")

    def drawn(t: Any, ends: tuple[int, int | None]) -> Any:
        t.manual_seed(1)
        try:
            return t.zeros(5, dtype=getattr(t, name)).random_(*ends).tolist()
        except RuntimeError as error:
            return str(error).partition("\n")[0]

    for ends in RANGES:
        if ends[0] == -(2**63) and name != "int64":
            continue
        assert drawn(library, ends) == drawn(torch, ends), ends


@pytest.mark.torch
@sampled("names", [("float16", "float32"), ("float64", "float32")], keep=1)
def test_normal_numbers_are_of_the_type_of_the_means(names: tuple[str, str]) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (library, torch):
        t.manual_seed(1)
        mean, std = (t.ones(20, dtype=getattr(t, name)) for name in names)
        rows = [t.normal(mean, std), t.normal(2.0, std), t.normal(mean, std, out=t.empty(0))]
        found.append([(str(r.dtype).rpartition(".")[2], r.double().tolist()) for r in rows])
    for (mine, ours), (other, theirs) in zip(*found, strict=True):
        assert mine == other
        np.testing.assert_allclose(ours, theirs, rtol=1e-3 if "16" in mine else 1e-6)
    std = library.ones(3, requires_grad=True)
    assert not library.normal(std, std).requires_grad
