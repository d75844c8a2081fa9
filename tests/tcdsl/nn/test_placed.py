"""Modules are made of the type and at the place that they are told, as PyTorch's are."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

Named = dict[str, Any]
LAYERS: dict[str, tuple[Any, ...]] = {
    "Linear": (2, 3), "Bilinear": (2, 3, 4), "Conv2d": (2, 4, 3), "ConvTranspose1d": (2, 4, 3),
    "Embedding": (3, 2), "EmbeddingBag": (3, 2), "BatchNorm1d": (2,), "InstanceNorm2d": (2,),
    "LayerNorm": ((2, 3),), "GroupNorm": (2, 4), "RMSNorm": (3,), "PReLU": (2,), "LSTM": (2, 3),
    "RNN": (2, 3), "GRUCell": (2, 3), "MultiheadAttention": (4, 2), "Transformer": (4, 2, 1, 1, 4),
    "TransformerDecoderLayer": (4, 2, 4),
}  # fmt: skip


@sampled("name", LAYERS, keep=7)
def test_all_that_a_module_makes_is_of_the_type(name: str) -> None:
    for said in ({"dtype": "float64"}, {"device": "cpu", "dtype": "float64"}, {"device": "cpu"}):
        found = []
        for library, modules in ((tc, nn), (torch, torch.nn)):
            named = {k: getattr(library, v) if k == "dtype" else v for k, v in said.items()}
            module = getattr(modules, name)(*LAYERS[name], **named)
            state = module.state_dict()
            found.append({k: (str(v.dtype), str(v.device)) for k, v in state.items()})
        assert found[0] == found[1]
    ours, theirs = (
        [*inspect.signature(getattr(m, name).__init__).parameters] for m in (nn, torch.nn)
    )
    if "args" not in theirs and name not in ("Embedding", "EmbeddingBag"):
        assert ours == theirs


def test_they_are_said_by_position_too_and_for_one_module() -> None:
    assert nn.Linear(2, 3, True, "cpu", tc.float64).weight.dtype is tc.float64
    assert nn.Linear(2, 3).weight.dtype is tc.float32
    with pytest.raises(TypeError):
        nn.Linear(2, 3, True, "cpu", tc.float64, 1)  # type: ignore[call-arg]  # checkers see it
    with pytest.raises(TypeError, match="multiple values"):
        nn.Linear(2, 3, True, None, device="cpu")  # type: ignore[misc]
    with pytest.raises(TypeError):
        nn.Conv2d(2, 3)  # type: ignore[call-arg]
    if TYPE_CHECKING:
        nn.Linear("2", 3, dtype=tc.float64)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="device type"):
        nn.Linear(2, 3, device="nowhere")
    seen: list[Any] = []

    class Slow(nn.Linear):
        def reset_parameters(self) -> None:
            other = threading.Thread(target=lambda: seen.append(nn.Linear(1, 1)))
            other.start()
            other.join()

    assert Slow(2, 3, dtype=tc.float16).weight.dtype is tc.float16
    assert seen[0].weight.dtype is tc.float32


@pytest.mark.parametrize(
    ("name", "args"),
    [("BatchNorm2d", (3,)), ("GroupNorm", (1, 3)), ("InstanceNorm1d", (3, 1e-5, 0.1, True))],
)
def test_norms_without_a_shift(name: str, args: tuple[Any, ...]) -> None:
    state = [[*getattr(m, name)(*args, bias=False).state_dict()] for m in (nn, torch.nn)]
    assert state[0] == state[1]


def test_a_module_without_drawn_parameters() -> None:
    tc.manual_seed(3)
    first = tc.rand(2).tolist()
    tc.manual_seed(3)
    layer = nn.utils.skip_init(nn.Conv2d, 2, 3, 3, dtype=tc.float64)
    assert isinstance(layer, nn.Conv2d)
    assert layer.weight.dtype is tc.float64
    assert tc.rand(2).tolist() == first  # none was drawn
    with pytest.raises(RuntimeError, match="'device' arg"):
        nn.utils.skip_init(nn.ReLU)
    moved = nn.BatchNorm1d(4).to_empty(device="cpu")
    assert isinstance(moved.weight, nn.Parameter)
    assert tuple(moved.weight.shape) == (4,)


def test_a_device_is_the_default_in_its_block() -> None:
    for library in (tc, torch):
        assert str(library.get_default_device()) == "cpu"
        with library.device("cpu") as where:
            assert str(library.zeros(2).device) == "cpu" == str(where)
        library.set_default_device("cpu")
        assert str(library.get_default_device()) == "cpu"
        library.set_default_device(None)
    with tc.device("cuda:3"):
        assert str(tc.get_default_device()) == "cuda:3"
        with tc.device("cpu"):
            assert str(tc.zeros(1).device) == "cpu"
        assert str(tc.get_default_device()) == "cuda:3"
        with pytest.raises(RuntimeError):
            tc.zeros(1)
    assert str(tc.device("cuda:3")(tc.get_default_device)()) == "cuda:3"
    assert str(tc.zeros(1).device) == "cpu"


PADDED: list[tuple[str, Named, tuple[int, ...]]] = [
    ("Conv1d", {"kernel_size": 4, "padding": "same"}, (2, 3, 7)),
    ("Conv2d", {"kernel_size": (2, 3), "padding": "same", "dilation": (3, 1)}, (1, 3, 5, 7)),
    ("Conv2d", {"kernel_size": 3, "padding": "valid", "stride": 2}, (3, 5, 7)),
    ("Conv3d", {"kernel_size": 2, "padding": "same", "padding_mode": "replicate"}, (1, 3, 2, 3, 4)),
    ("Conv1d", {"kernel_size": 4, "padding": "same", "padding_mode": "reflect"}, (2, 3, 7)),
    ("Conv2d", {"kernel_size": 3, "padding": (2, 1), "padding_mode": "circular"}, (2, 3, 5, 4)),
    ("Conv2d", {"kernel_size": 3, "padding": "valid", "padding_mode": "reflect"}, (2, 3, 5, 4)),
    ("Conv2d", {"kernel_size": 3, "padding": (1, 2), "padding_mode": "reflect", "stride": 2,
                "groups": 3, "bias": False}, (3, 5, 4)),
]  # fmt: skip


@pytest.mark.wide
@sampled("name, named, shape", PADDED, keep=1, wide=4)
def test_paddings_of_convolutions(name: str, named: Named, shape: tuple[int, ...]) -> None:
    mine, theirs = getattr(nn, name)(3, 6, **named), getattr(torch.nn, name)(3, 6, **named)
    mine.load_state_dict(theirs.state_dict())
    assert repr(mine) == repr(theirs)
    data = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x, w = tc.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    made, wanted = mine(x), theirs(w)
    np.testing.assert_allclose(made.detach().numpy(), wanted.detach(), rtol=1e-4, atol=1e-5)
    (made * made).sum().backward()
    (wanted * wanted).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), w.grad, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(mine.weight.grad.numpy(), theirs.weight.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "named",
    [{"padding": "most"}, {"padding": "same", "stride": 2}, {"padding_mode": "none"},
     {"groups": 0}],
)  # fmt: skip
def test_paddings_that_are_none(named: Named) -> None:
    said = []
    for modules in (nn, torch.nn):
        with pytest.raises(ValueError) as caught:  # noqa: PT011  (the words are compared)
            modules.Conv2d(2, 2, 3, **named)
        said.append(str(caught.value))
    if "padding_mode" not in named and named.get("padding") != "most":  # PyTorch prints a set
        assert said[0] == said[1]
    with pytest.raises(ValueError, match='Only "zeros" padding mode is supported'):
        nn.ConvTranspose2d(2, 2, 3, padding_mode="reflect")


def test_output_paddings_below_0_are_refused() -> None:
    for modules, t in ((nn, tc), (torch.nn, torch)):
        with pytest.raises(RuntimeError, match="negative output_padding is not supported"):
            modules.ConvTranspose2d(3, 4, 3, output_padding=-1)(t.ones(2, 3, 6, 6))


def test_constants_may_be_put_around_fewer_dimensions() -> None:
    for modules, t in ((nn, tc), (torch.nn, torch)):
        x = t.ones(2, 3, 2, 2)
        assert modules.ZeroPad2d((1, 2))(x).shape == (2, 3, 2, 5)
        assert modules.ConstantPad1d((1, 0, 2, 0), 1.0)(x).shape == (2, 3, 4, 3)
    with pytest.raises(ValueError, match="expected one number or 4"):
        nn.ReflectionPad2d((1, 2))


def test_norms_of_gradients() -> None:
    found = []
    for library, modules in ((tc, nn), (torch, torch.nn)):
        p = library.tensor([3.0, 4.0], requires_grad=True)
        (p * p).sum().backward()
        total = modules.utils.get_total_norm([p.grad])
        modules.utils.clip_grads_with_norm_([p], 1.0, total)
        again = modules.utils.clip_grad_norm_([p], 0.5, error_if_nonfinite=True, foreach=False)
        found.append([float(total), float(again), *p.grad.tolist()])
        p.grad.fill_(float("nan"))
        with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
            modules.utils.clip_grad_norm_(p, 0.5, error_if_nonfinite=True)
        modules.utils.clip_grad_value_(p, 1.0, foreach=True)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
