"""Tensors of our own library in a GPU's memory: what is made, moved, computed, recorded, saved."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tcdsl
from tcdsl import cuda, nn, optim
from tcdsl import library as tc
from tcdsl.calls.gpu import copies
from tcdsl.codegen.device import devices
from tests.tcdsl.calls.gpu.sim import SimDevice
from tests.tiers import sampled

pytestmark = [pytest.mark.cc, pytest.mark.cusim]


@pytest.fixture(scope="module", autouse=True)
def gpu() -> Iterator[SimDevice]:
    """Let one device stand in for GPU 0: ops keep what they have loaded there."""
    simulated = SimDevice(0)
    devices.register(simulated)
    copies._copier.cache_clear()
    try:
        yield simulated
    finally:
        devices.unregister(0)
        copies._copier.cache_clear()
    simulated.assert_clean()


def same(found: Any, wanted: Any) -> None:
    assert found.device == tc.device("cuda:0")
    assert (found.dtype, tuple(found.shape)) == (wanted.dtype, tuple(wanted.shape))
    np.testing.assert_allclose(
        np.asarray(found.detach().cpu().double()),
        np.asarray(wanted.detach().double()),
        rtol=2e-5,
        atol=2e-6,
    )


def test_tensors_move_there_and_back() -> None:
    x = tc.arange(6.0).reshape(2, 3)
    there = x.to("cuda")
    assert str(there.device) == "cuda:0"
    assert there.is_cuda
    assert there.to("cuda:0") is there
    assert x.cpu() is x
    same(there, x)
    same(x.t().cuda(), x.t())
    assert there[1, 2].item() == 5
    assert float(there[0, 1]) == 1
    assert bool(there[0, 1] == 1)
    assert there.tolist() == x.tolist()
    assert repr(there[0]) == "tensor([0., 1., 2.], device='cuda:0')"
    assert tc.zeros(0, 3, device="cuda").cpu().shape == (0, 3)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        there.numpy()
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but f"):
        there + x
    same(there + tc.tensor(2.0), x + 2)  # of rank 0: a number
    same(there.t() + 1, x.t() + 1)
    assert (there.t() + 1).stride() == (1, 3)  # it lies as on the host


@pytest.mark.wide
def test_gradients_go_through_moves() -> None:
    x = tc.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = (x.cuda() * 2).relu()
    y.backward(tc.tensor([1.0, 10.0, 100.0], device="cuda"))
    assert x.grad.device == tc.device("cpu")
    assert x.grad.tolist() == [2, 0, 200]


@pytest.mark.deep
def test_factories_make_tensors_there() -> None:
    made: list[Callable[..., Any]] = [
        lambda **k: tc.zeros(2, 3, **k),
        lambda **k: tc.full((3,), 2.5, **k),
        lambda **k: tc.arange(2, 11, 3, **k),
        lambda **k: tc.linspace(0, 1, 5, **k),
        lambda **k: tc.eye(3, **k),
        lambda **k: tc.tensor([[1, 2], [3, 4]], **k),
    ]
    for make in made:
        wanted, found = make(), make(device="cuda")
        same(found, wanted)
        same(tc.ones_like(found), tc.ones_like(wanted))
        same(found.new_zeros(2), wanted.new_zeros(2))
    assert tc.zeros(2, device="cuda", requires_grad=True).is_leaf
    assert tc.zeros_like(tc.zeros(2, device="cuda"), device="cpu").device == tc.device("cpu")


def test_numbers_of_chance_there_are_the_devices_own_and_come_again() -> None:
    made: list[Callable[[], Any]] = [
        lambda: tc.rand(7, device="cuda"),
        lambda: tc.randn(7, device="cuda"),
        lambda: tc.randint(0, 9, (5,), device="cuda"),
        lambda: tc.randperm(6, device="cuda"),
    ]
    for make in made:
        tc.manual_seed(3)
        first, other = make(), make()
        tc.manual_seed(3)
        same(make(), first.cpu())
        assert first.tolist() != other.tolist()
    assert sorted(made[-1]().tolist()) == [*range(6)]


CASES: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, y: (x * 3 - y).tanh() / (1 + y.abs()),
    "broadcast": lambda x, y: x + y[0] * y[:, :1],
    "comparison": lambda x, y: tc.where(x > y, x, y * 2),
    "sum": lambda x, y: x.sum(),
    "dims": lambda x, y: x.mean(1, keepdim=True) + y.var(0),
    "max": lambda x, y: x.max(1)[0] * y.amin(),
    "product": lambda x, y: x @ y.t(),
    "softmax": lambda x, y: nn.functional.log_softmax(x * y, 1),
    "strided": lambda x, y: x[:, 1::2].t() * y[1:, ::2].sum(),
    "index": lambda x, y: x[tc.tensor([2, 0], device=x.device)] + y.flip(0)[:2],
    "cat": lambda x, y: tc.cat([x, y.permute(1, 0).reshape(3, 5)], 0).cumsum(1),
    "norm": lambda x, y: nn.functional.layer_norm(x, (5,)) * y.std(),
    "types": lambda x, y: x.double().exp().float() + y.long(),
}


@sampled("name", CASES, keep=0, wide=6)
def test_ops_and_gradients_are_those_of_the_host(name: str) -> None:
    tc.manual_seed(0)
    x, y = tc.randn(3, 5), tc.randn(3, 5)
    results = []
    for place in ("cpu", "cuda"):
        a, b = (t.clone().to(place).requires_grad_() for t in (x, y))
        result = CASES[name](a, b)
        tc.manual_seed(1)
        result.backward(tc.randn(tuple(result.shape), dtype=result.dtype).to(place))
        results.append((result, a.grad, b.grad))
    for wanted, found in zip(*results, strict=True):
        if wanted is None:
            assert found is None
        else:
            same(found, wanted)


@pytest.mark.deep
def test_writes_in_place_are_recorded() -> None:
    grads = []
    for place in ("cpu", "cuda"):
        x = tc.tensor([[1.0, 2.0], [3.0, 4.0]], device=place, requires_grad=True)
        y = x * 2
        version = y._version
        y.mul_(x)
        y[0].add_(5)
        y[1, 1] = 7
        assert y._version > version
        y.sum().backward()
        grads.append((x.grad, y))
    same(grads[1][0], grads[0][0])
    same(grads[1][1], grads[0][1])
    x = tc.ones(3, device="cuda", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.wide
@pytest.mark.parametrize("make", [optim.SGD, optim.Adam], ids=["SGD", "Adam"])
def test_a_model_trains_there_as_on_the_host(make: Any) -> None:
    tc.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    x, labels = tc.randn(4, 6), tc.tensor([0, 2, 1, 1])
    there = copy.deepcopy(model).to("cuda")
    assert all(p.is_cuda and p.is_leaf for p in there.parameters())
    losses = []
    for net, place in ((model, "cpu"), (there, "cuda")):
        more = {"momentum": 0.9} if make is optim.SGD else {}
        optimizer = make(net.parameters(), lr=0.1, **more)
        for _ in range(2):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x.to(place)), labels.to(place))
            loss.backward()
            optimizer.step()
        losses.append(loss)
    same(losses[1], losses[0])
    for found, wanted in zip(there.parameters(), model.parameters(), strict=True):
        same(found, wanted)


@pytest.mark.deep
def test_files_say_where_tensors_lay(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tc.arange(6.0, device="cuda")
    file = io.BytesIO()
    tc.save({"whole": whole, "part": whole[2:4]}, file)
    for where, device in ((None, "cuda:0"), ("cpu", "cpu"), ({"cuda:0": "cpu"}, "cpu")):
        file.seek(0)
        found = tc.load(file, map_location=where)
        assert {str(t.device) for t in found.values()} == {device}
        found["whole"].add_(1)  # memory that was shared is shared again
        assert found["part"].tolist() == [3, 4]
    monkeypatch.setattr(devices, "count", lambda: 0)
    file.seek(0)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        tc.load(file)


@pytest.mark.deep
def test_kernels_and_layers_of_users_take_them() -> None:
    text = "def scale(float(B,N) x, float(N) g) -> (y) { y(b, n) = x(b, n) * g(n) }"
    kernel = tcdsl.define(text)
    x, g = tc.randn(2, 3), tc.randn(3)
    same(kernel(x.cuda(), g.cuda()), x * g)
    layer = nn.TC(text, parameters={"g": g.clone()}).to("cuda")
    layer(x.cuda()).sum().backward()
    same(layer.g.grad, x.sum(0))


def test_names_of_torch_cuda() -> None:
    assert cuda.is_available()
    assert cuda.device_count() == 1
    assert cuda.current_device() == 0
    with cuda.device(1):
        assert cuda.current_device() == 1
        assert tc.device("cuda") == tc.device("cuda")
    assert cuda.current_device() == 0
    assert cuda.get_device_capability() == (9, 0)
    cuda.manual_seed_all(5)
    assert tc.initial_seed() == 5
    cuda.synchronize()
