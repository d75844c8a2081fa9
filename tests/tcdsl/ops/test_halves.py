"""Ops of 16-bit floats agree with PyTorch: values within what the type holds, and types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import library, nn
from tcdsl.core import Tensor

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc, pytest.mark.wide]

X = np.random.default_rng(3).uniform(0.2, 2, (3, 5)).astype(np.float32)
Y = np.random.default_rng(4).uniform(0.2, 2, (3, 5)).astype(np.float32)
POINTWISE = "exp log sqrt sigmoid tanh sin abs neg floor reciprocal rsqrt erf".split()  # noqa: SIM905
PAIRS = "add sub mul div maximum atan2 pow fmod".split()  # noqa: SIM905
SUMS = "sum mean prod amax std softmax cumsum logsumexp argmax".split()  # noqa: SIM905


def _check(mine: Tensor, theirs: Any, terms: int = 4) -> None:
    assert mine.dtype.name == str(theirs.dtype).partition(".")[2]
    eps = 2.0**-7 if mine.dtype.name == "bfloat16" else 2.0**-10
    a, b = np.asarray(mine.float().tolist()), theirs.float().detach().numpy()
    np.testing.assert_allclose(a, b, rtol=terms * eps, atol=terms * eps)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ops_of_halves_agree(dtype: str) -> None:
    x, y = (library.tensor(a).to(getattr(library, dtype)) for a in (X, Y))
    v, w = (torch.from_numpy(a).to(getattr(torch, dtype)) for a in (X, Y))
    for name in POINTWISE:
        _check(getattr(library, name)(x), getattr(torch, name)(v))
    for name in PAIRS:
        _check(getattr(library, name)(x, y), getattr(torch, name)(v, w))
    for name in SUMS:
        _check(getattr(library, name)(x, 1), getattr(torch, name)(v, 1), 16)
    _check(x.mm(y.t()), v.mm(w.t()), 16)
    _check(x > y, v > w)
    _check(x + 1.5, v + 1.5)
    _check(x + library.tensor(Y), v + torch.from_numpy(Y))
    _check(library.cat([x, y]), torch.cat([v, w]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_halves_agree(dtype: str) -> None:
    x = library.tensor(X).to(getattr(library, dtype)).requires_grad_()
    v = torch.from_numpy(X).to(getattr(torch, dtype)).requires_grad_()
    nn.functional.gelu(x * x).sum().backward()
    torch.nn.functional.gelu(v * v).sum().backward()
    _check(x.grad, v.grad, 16)
