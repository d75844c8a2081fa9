"""Comparisons of tensors, and tensors to test with, held against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tcdsl import autograd, nn, optim, testing
from tcdsl import library as tc
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

PAIRS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "equal": lambda u: (u.ones(3), u.ones(3)),
    "near": lambda u: (u.ones(3) * (1 + 1e-6), u.ones(3)),
    "far": lambda u: (u.tensor([[1.0, 2.5], [3.0, 5.0]]), u.tensor([[1.0, 2.0], [3.0, 4.0]])),
    "doubles": lambda u: (u.ones(2, dtype=u.float64) * (1 + 1e-6), u.ones(2, dtype=u.float64)),
    "halves": lambda u: (u.ones(2, dtype=u.bfloat16) * 1.01, u.ones(2, dtype=u.bfloat16)),
    "integers": lambda u: (u.tensor([1, 2]), u.tensor([1, 3])),
    "shapes": lambda u: (u.ones(3), u.ones(1, 3)),
    "types": lambda u: (u.ones(3), u.ones(3, dtype=u.float64)),
    "NaN": lambda u: (u.tensor([1.0, float("nan")]), u.tensor([1.0, float("nan")])),
    "infinite": lambda u: (u.tensor([float("inf")]), u.tensor([float("inf")])),
    "numbers": lambda u: (3.0, 2.0),
    "near numbers": lambda u: (2.0, 2.0 + 1e-9),
    "rows": lambda u: ([u.ones(2), u.ones(1)], [u.ones(2), u.zeros(1)]),
    "lengths": lambda u: ([u.ones(2)], [u.ones(2), u.zeros(1)]),
    "mappings": lambda u: ({"a": u.ones(2)}, {"a": u.ones(2) * 2}),
    "empty": lambda u: (u.ones(0), u.ones(0)),
    "none": lambda u: (u.tensor(1.0), u.tensor(2.0)),
}


@sampled("name", PAIRS, keep=4)
def test_comparisons_say_what_pytorchs_say(name: str) -> None:
    told = []
    for u, t in ((tc, testing), (torch, torch.testing)):
        try:
            t.assert_close(*PAIRS[name](u))
            told.append("")
        except AssertionError as error:
            told.append(str(error))
    assert told[0].split("\n")[:4] == told[1].split("\n")[:4]


def test_settings_of_comparisons() -> None:
    for u, t in ((tc, testing), (torch, torch.testing)):
        nan = u.tensor([float("nan")])
        t.assert_close(nan, nan, equal_nan=True)
        t.assert_close(u.ones(2) * 1.1, u.ones(2), rtol=0.2, atol=0)
        t.assert_close(u.ones(2), u.ones(2, dtype=u.float64), check_dtype=False)
        with pytest.raises(ValueError, match="but got no atol"):
            t.assert_close(nan, nan, rtol=1)
        with pytest.raises(AssertionError, match="mine"):
            t.assert_close(u.ones(2), u.zeros(2), msg="mine")
        with pytest.raises(AssertionError, match="do not match"):
            t.assert_close(u.ones(2, 2).t(), u.ones(2, 2), check_stride=True)


@sampled("dtype", ["float32", "bfloat16", "uint8", "int64", "bool"], keep=2)
def test_tensors_to_test_with(dtype: str) -> None:
    made = testing.make_tensor((50, 4), dtype=getattr(tc, dtype), noncontiguous=True)
    assert made.dtype is getattr(tc, dtype)
    assert tuple(made.shape) == (50, 4)
    assert not made.is_contiguous()
    low, high = {"uint8": (0, 9), "bool": (0, 1)}.get(dtype, (-9, 9))
    assert low <= float(made.min()) < float(made.max()) <= high
    other = testing.make_tensor(99, dtype=getattr(tc, dtype), low=0, high=2, exclude_zero=True)
    assert bool((other != 0).all())
    with pytest.raises(ValueError, match="low must be below high"):
        testing.make_tensor(2, dtype=tc.float32, low=3, high=3)


@sampled("dtype", ["float32", "float64", "bfloat16"], keep=1)
def test_bounds_that_are_nan(dtype: str) -> None:
    nan = float("nan")
    for bounds in ((nan, 1), (0, nan), (nan, None), (None, nan), (0.5, 0.25), (nan, nan)):
        found = []
        for u in (tc, torch):
            x = u.tensor([-1.0, 0.3, nan, 2.0], dtype=getattr(u, dtype), requires_grad=True)
            y = u.clamp(x, *bounds)
            y.sum().backward()
            found.append([y.tolist(), x.grad.tolist()])
        assert str(found[0]) == str(found[1])


def test_optimizers_take_names() -> None:
    told = []
    for u, n, o in ((tc, nn, optim), (torch, torch.nn, torch.optim)):
        model = n.Linear(2, 1)
        steps = o.SGD(model.named_parameters(), lr=0.5)
        model(u.ones(1, 2)).sum().backward()
        steps.step()
        state = steps.state_dict()
        told.append([steps.param_groups[0]["param_names"], state["param_groups"][0]["param_names"]])
        plain = o.SGD(model.parameters(), lr=0.1).state_dict()
        steps.load_state_dict(plain)
        assert steps.param_groups[0]["param_names"] == ["weight", "bias"]
        with pytest.raises(ValueError, match="with/without names"):
            steps.add_param_group({"params": [u.ones(1)]})
        with pytest.raises(ValueError, match="names are missing"):
            o.SGD([("a", u.ones(1)), u.ones(1)], lr=0.1)
    assert told[0] == told[1]


def test_gradients_of_a_batch_of_directions() -> None:
    found = []
    for u, a in ((tc, autograd), (torch, torch.autograd)):
        x = u.tensor([0.3, 0.5, -1.2], requires_grad=True)
        z = u.ones(2, requires_grad=True)
        y = x.sin() * x
        g, h = a.grad(y, (x, z), u.eye(3) * 2, is_grads_batched=True, allow_unused=True)
        assert h is None
        found.append(torch.tensor(g.tolist()))
    torch.testing.assert_close(*found)
