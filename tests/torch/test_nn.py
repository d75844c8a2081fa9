"""`tct.nn.TC`: what is a parameter, its shape, type and first values; and that it is a module."""

from __future__ import annotations

import copy
import io
import math
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from tcdsl.grammar.text.errors import ShapeError, TCTypeError  # noqa: E402
from tests.tcdsl.layer_texts import FCRELU, NORM  # noqa: E402
from tests.tiers import sampled  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.cc]

CONV = """
def conv<S=1>(float(N,C,H,W) I, float(F,C,3,3) K) -> (O) {
  O(n, f, h, w) +=! I(n, c, S*h + kh, S*w + kw) * K(f, c, kh, kw)
}"""
TWO = """
def two(float(N) x, float a, float(N) mask) -> (y, z) {
  y(i) = a * x(i)
  z(i) = x(i) * mask(i)
}"""


def fcrelu(**more: Any) -> Any:
    return tct.nn.TC(FCRELU, parameters={"W": (3, 7), "b": (3,)}, **more)


# ---- sizes, types, first values


@pytest.mark.parametrize(
    "given",
    [
        {"parameters": {"W": (3, 7), "b": 3}},
        {"parameters": {"W": ("N", 7), "b": (3,)}},
        {"parameters": {"W": ("N", "M"), "b": ("N",)}, "sizes": {"N": 3, "M": 7}},
        {"parameters": ["W", "b"], "sizes": {"N": 3, "M": 7}},
    ],
)
def test_shapes_are_numbers_sizes_by_name_or_those_of_the_text(given: Any) -> None:
    layer = tct.nn.TC(FCRELU, **given)
    assert [(n, tuple(p.shape)) for n, p in layer.named_parameters()] == [
        ("W", (3, 7)),
        ("b", (3,)),
    ]
    assert layer.sizes == {"N": 3, "M": 7}
    x = torch.randn(5, 7)
    torch.testing.assert_close(layer(x), torch.relu(x @ layer.W.T + layer.b))


def test_weights_are_as_wide_as_the_text_sums_them_up_whatever_their_dimensions() -> None:
    torch.manual_seed(0)
    text = "def mm(float(B,K) x, float(K,N) W) -> (y) { y(b, n) +=! x(b, k) * W(k, n) }"
    weight = tct.nn.TC(text, parameters={"W": (4, 3000)}).W  # torch would count 3000
    assert 0.99 / 2 < weight.abs().max() <= 1 / 2
    kernel = tct.nn.TC(CONV, parameters={"K": (50, 11, 3, 3)}).K
    bound = 1 / math.sqrt(11 * 9)
    assert 0.95 * bound < kernel.abs().max() <= bound
    conv = torch.nn.Conv2d(11, 50, 3)
    torch.testing.assert_close(kernel.std(), conv.weight.std(), rtol=0.1, atol=0)


def test_a_factor_begins_as_one_and_an_addend_as_zero() -> None:
    layer = tct.nn.TC(NORM, parameters={"scale": 8, "shift": 8}, eps=1e-5)
    assert layer.scale.tolist() == [1] * 8
    assert layer.shift.tolist() == [0] * 8
    assert fcrelu().b.tolist() == [0] * 3
    text = "def f(float(N) x, float(N) g) -> (y) { y(i) = x(i) * (1 + g(i)) }"
    assert tct.nn.TC(text, parameters={"g": 2}).g.tolist() == [0, 0]
    text = "def f(float(...) x, float a) -> (y) { y(...) = x(...) * a }"  # any rank: by its shape
    assert tct.nn.TC(text, parameters={"a": ()}).a.shape == ()


def test_first_values_are_functions_names_numbers_and_tensors() -> None:
    ramp = torch.arange(21.0).reshape(3, 7)
    layer = fcrelu(init={"W": ramp, "b": 0.5})
    assert torch.equal(layer.W, ramp)
    assert layer.b.tolist() == [0.5] * 3
    layer.W.data.zero_()
    layer.reset_parameters()
    assert torch.equal(layer.W, ramp)
    assert fcrelu(init=torch.nn.init.ones_).W.tolist() == [[1] * 7] * 3
    assert torch.equal(fcrelu(init={"W": lambda w: 2 * ramp}).W, 2 * ramp)
    torch.manual_seed(3)
    by_name = fcrelu(init={"W": "kaiming_uniform"}).W
    torch.manual_seed(3)
    assert torch.equal(by_name, torch.nn.Linear(7, 3).weight)


def test_a_tensor_is_the_first_value_and_a_parameter_is_shared() -> None:
    tied = torch.nn.Parameter(torch.randn(3, 7))
    layer = tct.nn.TC(FCRELU, parameters={"W": tied, "b": torch.ones(3)})
    assert layer.W is tied
    assert isinstance(layer.b, torch.nn.Parameter)
    layer.reset_parameters()
    assert layer.b.tolist() == [1] * 3


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"parameters": {"W": (3, 7), "b": (4,)}}, ShapeError, "N = 4 comes from b, but N = 3 c"),
        ({"parameters": {"W": (3, 7, 1)}}, ShapeError, "expected 2 dimensions\n  declared float(N"),
        ({"parameters": {"W": ("N", "M")}}, ShapeError, "the size N of the parameter W is not kno"),
        ({"parameters": {"W": ("M", "N")}}, ShapeError, "'M' is not what the text has there"),
        ({"parameters": {"W": (3.5, 7)}}, ShapeError, "expected a size for N, got 3.5"),
        ({"parameters": ["W"], "sizes": {"K": 3}}, ShapeError, "has no size 'K'; it has B, M, N"),
        ({"parameters": {"w": (3, 7)}}, TCTypeError, "no argument 'w' that could be a parameter"),
        ({"parameters": {"b": 3}, "W": 1.0}, TCTypeError, "W has a shape, so it is no fixed numb"),
        ({"parameters": {"b": 3}, "eps": 1.0}, TCTypeError, "'eps' that could be a fixed number"),
        (
            {"parameters": {"W": (3, 4)}, "b": 3},
            TCTypeError,
            "give its shape to learn it: parameters=",
        ),
        (
            {"parameters": {"b": 3}, "buffers": {"b": torch.ones(3)}},
            TCTypeError,
            "'b' is given as parameter and as buffer",
        ),
        ({"parameters": {"b": 3}, "init": "nought"}, TCTypeError, "torch.nn.init has no 'nought'"),
        ({"parameters": {"b": 3}, "init": "orthogonal"}, TCTypeError, "'orthogonal' does not serv"),
        (
            {"parameters": {"b": 3}, "init": torch.nn.init.xavier_uniform_},
            TCTypeError,
            "init of fcrelu.b, of shape (3,): 'xavier_uniform_' does not serve",
        ),
        ({"parameter": {"b": 3}}, TCTypeError, "did you mean the setting parameters=?"),
        ({"parameters": ["W"], "buffers": ["b"]}, TCTypeError, "expected buffers as a dict"),
        ({"parameters": {"b": 3}, "init": torch.ones(4)}, TCTypeError, "expected the shape (3,)"),
        ({"parameters": {"b": 3}, "init": [1]}, TCTypeError, "got list"),
        ({"parameters": {"b": 3}, "init": {"B": 0}}, TCTypeError, "no parameter 'B' for init; it"),
        ({"parameters": {"b": torch.ones(3).double()}}, TCTypeError, "b is float32 in the text"),
    ],
)
def test_what_does_not_fit_the_text_is_named(given: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind) as caught:
        tct.nn.TC(FCRELU, **given)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", ["3", None, (1.0,), torch.ones(1)])
def test_a_fixed_number_is_a_number(value: Any) -> None:
    text = "def f(float(N) x, float a) -> (y) { y(i) = a * x(i) }"
    with pytest.raises(TCTypeError, match="expected a number for a, got "):
        tct.nn.TC(text, a=value)
    assert tct.nn.TC(text, a=torch.tensor(2.0))(torch.ones(1)).item() == 2


def test_names_that_a_module_has_and_types_that_are_not_learnt_are_refused() -> None:
    text = "def f(float(N) x, float(N) forward) -> (y) { y(i) = x(i) * forward(i) }"
    with pytest.raises(TCTypeError, match="'forward' means something else in a module"):
        tct.nn.TC(text, parameters={"forward": 3})
    text = "def f(float(N) x, int32(N) at) -> (y) { y(i) = x(i) * at(i) }"
    with pytest.raises(TCTypeError, match="only floats are learnt\n  give it as a buffer"):
        tct.nn.TC(text, parameters={"at": 3})
    with pytest.raises(TCTypeError, match="a layer needs a text"):
        tct.nn.TC()
    with pytest.raises(TCTypeError, match="the text has f, g: choose one by name="):
        tct.nn.TC(text + text.replace("def f", "def g"))


# ---- calls


def test_inputs_come_in_the_texts_order_or_by_name_around_what_the_layer_has() -> None:
    mask = torch.tensor([1.0, 0.0, 1.0])
    layer = tct.nn.TC(TWO, parameters={"a": ()}, init=2.0, buffers={"mask": mask})
    x = torch.tensor([1.0, 2.0, 3.0])
    for found in (layer(x), layer(x=x)):
        assert found.y.tolist() == [2, 4, 6]
        assert found.z.tolist() == [1, 0, 3]
    (layer(x).y.sum() * 3).backward()
    assert layer.a.grad == 18
    fixed = tct.nn.TC(TWO, a=0.5)
    assert fixed(x, mask).y.tolist() == [0.5, 1, 1.5]
    assert fixed(mask=mask, x=x).y.tolist() == [0.5, 1, 1.5]
    with pytest.raises(TCTypeError, match=r"two: forward\(x, mask\) misses mask; a is the layer's"):
        fixed(x)
    with pytest.raises(TCTypeError, match="takes 2 arguments, got 3; a is the layer's"):
        fixed(x, mask, x)
    with pytest.raises(TCTypeError, match="'a' is the layer's own"):
        fixed(x, mask, a=1)
    with pytest.raises(TCTypeError, match="has no argument 'q'"):
        fixed(x, mask, q=1)
    with pytest.raises(TCTypeError, match="'x' is given twice"):
        fixed(x, mask, x=x)


def test_generics_and_constants_are_fixed_or_come_with_a_call() -> None:
    x, weight = torch.randn(2, 5, 9, 9), torch.randn(4, 5, 3, 3)
    wanted = torch.nn.functional.conv2d(x, weight, stride=2)
    filled = CONV.replace("<S=1>", "").replace("S*", "{s}*")
    for layer, more in (
        (tct.nn.TC(CONV, parameters={"K": weight}, S=2), {}),
        (tct.nn.TC(CONV, parameters={"K": weight}), {"S": 2}),
        (tct.nn.TC(filled, parameters={"K": weight}, constants={"s": 2}), {}),
    ):
        torch.testing.assert_close(layer(x, **more), wanted, rtol=1e-4, atol=1e-4)


def test_a_seed_is_an_input() -> None:
    text = """
    def dropout(float(N) x, uint64 seed, float p) -> (y) {
      y(i) = rand(seed, i) < p ? 0.0 : x(i) / (1 - p)
    }"""
    layer, x = tct.nn.TC(text, p=0.5), torch.ones(1000)
    assert torch.equal(layer(x, 1), layer(x, 1))
    assert not torch.equal(layer(x, 1), layer(x, 2))


# ---- a module like any other


def test_types_follow_type_variables_and_the_texts_own_stay() -> None:
    layer = tct.nn.TC(NORM, parameters={"scale": 8, "shift": 8}, eps=1e-5, dtype=torch.float64)
    x = torch.randn(3, 8)
    for change, dtype in ((layer.half, torch.float16), (layer.float, torch.float32)):
        change()
        assert layer(x.to(dtype)).dtype == layer.scale.dtype == dtype
    torch.testing.assert_close(layer(x), torch.nn.functional.layer_norm(x, (8,)))
    model = torch.nn.Sequential(fcrelu())
    with pytest.raises(TCTypeError, match=r"W is float32 in the text, .*float16\n .*<T>\("):
        model.half()
    assert model[0].W.dtype == torch.float32
    assert model.to("cpu", torch.float32)[0].W.device.type == "cpu"
    empty = fcrelu(device="meta").to_empty(device="cpu")
    empty.reset_parameters()
    assert empty(torch.randn(2, 7)).shape == (2, 3)


def test_state_dicts_are_strict_and_of_tensors() -> None:
    mask = torch.tensor([1.0, 0.0])
    for buffer, names in ((mask, ["a", "mask"]), (torch.nn.Buffer(mask, persistent=False), ["a"])):
        layer = tct.nn.TC(TWO, parameters={"a": ()}, buffers={"mask": buffer})
        assert [*layer.state_dict()] == names
        assert layer.mask.tolist() == [1, 0]
    state = fcrelu().state_dict()
    other = fcrelu()
    other.load_state_dict(state)
    assert torch.equal(other.W, state["W"])
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "b"'):
        other.load_state_dict({"W": state["W"]})
    with pytest.raises(RuntimeError, match="size mismatch for W"):
        tct.nn.TC(FCRELU, parameters={"W": (4, 7), "b": 4}).load_state_dict(state)


def test_it_is_copied_pickled_and_saved() -> None:
    layer, x = torch.nn.Sequential(fcrelu(), torch.nn.Linear(3, 2)), torch.randn(4, 7)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in (
        copy.deepcopy(layer),
        pickle.loads(pickle.dumps(layer)),
        torch.load(file, weights_only=False),
    ):
        assert torch.equal(other(x), layer(x))
        other[0].W.data.zero_()
    assert layer[0].W.any()
    assert layer.share_memory()[0].W.is_shared()


def test_it_trains_what_requires_grad() -> None:
    layer, x = fcrelu(), torch.randn(4, 7)
    layer.W.requires_grad_(False)
    layer(x).sum().backward()
    assert layer.W.grad is None
    assert layer.b.grad.shape == (3,)
    layer.requires_grad_(False)
    assert not layer(x).requires_grad


def test_parametrizations_and_containers_see_its_parameters() -> None:
    class Double(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, w: Any) -> Any:
            return 2 * w

    layer, x = fcrelu(init={"b": 0.25}), torch.randn(4, 7)
    wanted = torch.relu(x @ (2 * layer.W).T + layer.b)
    torch.nn.utils.parametrize.register_parametrization(layer, "W", Double())
    torch.testing.assert_close(layer(x), wanted)
    layer(x).sum().backward()
    assert layer.parametrizations.W.original.grad is not None
    assert "W (3, 7)" in repr(layer)
    layers = torch.nn.ModuleList([fcrelu(), fcrelu()])
    assert len([*layers.parameters()]) == 4


def test_functional_call_replaces_its_parameters() -> None:
    layer, x = fcrelu(), torch.randn(4, 7)
    given = {"W": torch.ones(3, 7), "b": torch.full((3,), 0.5)}
    found = torch.func.functional_call(layer, given, (x,))
    torch.testing.assert_close(found, torch.relu(x.sum(1, keepdim=True) + 0.5).expand(4, 3))


@pytest.mark.wide
def test_it_is_compiled_and_exported_as_it_is() -> None:
    x = torch.randn(4, 8)
    layers = [
        tct.nn.TC(NORM, parameters={"scale": 8, "shift": 8}, eps=1e-5),
        tct.nn.TC(FCRELU, parameters={"W": (3, 8), "b": 3}),
    ]
    model = torch.nn.Sequential(*layers)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    ours, theirs = (
        torch.autograd.grad(m(x).square().sum(), [*model.parameters()]) for m in (compiled, model)
    )
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), model(x))


def test_a_subclass_may_have_the_text() -> None:
    class FcRelu(tct.nn.TC):  # type: ignore[misc]
        text = FCRELU

        def __init__(self, n: int, m: int) -> None:
            super().__init__(parameters=["W", "b"], sizes={"N": n, "M": m})

        def forward(self, x: Any) -> Any:
            return super().forward(x) + 1

    layer, x = FcRelu(3, 7), torch.randn(4, 7)
    torch.testing.assert_close(layer(x), torch.relu(x @ layer.W.T) + 1)
    assert repr(layer).startswith("FcRelu(")


def test_a_kernel_may_stand_for_the_text() -> None:
    import tcdsl

    kernel = tct.define(FCRELU, tune="off")
    layer = tct.nn.TC(kernel, parameters={"W": (3, 7), "b": 3})
    assert layer.tc.session.program is kernel.session.program
    assert tct.nn.TC(layer.tc, parameters={"W": (3, 7), "b": 3}).tc is layer.tc
    with pytest.raises(TCTypeError, match="tune belongs to the text, and"):
        tct.nn.TC(kernel, tune="online")
    with pytest.raises(TCTypeError, match="autograd does not see\n  make it by tcdsl"):
        tct.nn.TC(tcdsl.define(FCRELU))


@sampled("backend", [None, "eager"], keep=1)
def test_layers_of_one_text_have_code_of_their_own_sizes_with_and_without_torch_compile(
    backend: str | None,
) -> None:
    def layers() -> list[Any]:
        shapes = (5, 7), (3, 5), (3, 3)
        text = FCRELU + "# own code"
        return [tct.nn.TC(text, parameters={"W": s, "b": s[0]}, tune="off") for s in shapes]

    x = torch.randn(4, 7)
    model = torch.nn.Sequential(*layers())
    with torch.no_grad():
        if backend is None:
            model(x)
        else:
            torch.compile(model, backend=backend, fullgraph=True)(x)
    for layer, (n, m) in zip(model, ((5, 7), (3, 5), (3, 3)), strict=True):
        kernel = layer.tc
        if backend is not None:  # what the operator finds by text and settings
            kernel = tct.library.runner_of(tct.library.Spelling(*kernel.spelled[0]))
        assert kernel.session.settings.sizes == (("M", m), ("N", n))
        sizes = [c.spec.sizes for c in kernel.variant().executables]
        assert sizes == [(("B", 4), ("M", m), ("N", n))]
        assert pickle.loads(pickle.dumps(layer)).tc.spelled == layer.tc.spelled


def test_its_repr_shows_the_head_of_the_text_and_what_it_has() -> None:
    layer = tct.nn.TC(NORM, parameters={"scale": 8, "shift": 8}, eps=1e-5)
    assert repr(layer) == (
        "TC(\n"
        "  norm<T>(T(B, N) x, T(N) scale, T(N) shift, float eps) -> (y)\n"
        "  forward(x) with scale (8,), shift (8,), eps=1e-05\n"
        ")"
    )


def test_script_says_what_to_do_instead() -> None:
    with pytest.raises(TCTypeError, match=r"torch\.compile and torch\.export take the"):
        torch.jit.script(torch.nn.Sequential(fcrelu()))


def test_generics_that_are_fixed_are_constants_of_its_kernel() -> None:
    layers = [tct.nn.TC(CONV, parameters={"K": (4, 5, 3, 3)}, S=s) for s in (1, 2)]
    image = torch.randn(2, 5, 9, 9)
    for step, layer in enumerate(layers, 1):
        wanted = torch.nn.functional.conv2d(image, layer.K, stride=step)
        torch.testing.assert_close(layer(image), wanted, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(layer.tc(image, layer.K), wanted, rtol=1e-4, atol=1e-4)
        assert "conv<S=1>(float(N, C, H, W) I" in repr(layer)
        assert f"S={step}" in repr(layer)
        assert pickle.loads(pickle.dumps(layer)).tc.spelled == layer.tc.spelled
    assert layers[0].tc.spelled[0] != layers[1].tc.spelled[0]  # each its own kernel when compiled
    with pytest.raises(TCTypeError, match="'S' is the layer's own"):
        layers[1](image, S=1)


def test_a_way_back_by_hand_has_the_constants_too() -> None:
    text = """
    def scale<S=1>(float(B,M) x, float(M) w) -> (y) { y(b, m) = S * x(b, m) * w(m) }
    def back<S=1>(float(B,M) x, float(M) w, float(B,M) d_y) -> (d_x, d_w) {
      d_x(b, m) = S * d_y(b, m) * w(m)
      d_w(m) +=! S * d_y(b, m) * x(b, m)
    }"""
    layer = tct.nn.TC(text, "scale", {"w": torch.ones(5)}, backward="back", S=3)
    x = torch.randn(4, 5, requires_grad=True)
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4, 5), 3.0))
    torch.testing.assert_close(layer.w.grad, 3 * x.detach().sum(0))
