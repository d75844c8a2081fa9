"""Memory formats: strides and elements as PyTorch gives them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import library, nn

tc: Any = library
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cc

SHAPES = ((2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (2, 3, 2, 4, 5), (0, 3, 4, 5), (3, 2))
CALLS: dict[str, Callable[..., Any]] = {
    "contiguous": lambda t, x, f: x.contiguous(memory_format=f),
    "clone": lambda t, x, f: x.clone(memory_format=f),
    "to": lambda t, x, f: x.to(memory_format=f),
    "to_double": lambda t, x, f: x.to(t.float64, memory_format=f),
    "float": lambda t, x, f: x.float(memory_format=f),
    "zeros_like": lambda t, x, f: t.zeros_like(x, memory_format=f),
    "full_like": lambda t, x, f: t.full_like(x, 2, memory_format=f),
    "empty_like": lambda t, x, f: t.empty_like(x, memory_format=f).zero_(),
    "empty": lambda t, x, f: t.empty(x.shape, memory_format=f).zero_(),
    "is_contiguous": lambda t, x, f: x.is_contiguous(memory_format=f),
    "of_turned": lambda t, x, f: (x if 1 in x.shape else x.mT).clone(memory_format=f),
    "whether_laid": lambda t, x, f: x.to(memory_format=f).is_contiguous(memory_format=f),
}


def _told(call: Callable[..., Any], t: Any, shape: tuple[int, ...], name: str) -> Any:
    count = 1
    for n in shape:
        count *= n
    x = t.arange(count).view(shape).to(t.float32)
    try:
        made = call(t, x, getattr(t, name))
    except RuntimeError as error:
        return str(error)
    return made if isinstance(made, bool) else (made.stride(), made.tolist())


@pytest.mark.parametrize("name", sorted(CALLS))
def test_strides_and_elements_are_pytorchs(name: str) -> None:
    for shape in SHAPES:
        for wanted in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"):
            assert _told(CALLS[name], tc, shape, wanted) == _told(
                CALLS[name], torch, shape, wanted
            ), (shape, wanted)


def test_modules_lie_so_and_compute_the_same() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1))
    x = tc.randn(2, 3, 6, 7)
    before = plain(x).tolist()
    assert plain.to(memory_format=tc.channels_last) is plain
    assert plain[0].weight.stride() == (27, 1, 9, 3)
    made = plain(x.to(memory_format=tc.channels_last))
    made.sum().backward()
    assert tc.allclose(made, tc.tensor(before), atol=1e-5)
    assert tuple(plain[0].weight.grad.shape) == (4, 3, 3, 3)


def test_a_pickle_keeps_how_elements_lie() -> None:
    x = tc.arange(12.0).view(3, 4).t()
    for one in (x, x + 1, x[1:], x > 3, nn.Parameter(x.bfloat16()), x.expand(2, 4, 3)):
        again = pickle.loads(pickle.dumps(one))
        assert again.stride() == one.detach().clone().stride()
        assert tc.equal(again, one)
        assert again._base is None
        assert type(again) is type(one)


def test_formats_are_objects_of_one_name() -> None:
    assert repr(tc.channels_last) == "torch.channels_last"
    assert pickle.loads(pickle.dumps(tc.channels_last)) is tc.channels_last
    assert isinstance(tc.preserve_format, tc.memory_format)
    x = tc.ones(2, 3, 4, 5, requires_grad=True)
    made = x.contiguous(memory_format=tc.channels_last)
    made.mul(2).sum().backward()
    assert x.grad.unique().tolist() == [2.0]
    assert x.detach().to(memory_format=tc.channels_last)._base is None
    for call in (x.is_contiguous, x.contiguous, x.clone):
        with pytest.raises(TypeError, match=r"must be torch\.memory_format, not str"):
            call(memory_format="channels_last")
    with pytest.raises(TypeError, match="takes one argument"):
        x.is_contiguous(tc.channels_last, 1)


@pytest.mark.torch
def test_gated_halves_lie_as_torchs() -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t, layers in ((tc, nn), (torch, torch.nn)):
        x = t.arange(72.0).reshape(2, 4, 3, 3) / 9 - 4
        last = x.contiguous(memory_format=t.channels_last)
        made = [
            layers.functional.glu(given, dim)
            for given, dim in (
                (x, 1),
                (last, 1),
                (x.permute(3, 1, 0, 2), 1),
                (x[0, :, :, 0].t(), 1),
            )
        ]
        last.requires_grad_()
        layers.functional.glu(last, 1).sum().backward()
        made.append(last.grad)
        found.append([(m.stride(), np.asarray(m.detach())) for m in made])
    for (ours, values), (theirs, wanted) in zip(*found, strict=True):
        assert ours == theirs
        np.testing.assert_allclose(values, wanted, 1e-5, 1e-6)
