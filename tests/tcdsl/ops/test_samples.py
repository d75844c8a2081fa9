"""Every op agrees with PyTorch: values, types, gradients and second gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tcdsl.core import backward
from tests.tcdsl.ops.calls import each, leaves, ours, tensor
from tests.tcdsl.ops.further import FURTHER
from tests.tcdsl.ops.samples import FAMILIES, Sample

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

FAST = {"exp-f3x5", "add-f3x1-f5", "sum-f2x3x4-1", "mm-f3x4-f4x5", "cdist-f2x4x3-f2x4x3-2.0"}


def theirs(name: str) -> Callable[..., Any]:
    """Return PyTorch's op of a name."""
    places = (torch.nn.functional, torch, torch.Tensor)
    return next(getattr(p, name) for p in places if hasattr(p, name))  # type: ignore[no-any-return]


def compare(what: str, mine: Any, wanted: Any, like: Any, tolerance: float) -> None:
    """Compare tensors; None is a gradient of zeros, of the shape of `like`."""
    a = np.zeros(tuple(like.shape)) if mine is None else np.array(mine._array())
    b = np.zeros(tuple(like.shape)) if wanted is None else (wanted.detach() + 0).numpy()
    assert a.shape == b.shape, f"{what}: shape {a.shape}, not {b.shape}"
    np.testing.assert_allclose(
        a.astype(float), b.astype(float), rtol=tolerance, atol=tolerance, err_msg=what
    )


def gradients(outputs: list[Any], inputs: list[Any], by: list[Any], *, again: bool) -> list[Any]:
    """Return gradients as `torch.autograd.grad` does with allow_unused."""
    made = backward(tuple(outputs), tuple(by), tuple(inputs), 1, int(again))
    assert made is not None
    return list(made)


def check(sample: Sample) -> None:
    """Call both libraries and compare."""
    constants = [id(sample.args[i]) for i in sample.constants]

    def is_leaf(a: Any) -> bool:
        return sample.order > 0 and a.dtype == np.float64 and id(a) not in constants

    given = (sample.args, sample.kwargs)
    args = each(given, lambda a: tensor(a, is_leaf(a)))
    expected = each(given, lambda a: torch.from_numpy(a.copy(order="K")).requires_grad_(is_leaf(a)))
    y = list(leaves(ours(sample.name)(*args[0], **args[1])))
    z = list(leaves(theirs(sample.name)(*expected[0], **expected[1]), (torch.Tensor,)))
    assert len(y) == len(z)
    for a, b in zip(y, z, strict=True):
        assert a.dtype.name == str(b.dtype).partition(".")[2]
        compare("value", a, b, b, sample.rtol * 10)
    y = [a for a, b in zip(y, z, strict=True) if b.requires_grad]
    z = [b for b in z if b.requires_grad]
    if not z:
        return
    x = [t for t in leaves(args) if t.requires_grad]
    w = [t for t in leaves(expected, (torch.Tensor,)) if t.requires_grad]
    rng = np.random.default_rng(5)
    seeds = [np.asarray(rng.standard_normal(tuple(b.shape))) for b in z]
    d_y = [tensor(s, True) for s in seeds]
    d_z = [torch.from_numpy(s).requires_grad_() for s in seeds]
    g = gradients(y, x, d_y, again=sample.order > 1)
    h = torch.autograd.grad(z, w, d_z, create_graph=True, allow_unused=True)
    for i, (a, b) in enumerate(zip(g, h, strict=True)):
        compare(f"gradient {i}", a, b, w[i], sample.rtol * 100)
    kept = [i for i, b in enumerate(h) if b is not None and b.requires_grad]
    if sample.order < 2 or not kept:
        return
    seeds = [np.asarray(rng.standard_normal(tuple(h[i].shape))) for i in kept]
    second = torch.autograd.grad(
        [h[i] for i in kept], w + d_z, [torch.from_numpy(s) for s in seeds], allow_unused=True
    )
    known = [(g[i], tensor(s)) for i, s in zip(kept, seeds, strict=True) if _recorded(g[i])]
    found = (
        gradients([a for a, _ in known], x + d_y, [s for _, s in known], again=False)
        if known
        else [None] * len(second)
    )
    for i, (a, b) in enumerate(zip(found, second, strict=True)):
        compare(f"second gradient {i}", a, b, (w + d_z)[i], sample.rtol * 1000)


def _recorded(gradient: Any) -> bool:
    return gradient is not None and gradient.requires_grad


def _marked() -> Iterator[Any]:
    """Give all samples: a few at once, the first of each op wide, the others deep.

    Gradients are half of the kernels: of the wide ones every sixth has them, none second ones.
    """
    seen: set[str] = set()
    names: set[str] = set()
    for family in (*FAMILIES, *FURTHER):
        for sample in family():
            name = unique = str(sample)
            n = 1
            while unique in names:
                n += 1
                unique = f"{name}-{n}"
            names.add(unique)
            if unique in FAST:
                yield pytest.param(sample, id=unique)
            else:
                if sample.name not in seen:
                    order = min(sample.order, 1) if len(seen) % 6 == 0 else 0
                    once = replace(sample, order=order)
                    yield pytest.param(once, id=f"{unique}-order-{order}", marks=pytest.mark.wide)
                yield pytest.param(sample, id=unique, marks=pytest.mark.deep)
            seen.add(sample.name)


@pytest.mark.parametrize("sample", list(_marked()))
def test_an_op_agrees_with_torch(sample: Sample) -> None:
    check(sample)
