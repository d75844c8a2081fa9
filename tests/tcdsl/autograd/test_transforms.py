"""`torch.func`: functions made of functions, held against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tcdsl import func, nn
from tcdsl import library as tc
from tcdsl.autograd import forward_ad

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]
ROWS = [[0.3, -0.5, 1.2], [0.7, 0.1, -0.9]]


def _numbers(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: _numbers(v) for k, v in tree.items()}
    if isinstance(tree, list | tuple):
        return [_numbers(v) for v in tree]
    return torch.tensor(tree.tolist(), dtype=torch.float64)


def _check(program: Callable[[Any, Any, Any], Any]) -> None:
    found = []
    for u, f in ((tc, func), (torch, torch.func)):
        x = u.tensor(ROWS, dtype=u.float64)
        found.append(program(u, f, x))
    torch.testing.assert_close(_numbers(found[0]), _numbers(found[1]))
    for a, b in zip(_flat(found[0]), _flat(found[1]), strict=True):
        assert a.requires_grad == b.requires_grad


def _flat(tree: Any) -> list[Any]:
    parts = tree.values() if isinstance(tree, dict) else tree
    return [tree] if hasattr(tree, "dtype") else [t for part in parts for t in _flat(part)]


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda u, f, x: f.grad(lambda y: (y.sin() * y).sum())(x),
    "grad of grad": lambda u, f, x: f.grad(f.grad(lambda y: y**3))(x[0, 0]),
    "grad by what is around": lambda u, f, x: f.grad(
        lambda y: f.grad(lambda z: (z * y * z).sum())(x).sum() * y
    )(x[0, 0]),
    "argnums": lambda u, f, x: f.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x + 1),
    "containers": lambda u, f, x: f.grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": x, "b": [x]}),
    "aux": lambda u, f, x: f.grad(lambda y: (y.sum(), {"twice": y * 2}), has_aux=True)(x),
    "value": lambda u, f, x: f.grad_and_value(lambda y: y.exp().sum())(x),
    "vjp": lambda u, f, x: f.vjp(lambda y: (y.sin(), y * y), x)[1]((x, x)),
    "jvp": lambda u, f, x: f.jvp(lambda y, z: y.sin() * z, (x, x), (x, x + 1)),
    "jacrev": lambda u, f, x: f.jacrev(lambda y: (y * y).sum(0))(x),
    "jacfwd": lambda u, f, x: f.jacfwd(lambda y: (y * y).sum(0))(x),
    "jacrev of containers": lambda u, f, x: f.jacrev(lambda y: {"a": y[0], "b": y.sum()})(x),
    "hessian": lambda u, f, x: f.hessian(lambda y: (y**3).sum())(x[0]),
    "jacfwd of jacfwd": lambda u, f, x: f.jacfwd(f.jacfwd(lambda y: y.exp()))(x[0]),
    "unused": lambda u, f, x: f.grad(lambda a, b: a.sum(), argnums=1)(x, x),
    "constant": lambda u, f, x: f.jacrev(lambda y: u.ones(2, dtype=u.float64))(x),
    "recorded": lambda u, f, x: f.grad(lambda y: (y**3).sum())(x.requires_grad_()),
    "closed over": lambda u, f, x: (lambda w: f.grad(lambda y: (y * w).sum())(x))(
        x.clone().requires_grad_()
    ),
    "without a record": lambda u, f, x: u.no_grad()(f.grad(lambda y: (y**3).sum()))(x),
    "vmap": lambda u, f, x: f.vmap(lambda a: a.sum() * a)(x),
    "vmap by dims": lambda u, f, x: f.vmap(lambda a, b: a @ b, (1, None), 1)(x, x),
    "vmap of grad": lambda u, f, x: f.vmap(f.grad(lambda a: (a**2).sum()))(x),
    "grad of vmap": lambda u, f, x: f.grad(lambda y: f.vmap(lambda a: a.prod())(y).sum())(x),
    "vmap of vmap": lambda u, f, x: f.vmap(f.vmap(lambda a: a * 2 + 1))(x),
    "vmap of nothing": lambda u, f, x: f.vmap(lambda a: (a.sum(), a.outer(a)))(x[:0]),
    "vmap of nothing by dims": lambda u, f, x: f.vmap(lambda a: a * 2, 1, 1)(x[:, :0]),
    "vmap without a batch": lambda u, f, x: f.vmap(lambda a: (a * 2, x.sum()), 0, (0, None))(x),
    "vmap without out": lambda u, f, x: f.vmap(lambda a: (a, a.size(0)), 0, (1, None))(x)[0],
    "vmap in chunks": lambda u, f, x: f.vmap(lambda a: a.sum(), chunk_size=1)(x),
    "vmap of containers": lambda u, f, x: f.vmap(
        lambda d, c: {"y": d["x"] * c}, in_dims=({"x": 1}, None), out_dims=1
    )({"x": x}, 3.0),
}


OF_OTHERS = {  # each is there alone
    "jacfwd of jacfwd", "grad of vmap", "jacrev of containers", "vmap of containers",
    "grad by what is around", "vmap of vmap", "value", "containers", "without a record",
    "vmap of nothing by dims", "vmap without a batch", "vmap in chunks", "recorded", "constant",
    "closed over", "vmap without out",
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.wide if n in OF_OTHERS else ()) for n in PROGRAMS],
)
def test_transforms_are_pytorchs(name: str) -> None:
    _check(PROGRAMS[name])


def test_a_gradient_of_a_gradient_reaches_parameters() -> None:
    found = []
    for u, f in ((tc, func), (torch, torch.func)):
        w = u.tensor(2.0, requires_grad=True)
        g = f.grad(lambda x, w=w: w * w * x**2)(u.tensor(3.0))
        g.backward()
        found.append(w.grad.item())
    assert found[0] == found[1] == 24


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (lambda u, f, x: f.grad(lambda y: y * 2)(x), RuntimeError),
        (lambda u, f, x: f.grad(lambda y: y.sum(), argnums=3)(x), RuntimeError),
        (lambda u, f, x: f.jvp(lambda y: y, x, x), RuntimeError),
        (lambda u, f, x: f.vmap(lambda y: y, in_dims=None)(x), ValueError),
        (lambda u, f, x: f.vmap(lambda y: y, in_dims=5)(x), ValueError),
        (lambda u, f, x: f.vmap(lambda y: y, chunk_size=0)(x), ValueError),
        (lambda u, f, x: f.vmap(lambda y: y, chunk_size=-1)(x), ValueError),
        (lambda u, f, x: f.vmap(lambda y: y, out_dims=None)(x), ValueError),
        (lambda u, f, x: f.vmap(lambda y: y, out_dims=(0, 0))(x), ValueError),
        (lambda u, f, x: f.vmap(lambda y: y.tolist())(x), (ValueError, RuntimeError)),
        (lambda u, f, x: f.vmap(lambda y, z: y)(x, x[0]), ValueError),
        (lambda u, f, x: f.vmap(lambda y: y + u.rand(3))(x), RuntimeError),
        (lambda u, f, x: f.vmap(lambda y: y, randomness="maybe")(x), RuntimeError),
    ],
)
def test_what_transforms_refuse(program: Any, error: Any) -> None:
    for u, f in ((tc, func), (torch, torch.func)):
        with pytest.raises(error):
            program(u, f, u.tensor(ROWS))


def test_draws_over_a_batch() -> None:
    x = tc.zeros(3)
    same = func.vmap(lambda a: a + tc.rand(()), randomness="same")(x)
    other = func.vmap(lambda a: a + tc.rand(()), randomness="different")(x)
    assert same[0] == same[1] == same[2]
    assert other[0] != other[1]


@pytest.mark.wide
def test_modules_are_called_with_other_parameters() -> None:
    found = []
    for u, n, f in ((tc, nn, func), (torch, torch.nn, torch.func)):
        model = n.Sequential(n.Linear(3, 2), n.BatchNorm1d(2)).eval()
        with u.no_grad():
            for p in model.parameters():
                p.fill_(0.5)
        params = {k: v.detach() * 2 for k, v in model.named_parameters()}
        x = u.tensor(ROWS)

        def loss(p: Any, m: Any = model, x: Any = x, call: Any = f.functional_call) -> Any:
            return call(m, p, (x,)).pow(3).sum()

        g = f.grad(loss)(params)
        assert set(g) == set(params)
        assert next(p.tolist() for p in model.parameters()) == [[0.5] * 3] * 2
        found.append({k: v.tolist() for k, v in g.items()})
        with pytest.raises((AttributeError, KeyError, RuntimeError)):
            f.functional_call(model, {"no.such": x}, (x,))
        with pytest.raises(RuntimeError, match="Missing key"):
            f.functional_call(model, {"0.weight": params["0.weight"]}, (x,), strict=True)
        states, buffers = f.stack_module_state([model, model])
        assert states["0.weight"].shape == (2, 2, 3)
        assert states["0.weight"].requires_grad
        assert buffers["1.running_mean"].shape == (2, 2)
    for k, v in found[0].items():
        torch.testing.assert_close(torch.tensor(v), torch.tensor(found[1][k]), atol=1e-4, rtol=1e-4)


def test_modules_are_called_with_other_attributes() -> None:
    found = []
    for u, n, f in ((tc, nn, func), (torch, torch.nn, torch.func)):

        class Scaled(n.Module):  # type: ignore[misc, name-defined]
            def __init__(self, n: Any = n, u: Any = u) -> None:
                super().__init__()
                self.inner = n.Linear(3, 2)
                self.inner.factor = u.ones(())
                self.word = "a"

            def forward(self, x: Any) -> Any:
                return x * self.inner.factor + getattr(self, "shift", 0)

        model, x = Scaled(), u.tensor(ROWS)
        given = {"inner.factor": u.tensor(2.0), "shift": u.tensor(1.0)}
        found.append(f.functional_call(model, given, (x,)).tolist())
        assert model.inner.factor == 1
        assert not hasattr(model, "shift")
        with pytest.raises(RuntimeError, match="Unexpected key"):
            f.functional_call(model, {**given, **dict(model.named_parameters())}, x, strict=True)
        with pytest.raises(TypeError, match="is not an instance of torch"):
            f.functional_call(model, {"word": x}, (x,))
        with pytest.raises(AttributeError):
            f.functional_call(model, {"outer.weight": x}, (x,))
        assert model.word == "a"
    assert found[0] == found[1]


def test_a_function_is_made_linear_once() -> None:
    def program(u: Any, f: Any, x: Any) -> Any:
        value, pushed = f.linearize(lambda a: {"y": (a * a).sin().sum(1)}, x)
        return [value, pushed(u.ones_like(x)), pushed(x)]

    _check(program)


def test_tangents_beside_tensors() -> None:
    for u, ad in ((tc, forward_ad), (torch, torch.autograd.forward_ad)):
        x = u.tensor([0.5, -1.0])
        with ad.dual_level():
            dual = ad.make_dual(x, u.tensor([1.0, 2.0]))
            value, tangent = ad.unpack_dual((dual * dual).sin())
            assert value.tolist() == (x * x).sin().tolist()
            assert tangent.tolist() == pytest.approx([0.968912, -2.161209], rel=1e-5)
            assert ad.unpack_dual(dual.sign()).tangent.tolist() == [0, 0]
            assert ad.unpack_dual(x * 2).tangent is None
            assert ad.unpack_dual(dual).tangent.tolist() == [1, 2]
            with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
                ad.enter_dual_level()
        assert ad.unpack_dual(dual * 2).tangent is None
        with pytest.raises(RuntimeError, match="make sure to enter_dual_level"):
            ad.make_dual(x, x)
