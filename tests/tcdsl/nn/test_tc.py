"""`nn.TC` means the same for tcdsl's own tensors and for PyTorch's: each test runs for both."""

from __future__ import annotations

import copy
import io
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

import tcdsl
from tcdsl import nn
from tcdsl.autotune import tuner
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tests.tcdsl.layer_texts import FCRELU, NORM

pytestmark = pytest.mark.cc

TWO = """
def two(float(N) x, float a, float(N) mask) -> (y, z) {
  y(i) = a * x(i)
  z(i) = x(i) * mask(i)
}"""
STEP = """
def step<S=1>(float(B,M) x, float(M) w) -> (y) { y(b, m) = S * x(b, m) * w(m) > 0 ? 1.0 : 0.0 }
def straight<S=1>(float(B,M) x, float(M) w, float(B,M) y, float(B,M) d_y) -> (w_grad, d_x) {
  w_grad(m) +=! S * d_y(b, m) * y(b, m)
  d_x(b, m) = S * d_y(b, m)
}"""


class Both:
    """A library of tensors under PyTorch's names, and its `nn.TC`."""

    def __init__(self, name: str) -> None:
        if name == "tcdsl":
            self.torch: Any = tcdsl
            self.TC: Any = nn.TC
            self.autotune: Any = nn.autotune
        else:
            self.torch = pytest.importorskip("torch")
            tct: Any = pytest.importorskip("tcdsl.torch")
            self.TC, self.autotune = tct.nn.TC, tct.autotune

    def fcrelu(self, **more: Any) -> Any:
        return self.TC(FCRELU, parameters={"W": (3, 7), "b": (3,)}, **more)

    def close(self, a: Any, b: Any) -> bool:
        return a.shape == b.shape and float((a - b).detach().abs().max()) < 1e-5


@pytest.fixture(
    params=["tcdsl", pytest.param("torch", marks=[pytest.mark.torch, pytest.mark.wide])]
)
def lib(request: Any) -> Both:
    return Both(request.param)


def test_it_is_a_layer_that_trains_and_prints(lib: Both) -> None:
    torch = lib.torch
    torch.manual_seed(0)
    layer = lib.fcrelu()
    assert repr(layer) == (
        "TC(\n"
        "  fcrelu(float(B, M) I, float(N, M) W, float(N) b) -> (O)\n"
        "  forward(I) with W (3, 7), b (3,)\n"
        ")"
    )
    x = torch.randn(5, 7)
    wanted = torch.relu(x.matmul(layer.W.t()) + layer.b)
    assert lib.close(layer(x), wanted)
    layer(x).sum().backward()
    ours = layer.W.grad.clone()
    layer.zero_grad()
    torch.relu(x.matmul(layer.W.t()) + layer.b).sum().backward()
    assert lib.close(ours, layer.W.grad)
    with torch.no_grad():
        assert lib.close(layer(x), wanted)
    layer.W.requires_grad_(False)
    layer.W.grad = None
    layer(x).sum().backward()
    assert layer.W.grad is None


@pytest.mark.wide
@pytest.mark.parametrize(
    "given",
    [
        {"parameters": {"W": (3, 7), "b": 3}},
        {"parameters": {"W": ("N", 7), "b": (3,)}},
        {"parameters": ["W", "b"], "sizes": {"N": 3, "M": 7}},
    ],
)
def test_shapes_are_numbers_sizes_by_name_or_those_of_the_text(lib: Both, given: Any) -> None:
    layer = lib.TC(FCRELU, **given)
    shapes = [(n, tuple(p.shape)) for n, p in layer.named_parameters()]
    assert shapes == [("W", (3, 7)), ("b", (3,))]
    assert layer.sizes == {"N": 3, "M": 7}


@pytest.mark.wide
def test_first_values_follow_the_text_or_what_is_said(lib: Both) -> None:
    torch = lib.torch
    torch.manual_seed(0)
    text = "def mm(float(B,K) x, float(K,N) W) -> (y) { y(b, n) +=! x(b, k) * W(k, n) }"
    weight = lib.TC(text, parameters={"W": (4, 3000)}).W
    assert 0.99 / 2 < float(weight.detach().abs().max()) <= 1 / 2
    layer = lib.TC(NORM, parameters={"scale": 8, "shift": 8}, eps=1e-5)
    assert layer.scale.tolist() == [1] * 8
    assert layer.shift.tolist() == [0] * 8
    ramp = torch.arange(21.0).reshape(3, 7)
    layer = lib.fcrelu(init={"W": ramp, "b": 0.5})
    assert torch.equal(layer.W, ramp)
    assert layer.b.tolist() == [0.5] * 3
    layer.W.data.zero_()
    layer.reset_parameters()
    assert torch.equal(layer.W, ramp)
    assert torch.equal(lib.fcrelu(init={"W": lambda w: 2 * ramp}).W, 2 * ramp)
    torch.manual_seed(3)
    by_name = lib.fcrelu(init={"W": "kaiming_uniform"}).W
    torch.manual_seed(3)
    assert torch.equal(by_name, torch.nn.Linear(7, 3).weight)
    assert float(by_name.detach().abs().max()) <= 1 / math.sqrt(7)
    tied = torch.nn.Parameter(torch.randn(3, 7))
    assert lib.TC(FCRELU, parameters={"W": tied, "b": torch.ones(3)}).W is tied


def test_what_does_not_fit_the_text_is_named(lib: Both) -> None:
    torch = lib.torch
    rows: list[tuple[dict[str, Any], Any, str]] = [
        ({"parameters": {"W": (3, 7), "b": (4,)}}, ShapeError, "N = 4 comes from b, but N = 3 co"),
        ({"parameters": {"W": ("N", "M")}}, ShapeError, "the size N of the parameter W is not kno"),
        ({"parameters": {"w": (3, 7)}}, TCTypeError, "no argument 'w' that could be a parameter"),
        ({"parameters": {"b": 3}, "init": "nought"}, TCTypeError, "torch.nn.init has no 'nought'"),
        ({"parameter": {"b": 3}}, TCTypeError, "did you mean the setting parameters=?"),
        ({"parameters": ["W"], "buffers": ["b"]}, TCTypeError, "expected buffers as a dict"),
        ({"parameters": {"b": 3}, "init": torch.ones(4)}, TCTypeError, "expected the shape (3,)"),
        ({"parameters": {"b": torch.ones(3).double()}}, TCTypeError, "b is float32 in the text"),
    ]
    for given, kind, message in rows:
        with pytest.raises(kind) as caught:
            lib.TC(FCRELU, **given)
        assert message in str(caught.value)
    with pytest.raises(TCTypeError, match="takes 1 argument, got 2; W, b are the layer's"):
        lib.fcrelu()(torch.ones(2, 7), torch.ones(3, 7))
    with pytest.raises(TCTypeError, match="a layer needs a text"):
        lib.TC()


def test_inputs_buffers_fixed_numbers_and_several_outputs(lib: Both) -> None:
    torch = lib.torch
    mask = torch.tensor([1.0, 0.0, 1.0])
    layer = lib.TC(TWO, parameters={"a": ()}, init=2.0, buffers={"mask": mask})
    x = torch.tensor([1.0, 2.0, 3.0])
    for found in (layer(x), layer(x=x)):
        assert found.y.tolist() == [2, 4, 6]
        assert found.z.tolist() == [1, 0, 3]
    (layer(x).y.sum() * 3).backward()
    assert layer.a.grad.item() == 18
    assert [*layer.state_dict()] == ["a", "mask"]
    buffer = torch.nn.Buffer(mask, persistent=False)
    unsaved = lib.TC(TWO, parameters={"a": ()}, buffers={"mask": buffer})
    assert [*unsaved.state_dict()] == ["a"]
    assert unsaved.mask.tolist() == [1, 0, 1]
    fixed = lib.TC(TWO, a=0.5)
    assert fixed(mask=mask, x=x).y.tolist() == [0.5, 1, 1.5]


def test_a_way_back_by_hand_is_taken_and_checked(lib: Both) -> None:
    torch = lib.torch
    layer = lib.TC(STEP, parameters={"w": torch.ones(3)}, backward="straight", S=2)
    x = torch.tensor([[1.0, -1.0, 2.0], [3.0, -2.0, -1.0]], requires_grad=True)
    y = layer(x)
    assert y.tolist() == [[1, 0, 1], [1, 0, 0]]
    y.backward(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert x.grad.tolist() == [[2, 4, 6], [8, 10, 12]]
    assert layer.w.grad.tolist() == [10, 0, 6]
    with torch.no_grad():
        assert layer(x).tolist() == [[1, 0, 1], [1, 0, 0]]
    again = pickle.loads(pickle.dumps(layer))
    again.w.grad = None
    again(x).sum().backward()
    assert again.w.grad.tolist() == [4, 0, 2]
    wrong = STEP.replace("w_grad(m) +=! S * d_y(b, m) * y(b, m)", "w_grad(b) +=! d_y(b, m)")
    with pytest.raises(ShapeError, match="w_grad"):
        lib.TC(wrong, parameters={"w": torch.ones(3)}, backward="straight")(x).sum().backward()


@pytest.mark.wide
def test_types_follow_type_variables_and_the_texts_own_stay(lib: Both) -> None:
    torch = lib.torch
    parameters = {"scale": 8, "shift": 8}
    layer = lib.TC(NORM, parameters=parameters, eps=1e-5, dtype=torch.float64)
    x = torch.randn(3, 8)
    for change, dtype in ((layer.half, torch.float16), (layer.float, torch.float32)):
        change()
        assert layer(x.to(dtype)).dtype == layer.scale.dtype == dtype
    layer(x).sum().backward()
    assert layer.shift.grad.tolist() == [3] * 8
    model = torch.nn.Sequential(lib.fcrelu())
    with pytest.raises(TCTypeError, match=r"W is float32 in the text, .*float16\n .*<T>\("):
        model.half()
    assert model[0].W.dtype == torch.float32


@pytest.mark.wide
def test_it_is_copied_pickled_saved_and_a_file_may_have_the_text(lib: Both, tmp_path: Path) -> None:
    torch = lib.torch
    (tmp_path / "fcrelu.tc").write_text(FCRELU)
    of_file = lib.TC(tmp_path / "fcrelu.tc", parameters=["W", "b"], sizes={"N": 3, "M": 7})
    layer, x = torch.nn.Sequential(of_file, torch.nn.Linear(3, 2)), torch.randn(4, 7)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    loaded = torch.nn.Sequential(lib.fcrelu(), torch.nn.Linear(3, 2))
    loaded.load_state_dict(torch.load(file))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded):
        assert torch.equal(other(x), layer(x))
        other[0].W.data.zero_()
    assert float(layer[0].W.detach().abs().sum()) > 0


@pytest.mark.wide
def test_a_subclass_or_a_kernel_may_have_the_text(lib: Both) -> None:
    torch = lib.torch

    base = lib.TC

    class FcRelu(base):  # type: ignore[misc, valid-type]
        text = FCRELU

        def __init__(self, n: int, m: int) -> None:
            super().__init__(parameters=["W", "b"], sizes={"N": n, "M": m})

        def forward(self, x: Any) -> Any:
            return super().forward(x) + 1

    layer, x = FcRelu(3, 7), torch.randn(4, 7)
    assert lib.close(layer(x), torch.relu(x.matmul(layer.W.t())) + 1)
    assert repr(layer).startswith("FcRelu(")
    kernel = layer.tc
    with pytest.raises(TCTypeError, match="tune belongs to the text, and"):
        lib.TC(kernel, tune="online")
    assert lib.close(lib.TC(kernel, parameters={"W": layer.W, "b": 3})(x) + 1, layer(x))


@pytest.mark.wide
def test_it_is_tuned_forward_and_backward_and_keeps_what_was_found(
    lib: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = lib.torch
    layer = lib.fcrelu(cache=tmp_path / "a.db")
    model = torch.nn.Sequential(layer, torch.nn.Linear(3, 2))
    x = torch.randn(4, 7)
    rows = layer.autotune(x, trials=0, quiet=True).rows
    assert all(p.grad is None for p in model.parameters())
    model(x).sum().backward()
    before = layer.W.grad.clone()
    names = [r.name.split()[0] for r in rows]
    assert names == ["fcrelu", "fcrelu_forward", "d_fcrelu"]
    assert all(r.config is not None for r in rows)
    model.zero_grad()
    model(x).sum().backward()
    assert lib.close(layer.W.grad, before)
    state = model.state_dict()
    assert "0._extra_state" in state
    other = torch.nn.Sequential(lib.fcrelu(cache=tmp_path / "b.db"), torch.nn.Linear(3, 2))
    other.load_state_dict(state)
    assert len(other[0].tc.session.settings.configs) == len(rows)
    assert lib.close(other(x), model(x))
    found = lib.autotune(model, x, trials=0, quiet=True)
    assert {r.name.split()[0] for r in found.rows} >= {"fcrelu", "fcrelu_forward"}
    with monkeypatch.context() as once:
        once.setattr(tuner, "tune", None)
        kept = lib.autotune(model, x, quiet=True, again=False).rows
    assert [(r.name, r.config) for r in kept] == [(r.name, r.config) for r in found.rows]
    with pytest.raises(TCTypeError, match="Linear calls no kernel of tcdsl"):
        lib.autotune(torch.nn.Linear(7, 2), x)
    with pytest.warns(UserWarning, match="the tuned configs of a state dict are left out: "):
        other.load_state_dict({**state, "0._extra_state": torch.ones(2, 2)})


@pytest.mark.torch
@pytest.mark.wide
def test_state_dicts_go_from_one_library_to_the_other(tmp_path: Path) -> None:
    theirs, ours = Both("torch"), Both("tcdsl")
    layer = theirs.fcrelu(cache=tmp_path / "a.db")
    x = theirs.torch.randn(4, 7)
    layer.autotune(x, trials=0, quiet=True)
    other = ours.fcrelu(cache=tmp_path / "b.db")
    other.load_state_dict(layer.state_dict())
    assert len(other.tc.session.settings.configs) == len(layer.tc.session.settings.configs)
    assert other(ours.torch.from_numpy(x.numpy())).tolist() == layer(x).tolist()
    assert type(ours.fcrelu()).__doc__ == type(layer).__doc__
