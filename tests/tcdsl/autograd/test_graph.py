"""Inference mode, hooks of what graphs keep, nodes: programs do what they do in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tcdsl import library as tc
from tests.tiers import sampled

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]
Program = Callable[[Any], Any]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value.tolist() if hasattr(value, "grad_fn") else value


def _told(program: Program, u: Any) -> Any:
    try:
        return _plain(program(u))
    except (RuntimeError, TypeError) as error:
        return type(error).__name__, str(error)


def _agree(program: Program) -> None:
    assert _told(program, tc) == _told(program, torch)


def _made(u: Any) -> Any:
    with u.inference_mode():
        return u.tensor([1.0, 2.0]) * 1


def _leaf(u: Any) -> Any:
    return u.tensor([3.0, 4.0], requires_grad=True)


def _is_inference(u: Any) -> Any:
    x, w = u.tensor([[1.0, 2.0]]), _leaf(u)
    with u.inference_mode():
        y, v = x * 2, x.t()
        z = y.view(-1)
        with u.enable_grad():
            on, recorded, made = u.is_grad_enabled(), (w * 2).requires_grad, u.ones(2)
        with u.inference_mode(False):
            inner = (w * 2).requires_grad, u.ones(2).is_inference(), u.is_grad_enabled()
        x.add_(1)
        w2 = u.ones(2, requires_grad=True)
        after = u.is_grad_enabled(), u.is_inference_mode_enabled()
    flags = [t.is_inference() for t in (x, y, v, z, made, y[0], y.detach(), y * 2, y.clone(), w2)]
    return flags, on, recorded, inner, after, u.is_grad_enabled(), u.is_inference(y), x


def _decorated(u: Any) -> Any:
    @u.inference_mode()  # type: ignore[untyped-decorator]
    def f(x: Any) -> Any:
        return x * 2

    @u.inference_mode  # type: ignore[untyped-decorator]
    def g(x: Any) -> Any:
        return x * 2

    return f(_leaf(u)).is_inference(), g(_leaf(u)).is_inference(), u.is_inference_mode_enabled()


def _of_a_layer(u: Any, train: bool) -> Any:
    with u.inference_mode():
        w = u.ones(2, requires_grad=True)
        y = w * 3
    return (w * 2).requires_grad if train else (w.requires_grad, y.requires_grad, y.is_leaf)


INFERENCE: dict[str, Program] = {
    "flags": _is_inference,
    "decorated": _decorated,
    "version": lambda u: _made(u)._version,
    "require": lambda u: _made(u).requires_grad_(),
    "written": lambda u: _made(u).add_(1),
    "a view written": lambda u: _made(u)[:1].zero_(),
    "set": lambda u: _made(u).__setitem__(0, 1.0),
    "filled": lambda u: _made(u).fill_(1),
    "drawn": lambda u: _made(u).normal_(),
    "copied": lambda u: _made(u).copy_(u.zeros(2)),
    "without a record": lambda u: u.no_grad()(lambda: _made(u).mul_(2))(),
    "kept": lambda u: _made(u) * _leaf(u),
    "not kept": lambda u: (_made(u) + _leaf(u)).sum(),
    "a clone kept": lambda u: (_made(u).clone() * _leaf(u)).sum(),
    "a view kept": lambda u: _made(u)[:1] * _leaf(u),
    "of leaves": lambda u: _of_a_layer(u, train=False),
}


@pytest.mark.parametrize("name", INFERENCE)
def test_inference_mode_is_pytorchs(name: str) -> None:
    _agree(INFERENCE[name])


def _packed(u: Any) -> Any:
    seen: list[Any] = []

    def pack(x: Any) -> Any:
        seen.append(("pack", x.tolist(), x.requires_grad, u.is_grad_enabled()))
        return x.tolist()

    def unpack(kept: Any) -> Any:
        seen.append(("unpack", kept))
        return u.tensor(kept)

    a, b = _leaf(u), _leaf(u)
    with u.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (a * b).exp().sum()
    z = (a * a).sum()
    (y + z).backward()
    return sorted(map(str, seen)), a.grad, b.grad


def _doubly(u: Any) -> Any:
    a = _leaf(u)
    with u.autograd.graph.saved_tensors_hooks(lambda x: x + 0, lambda x: x):
        y = (a * a.sin()).sum()
        (g,) = u.autograd.grad(y, a, create_graph=True)
    g.pow(2).sum().backward()
    return a.grad.mul(1000).round()


def _noted(seen: list[Any], what: Any, value: Any) -> Any:
    seen.append(what)
    return value


def _nested(u: Any) -> Any:
    seen: list[str] = []
    hooks = u.autograd.graph.saved_tensors_hooks
    a = _leaf(u)
    with hooks(lambda x: _noted(seen, "outer", x), lambda x: x):
        with hooks(lambda x: _noted(seen, "inner", x), lambda x: x):
            a.exp()
        a.exp()
    a.exp()
    return seen


def _with(pack: Any, unpack: Any) -> Program:
    def program(u: Any) -> Any:
        a = _leaf(u)
        with u.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = a.exp().sum()
        y.backward()
        return a.grad.mul(1000).round()

    return program


def _function(u: Any) -> Any:
    class Square(u.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, d: Any) -> Any:
            return 2 * d * ctx.saved_tensors[0]

    seen: list[Any] = []
    a = _leaf(u)
    with u.autograd.graph.saved_tensors_hooks(lambda x: _noted(seen, x.tolist(), x * 1), abs):
        y = Square.apply(a * 1)
    (g,) = u.autograd.grad(y.sum(), a, create_graph=True)
    g.sum().backward()
    return seen[-1], g, a.grad, y.grad_fn.name()


def _off(u: Any) -> Any:
    with u.autograd.graph.disable_saved_tensors_hooks("not here"), u.autograd.graph.save_on_cpu():
        pass


def _on_cpu(u: Any) -> Any:
    a = _leaf(u)
    with u.autograd.graph.save_on_cpu(pin_memory=False):
        y = (a * a * a).sum()
    y.backward()
    return a.grad


def _freed(u: Any) -> Any:
    a = _leaf(u)
    with u.autograd.graph.save_on_cpu():
        y = a.exp().sum()
    y.backward()
    y.backward()


HOOKS: dict[str, Program] = {
    "packed": _packed,
    "twice": _doubly,
    "nested": _nested,
    "no tensor": _with(lambda x: x, lambda x: 3),
    "written": _with(lambda x: x.add_(1), lambda x: x),
    "other": _with(lambda x: x, lambda x: x * 2),
    "function": _function,
    "off": _off,
    "on cpu": _on_cpu,
    "freed": _freed,
}


@sampled("name", HOOKS, keep=4)
def test_hooks_of_what_is_kept_are_pytorchs(name: str) -> None:
    _agree(HOOKS[name])


def _leaves(u: Any) -> Any:
    a = _leaf(u)
    y = (a * 2).exp()
    node = y.grad_fn.next_functions[0][0].next_functions[0][0]
    seen: list[Any] = []
    node.register_hook(lambda i, o: seen.append((i, _plain(o), _plain(a.grad))))
    y.sum().backward()
    same = node is (a + 1).grad_fn.next_functions[0][0]
    edge = u.autograd.graph.get_gradient_edge(y)
    return (
        node.name(), type(node).__name__, node.variable is a, node.next_functions, same, len(seen),
        edge.node.name(), edge.output_nr, u.autograd.graph.get_gradient_edge(a).node is node,
    )  # fmt: skip


def _of_nodes(u: Any) -> Any:
    seen: list[Any] = []
    a = _leaf(u)
    y = a.exp()
    y.grad_fn.register_prehook(lambda g: _noted(seen, ("pre", _plain(g)), (g[0] * 2,)))
    handle = y.grad_fn.register_hook(lambda i, o: (i[0] * 10,))
    y.grad_fn.register_hook(lambda i, o: seen.append((len(i), _plain(o))))
    y.register_hook(lambda g: g + 1)
    y.sum().backward(retain_graph=True)
    first = a.grad.clone()
    handle.remove()
    y.sum().backward()
    return seen, first.round(), a.grad.round()


def _retained(u: Any) -> Any:
    a = u.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = a * 2
    b.retain_grad()
    b.register_hook(lambda g: g.clamp(max=4))
    (b**2).sum().backward()
    return a.grad, b.grad


@pytest.mark.parametrize("program", [_leaves, _of_nodes, _retained])
def test_nodes_are_pytorchs(program: Program) -> None:
    _agree(program)


def _edge_refused(u: Any) -> Any:
    return u.autograd.graph.get_gradient_edge(u.ones(2))


def test_what_has_no_edge() -> None:
    _agree(_edge_refused)


AGAIN: dict[str, Callable[[Any, Any], Any]] = {
    "mul number": lambda u, a: a * 2,
    "mul number left": lambda u, a: 2 * a,
    "div number": lambda u, a: a / 2,
    "number div": lambda u, a: 2 / a,
    "add number": lambda u, a: a + 2,
    "sub number": lambda u, a: 2 - a,
    "add scaled": lambda u, a: u.add(a, a, alpha=2),
    "mul": lambda u, a: a * u.ones(2),
    "neg": lambda u, a: -a,
    "pow": lambda u, a: a**2,
    "number pow": lambda u, a: 2**a,
    "exp": lambda u, a: a.exp(),
    "abs": lambda u, a: a.abs(),
    "relu": lambda u, a: a.relu(),
    "mean": lambda u, a: a.mean(),
    "cumsum": lambda u, a: a.cumsum(0),
    "flip": lambda u, a: a.flip(0),
    "roll": lambda u, a: a.roll(1),
    "view": lambda u, a: a.view(1, 2),
    "cat": lambda u, a: u.cat([a, a]),
    "stack": lambda u, a: u.stack([a, a]),
    "index": lambda u, a: a[u.tensor([0, 1])],
    "slice": lambda u, a: a[1:],
    "gather": lambda u, a: a.gather(0, u.tensor([0, 1])),
    "index_select": lambda u, a: a.index_select(0, u.tensor([0, 1])),
    "masked_fill": lambda u, a: a.masked_fill(u.tensor([True, False]), 0),
    "where": lambda u, a: u.where(u.tensor([True, False]), a, a),
    "clamp": lambda u, a: a.clamp(0, 3),
    "max": lambda u, a: a.max(0)[0],
    "sort": lambda u, a: a.sort()[0],
    "tril": lambda u, a: a.view(1, 2).tril(),
    "repeat": lambda u, a: a.repeat(2),
    "expand": lambda u, a: a.expand(3, 2),
    "clone": lambda u, a: a.clone(),
    "double": lambda u, a: a.double(),
    "mm": lambda u, a: a.view(1, 2) @ u.ones(2, 2),
    "lerp": lambda u, a: u.lerp(a, a, 0.5),
    "softmax": lambda u, a: a.softmax(0),
    "remainder": lambda u, a: a % 2,
    "mul in place": lambda u, a: a.clone().mul_(2),
    "add in place": lambda u, a: a.clone().add_(2),
}


@sampled("name", AGAIN, keep=5)
def test_a_graph_is_gone_through_again_where_nothing_was_kept(name: str) -> None:
    def program(u: Any) -> Any:
        y = AGAIN[name](u, _leaf(u)).sum()
        y.backward()
        y.backward()

    told = _told(program, tc), _told(program, torch)
    assert (told[0] is None) == (told[1] is None)
    if told[0] is not None:
        assert told[0][1].split(". ")[0] == told[1][1].split(". ")[0]


def _seen_jointly(u: Any, mode: str, pass_: str) -> Any:
    seen: list[Any] = []
    a, b = _leaf(u), _leaf(u)
    c, d = a * b, a * b * 2
    first, second = (a * 5).chunk(2)
    tensors = [c, d, first, second] + [a, b] * (pass_ != "grad")  # PyTorch has no leaves there

    def fn(found: Any) -> None:
        seen.append([None if g is None else g.tolist() for g in found]
                    if mode == "all" else found.tolist())  # fmt: skip

    handle = u.autograd.graph.register_multi_grad_hook(tensors, fn, mode=mode)
    if pass_ == "all":
        (c.sum() + d.sum() + first.sum() + second.sum()).backward()
    elif pass_ == "a part":
        (c.sum() * 2).backward(retain_graph=True)
        c.sum().backward(inputs=(a,), retain_graph=True)
        (first.sum() + b.sum()).backward()
    elif pass_ == "grad":
        u.autograd.grad((c * d).sum(), [a, c], retain_graph=True)
        u.autograd.grad((c * d).sum(), [d], retain_graph=True)
        u.autograd.grad((c * d).sum(), [b], create_graph=True)[0].sum().backward()
    else:
        handle.remove()
        (c.sum() + d.sum()).backward()
    return seen


@pytest.mark.parametrize("pass_", ["all", "a part", "grad", "removed"])
def test_hooks_of_several_tensors_see_what_pytorchs_see(pass_: str) -> None:
    u: Any
    mine, theirs = (_seen_jointly(u, "all", pass_) for u in (tc, torch))
    assert mine == theirs
    for u in (tc, torch):  # which is the first of several is no promise
        several = _seen_jointly(u, "any", pass_)
        assert len(several) == len(theirs)
        with pytest.raises(
            ValueError, match=r"^Expects mode to be one of \('all', 'any'\) but got"
        ):
            u.autograd.graph.register_multi_grad_hook([], print, mode="x")
