"""Modules: what they count as theirs, what is done to all of them, what they say of themselves."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import pytest

from tcdsl import library as tc
from tcdsl import nn
from tcdsl.core import Tensor

pytestmark = pytest.mark.cc


class Net(nn.Module):
    """Two layers, a buffer and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))
        self.scale = nn.Parameter(tc.ones(2))
        self.register_buffer("seen", tc.zeros(1))

    def forward(self, x: Tensor) -> Any:
        """Compute both."""
        return self.rest(self.first(x)) * self.scale


def test_names() -> None:
    net = Net()
    names = ["scale", "first.weight", "first.bias", "rest.1.weight"]
    assert [name for name, _ in net.named_parameters()] == names
    assert [*net.state_dict()] == ["scale", "seen", *names[1:]]
    assert [name for name, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [name for name, _ in net.named_children()] == ["first", "rest"]
    assert [name for name, _ in net.named_buffers()] == ["seen"]
    net.again = net.first
    assert len([*net.parameters()]) == 4


def test_repr() -> None:
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (rest): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=4, out_features=2, bias=False)\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Conv2d(1, 2, 3, padding=1)) == (
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"
    )


def test_assignments() -> None:
    net = Net()
    with pytest.raises(TypeError, match=r"cannot assign 'torch.FloatTensor' as parameter 'scale'"):
        net.scale = tc.ones(2)
    net.seen = tc.ones(1)
    assert net.state_dict()["seen"].tolist() == [1]
    del net.scale
    assert "scale" not in net.state_dict()
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'scale'"):
        net.scale  # noqa: B018  # asked for

    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.ReLU()

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


def test_states_go_from_one_to_another() -> None:
    one, other = Net(), Net()
    missing = other.load_state_dict(one.state_dict())
    assert missing == ([], [])
    x = tc.randn(5, 3)
    assert one(x).tolist() == other(x).tolist()
    state = OrderedDict(one.state_dict())
    state["new"] = state.pop("scale")
    with pytest.raises(RuntimeError) as caught:
        other.load_state_dict(state)
    assert 'Missing key(s) in state_dict: "scale"' in str(caught.value)
    assert 'Unexpected key(s) in state_dict: "new"' in str(caught.value)
    assert other.load_state_dict(state, strict=False) == (["scale"], ["new"])
    state["first.weight"] = tc.zeros(1, 1)
    with pytest.raises(RuntimeError, match=r"size mismatch for first.weight"):
        other.load_state_dict(state, strict=False)


def test_copies_and_types() -> None:
    net = Net()
    weight = net.first.weight
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.first.weight.tolist() == weight.tolist()
        assert other.first.weight.data_ptr() != weight.data_ptr()
        assert isinstance(other.first.weight, nn.Parameter)
    net.double()
    assert net.first.weight is weight
    assert weight.dtype is tc.float64
    assert net.to(tc.float32).seen.dtype is tc.float32


def test_hooks() -> None:
    layer = nn.Linear(3, 2)
    seen: list[Any] = []
    layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    handle = layer.register_forward_hook(lambda module, inputs, output: output + 1)
    layer.register_backward_hook(lambda module, d_in, d_out: seen.append((d_in, d_out)))
    x = tc.randn(4, 3, requires_grad=True)
    y = layer(x)
    expected = nn.functional.linear(x * 2, layer.weight, layer.bias)
    assert tc.allclose(y, expected + 1)
    y.sum().backward()
    ((d_in,), (d_out,)) = seen[0]
    assert tuple(d_in.shape) == (4, 3)
    assert d_out.tolist() == [[1, 1]] * 4
    handle.remove()
    assert tc.allclose(layer(x), expected)


def test_a_backward_hook_is_called_where_no_input_has_a_gradient() -> None:
    layer = nn.Linear(3, 2)
    seen: list[Any] = []
    layer.register_backward_hook(lambda module, d_in, d_out: seen.append((d_in, d_out[0].shape)))
    loss = layer(tc.ones(4, 3)).sum()
    loss.backward(retain_graph=True)
    assert seen == [((None,), (4, 2))]
    loss.backward()
    assert len(seen) == 2


def test_modes_reach_all() -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
    assert all(module.training for module in net.modules())
    net.eval()
    assert not any(module.training for module in net.modules())
    x = tc.ones(8)
    assert net(x).tolist() == x.tolist()
    counted: list[str] = []
    net.apply(lambda module: counted.append(type(module).__name__))
    assert counted == ["Dropout", "Dropout", "Sequential", "Sequential"]


def test_lists() -> None:
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    layers.append(nn.Sigmoid()).extend([nn.ELU()])
    layers.insert(1, nn.SELU())
    kinds = [type(layer).__name__ for layer in layers]
    assert kinds == ["ReLU", "SELU", "Tanh", "Sigmoid", "ELU"]
    assert type(layers[-1]).__name__ == "ELU"
    assert len(layers[1:3]) == 2
    del layers[0]
    assert len(layers) == 4
    with pytest.raises(IndexError):
        layers[4]
    own = nn.ParameterList([nn.Parameter(tc.zeros(2)), nn.Parameter(tc.zeros(3))])
    assert [name for name, _ in own.named_parameters()] == ["0", "1"]
    named = nn.ModuleDict({"a": nn.ReLU()})
    named["b"] = nn.Tanh()
    assert [*named] == ["a", "b"]
    assert "a" in named
    line = nn.Sequential(OrderedDict(one=nn.ReLU(), two=nn.Tanh()))
    assert type(line.two).__name__ == "Tanh"
    assert len(line[:1]) == 1


def test_names_of_before_say_what_they_are_now() -> None:
    with pytest.warns(FutureWarning, match=r"deprecated in favor of `nn.init.constant_`"):
        assert nn.init.constant(tc.zeros(2), 3).tolist() == [3, 3]
    for kind in (nn.Embedding, nn.EmbeddingBag):
        with pytest.warns(UserWarning, match="gradients are dense") as seen:
            assert kind(3, 2, sparse=True).sparse
        assert seen[0].filename == __file__
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        Net().load_state_dict([1])  # type: ignore[arg-type]


def test_layers_one_behind_the_other_are_added_put_between_and_taken_out() -> None:
    a, b, c, d = (nn.Identity() for _ in range(4))
    made = nn.Sequential(a).append(c).insert(1, b).extend([d])
    assert list(made) == [a, b, c, d]
    assert list(made._modules) == ["0", "1", "2", "3"]
    assert made.pop(1) is b
    assert list(made + nn.Sequential(b)) == [a, c, d, b]
    with pytest.raises(IndexError, match="Index out of range: 9"):
        made.insert(9, a)
    more = [b]
    several = nn.ModuleList([a]) + more
    assert several.pop(0) is a
    assert list(several) == [b]


def test_tensors_become_parameters_in_lists_and_mappings() -> None:
    listed = nn.ParameterList([tc.ones(2)])
    named = nn.ParameterDict({"a": tc.ones(1)})
    assert all(isinstance(p, nn.Parameter) for p in (*listed.parameters(), *named.parameters()))


def test_a_list_of_parameters_keeps_whatever_else() -> None:
    listed = nn.ParameterList([1, "a", tc.ones(2), [3], nn.Linear(1, 1), None])
    assert [name for name, _ in listed.named_parameters()] == ["2", "4.weight", "4.bias"]
    listed[0] = tc.zeros(1)
    listed[3] = 4.5
    for found in (listed, copy.deepcopy(listed), pickle.loads(pickle.dumps(listed))):
        assert len(found) == len(list(found)) == 6
        assert isinstance(found[0], nn.Parameter)
        assert [found[1], found[-3], found[-1]] == ["a", 4.5, None]
        assert list(found[1:4:2]) == ["a", 4.5]
    before = nn.ParameterList([tc.ones(1)])
    del before.__dict__["_size"]  # as those that were saved when all were parameters
    assert len(pickle.loads(pickle.dumps(before))) == 1
    with pytest.raises(TypeError, match="cannot assign 'int' as parameter '2'"):
        listed[2] = 3
    with pytest.raises(TypeError, match="called with an iterable, but got Tensor"):
        nn.ParameterList(tc.ones(2))
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        listed(1)


def test_parameters_of_a_plain_mapping_come_in_the_order_of_their_names() -> None:
    u, i = tc.ones(1), tc.ones(2)
    named = nn.ParameterDict({"u": u, "i": i})
    assert list(named) == ["i", "u"]
    assert list(nn.ParameterDict(OrderedDict(u=u, i=i))) == ["u", "i"] == list(reversed(named))
    assert list(named | nn.ParameterDict({"a": i})) == ["i", "u", "a"]
    assert named.get("no") is None
    assert named.copy().popitem()[1] is named["u"]
    assert named.setdefault("u", None) is named["u"]
