"""Hooks of modules and of their states, as PyTorch calls them: the same script, the same record."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn
from tcdsl.nn.modules import module as ours_of_all
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]
LIBRARIES = ((tc, nn, ours_of_all), (torch, torch.nn, torch.nn.modules.module))


def _layer(u: Any, m: Any) -> Any:
    layer = m.Linear(2, 2)
    with u.no_grad():
        layer.weight.copy_(u.tensor([[1.0, 2.0], [3.0, 4.0]]))
        layer.bias.copy_(u.tensor([0.5, -0.5]))
    return layer


def _shown(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return np.round(value.tolist(), 4).tolist()
    if isinstance(value, tuple | list):
        return [_shown(v) for v in value]
    return sorted(value) if isinstance(value, dict) else value


def _keywords(u: Any, m: Any, g: Any) -> Any:
    class Scaled(m.Module):  # type: ignore[misc]
        def forward(self, x: Any, by: float = 1.0) -> Any:
            return x * by

    said: list[Any] = []
    net = Scaled()
    net.register_forward_pre_hook(lambda n, a: said.append("second"))
    net.register_forward_pre_hook(
        lambda n, a, k: ((a[0] + 1,), {"by": k["by"] * 2}), prepend=True, with_kwargs=True
    )
    net.register_forward_hook(lambda n, a, o: said.append(["last", a, o]))
    handle = net.register_forward_hook(
        lambda n, a, k, o: o + k["by"], prepend=True, with_kwargs=True
    )
    said.append(net(u.ones(2), by=3.0))
    handle.remove()
    said.append(net(u.ones(2), by=3.0))
    return said


def _wrong_keywords(u: Any, m: Any, g: Any) -> Any:
    net = m.Identity()
    net.register_forward_pre_hook(lambda n, a, k: (a,), with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple of") as caught:
        net("x")
    return str(caught.value)


def _always(u: Any, m: Any, g: Any) -> Any:
    class Bad(m.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            raise ValueError("bad")

    said: list[Any] = []
    net = Bad()
    net.register_forward_hook(lambda n, a, o: said.append("not"))
    net.register_forward_hook(lambda n, a, o: said.append(["always", a, o]), always_call=True)
    with pytest.raises(ValueError, match="bad"):
        net(1)

    def fails(n: Any, a: Any, o: Any) -> None:
        raise KeyError("silenced")

    net.register_forward_hook(fails, always_call=True, prepend=True)
    with pytest.warns(UserWarning, match="silenced"), pytest.raises(ValueError, match="bad"):
        net(1)
    return said


def _always_behind(u: Any, m: Any, g: Any) -> Any:
    said: list[Any] = []

    def fails(n: Any, a: Any, o: Any) -> None:
        raise ValueError("bad")

    layer = _layer(u, m)
    layer.register_forward_pre_hook(lambda n, a: (a[0] * 2,))
    layer.register_forward_hook(lambda n, a, o: said.append([a, o]), always_call=True)
    with pytest.raises(RuntimeError):
        layer(u.ones(1, 3))  # the changed input, no result
    layer.register_forward_hook(fails, prepend=True)
    with pytest.raises(ValueError, match="bad"):
        layer(u.ones(1, 2))  # both
    return said


def _backward(u: Any, m: Any, g: Any) -> Any:
    said: list[Any] = []
    layer = _layer(u, m)
    layer.register_full_backward_hook(lambda n, i, o: said.append(["in", i, o]))
    layer.register_full_backward_hook(lambda n, i, o: (i[0] * 2,), prepend=True)
    layer.register_full_backward_pre_hook(lambda n, o: (o[0] * 10,))
    layer.register_full_backward_pre_hook(lambda n, o: said.append(["out", o]), prepend=True)
    x = u.tensor([[1.0, -1.0]], requires_grad=True)
    layer(x).sum().backward()
    only = m.Tanh()
    only.register_full_backward_pre_hook(lambda n, o: (o[0] + 1,))
    y = u.zeros(1, requires_grad=True)
    only(y).backward()
    only.register_full_backward_hook(lambda n, i, o: (i[0], i[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        only(y).backward()
    return [said, x.grad, layer.weight.grad, y.grad]


def _all(u: Any, m: Any, g: Any) -> Any:
    said: list[Any] = []
    handles = [
        g.register_module_forward_pre_hook(lambda n, a: said.append(["all", type(n).__name__])),
        g.register_module_forward_hook(lambda n, a, o: o + 1),
        g.register_module_full_backward_hook(lambda n, i, o: said.append(["back", i, o])),
        g.register_module_full_backward_pre_hook(lambda n, o: (o[0] * 3,)),
        g.register_module_parameter_registration_hook(lambda n, k, p: said.append(["p", k])),
        g.register_module_module_registration_hook(lambda n, k, p: said.append(["m", k])),
        g.register_module_buffer_registration_hook(lambda n, k, p: said.append(["b", k])),
    ]
    net = m.Sequential(_layer(u, m), m.ReLU())
    net.register_buffer("seen", u.zeros(1))
    net[0].register_forward_pre_hook(lambda n, a: said.append("own"))
    x = u.tensor([[1.0, -1.0]], requires_grad=True)
    y = net(x)
    y.sum().backward()
    for handle in handles:
        handle.remove()
    return [said, y, x.grad, net(x)]


def _states(u: Any, m: Any, g: Any) -> Any:
    said: list[Any] = []
    net = m.Sequential(m.Linear(2, 1), m.BatchNorm1d(1))
    net[1].register_state_dict_pre_hook(lambda n, p, k: said.append([p, k]))
    net[1].register_state_dict_post_hook(lambda n, s, p, d: s.update({p + "more": 1}))

    def rename(n: Any, state: Any, prefix: str, *rest: Any) -> None:
        if prefix + "old" in state:
            state[prefix + "bias"] = state.pop(prefix + "old")

    def forget(n: Any, keys: Any) -> None:
        keys.missing_keys.clear()

    state = net.state_dict()
    said.append([*state])
    del state["1.more"]
    state["0.old"] = state.pop("0.bias") + 1
    net[0].register_load_state_dict_pre_hook(rename)
    net.register_load_state_dict_post_hook(lambda n, keys: said.append([*keys]))
    net.load_state_dict(state)
    said.append("0.old" in state)
    del state["0.weight"]
    net.register_load_state_dict_post_hook(forget)
    net.load_state_dict(state)
    other = m.Linear(2, 1)
    given = {"weight": u.ones(1, 2, dtype=u.float64), "bias": u.zeros(1)}
    other.load_state_dict(given, assign=True)
    same = other.bias.data_ptr() == given["bias"].data_ptr()
    said += [str(other.weight.dtype), other.weight, same]
    said.append([*other.state_dict(None, "at.")])
    return said


def _unknown(u: Any, m: Any, g: Any) -> Any:
    def given(module: Any, state: Any, **named: Any) -> Any:
        try:
            return [*module.load_state_dict(state, **named)]
        except RuntimeError as error:
            return str(error).strip()

    said: list[Any] = []
    bare = m.Linear(2, 2, bias=False)
    whole = {k: u.ones(2) for k in ("bias", "weight.more")} | {"weight": u.ones(2, 2)}
    said += [given(bare, whole), given(bare, whole, strict=False)]
    net = m.Sequential(m.Linear(2, 2), m.Identity())
    net.add_module("none", None)
    more = {"0": u.ones(1), "none.weight": u.ones(1), "2.x": u.ones(1), "0.x.y": u.ones(1)}
    said.append(given(net, net.state_dict() | more))
    net.register_buffer("count", u.tensor(1.0))
    net[0]._register_load_state_dict_pre_hook(lambda s, p, d, strict, *r: said.append([p, strict]))
    net[0]._register_load_state_dict_pre_hook(
        lambda n, s, p, *rest: said.append([type(n).__name__, p]), with_module=True
    )
    said.append(given(net, net.state_dict() | {"count": u.tensor([3.0])}, strict=False))
    net._register_state_dict_hook(lambda n, s, p, d: {k: v for k, v in s.items() if p or "0" in k})
    return [*said, net.count, [*net.state_dict()]]


def _paths(u: Any, m: Any, g: Any) -> Any:
    shared = m.Linear(1, 1)
    net = m.Sequential(shared, m.Sequential(shared))
    found = [
        [n for n, _ in net.named_parameters(remove_duplicate=False)],
        [n for n, _ in net.named_modules(remove_duplicate=False)],
        [n for n, _ in net.named_parameters()],
    ]
    net.set_submodule("1.0", m.ReLU())
    with pytest.raises(AttributeError):
        net.set_submodule("1.weight", m.ReLU(), strict=True)
    net.compile()
    return [*found, repr(net)]


@pytest.mark.parametrize(
    "script",
    [
        _keywords,
        _wrong_keywords,
        _always,
        _always_behind,
        _backward,
        _all,
        _states,
        _unknown,
        pytest.param(_paths, marks=pytest.mark.wide),
    ],
    ids=lambda script: script.__name__[1:],
)
def test_hooks_are_called_as_by_torch(script: Any) -> None:
    ours, theirs = (_shown(script(*library)) for library in LIBRARIES)
    assert ours == theirs


def test_hooks_go_into_copies_and_states_of_before_have_none() -> None:
    layer = nn.Linear(1, 1)
    layer.register_forward_hook(_plus_one, always_call=True)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert tc.equal(other(tc.ones(1, 1)), layer(tc.ones(1, 1)))
        assert other._always_called
    old = {k: v for k, v in layer.__dict__.items() if "hook" not in k and "call" not in k}
    bare = nn.Linear.__new__(nn.Linear)
    bare.__setstate__(old)
    assert tc.equal(bare(tc.ones(1, 1)) + 1, layer(tc.ones(1, 1)))


def _plus_one(module: Any, args: Any, output: Any) -> Any:
    return output + 1


def _packed(u: Any, m: Any, g: Any) -> Any:
    rnn = m.utils.rnn
    rows = [u.arange(0.0, 3 * n).reshape(n, 3) for n in (2, 4, 1, 4)]
    packed = rnn.pack_sequence(rows, enforce_sorted=False)
    padded, lengths = rnn.pad_packed_sequence(packed)
    again = rnn.pack_padded_sequence(padded, lengths, enforce_sorted=False)
    left = rnn.pad_sequence(rows, batch_first=True, padding_value=-1, padding_side="left")
    order = again.data[0], [*packed[1:]], packed.to(u.float64).unsorted_indices
    said = [padded, lengths, *order, left, *rnn.unpack_sequence(packed)]
    for name in ("double", "half", "long", "byte"):
        as_type = getattr(packed, name)()
        said += [type(as_type).__name__, str(as_type.data.dtype)[-5:], as_type.data, *as_type[1:]]
    return [*said, *rnn.unpad_sequence(left, lengths, batch_first=True)]


@pytest.mark.wide
def test_sequences_in_any_order_are_packed_as_by_torch() -> None:
    assert _shown(_packed(*LIBRARIES[0])) == _shown(_packed(*LIBRARIES[1]))


@sampled("name", ["RNN", "LSTM", "GRU"], keep=1)
def test_layers_over_time_take_them(name: str) -> None:
    mine, theirs = getattr(nn, name)(3, 2), getattr(torch.nn, name)(3, 2)
    mine.load_state_dict(theirs.state_dict())
    begin = np.random.default_rng(2).standard_normal((1, 3, 2)).astype(np.float32)
    found = []
    for u, m, layer in ((tc, nn, mine), (torch, torch.nn, theirs)):
        rows = [u.arange(0.0, 3 * n).reshape(n, 3) / 9 for n in (2, 4, 1)]
        hx = u.tensor(begin)
        packed = m.utils.rnn.pack_sequence(rows, enforce_sorted=False)
        out, last = layer(packed, (hx, hx * 2) if name == "LSTM" else hx)
        states = last if name == "LSTM" else (last,)
        made = [m.utils.rnn.pad_packed_sequence(out)[0], *states]
        found.append([t.detach().numpy() for t in made])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_hook_behind_the_sum_sees_the_leaf() -> None:
    found = []
    for u in (tc, torch):
        said: list[Any] = []
        x = u.tensor([1.0, 2.0], requires_grad=True)
        handle = x.register_post_accumulate_grad_hook(lambda t, s=said: s.append(t.grad.tolist()))
        x.register_hook(lambda g, s=said: s.append(g.tolist()))
        (x * x + x).sum().backward()
        (x * x).sum().backward(inputs=[x])
        u.autograd.grad((x * x).sum(), x)
        handle.remove()
        x.sum().backward()
        with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
            (x * 2).register_post_accumulate_grad_hook(print)
        found.append(said)
    assert found[0] == found[1]


def test_a_step_within_the_backward_pass() -> None:
    layer: Any = nn.Linear(3, 1)
    rate = {p: tc.full_like(p.detach(), 0.5) for p in layer.parameters()}

    def step(p: Any) -> None:
        with tc.no_grad():
            p.sub_(rate[p] * p.grad)
        p.grad = None

    for p in layer.parameters():
        p.register_post_accumulate_grad_hook(step)
    before = layer.bias.tolist()
    layer(tc.ones(2, 3)).sum().backward()
    assert layer.bias.grad is None
    np.testing.assert_allclose(layer.bias.tolist(), np.array(before) - 1, rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.ModuleList([m.ReLU(), m.ReLU(), m.Sequential(m.Tanh()), m.ReLU()]),
        lambda m: m.ModuleList(),
        lambda m: m.Sequential(m.ModuleList([m.Sequential(m.Tanh()), m.Sequential(m.Tanh())])),
        lambda m: m.Upsample(scale_factor=2),
        lambda m: m.Upsample(scale_factor=(2, 3)),
        lambda m: m.Softplus(),
        lambda m: m.LocalResponseNorm(2),
    ],
)
def test_what_modules_say_of_themselves_is_as_by_torch(make: Any) -> None:
    assert repr(make(nn)) == repr(make(torch.nn))
