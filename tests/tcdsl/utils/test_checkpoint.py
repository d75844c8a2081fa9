"""Parts that are computed again, and scaled losses: the numbers of the whole, and of PyTorch."""

from __future__ import annotations

import contextlib
import functools
import types
from typing import Any

import numpy as np
import pytest

from tcdsl import amp, autograd, nn, optim
from tcdsl import library as tc
from tcdsl.utils.checkpoint import checkpoint, checkpoint_sequential

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]


def _net() -> nn.Sequential:
    tc.manual_seed(5)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2))


@pytest.mark.parametrize("how", ["whole", "parts", "input"])
def test_gradients_are_those_of_the_whole(how: str) -> None:
    found = []
    for again in (False, True):
        net = _net()
        calls: list[int] = []
        net[0].register_forward_hook(lambda m, a, o, c=calls: c.append(1))
        x = tc.tensor([[1.0, -2.0, 0.5]], requires_grad=how == "input")
        tc.manual_seed(6)
        if not again:
            y = net(x)
        elif how == "parts":
            y = checkpoint_sequential(net, 2, x, use_reentrant=False)
        else:
            y = checkpoint(net, x, use_reentrant=False)
        after = tc.rand(2).tolist()
        (y * y).sum().backward()
        assert len(calls) == (2 if again else 1)
        gradients = [p.grad.tolist() for p in net.parameters()]
        found.append([y.tolist(), after, gradients, x.grad.tolist() if how == "input" else None])
    assert found[0] == found[1]


def test_every_leaf_behind_many_layers_gets_its_gradient() -> None:
    """Layers on three dimensions are shown by nodes that are drawn, and die, as they are walked."""
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(12)])
    x = tc.ones(1, 3, 2)
    net(x).sum().backward()
    whole = [p.grad.tolist() for p in net.parameters()]
    net.zero_grad()
    checkpoint(net, x, use_reentrant=False).sum().backward()
    assert [p.grad is not None and p.grad.tolist() for p in net.parameters()] == whole


def test_grad_second_order_and_what_is_refused() -> None:
    w = tc.tensor([1.5, -0.5], requires_grad=True)
    x = tc.tensor([2.0, 3.0], requires_grad=True)

    def f(a: Any, times: float = 1.0) -> Any:
        return (a * w * a).sum() * times, a

    for run in (f, functools.partial(checkpoint, f, use_reentrant=False)):
        y, same = run(x, times=2.0)
        (g,) = autograd.grad(y, w, create_graph=True)
        assert g is not None
        (h,) = autograd.grad(g.sum(), x)
        assert h is not None
        assert g.tolist() == [8, 18]
        assert h.tolist() == [8, 12]
        assert same.tolist() == [2, 3]
        assert w.grad is None
    with tc.no_grad():
        assert not checkpoint(f, x)[0].requires_grad
    y, _ = checkpoint(f, x)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    y, _ = checkpoint(f, x)
    with tc.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def _kinds(u: Any, again: Any) -> Any:
    """Return values and gradients of calls with tensors in containers, and what is no tensor."""
    x = u.tensor([1.0, 2.0], requires_grad=True)
    said: list[Any] = []

    @contextlib.contextmanager
    def told(what: str) -> Any:
        said.append(what)
        yield

    def contexts() -> Any:
        return told("first"), told("again")

    made = again(lambda a: {"a": [a.sin(), 3], "b": a.detach()}, x, context_fn=contexts)
    assert not made["b"].requires_grad
    made["a"][0].sum().backward()
    said += [sorted(made), made["a"][1], x.grad.tolist()]
    middle = (x * 3).sin()
    product = again(lambda a, b, c: (a[0] * b * c["c"], None, "s"), [x], b=middle, c={"c": middle})
    (product[0].sum() + middle.exp().sum()).backward()  # what leads to the inputs is gone once
    said += [*product[1:], x.grad.tolist()]
    w = u.ones(2, requires_grad=True)
    again(lambda a: (a * w, a + 1), x)[1].sum().backward()
    said += [x.grad.tolist(), w.grad, again(lambda a: None, x), again(u.cos, w.detach()).tolist()]
    parts = [u.full((2,), 1 + i / 99, requires_grad=True) for i in range(70)]
    again(lambda a: functools.reduce(lambda y, part: y * part, parts, a), x).sum().backward()
    said += [part.grad.tolist() for part in parts]
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        again(u.cos, x, determinism_check="all")
    return said


def test_results_and_arguments_of_all_kinds() -> None:
    from torch.utils.checkpoint import checkpoint as theirs

    found = [
        _kinds(u, functools.partial(call, use_reentrant=False, debug=False, early_stop=True))
        for u, call in ((tc, checkpoint), (torch, theirs))
    ]
    assert len(found[0]) == len(found[1])
    for a, b in zip(*found, strict=True):
        if isinstance(a, list) and isinstance(a[0], float):
            np.testing.assert_allclose(a, b, rtol=1e-4)
        else:
            assert a == b
    x = tc.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="in tuples, lists and dicts"):
        checkpoint(lambda a: types.SimpleNamespace(y=a * 2), x)
    shapes = iter([2, 1])
    other = checkpoint(lambda a: [a * 2] * next(shapes), x)
    with pytest.raises(RuntimeError, match="to do the same when it is called again"):
        other[0].sum().backward()


def _scaled(u: Any, a: Any, o: Any) -> Any:
    p = u.tensor([1.0, 2.0], requires_grad=True)
    steps = o.SGD([p], lr=0.1)
    scaler = a.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    said: list[Any] = []
    for turn in range(5):
        steps.zero_grad()
        loss = (p * p).sum() * (float("inf") if turn == 3 else 1.0)
        first, second = scaler.scale([loss, loss.detach()])
        said.append(float(second))
        first.backward()
        if turn == 1:
            scaler.unscale_(steps)
            said.append(p.grad.tolist())
            with pytest.raises(RuntimeError, match="has already been called on this optimizer"):
                scaler.unscale_(steps)
        scaler.step(steps)
        with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
            scaler.step(steps)
        scaler.update()
        said += [scaler.get_scale(), p.tolist()]
    said.append(scaler.state_dict())
    other = a.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    said += [other.get_scale(), other.is_enabled(), a.GradScaler("cpu", enabled=False).state_dict()]
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()
    scaler.update(4.0)
    return [*said, scaler.get_scale()]


def test_losses_are_scaled_as_by_torch() -> None:
    for a, b in zip(_scaled(tc, amp, optim), _scaled(torch, torch.amp, torch.optim), strict=True):
        if isinstance(a, dict):
            assert a == b
        else:
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_scaler_that_is_off_changes_nothing() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = amp.GradScaler()
    p = tc.ones(1, requires_grad=True)
    steps = optim.SGD([p], lr=0.5)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(steps)
    scaler.step(steps)
    scaler.update()
    assert p.tolist() == [0.5]
    assert scaler.get_scale() == 1
    assert not scaler.is_enabled()
    with amp.autocast("cpu", enabled=False):
        assert (p + 1).dtype is tc.float32
