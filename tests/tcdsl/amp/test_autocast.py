"""Autocast on the CPU: the types that PyTorch chooses, and values of them."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import amp, autograd, linalg, nn
from tcdsl import library as tc
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

M, V, B, IMAGE = (4, 4), (4,), (2, 4, 4), (1, 2, 6, 6)
Case = tuple[Callable[..., Any], tuple[Any, ...]]
T = "targets"


def _of(name: str, *shapes: Any, **named: Any) -> Case:
    """A function by its path below torch, of tensors of shapes."""

    def call(u: Any, *operands: Any) -> Any:
        found = u
        for part in name.split("."):
            found = getattr(found, part)
        return found(*operands, **named)

    return call, shapes


class _Ours:
    nn, linalg = nn, linalg

    def __getattr__(self, name: str) -> Any:
        return getattr(tc, name)


F = "nn.functional."
CASES: dict[str, Case] = {
    "mm": _of("mm", M, M),
    "mv": _of("mv", M, V),
    "dot": _of("dot", V, V),
    "matmul of a vector": _of("matmul", M, V),
    "matmul of vectors": _of("matmul", V, V),
    "matmul of batches": _of("matmul", B, M),
    "bmm": _of("bmm", B, B),
    "addmm": _of("addmm", M, M, M),
    "addmv": _of("addmv", V, M, V),
    "baddbmm": _of("baddbmm", B, B, B),
    "addbmm": _of("addbmm", M, B, B),
    "linear": _of(F + "linear", M, M, V),
    "bilinear": _of(F + "bilinear", M, M, (3, 4, 4)),
    "einsum": (lambda u, a, b: u.einsum("ij,jk->ik", a, b), (M, M)),
    "outer by einsum": (lambda u, a, b: u.einsum("i,j->ij", a, b), (V, V)),
    "tensordot": (lambda u, a, b: u.tensordot(a, b, 1), (M, M)),
    "inner": _of("inner", M, M),
    "multi_dot": (lambda u, a, b: u.linalg.multi_dot([a, b, a]), (M, M)),
    "vecdot": _of("linalg.vecdot", M, M),
    "conv1d": _of(F + "conv1d", (1, 4, 6), (2, 4, 3)),
    "conv2d": _of(F + "conv2d", IMAGE, (3, 2, 3, 3), (3,)),
    "conv_transpose2d": _of(F + "conv_transpose2d", IMAGE, (2, 2, 3, 3)),
    "prelu": _of(F + "prelu", M, V),
    "attention": _of(F + "scaled_dot_product_attention", (1, 1, 4, 4), (1, 1, 4, 4), (1, 1, 4, 4)),
    "softmax": _of("softmax", M, dim=-1),
    "layer_norm": _of(F + "layer_norm", M, normalized_shape=(4,)),
    "sum": _of("sum", M),
    "prod": _of("prod", M),
    "prod along a dimension": _of("prod", M, dim=0),
    "trace": _of("trace", M),
    "exp": _of("exp", M),
    "avg_pool2d": _of(F + "avg_pool2d", IMAGE, kernel_size=2),
    "avg_pool3d": _of(F + "avg_pool3d", (1, 2, 4, 4, 4), kernel_size=2),
    "max_pool3d": _of(F + "max_pool3d", (1, 2, 4, 4, 4), kernel_size=2),
    "adaptive_avg_pool2d": _of(F + "adaptive_avg_pool2d", IMAGE, output_size=2),
    "adaptive_avg_pool3d": _of(F + "adaptive_avg_pool3d", (1, 2, 4, 4, 4), output_size=2),
    "grid_sample": _of(F + "grid_sample", IMAGE, (1, 3, 3, 2), align_corners=False),
    "reflected": _of(F + "pad", IMAGE, pad=(1, 1, 1, 1), mode="reflect"),
    "circular": _of(F + "pad", IMAGE, pad=(1, 1, 1, 1), mode="circular"),
    "mse_loss": _of(F + "mse_loss", M, M),
    "smooth_l1_loss": _of(F + "smooth_l1_loss", M, M),
    "kl_div": _of(F + "kl_div", M, M, reduction="sum"),
    "binary_cross_entropy": _of(F + "binary_cross_entropy", M, M),
    "with logits": _of(F + "binary_cross_entropy_with_logits", M, M),
    "cross_entropy": _of(F + "cross_entropy", M, T),
    "cross_entropy of probabilities": _of(F + "cross_entropy", M, M),
    "nll_loss": _of(F + "nll_loss", M, T),
    "multilabel_soft_margin_loss": _of(F + "multilabel_soft_margin_loss", M, M),
    "cosine_similarity": _of(F + "cosine_similarity", M, M),
    "cdist": _of("cdist", M, M),
    "quantile": _of("quantile", M, q=0.5),
    "solve": _of("linalg.solve", M, M),
    "inverse": _of("inverse", M),
    "median": _of("median", M),
    "cat": (lambda u, a, b: u.cat([a, b]), (M, M)),
}
FEW = ("mm", "baddbmm", "multi_dot", "max_pool3d", "kl_div", "cross_entropy", "cdist")
OTHERS = {("mm", "float64"), ("mm", "float16"), ("cdist", "float64"), ("cdist", "float16")}
USUAL = ("float32", "bfloat16")  # those that blocks turn into each other


def _tier(name: str, dtype: str) -> tuple[pytest.MarkDecorator, ...]:
    if (name in FEW and dtype in USUAL) or (name, dtype) in OTHERS:
        return ()
    return (pytest.mark.wide if dtype in USUAL else pytest.mark.deep,)


TYPES = [
    pytest.param(name, dtype, marks=_tier(name, dtype))
    for name in CASES
    for dtype in (*USUAL, "float64", "float16")
]


def _both(name: str, dtype: str) -> tuple[Any, Any]:
    call, shapes = CASES[name]
    rng = np.random.default_rng(7)
    data: list[Any] = [np.arange(4) if s == T else rng.random(s) for s in shapes]
    if name in ("solve", "inverse"):
        data[0] = data[0] + 3 * np.eye(4)
    found = []
    for u in (_Ours(), torch):
        operands = [u.tensor(d, dtype=u.int64 if s == T else getattr(u, dtype))
                    for d, s in zip(data, shapes, strict=True)]  # fmt: skip
        with u.autocast("cpu", dtype=u.bfloat16):
            found.append(call(u, *operands))
    return found[0], found[1]


@sampled("name, dtype", TYPES, keep=10)
def test_types_are_pytorchs(name: str, dtype: str) -> None:
    if name == "cat" and dtype == "float16":
        pytest.skip("PyTorch refuses float16 here, which is no type of the block")
    ours, real = _both(name, dtype)
    assert str(ours.dtype) == str(real.dtype)
    is_half = ours.dtype in (tc.bfloat16, tc.float16) or dtype in ("bfloat16", "float16")
    near = 0.03 if is_half or name == "bilinear" else 1e-5  # PyTorch's is rounded within
    np.testing.assert_allclose(ours.double().tolist(), real.double().tolist(), rtol=near, atol=near)


def test_blocks_lie_within_each_other() -> None:
    x = tc.ones(2, 2)
    assert not tc.is_autocast_enabled("cpu")
    with tc.autocast("cpu"):
        assert tc.is_autocast_enabled("cpu")
        assert not tc.is_autocast_enabled()  # of GPUs
        assert (x @ x).dtype is tc.bfloat16
        with tc.autocast("cpu", enabled=False):
            assert (x @ x).dtype is tc.float32
            with amp.autocast("cpu", dtype=tc.float16):
                assert tc.get_autocast_dtype("cpu") is tc.float16
                assert (x @ x).dtype is tc.float16
    assert tc.get_autocast_dtype("cpu") is tc.bfloat16
    assert (x @ x).dtype is tc.float32


@pytest.mark.wide
def test_what_writes_into_a_tensor_keeps_its_type() -> None:
    x = tc.ones(2, 2)
    with tc.autocast("cpu"):
        assert tc.mm(x, x).dtype is tc.bfloat16
        assert tc.mm(x, x, out=tc.empty(2, 2)).dtype is tc.float32
        assert x.clone().addmm_(x, x).dtype is tc.float32


def test_a_block_ends_with_an_error_and_is_of_one_thread() -> None:
    x, found = tc.ones(2, 2), []

    def fails() -> None:
        with tc.autocast("cpu"):
            thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
            thread.start()
            thread.join()
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert found == [tc.float32]
    assert (x @ x).dtype is tc.float32

    @tc.autocast("cpu")  # type: ignore[untyped-decorator]
    def product(y: Any) -> Any:
        return y @ y

    assert product(x).dtype is tc.bfloat16


def test_lowered_weights_are_kept_until_written_and_recorded_where_asked() -> None:
    w = tc.ones(2, 2).requires_grad_()
    x = tc.ones(3, 2)
    with tc.autocast("cpu"):
        with tc.no_grad():
            tc.mm(x, w)
        a = tc.mm(x, w)
        b = tc.mm(x, w)
        (a.sum() + b.sum()).backward()
        assert w.grad.dtype is tc.float32
        assert w.grad.tolist() == [[6, 6], [6, 6]]
        with tc.no_grad():
            w.mul_(2)
        assert tc.mm(x, w)[0, 0].item() == 4
    from tcdsl.ops.casting import state

    assert not state.cache


def _forward(net: Any, f: Any, x: Any) -> Any:
    h = f.relu(net.norm(net.conv(x)) if hasattr(net, "conv") else x)
    if hasattr(net, "layer"):
        h = net.layer(net.group(h))
    return net.head(h.mean(2).flatten(1))


@sampled("parts", ["head", "convolution", "convolution, norms"], keep=1)
def test_a_network_trains_as_pytorchs(parts: str) -> None:
    has_norms, has_convolution = "norms" in parts, "convolution" in parts
    rng = np.random.default_rng(1)
    data = rng.standard_normal((3, 2, 6, 6)).astype(np.float32)
    found = []
    real: Any = torch.nn.Module()
    mine: Any = nn.Module()
    begin: dict[str, Any] = {}
    for u, n, net in ((torch, torch.nn, real), (tc, nn, mine)):
        if has_convolution:
            net.conv, net.norm = n.Conv2d(2, 4, 3, padding=1), n.BatchNorm2d(4)
        net.head = n.Linear(24 if has_convolution else 12, 3)
        if has_norms:
            net.group, net.layer = n.GroupNorm(2, 4), n.LayerNorm(6)
        if u is torch:
            begin.update({k: v.tolist() for k, v in net.state_dict().items()})
        else:
            net.load_state_dict({k: tc.tensor(v) for k, v in begin.items()})
        f = n.functional
        with u.autocast("cpu", dtype=u.bfloat16):
            out = _forward(net, f, u.tensor(data))
            loss = f.cross_entropy(out, u.tensor([0, 1, 2]))
        assert str(out.dtype) == "torch.bfloat16"
        loss.backward()
        gradients = {k: p.grad for k, p in net.named_parameters()}
        variance = net.norm.running_var if has_convolution else u.zeros(1)
        found.append((loss.item(), gradients, variance))
    (l1, g1, v1), (l2, g2, v2) = found
    assert abs(l1 - l2) < 0.02
    for name, g in g1.items():
        assert str(g2[name].dtype) == "torch.float32"
        np.testing.assert_allclose(g2[name].tolist(), g.tolist(), rtol=0.1, atol=0.03)
    np.testing.assert_allclose(v2.tolist(), v1.tolist(), rtol=1e-2)


@pytest.mark.wide
@sampled("kind", ["RNNCell", "LSTM", "GRU", "LSTMCell", "RNN", "GRUCell"], keep=1)
def test_layers_over_time_have_pytorchs_types(kind: str) -> None:
    is_cell = kind.endswith("Cell")
    for dtype in ("float32", "bfloat16"):
        found = []
        for u, n in ((tc, nn), (torch, torch.nn)):
            x = u.ones(*((2, 4) if is_cell else (3, 2, 4)), dtype=getattr(u, dtype))
            with u.autocast("cpu"):
                try:
                    made = getattr(n, kind)(4, 4)(x)
                except RuntimeError as error:  # oneDNN has it on processors with AVX-512 alone
                    if u is not torch or kind != "LSTM" or "primitive" not in str(error):
                        raise
                    made = torch.ones(1, dtype=torch.bfloat16)
            found.append(str((made[0] if isinstance(made, tuple) else made).dtype))
        assert found[0] == found[1]


@pytest.mark.wide
def test_functions_with_a_way_back_of_their_own() -> None:
    class Product(autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=tc.float32)
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            assert not tc.is_autocast_enabled("cpu")
            return a @ b

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, d: Any) -> Any:
            assert not tc.is_autocast_enabled("cpu")
            a, b = ctx.saved_tensors
            return d @ b.t(), a.t() @ d

    x = tc.ones(2, 2, dtype=tc.bfloat16, requires_grad=True)
    with tc.autocast("cpu"):
        y = Product.apply(x, x)
        assert y.dtype is tc.float32
        y.sum().backward()
    assert x.grad.dtype is tc.bfloat16


def test_what_cannot_be_is_told_in_pytorchs_words() -> None:
    for arguments in (("cuda",), ("cpu", "float32")):
        told = []
        for u in (tc, torch):
            given = [getattr(u, a) if a == "float32" else a for a in arguments]
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                block = u.autocast(*given)
            told.append(str(caught[0].message))
            with block:
                assert str((u.ones(2, 2) @ u.ones(2, 2)).dtype) == "torch.float32"
        assert told[0] == told[1]
    with pytest.raises(ValueError, match="of type `str`"):
        tc.autocast(3)
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'abacus'"):
        tc.autocast("abacus")
    with pytest.raises(TypeError, match="requires a callable"):
        tc.autocast("cpu")(3)
