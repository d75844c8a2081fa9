"""Calls that PyTorch refuses are refused in its words, where a number would be wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import library, nn
from tests.tiers import sampled

tc: Any = library
F: Any = nn.functional
pytestmark = pytest.mark.cc


def test_probabilities_are_between_0_and_1() -> None:
    ends, nan = tc.tensor([0.0, 1.0]), tc.tensor([0.5, float("nan")])
    assert F.binary_cross_entropy(ends, ends).item() == 0
    for x in (ends - 0.5, ends + 0.5, nan):
        with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
            F.binary_cross_entropy(x, ends)
        with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"):
            F.binary_cross_entropy(ends, x)
    with pytest.raises(RuntimeError, match="Found dtype Long but expected Float"):
        F.binary_cross_entropy(ends, ends.long())


@pytest.mark.parametrize(
    ("name", "shape", "factor", "words"),
    [
        ("pixel_shuffle", (4, 4), 2, "at least 3 dimensions, but got input with 2 dimension"),
        ("pixel_shuffle", (4, 4, 4), 0, "a positive upscale_factor, but got 0"),
        ("pixel_shuffle", (2, 4, 4), 2, r"size\(-3\)=2 is not divisible by 4"),
        ("pixel_unshuffle", (4, 4), 2, "at least 3 dimensions, but got input with 2 dimension"),
        ("pixel_unshuffle", (4, 4, 4), -1, "a positive downscale_factor, but got -1"),
        ("pixel_unshuffle", (4, 3, 3), 2, r"height .*size\(-2\)=3 is not divisible by 2"),
        ("pixel_unshuffle", (4, 4, 3), 2, r"width .*size\(-1\)=3 is not divisible by 2"),
    ],
)
def test_images_that_no_factor_divides(
    name: str, shape: tuple[int, ...], factor: int, words: str
) -> None:
    with pytest.raises(RuntimeError, match=f"{name} expects .*{words}"):
        getattr(F, name)(tc.ones(*shape), factor)
    with pytest.raises(RuntimeError, match=r"Number of groups .* must be positive"):
        F.channel_shuffle(tc.ones(2, 4, 4), 0)


def test_margins_are_of_rows_of_some_classes() -> None:
    labels = tc.zeros(3, dtype=tc.int64)
    for shape in ((0,), (3, 0), (3, 2, 2)):
        x = tc.zeros(*shape)
        for loss, target in ((F.multi_margin_loss, labels), (F.multilabel_margin_loss, x.long())):
            with pytest.raises(RuntimeError, match=r"Expected non-empty vector or matrix"):
                loss(x, target)
    assert F.multilabel_margin_loss(tc.zeros(0, 3), tc.zeros(0, 3).long(), reduction="sum") == 0


def test_labels_that_are_no_classes_are_refused_wherever_they_stand() -> None:
    for labels in ([0, 3, -1], [0, -2, 1], [0, -1, 3], [-1, -1, 2**63 - 1]):
        with pytest.raises(RuntimeError, match="argument #2 'target' is out of range"):
            F.multilabel_margin_loss(tc.zeros(1, 3), tc.tensor([labels]))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_a_pad_of_nothing_is_a_copy(mode: str) -> None:
    x = tc.ones(2, 3, requires_grad=True)
    y = F.pad(x, (0, 0), mode=mode)
    y.sum().backward()
    y.data += 1
    assert x.tolist() == x.grad.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_losses_warn_of_targets_that_broadcast() -> None:
    x = tc.ones(3)
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        with pytest.warns(
            UserWarning, match=r"target size \(torch.Size\(\[3, 1\]\)\) that is diff"
        ):
            loss(x, x.view(3, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loss(x, x)
    with pytest.raises(RuntimeError, match="negative values for beta"):
        F.smooth_l1_loss(x, x, beta=-1)
    with pytest.raises(RuntimeError, match="multi-target not supported"):
        F.cosine_embedding_loss(tc.ones(2, 3), tc.ones(2, 3), tc.ones(1, 2))


def test_the_extreme_of_nothing() -> None:
    nothing, rows = tc.zeros(0), tc.zeros(3, 0)
    for name in ("max", "min", "argmax", "argmin", "amax", "median", "mode"):
        for x, dim in ((nothing, 0), (rows, 1), (rows, -1)):
            with pytest.raises(
                IndexError, match=rf"{name}\(\): Expected reduction dim . to have non"
            ):
                getattr(x, name)(dim)
    for name, kind in (("max", RuntimeError), ("amin", RuntimeError), ("argmax", IndexError)):
        with pytest.raises(kind, match="Expected reduction dim to be specified"):
            getattr(rows, name)()
    assert rows.median().isnan().item()
    for p in (float("inf"), -2):
        for dims in ((), (1,)):
            with pytest.raises(RuntimeError, match="does not have an identity"):
                rows.norm(p, *dims)
    assert rows.norm(1, 1).tolist() == [0, 0, 0]


def test_a_number_has_no_dimension_1() -> None:
    x = tc.tensor(3.0)
    for name in ("sum", "prod", "mean", "max", "argmax", "std", "all", "softmax", "cumsum", "sort"):
        with pytest.raises(IndexError, match="Dimension out of range"):
            getattr(x, name)(1)
        getattr(x, name)(0)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times"):
        x.sum((0, -1))
    for name, args in (("split", (1,)), ("chunk", (1,)), ("narrow", (0, 0, 1)), ("unbind", ())):
        with pytest.raises((RuntimeError, IndexError), match=r"dimension|0-dim"):
            getattr(x, name)(*args)


def test_a_dimension_is_turned_once() -> None:
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times"):
        tc.ones(2, 2).flip([0, -2])
    assert tc.tensor(3.0).flip(0).item() == 3
    with pytest.raises(RuntimeError, match="i appears more than once in the output"):
        tc.einsum("ij,jk->iik", tc.ones(2, 3), tc.ones(3, 2))


def test_steps_of_windows_are_positive() -> None:
    x, w = tc.ones(1, 1, 4, 4), tc.ones(1, 1, 2, 2)
    for call in (F.conv2d, F.conv_transpose2d):
        for wrong in ({"stride": 0}, {"stride": -1}, {"dilation": 0}, {"padding": -1}):
            with pytest.raises(RuntimeError, match=r"positive|negative|greater than zero"):
                call(x, w, **wrong)
    for wrong in ({"stride": 0}, {"padding": -1}, {"dilation": 0}):
        with pytest.raises(RuntimeError, match=r"greater than zero|stride should not be zero"):
            F.max_pool2d(x, 2, **wrong)
    with pytest.raises(RuntimeError, match="sizes should be greater than 0"):
        F.interpolate(x, size=0)
    with pytest.raises(ValueError, match="min_val cannot be greater"):
        F.hardtanh(x, 2, 1)


def test_what_is_written_through_data_is_of_a_kind_that_fits() -> None:
    x = tc.arange(6)
    with pytest.raises(RuntimeError, match="got Long for the destination and Float"):
        x[tc.tensor([0, 1])] = tc.tensor([1.5])
    with pytest.raises(RuntimeError, match=r"shape \[3\] cannot be broadcast to indexing result"):
        x[x > 3] = tc.tensor([1, 2, 3])
    with pytest.raises(TypeError, match=r"can't assign a NoneType to a torch.LongTensor"):
        x[0] = None
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 6"):
        x[tc.tensor([7])] = 1
    with pytest.raises(RuntimeError, match="boolean tensor, but got a tensor with dtype Long"):
        tc.where(x, x, x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert tuple(x[tc.tensor(True)].shape) == (1, 6)
    assert x[range(1, 3)].tolist() == [1, 2]


UNDERIVED: dict[str, Any] = {
    "different elements": lambda t, x: t.unique(x, return_inverse=True)[0],
    "counts": lambda t, x: t.histogram(x, 3)[0],
    "edges that were found": lambda t, x: t.histogram(x, 3)[1],
    "different rows": lambda t, x: t.unique(x.reshape(2, 2), dim=0),
    "counts of weights": lambda t, x: t.histogramdd(t.ones(4, 1), [2], weight=x)[0],
    "draws by a number": lambda t, x: t.bernoulli(x, 0.5),
    "successes": lambda t, x: t.binomial(t.ones(4), x),
}


@pytest.mark.torch
@sampled("call", UNDERIVED, keep=3)
def test_what_has_no_derivative_is_no_constant(call: str) -> None:
    torch = pytest.importorskip("torch")
    for t in (tc, torch):
        x = t.tensor([0.3, 0.7, 0.3, 0.9], requires_grad=True)
        made = UNDERIVED[call](t, x)
        assert made.requires_grad
        with pytest.raises(RuntimeError, match="is not implemented"):
            (made.sum() + x.sum()).backward()
        with t.no_grad():
            assert not UNDERIVED[call](t, x).requires_grad
        assert not UNDERIVED[call](t, x.detach()).requires_grad


def test_bags_begin_at_the_first_and_end_at_the_last() -> None:
    table, words = tc.ones(4, 3), tc.tensor([0, 1, 2])
    with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0"):
        F.embedding_bag(words, table, tc.tensor([1, 2]))
    with pytest.raises(RuntimeError, match=r"greater than input's length 3 but got"):
        F.embedding_bag(words, table, tc.tensor([0, 5]))


def test_bools_have_extremes_and_are_no_numbers() -> None:
    yes, both = tc.tensor([True, False]), tc.tensor([True, True])
    assert tc.max(yes, both).tolist() == [True, True]
    assert tc.min(yes, both).tolist() == [True, False]
    assert yes.square().dtype == tc.int64
    for call in (yes.abs, lambda: tc.ger(yes, yes)):
        with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
            call()


def test_what_scales_is_a_number_of_the_kind() -> None:
    x = tc.tensor([1, 2])
    for call in (tc.add, tc.sub):
        with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
            call(x, x, alpha=0.5)
        with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
            call(x, x, x)
    assert tc.add(x, 2, x).tolist() == tc.add(x, x, alpha=2).tolist() == [3, 6]


def test_draws_are_by_probabilities() -> None:
    for wrong in (-0.5, 2.0, float("nan")):
        with pytest.raises(RuntimeError, match=r"Expected p_in >= 0 && p_in <= 1"):
            tc.bernoulli(tc.tensor([0.5, wrong]))
    assert tc.bernoulli(tc.tensor([0.0, 1.0])).tolist() == [0, 1]


def test_what_is_no_tensor_is_refused_by_the_name_that_was_called() -> None:
    for name in ("all", "diff", "amax", "histc", "sum", "prod"):
        with pytest.raises(
            TypeError, match=rf"{name}\(\): argument 'input' \(position 1\) must be"
        ):
            getattr(tc, name)([1.0])
    with pytest.raises(
        TypeError, match=r"cat\(\): argument 'tensors' \(position 1\) must be tuple"
    ):
        tc.cat(tc.ones(2))
    x = tc.ones(2)
    calls: tuple[tuple[Callable[[], Any], str], ...] = (
        (lambda: nn.Linear(2, 1)("a"), r"linear\(\): argument 'input'"),
        (lambda: x.pow("a"), r"pow\(\): argument 'exponent'"),
        (lambda: F.softplus(x, "a"), r"softplus\(\): argument 'beta'"),
        (lambda: x.sum(foo=1), r"sum\(\) got an unexpected"),
        (lambda: x.add(), r"add\(\) missing 1 required"),
        (lambda: x.div(), r"div\(\) missing 1 required"),
        (lambda: x.fill_("a"), "must be Number, not str"),
        (lambda: nn.LSTMCell(2, 2)(tc.ones(1, 2), tc.ones(1, 2)), "hx as a pair of tensors"),
    )
    for call, words in calls:
        with pytest.raises(TypeError, match=words):
            call()


def test_a_second_dimension_is_not_taken_for_keepdim() -> None:
    x = tc.ones(2, 3)
    for call in (x.sum, x.mean, x.max, x.all, x.prod):
        with pytest.raises(TypeError, match="argument 'keepdim' must be bool, not int"):
            call(0, 1)
    assert x.sum(0, True).shape == x.sum(axis=0, keepdims=np.bool_(True)).shape == (1, 3)


def test_filters_are_divided_among_groups() -> None:
    with pytest.raises(RuntimeError, match="to be divisible by 2 at dimension 0"):
        F.conv2d(tc.ones(1, 2, 4, 4), tc.ones(3, 1, 2, 2), groups=2)


def test_a_source_of_chance_is_a_generator() -> None:
    for draw in (tc.rand, tc.randn, tc.randperm, lambda n, **kw: tc.empty(n).bernoulli_(**kw)):
        with pytest.raises(TypeError, match=r"'generator' must be torch.Generator, not int"):
            draw(3, generator=1)


def test_one_class_a_row_is_wanted() -> None:
    for loss in (F.cross_entropy, F.nll_loss):
        with pytest.raises(RuntimeError, match="0D or 1D target tensor expected, multi-target not"):
            loss(tc.ones(2, 3), tc.tensor([[0], [1]]))


def test_means_of_integers_are_refused() -> None:
    for rank, name in ((1, "adaptive_avg_pool2d"), (3, "adaptive_avg_pool3d_cpu")):
        pool = getattr(F, f"adaptive_avg_pool{rank}d")
        with pytest.raises(NotImplementedError, match=f"\"{name}\" not implemented for 'Long'"):
            pool(tc.ones(1, 1, *[7] * rank, dtype=tc.int64), 3)


_OF_FLOATS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "elu": lambda t, f, x: f.elu(x),
    "leaky_relu": lambda t, f, x: f.leaky_relu(x),
    "gelu": lambda t, f, x: f.gelu(x),
    "silu": lambda t, f, x: f.silu(x),
    "softplus": lambda t, f, x: f.softplus(x),
    "hardswish": lambda t, f, x: f.hardswish(x),
    "softshrink": lambda t, f, x: f.softshrink(x),
    "glu": lambda t, f, x: f.glu(x),
    "mse": lambda t, f, x: f.mse_loss(x, x),
    "batch_norm": lambda t, f, x: f.batch_norm(x, None, None, training=True),
    "group_norm": lambda t, f, x: f.group_norm(x, 1),
    "layer_norm": lambda t, f, x: f.layer_norm(x, (2,)),
    "lerp": lambda t, f, x: t.lerp(x, x, 0.5),
    "frac": lambda t, f, x: t.frac(x),
    "avg_pool2d": lambda t, f, x: f.avg_pool2d(x.to(t.int32), 2),
    "adaptive_max_pool2d": lambda t, f, x: f.adaptive_max_pool2d(x, 2),
    "max_pool2d": lambda t, f, x: f.max_pool2d(x > 0, 2),
}


@pytest.mark.parametrize("name", _OF_FLOATS)
def test_integers_are_refused_by_what_is_of_floats(name: str) -> None:
    torch = pytest.importorskip("torch")
    said = []
    for t, f in ((tc, F), (torch, torch.nn.functional)):
        with pytest.raises(NotImplementedError) as refusal:
            _OF_FLOATS[name](t, f, t.ones(2, 2, 2, 2, dtype=t.int64))
        said.append(str(refusal.value))
    assert said[0] == said[1]


def test_integers_beside_numbers_are_of_their_kind() -> None:
    whole = tc.arange(4)
    assert F.pad(whole.view(2, 2), (1, 0), value=7).tolist() == [[7, 0, 1], [7, 2, 3]]
    assert F.pad(whole > 1, (0, 1)).tolist() == [False, False, True, True, False]
    assert F.softsign(whole[:2]).tolist() == [0.0, 0.5]
    for x, low in ((whole, 0.5), (whole > 1, 0)):
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            x.clamp_(low, 1)
