"""Kernels under torch.compile: one graph, whatever the backend, forward and backward."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tcdsl
from tests.torch.texts import CONV, FCRELU, FIRST, NOISE, SOFTMAX

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

pytestmark = [pytest.mark.torch, pytest.mark.cc]

ROOT = Path(__file__).parents[2]
SQUARE = "def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }"
TWO = SQUARE + "def two(float(N) x) -> (y, z) { y(i) = x(i) + 1 z(i) = 2 * x(i) }"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    import torch._dynamo  # here: where all are collected it would cost each worker 2 s

    torch.manual_seed(1)
    torch._dynamo.reset()


class Counted:
    """A backend that counts its graphs and keeps their nodes."""

    def __init__(self, name: str = "eager") -> None:
        self.name = name
        self.graphs: list[list[str]] = []

    def __call__(self, module: Any, inputs: Any) -> Any:
        nodes = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
        self.graphs.append(nodes)
        return torch._dynamo.lookup_backend(self.name)(module, inputs)


def compiled(f: Callable[..., Any], name: str = "eager", **options: Any) -> tuple[Any, Counted]:
    backend = Counted(name)
    return torch.compile(f, backend=backend, fullgraph=True, **options), backend


def operands(batch: int = 5) -> list[Any]:
    return [torch.randn(*s) for s in ((batch, 7), (3, 7), (3,))]


# ---- without a graph break, by the operator


def test_a_call_is_one_node_of_one_graph_wherever_the_kernel_is_kept() -> None:
    fcrelu, two = tct.define(FCRELU), tct.define(TWO)

    class Layer(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.kernel = fcrelu

        def forward(self, x: Any, w: Any, b: Any) -> Any:
            return self.kernel(x, b=b, W=w)

    def made_inside(x: Any, w: Any, b: Any) -> Any:
        return tct.define(FCRELU)(x, w, b)

    given = operands()
    for f in (fcrelu.__call__, Layer(), lambda *a: fcrelu(*a), made_inside):
        ours, backend = compiled(f)
        assert torch.equal(ours(*given), fcrelu(*given))
        assert [g.count("tcdsl.call.default") for g in backend.graphs] == [1]
    (x,) = given[2:]
    half = "def half(float(...) x) -> (y) { y(...) = 0.5 * x(...) }"  # no point is lost on Dynamo
    ours, backend = compiled(lambda x: tct.define(half)(x))
    assert torch.equal(ours(x), x / 2)
    for f in (lambda x: two.square(x), lambda x: two["square"](x), lambda x: two.two(x).z):
        ours, backend = compiled(f)
        assert torch.equal(ours(x), f(x))
        assert len(backend.graphs) == 1


def test_several_results_are_a_named_tuple_inside_and_outside() -> None:
    two = tct.define(TWO).two
    x = torch.randn(4)
    found = compiled(lambda x: two(x))[0](x)
    assert type(found) is type(two(x))
    assert torch.equal(found.z, 2 * x)
    torch.testing.assert_close(compiled(lambda x: sum(two(x)))[0](x), 3 * x + 1)


@pytest.mark.wide
def test_numbers_generics_and_types_are_constants_or_symbols() -> None:
    first, conv, noise = tct.define(FIRST), tct.define(CONV), tct.define(NOISE)
    cast = tct.define("def cast<R, T>(T(...) X) -> (R(...) Y) { Y(...) = R(X(...)) }")
    x, image, w = torch.randn(6), torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 2)
    f, backend = compiled(lambda x, a, n: first(x, a, n))
    for n, a in ((2, 1.5), (3, 2.5), (4, 3.5), (5, 4.5)):
        assert torch.equal(f(x, a, n), first(x, a, n))
    assert len(backend.graphs) == 2  # the second is for any numbers
    f, _ = compiled(lambda x, w: conv(x, w, S=2))
    assert torch.equal(f(image, w), conv(image, w, S=2))
    for kind in ("float64", torch.float64):
        assert compiled(lambda x, kind=kind: cast(x, R=kind))[0](x).dtype == torch.float64
    for seed in (7, 2**63 + 1, 2**64 - 1):
        f, _ = compiled(lambda x, seed=seed: noise(x, seed))
        assert torch.equal(f(x), noise(x, seed))


def test_an_output_that_is_given_is_written() -> None:
    square = tct.define(SQUARE)
    add = tct.define("def add(float(N) x) -> (s) { s(i) += x(i) }")
    x = torch.randn(4)

    def f(x: Any, given: Any) -> Any:
        y = torch.empty_like(x)
        square(x, out=y)
        return y + 1, add(x, out=given)

    for name in ("eager", "aot_eager"):
        given = torch.ones(4)
        y, s = compiled(f, name)[0](x, given)
        torch.testing.assert_close(y, x * x + 1)
        torch.testing.assert_close(given, x + 1)
        assert s is given


@pytest.mark.wide
def test_what_a_call_refuses_dynamo_shows() -> None:
    fcrelu = tct.define(FCRELU)
    x, w, b = operands()
    wrong: list[tuple[Any, str]] = [
        (lambda: fcrelu(x, w), r"fcrelu\(I, W, b\) does not take these 2 arguments"),
        (lambda: fcrelu(x, w, w), "expected b with 1 dimension"),
        (lambda: tcdsl.define(FCRELU)(x, w, b), "tcdsl.torch.define makes one to trace"),
    ]
    for f, message in wrong:
        exc = torch._dynamo.exc
        with pytest.raises((exc.Unsupported, exc.TorchRuntimeError), match=message):
            compiled(f)[0]()
    with pytest.raises(TypeError, match="misses 'b'"):  # with graph breaks the call itself says it
        torch.compile(lambda: fcrelu(x, w), backend="eager")()


# ---- how often


def test_sizes_that_change_do_not_compile_again() -> None:
    fcrelu = tct.define(FCRELU)
    for name in ("eager", "aot_eager"):
        f, backend = compiled(lambda *a: fcrelu(*a) + 1, name, dynamic=True)
        for batch in (5, 6, 11, 32):
            given = operands(batch)
            assert torch.equal(f(*given), fcrelu(*given) + 1)
        assert len(backend.graphs) == 1
    f, backend = compiled(lambda *a: fcrelu(*a) + 1)
    for batch in (5, 6, 11):
        x, w, b = operands(batch)
        torch._dynamo.mark_dynamic(x, 0)
        f(x, w, b)
    assert len(backend.graphs) == 1


@pytest.mark.wide
def test_kernels_of_one_text_share_a_graph_and_another_text_has_its_own() -> None:
    def f(kernel: Any, x: Any) -> Any:
        return kernel(x)

    ours, backend = compiled(f)
    x = torch.randn(4)
    ours(tct.define(SQUARE), x)
    ours(tct.define(SQUARE), x)
    assert len(backend.graphs) == 1
    double = tct.define("def double_(float(N) x) -> (y) { y(i) = 2 * x(i) }")
    assert torch.equal(ours(double, x), 2 * x)
    ours(tct.define(SQUARE, threads=1), x)
    assert len(backend.graphs) == 3


@pytest.mark.deep
def test_what_traced_code_defines_is_kept_for_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcdsl.torch import dynamo

    def times(n: int) -> Any:
        text = f"def by(float(N) x) -> (y) {{ y(i) = {n} * x(i) }}"
        return lambda x: tct.define(text)(x)

    monkeypatch.setattr(dynamo, "_MOST_MADE", 2)
    monkeypatch.setattr(dynamo, "_made", type(dynamo._made)())
    made = [compiled(times(n))[0] for n in range(3)]
    for _ in range(2):  # those that are gone come again
        for n, f in enumerate(made):
            assert f(torch.ones(2)).tolist() == [n, n]
            assert len(vars(dynamo._made)) <= 2


@pytest.mark.wide
def test_dynamo_is_not_loaded_before_it_is_asked_for() -> None:
    code = (
        "import sys, torch, tcdsl.torch as tct\n"
        f"k = tct.define({SQUARE!r})\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "x = torch.arange(3.)\n"
        "assert torch.compile(k, backend='eager', fullgraph=True)(x).tolist() == [0, 1, 4]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# ---- backward


class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Layers of PyTorch's and of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(7, 7)
        self.ours = tct.nn.TC(FCRELU, parameters={"W": (5, 7), "b": (5,)})
        self.last = torch.nn.Linear(5, 2)

    def forward(self, x: Any) -> Any:
        return self.last(self.ours(torch.tanh(self.first(x))))


def trained(model: Any, f: Any, x: Any) -> list[Any]:
    model.zero_grad()
    x = x.clone().requires_grad_()
    f(x).square().sum().backward()
    return [x.grad, *(p.grad.clone() for p in model.parameters())]


def test_parameters_get_the_gradients_that_they_get_without() -> None:
    fcrelu = tct.define(FCRELU)
    given = operands()
    leaves = [[t.clone().requires_grad_() for t in given] for _ in range(2)]
    traced = compiled(lambda *a: fcrelu(*a), "aot_eager")[0]
    for f, given in zip((fcrelu, traced), leaves, strict=True):
        f(*given).square().sum().backward()
    for ours, theirs in zip(*leaves, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["aot_eager", "eager", "inductor"])
def test_a_model_learns_what_it_learns_without(name: str) -> None:
    model = Model()
    f, backend = compiled(model, name)
    for batch in (4, 9, 13):
        x = torch.randn(batch, 7)
        torch.testing.assert_close(f(x), model(x))
        for ours, theirs in zip(trained(model, f, x), trained(model, model, x), strict=True):
            torch.testing.assert_close(ours, theirs)
        with torch.no_grad():
            torch.testing.assert_close(f(x.T.contiguous().T), model(x))
    assert sum(g.count("tcdsl.call.default") for g in backend.graphs) == len(backend.graphs)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["aot_eager", "inductor"])
def test_texts_of_every_kind_compile_forward_and_backward(name: str) -> None:
    softmax, conv = tct.define(SOFTMAX), tct.define(CONV)
    x, a = torch.randn(6, dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64)
    image, w = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 2)
    cases: list[tuple[Any, Any]] = [
        (lambda x, a: softmax(2 * x, a).y * 3, (x, a)),
        (lambda x: softmax(x, 0.5).y.sin(), (x,)),
        (lambda x, w: conv(x.relu(), w, S=2).sum(), (image, w)),
        (
            lambda x, w: conv(x, w).square(),
            (image.to(memory_format=torch.channels_last), w.flip(2)),
        ),
    ]
    for f, given in cases:
        leaves = [[t.clone().requires_grad_() for t in given] for _ in range(2)]
        for g, inputs in zip((f, compiled(f, name)[0]), leaves, strict=True):
            y = g(*inputs)
            (y * torch.arange(y.numel()).reshape(y.shape)).sum().backward()
        for theirs, ours in zip(*leaves, strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.deep
def test_beside_convolutions_a_kernel_gets_the_strides_that_it_gets_without() -> None:
    conv = tct.define(CONV, tune="off")
    other = torch.nn.Conv2d(3, 3, 1)  # for which inductor would turn what stands around it
    x = torch.randn(2, 3, 9, 8)
    weights = [torch.randn(3, 3, 3, 2) for _ in range(2)]

    def f(x: Any, a: Any, b: Any) -> Any:
        return other(conv(other(conv(x, a)), b))

    with torch.no_grad():
        wanted = f(x, *weights)
        torch.testing.assert_close(compiled(f, "inductor")[0](x, *weights), wanted)
    specs = [c.spec for c in conv.variant().executables]
    assert [spec.sizes is not None for spec in specs] == [True, False]  # of the two calls without
    assert all(layout.contiguous for spec in specs for layout in spec.layouts)


@pytest.mark.parametrize(
    "policy",
    ["promote", *(pytest.param(p, marks=pytest.mark.wide) for p in ("lower", "float32", None))],
)
def test_autocast_casts_as_it_does_without(policy: Any) -> None:
    fcrelu = tct.define(FCRELU)
    scale = tct.define(
        "def scale<T>(T(N) x, T(N) y, float a) -> (z) { z(i) = x(i) * y(i) * T(a) }",
        autocast=policy,
    )

    def f(x: Any, w: Any, b: Any, low: Any) -> Any:
        y = fcrelu(x @ torch.eye(7), w, b)  # the product is autocast's, in bfloat16
        return y, scale(y[0], b if policy is None else low, 2.0)

    given = [*operands(), torch.randn(3).to(torch.bfloat16)]
    with torch.autocast("cpu", torch.bfloat16):
        expected = f(*given)
        found = compiled(f, "aot_eager")[0](*given)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["eager", pytest.param("aot_eager", marks=pytest.mark.wide)])
def test_tangents_pass_through_compiled_graphs(name: str) -> None:
    square, x = tct.define(SQUARE), torch.arange(3.0)

    def pushed(x: Any) -> Any:  # the sum alone would hide that a tangent was lost
        return torch.func.jvp(lambda p: square(p).sum() + p.sum(), (x,), (x,))

    ours, _ = compiled(pushed, name)
    assert [t.item() for t in ours(x)] == [5 + 3, 2 * 5 + 3]
