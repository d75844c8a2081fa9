"""Images whose channels lie last stay so, through every op that keeps them so in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tcdsl import library, nn
from tcdsl.ops import convolutions
from tcdsl.ops.spatial import with_channels_behind, with_channels_moved

tc: Any = library
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cc
_F: dict[Any, Any] = {tc: nn.functional, torch: torch.nn.functional}

Call = Callable[..., Any]


def _ramp(t: Any, *shape: int, last: bool = False) -> Any:
    """Return numbers that differ and of which no two neighbours are in order."""
    count = 1
    for n in shape:
        count *= n
    made = ((t.arange(count) * 37 % 101).to(t.float32) / 50 - 1).view(shape)
    if not last:
        return made
    return made.contiguous(memory_format=t.channels_last_3d if len(shape) == 5 else t.channels_last)


def _block(t: Any, x: Any) -> Any:
    """Return what a block of a ResNet, its pools and its head give."""
    f = _F[t]
    made = f.conv2d(x, _ramp(t, 4, 4, 3, 3, last=True), _ramp(t, 4), padding=1)
    made = t.relu(f.batch_norm(made, None, None, _ramp(t, 4), _ramp(t, 4), True) + x)
    return made, f.max_pool2d(made, 3, 2, 1), f.adaptive_avg_pool2d(made, 1)


FEW: dict[str, Call] = {
    "block": _block,
    "channel_shuffle": lambda t, x: _F[t].channel_shuffle(x, 2),
}
MORE: dict[str, Call] = {
    "conv_by_weights": lambda t, x: _F[t].conv2d(x.contiguous(), _ramp(t, 4, 4, 3, 3, last=True)),
    "conv_in_groups": lambda t, x: _F[t].conv2d(x, _ramp(t, 4, 2, 3, 3), groups=2),
    "conv_transposed": lambda t, x: _F[t].conv_transpose2d(
        x, _ramp(t, 4, 3, 3, 3), _ramp(t, 3), stride=2, padding=1
    ),
    "max_with_places": lambda t, x: _F[t].max_pool2d(x, 3, 2, 1, return_indices=True),
    "avg": lambda t, x: _F[t].avg_pool2d(x, 3, 2, 1),
    "avg_counted": lambda t, x: _F[t].avg_pool2d(
        x, 3, 2, 1, ceil_mode=True, count_include_pad=False
    ),
    "lp": lambda t, x: _F[t].lp_pool2d(x, 2.0, 2),
    "adaptive_avg": lambda t, x: _F[t].adaptive_avg_pool2d(x, (4, 3)),
    "adaptive_max": lambda t, x: _F[t].adaptive_max_pool2d(x, (4, 3), True),
    "batch_norm_known": lambda t, x: _F[t].batch_norm(x, t.zeros(4), t.ones(4)),
    "group_norm": lambda t, x: _F[t].group_norm(x, 2),
    "cat": lambda t, x: t.cat([x, x + 1], 1),
    "cat_of_many": lambda t, x: t.cat([x] * 9, 1),
    "cat_of_two_orders": lambda t, x: t.cat([x, x.contiguous()], 1),
    "pixel_shuffle": lambda t, x: _F[t].pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda t, x: _F[t].pixel_unshuffle(x, 3),
    "flip": lambda t, x: t.flip(x, (1, 3)),
    "roll": lambda t, x: t.roll(x, 1, 1),
    "masked_fill": lambda t, x: x.masked_fill(x > 0, 1.0),
    "pad": lambda t, x: _F[t].pad(x, (1, 0, 2, 1)),
    "pad_channels": lambda t, x: _F[t].pad(x, (0, 0, 0, 0, 1, 2)),
    "pad_replicate": lambda t, x: _F[t].pad(x, (1, 0, 2, 1), mode="replicate"),
    "pad_reflect": lambda t, x: _F[t].pad(x, (1, 0, 2, 1), mode="reflect"),
    "nearest": lambda t, x: _F[t].interpolate(x, scale_factor=2),
    "nearest_of_size": lambda t, x: _F[t].interpolate(x, size=(5, 8)),
    "bilinear": lambda t, x: _F[t].interpolate(x, size=(5, 8), mode="bilinear"),
}
OF_VOLUMES: dict[str, Call] = {
    "conv": lambda t, x: _F[t].conv3d(x, _ramp(t, 2, 4, 2, 2, 2)),
    "max": lambda t, x: _F[t].max_pool3d(x, 2, return_indices=True),
    "avg": lambda t, x: _F[t].avg_pool3d(x, 2),  # in C order, as PyTorch's
    "adaptive_avg": lambda t, x: _F[t].adaptive_avg_pool3d(x, 2),
    "adaptive_max": lambda t, x: _F[t].adaptive_max_pool3d(x, 2),
    "batch_norm": lambda t, x: _F[t].batch_norm(x, None, None, training=True),
    "nearest": lambda t, x: _F[t].interpolate(x, scale_factor=2),
}


def _check(call: Call, *shape: int) -> None:
    """Hold values, strides and the gradient of a call beside PyTorch's."""
    found = []
    for t in (tc, torch):
        x = _ramp(t, *shape, last=True).requires_grad_()
        made = call(t, x)
        made = [*made] if isinstance(made, tuple | list) else [made]
        sum((one * one).sum() for one in made if one.requires_grad).backward()
        found.append((made, x.grad))
    (mine, back), (wanted, wanted_back) = found
    for a, b in zip(mine, wanted, strict=True):
        assert (tuple(a.shape), a.stride()) == (tuple(b.shape), b.stride())
        assert torch.allclose(torch.tensor(a.tolist(), dtype=b.dtype), b, atol=1e-4)
    assert back.stride() == x.stride()
    assert torch.allclose(torch.tensor(back.tolist()), wanted_back, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_images_of_any_strides_are_shuffled(name: str) -> None:
    parts: tuple[Callable[[Any], Any], ...] = (
        lambda x: x[:, :4],
        lambda x: x[:, ::2],
        lambda x: x[:, :4].transpose(2, 3),
        lambda x: x.transpose(0, 1)[:2, :4],
        lambda x: x[..., 1:5, :2],
    )
    for part in parts:
        found = []
        for t in (tc, torch):
            x = _ramp(t, 4, 8, 6, 4).requires_grad_()
            y = getattr(_F[t] if name.startswith("pixel") else t, name)(part(x), 2)
            (y * y).sum().backward()
            found.append((y.tolist(), x.grad.tolist()))
        assert found[0] == found[1]


@pytest.mark.parametrize("name", FEW)
def test_channels_stay_last(name: str) -> None:
    _check(FEW[name], 2, 4, 6, 6)


@pytest.mark.wide
@pytest.mark.parametrize("name", MORE)
def test_channels_stay_last_wide(name: str) -> None:
    _check(MORE[name], 2, 4, 6, 6)


@pytest.mark.wide
@pytest.mark.parametrize("name", OF_VOLUMES)
def test_channels_of_volumes_stay_last(name: str) -> None:
    _check(OF_VOLUMES[name], 2, 4, 4, 6, 6)


def test_images_that_ops_made_are_views_of_nothing() -> None:
    for made in _block(tc, _ramp(tc, 2, 4, 6, 6, last=True).requires_grad_()):
        assert made._base is None
        assert not made.detach_().requires_grad


def test_what_an_operation_has_made_inside_is_no_base() -> None:
    x = _ramp(tc, 1, 2, 4, 4).requires_grad_()
    made = _F[tc].max_pool2d(x, 2)
    part = made.view(-1)
    with pytest.raises(RuntimeError, match="Can't detach views"):
        part.detach_()
    del part
    assert made.detach_() is made
    assert made._base is made.grad_fn is None
    assert not made.requires_grad


def test_weights_alone_with_channels_last_are_a_known_call(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = _ramp(tc, 4, 4, 3, 3, last=True)
    called = [_F[tc].conv2d(_ramp(tc, 2, 4, 6, 6), weight, _ramp(tc, 4), padding=1)]
    monkeypatch.setattr(convolutions, "_conv", None)
    called.append(_F[tc].conv2d(_ramp(tc, 2, 4, 6, 6), weight, _ramp(tc, 4), padding=1))
    assert [made.stride() for made in called] == [(144, 1, 24, 4)] * 2


def test_a_text_over_rows_is_one_over_channels() -> None:
    text = (
        "def f<T>(T(N, K) x, int64(N, K) at, T(K) y) -> (T(N, L) out) { out(n, at(n, k)) = y(k) }"
    )
    assert with_channels_behind(text) == (
        "def f<T>(T(N, K, C) x, int64(N, K, C) at, T(K) y) -> (T(N, L, C) out) "
        "{ out(n, at(n, k, c), c) = y(k) }"
    )


def test_a_text_over_images_is_one_whose_channels_lie_last() -> None:
    text = "out(n, f, h) +=! pad(input(n, c, 2 * h + k), 0) * weight(f, c, k)"
    moved = "out(n, h, f) +=! pad(input(n, 2 * h + k, c), 0) * weight(f, c, k)"
    assert with_channels_moved(text) == moved
    assert with_channels_moved("T(N, G, C, H) x", 2) == "T(N, H, G, C) x"


def _integers(t: Any) -> list[Any]:
    """Return pools of integers: greatest ones between paddings, means rounded towards zero."""
    f, x = _F[t], (t.arange(49) * 11 % 31 - 15).view(1, 1, 7, 7)
    edges = {"stride": 2, "padding": 1, "ceil_mode": True}
    return [
        *f.max_pool2d(x, 3, padding=1, return_indices=True),
        f.max_pool2d(x.to(t.uint8), 3, padding=1),
        f.avg_pool2d(x, 3, **edges),
        f.avg_pool2d(x, 3, **edges, count_include_pad=False),
        f.avg_pool2d(x, 3, divisor_override=-4),
    ]


def test_integers_have_pools() -> None:
    for ours, theirs in zip(_integers(tc), _integers(torch), strict=True):
        assert ours.tolist() == theirs.tolist()
        assert str(ours.dtype) == str(theirs.dtype)
