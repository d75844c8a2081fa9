"""Numbers beside halves that are not rounded to one: eps of norms, probabilities."""

from __future__ import annotations

from typing import Any

import pytest

from tcdsl import library as tc
from tcdsl.nn import functional as F  # noqa: N812
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]
EPS = 1e-9  # 0 in float16

NORMS: dict[str, Any] = {
    "layer_norm": lambda f, x: f.layer_norm(x, (4,), eps=EPS),
    "instance_norm": lambda f, x: f.instance_norm(x, eps=EPS),
    "group_norm": lambda f, x: f.group_norm(x, 2, eps=EPS),
    "batch_norm": lambda f, x: f.batch_norm(x, None, None, training=True, eps=EPS),
}


@pytest.mark.wide
@sampled("name", NORMS, keep=1)
def test_a_small_eps_is_no_zero(name: str) -> None:
    x = tc.full((2, 4, 4), 3.0, dtype=tc.float16, requires_grad=True)  # without deviation
    y = NORMS[name](F, x)
    y.sum().backward()
    assert not y.any()  # 0 times what is finite: PyTorch's has NaN for some
    assert x.grad.isfinite().all()


@sampled("dtype", ["bfloat16", "float32", "float16"], keep=0)
def test_parameters_of_float32_beside_halves(dtype: str) -> None:
    for training in (True, False):
        found = []
        for u, f in ((tc, F), (torch, torch.nn.functional)):
            x = (u.arange(24.0).reshape(2, 3, 4) / 7).to(getattr(u, dtype)).requires_grad_()
            w = u.tensor([0.3, -2.0, 1.7], requires_grad=True)
            mean, var = u.tensor([0.1, 0.2, 0.3]), u.tensor([1.1, 0.7, 0.9])
            y = f.batch_norm(x, mean, var, w, None, training)
            (y.float() * u.arange(24.0).reshape(2, 3, 4)).sum().backward()
            parts = (y, x.grad, w.grad, mean, var)
            found.append([(str(t.dtype), torch.tensor(t.tolist())) for t in parts])
        for (type_, value), (wanted, real) in zip(*found, strict=True):
            assert type_ == wanted
            near = 1e-5 if "float32" in type_ else 2e-2
            torch.testing.assert_close(value, real, rtol=near, atol=near * 10)


def test_parameters_of_halves_beside_float32_are_refused() -> None:
    for u, f in ((tc, F), (torch, torch.nn.functional)):
        with pytest.raises(RuntimeError, match="expect parameter to have scalar type of Float"):
            f.layer_norm(u.ones(2, 4), (4,), u.ones(4, dtype=u.bfloat16))
        with pytest.raises(RuntimeError, match="expect parameter to have scalar type of Float"):
            f.layer_norm(u.ones(2, 4), (4,), u.ones(4, dtype=u.int64))
        with pytest.raises(RuntimeError, match="all inputs must share same datatype"):
            f.layer_norm(u.ones(2, 4, dtype=u.float64), (4,), u.ones(4))


@sampled("drop", [F.dropout, F.dropout1d, lambda x, p: F.alpha_dropout(x, p, True)], keep=1)
def test_a_probability_near_one_leaves_some(drop: Any) -> None:
    x = tc.ones(20_000, 1, 1, dtype=tc.bfloat16)  # 0.996 is 1 there
    made = drop(x, 0.997)
    kept = int((made.float() != made.float().mode(0).values.mode(0).values).sum())
    assert 15 < kept < 150
