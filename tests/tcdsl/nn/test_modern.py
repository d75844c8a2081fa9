"""Layers that came after PyTorch 0.4 agree with PyTorch's: values and gradients, by its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

RNG = np.random.default_rng(7)


def _normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


SEQUENCE, MEMORY, IMAGE = _normal(5, 2, 8), _normal(6, 2, 8), _normal(2, 4, 6, 6)
PADDING = np.array([[False] * 4 + [True], [False] * 5])
CAUSAL = np.triu(np.ones((5, 5), bool), 1)
SMALL = {"dim_feedforward": 12, "dropout": 0.0}
Named = dict[str, Any]
CALLS: list[tuple[str, tuple[Any, ...], Named, tuple[Any, ...], Named]] = [
    ("GELU", (), {"approximate": "tanh"}, (IMAGE,), {}),
    *((name, (), {}, (IMAGE,), {}) for name in ("SiLU", "Mish", "Hardswish", "Hardsigmoid")),
    ("RMSNorm", (6,), {}, (IMAGE,), {}), ("LayerNorm", (6,), {"bias": False}, (IMAGE,), {}),
    ("RMSNorm", ((6, 6),), {"eps": 1e-3}, (IMAGE,), {}),
    ("Unflatten", (1, (2, 2)), {}, (IMAGE,), {}), ("Flatten", (), {}, (IMAGE,), {}),
    ("Unfold", (3,), {"padding": 1, "stride": 2}, (IMAGE,), {}),
    ("Unfold", ((2, 3),), {"dilation": 2}, (IMAGE,), {}),
    ("Fold", ((6, 6), 3), {"padding": 1, "stride": 2}, (_normal(2, 18, 9),), {}),
    ("Fold", ((5, 6), (2, 3)), {"dilation": (1, 2)}, (_normal(2, 12, 8),), {}),
    ("PixelUnshuffle", (3,), {}, (IMAGE,), {}), ("ChannelShuffle", (2,), {}, (IMAGE,), {}),
    ("CircularPad2d", ((1, 2, 3, 0),), {}, (IMAGE,), {}), ("ZeroPad1d", (2,), {}, (SEQUENCE,), {}),
    ("ReflectionPad3d", (1,), {}, (_normal(1, 2, 3, 4, 5),), {}),
    ("HuberLoss", (), {"delta": 0.7}, (SEQUENCE, SEQUENCE[::-1].copy()), {}),
    ("GaussianNLLLoss", (), {"full": True}, (SEQUENCE, SEQUENCE[::-1].copy(), SEQUENCE**2), {}),
    ("TripletMarginWithDistanceLoss", (), {"swap": True}, (MEMORY, MEMORY + 1, MEMORY * 2), {}),
    ("MultiheadAttention", (8, 2), {}, (SEQUENCE, MEMORY, MEMORY), {}),
    ("MultiheadAttention", (8, 2), {"batch_first": True, "bias": False}, (SEQUENCE,) * 3,
     {"average_attn_weights": False}),
    ("MultiheadAttention", (8, 2), {"kdim": 4, "vdim": 3},
     (SEQUENCE, MEMORY[..., :4].copy(), MEMORY[..., :3].copy()), {"need_weights": False}),
    ("MultiheadAttention", (8, 4), {}, (SEQUENCE,) * 3,
     {"key_padding_mask": PADDING, "attn_mask": CAUSAL}),
    ("MultiheadAttention", (8, 4), {}, (SEQUENCE[:, 0].copy(),) * 3, {}),
    ("MultiheadAttention", (8, 2), {"add_bias_kv": True, "add_zero_attn": True}, (SEQUENCE,) * 3,
     {"key_padding_mask": PADDING, "attn_mask": CAUSAL}),
    ("MultiheadAttention", (8, 4), {"add_bias_kv": True, "kdim": 3, "batch_first": True},
     (SEQUENCE, MEMORY[:5, ..., :3].copy(), MEMORY[:5].copy()), {"need_weights": False}),
    ("MultiheadAttention", (8, 2), {"add_zero_attn": True}, (SEQUENCE[:, 0].copy(),) * 3, {}),
    ("TransformerEncoderLayer", (8, 2), SMALL, (SEQUENCE,), {"src_mask": CAUSAL}),
    ("TransformerEncoderLayer", (8, 2), {**SMALL, "activation": "gelu", "norm_first": True},
     (SEQUENCE,), {"src_key_padding_mask": PADDING}),
    ("TransformerDecoderLayer", (8, 2), {**SMALL, "batch_first": True},
     (SEQUENCE, _normal(5, 3, 8)), {}),
    ("TransformerDecoderLayer", (8, 2), SMALL, (SEQUENCE, MEMORY), {"tgt_mask": CAUSAL}),
    ("Transformer", (8, 2, 2, 2), SMALL, (MEMORY, SEQUENCE), {"tgt_mask": CAUSAL}),
]  # fmt: skip


def _each(value: Any, make: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {k: _each(v, make) for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(_each(v, make) for v in value)
    return make(value) if isinstance(value, np.ndarray) else value


def _tensor(library: Any) -> Callable[[Any], Any]:
    return lambda a: library.tensor(a, requires_grad=a.dtype == np.float32)


# Of attention, whose layers have dozens of kernels each: one that every kind of mask reaches, and
# one of a layer around it; other settings and layers of these are deep.
OFTEN = {"MultiheadAttention": 24, "TransformerEncoderLayer": 30}


def _tier(name: str, number: int) -> tuple[pytest.MarkDecorator, ...]:
    if number in (0, 12):
        return ()
    has_many = name in OFTEN or name.startswith("Transformer")
    return (pytest.mark.deep if has_many and OFTEN.get(name) != number else pytest.mark.wide,)


@pytest.mark.parametrize(
    ("name", "settings", "named", "args", "how"),
    [pytest.param(*call, id=f"{call[0]}-{i}", marks=_tier(call[0], i))
     for i, call in enumerate(CALLS)],
)  # fmt: skip
def test_a_layer_agrees_with_torch(
    name: str, settings: tuple[Any, ...], named: Named, args: tuple[Any, ...], how: Named
) -> None:
    mine, theirs = (
        getattr(nn, name)(*settings, **named),
        getattr(torch.nn, name)(*settings, **named),
    )
    for p in theirs.parameters():
        p.data.normal_(std=0.3)
    mine.load_state_dict(theirs.state_dict())
    assert list(mine.state_dict()) == list(theirs.state_dict())
    if not list(theirs.children()):
        assert repr(mine) == repr(theirs)
    x, w = _each(args, _tensor(tc)), _each(args, _tensor(torch))
    made = mine(*x, **_each(how, lambda a: tc.tensor(a)))
    wanted = theirs(*w, **_each(how, lambda a: torch.tensor(a)))
    if isinstance(wanted, tuple):
        assert (made[1] is None) == (wanted[1] is None)
        if wanted[1] is not None:
            np.testing.assert_allclose(made[1].detach().numpy(), wanted[1].detach(), atol=1e-5)
        made, wanted = made[0], wanted[0]
    np.testing.assert_allclose(made.detach().numpy(), wanted.detach(), rtol=1e-4, atol=1e-5)
    (made * made).sum().backward()
    (wanted * wanted).sum().backward()
    pairs = [*zip(x, w, strict=True), *zip(mine.parameters(), theirs.parameters(), strict=True)]
    for a, b in pairs:
        np.testing.assert_allclose(a.grad.numpy(), b.grad, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("how", [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": "bool"},
                                 {"mask": "float"}, {"enable_gqa": True}])  # fmt: skip
@pytest.mark.wide
def test_attention_agrees_with_torch(how: Named) -> None:
    q, k, v = _normal(2, 4, 5, 8), _normal(2, 2, 6, 8), _normal(2, 2, 6, 3)
    if not how.get("enable_gqa"):
        q = q[:, :2].copy()
    mask = np.arange(30).reshape(5, 6) % 4 > 0
    mask[2] = False  # a query that sees nothing
    found = []
    for library in (tc, torch):
        x = [library.tensor(a, requires_grad=True) for a in (q, k, v)]
        given = {n: s for n, s in how.items() if n != "mask"}
        if "mask" in how:
            given["attn_mask"] = library.tensor(
                mask if how["mask"] == "bool" else np.where(mask, 0, -1.5).astype(np.float32)
            )
        functional = nn.functional if library is tc else torch.nn.functional
        y = functional.scaled_dot_product_attention(*x, **given)
        (y * y).sum().backward()
        found.append([y.detach().numpy(), *(t.grad.numpy() for t in x)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_heads_attend_as_pytorchs() -> None:
    mine, theirs = nn.MultiheadAttention(4, 2), torch.nn.MultiheadAttention(4, 2)
    mine.load_state_dict(theirs.state_dict())
    x = _normal(5, 1, 4)
    with tc.no_grad(), torch.no_grad():
        found = mine(*3 * (tc.tensor(x),), average_attn_weights=False)
        wanted = theirs(*3 * (torch.tensor(x),), average_attn_weights=False)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_what_is_refused_is_refused_in_words() -> None:
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(8, 3)
    x = tc.zeros(2, 3, 4)
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set"):
        nn.functional.scaled_dot_product_attention(x, x, x, tc.zeros(3, 3), is_causal=True)
    with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
        nn.MultiheadAttention(4, 2)(x, x, x, is_causal=True)


def test_a_query_that_sees_nothing_and_large_halves_give_numbers() -> None:
    q, k = _normal(1, 3, 4), _normal(1, 5, 4)
    mask = np.where(np.arange(15).reshape(3, 5) < 5, -np.inf, 0.5).astype(np.float32)
    found: list[list[Any]] = []
    for library, functional in ((tc, nn.functional), (torch, torch.nn.functional)):
        x = [library.tensor(a, requires_grad=True) for a in (q, k, k)]
        made = functional.scaled_dot_product_attention(*x, library.tensor(mask))
        made.sum().backward()
        halves = [library.tensor((q * by).astype(np.float16)) for by in (300, 1e-3)]
        normed = [functional.rms_norm(x, (4,)) for x in halves]
        found.append([made.detach().numpy(), *(t.grad.numpy() for t in x),
                      *(t.numpy() for t in normed)])  # fmt: skip
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3, rtol=2e-3)


@pytest.mark.wide
def test_masks_hints_and_shapes_that_attention_cannot_follow_are_refused() -> None:
    layer = nn.MultiheadAttention(8, 2)
    x, y = tc.tensor(SEQUENCE), tc.tensor(_normal(5, 4, 8))
    with pytest.raises(AssertionError, match="sequence and batch dims"):
        layer(x, y, y)
    with pytest.raises(AssertionError, match="only bool and floating types of attn_mask"):
        layer(x, x, x, attn_mask=tc.ones(5, 5).long())
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 4), 1)
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        encoder(x, is_causal=True)
    empty = x[:, :0]
    assert layer(empty, empty, empty)[0].shape == (5, 0, 8)


@pytest.mark.parametrize(
    ("include", "mode"),
    [
        (False, "sum"),
        pytest.param(True, "mean", marks=pytest.mark.wide),
        pytest.param(False, "max", marks=pytest.mark.wide),
        pytest.param(True, "sum", marks=pytest.mark.wide),
        pytest.param(False, "mean", marks=pytest.mark.wide),
        pytest.param(True, "max", marks=pytest.mark.wide),
    ],
)
def test_bags_leave_padding_out(mode: str, include: bool) -> None:
    words, offsets = [1, 2, 0, 4, 2, 2, 3, 4], [0, 3, 3, 4, 6, 8]  # one of nothing, one of padding
    table = [[float(r * c - 3) for c in range(3)] for r in range(5)]
    found = []
    for t, layers in ((tc, nn), (torch, torch.nn)):
        layer = layers.EmbeddingBag.from_pretrained(
            t.tensor(table), freeze=False, mode=mode, include_last_offset=include, padding_idx=2
        )
        share = t.tensor([0.5, 1.0, 2.0, -1.0, 3.0, 1.0, 0.25, 1.5], requires_grad=True)
        args = (share,) if mode == "sum" else ()
        out = layer(t.tensor(words), t.tensor(offsets), *args)
        (out * out).sum().backward()
        found.append([out.tolist(), layer.weight.grad.tolist(), repr(layer)])
        found[-1] += [share.grad.tolist()] if args else []
    assert found[0] == found[1]


def test_maxima_of_bags_are_torchs_with_and_without_a_gradient() -> None:
    """Empty bags are 0, the first of equal rows takes the gradient."""
    nan, inf = float("nan"), float("inf")
    rows = [[1.0, nan, 3.0, -inf], [2.0, 1.0, 3.0, -inf], [0.0, 5.0, 1.0, -inf]]
    found = []
    for t, layers in ((tc, nn), (torch, torch.nn)):
        weight, words, ends = t.tensor(rows), t.tensor([0, 1, 2, 2, 1]), t.tensor([0, 3, 3])
        plain = layers.functional.embedding_bag(words, weight, ends, mode="max")
        weight.requires_grad_()
        out = layers.functional.embedding_bag(words, weight, ends, mode="max")
        out.sum().backward()
        found.append([repr(made.tolist()) for made in (plain, out, weight.grad)])
    assert found[0][0] == found[0][1]
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", [pytest.param("sum", marks=pytest.mark.wide), "mean"])
def test_gradients_of_bags_are_divided_by_how_often_rows_come(mode: str) -> None:
    """Held against `embedding`: PyTorch's bags divide some rows by how often others come."""
    words = [[1, 2, 0, 4], [2, 2, 3, 4]]
    found = []
    for t, layers in ((tc, nn), (torch, torch.nn)):
        weight = t.arange(15.0).reshape(5, 3).requires_grad_()
        how = {"scale_grad_by_freq": True}
        if t is tc:
            out = layers.functional.embedding_bag(t.tensor(words), weight, mode=mode, **how)
        else:
            out = getattr(layers.functional.embedding(t.tensor(words), weight, **how), mode)(1)
        (out * out).sum().backward()
        found.append([out.tolist(), weight.grad.tolist()])
    np.testing.assert_allclose(found[0][0], found[1][0], 1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], 1e-6)
    with pytest.raises(ValueError, match="max mode does not support scaling the gradient"):
        nn.functional.embedding_bag(tc.tensor(words), weight, mode="max", scale_grad_by_freq=True)


@pytest.mark.parametrize("learns", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_clusters_of_rare_classes_are_pytorchs(learns: bool) -> None:
    told, found = [], []
    for t, layers in ((tc, nn), (torch, torch.nn)):
        t.manual_seed(0)
        layer = layers.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10], div_value=2.0)
        x = t.linspace(-1, 1, 40).view(5, 8)
        made = layer(x, t.tensor([0, 5, 11, 19, 3]))
        told.append([repr(layer)])
        rows = [made.output, made.loss]
        if learns:
            made.loss.backward()
            told[-1].append(layer.predict(x).tolist())
            rows += [layer.log_prob(x), *(p.grad for p in layer.parameters())]
        found.append([r.detach().flatten().tolist() for r in rows])
        with pytest.raises(RuntimeError, match=r"in \[0, 19\], but values in range \[-1, 3\]"):
            layer(x[:2], t.tensor([3, -1]))
    assert told[0] == told[1]
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-5, 1e-6)


def test_attention_of_given_parameters_is_the_modules() -> None:
    found = []
    for u, n in ((tc, nn), (torch, torch.nn)):
        weights = [u.tensor(_of(k, *shape)) for k, shape in enumerate([(24, 8), (24,), (8, 8)])]
        q, m = u.tensor(SEQUENCE), u.tensor(MEMORY)
        mask = u.zeros(2, 6, dtype=u.bool)
        mask[1, 4:] = True
        out, seen = n.functional.multi_head_attention_forward(
            q, m, m, 8, 2, *weights[:2], None, None, True, 0.5, weights[2], None,
            training=False, key_padding_mask=mask, average_attn_weights=False,
        )  # fmt: skip
        found.append([np.array(t.tolist()) for t in (out, seen)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def _of(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_the_choice_of_a_kernel_of_attention_changes_nothing() -> None:
    from tcdsl.backends.cuda import sdp_kernel
    from tcdsl.nn.attention import SDPBackend, sdpa_kernel

    q = tc.tensor(IMAGE)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        inside = nn.functional.scaled_dot_product_attention(q, q, q)
    assert tc.equal(inside, nn.functional.scaled_dot_product_attention(q, q, q))
    with sdp_kernel(enable_math=False):
        assert tc.equal(inside, nn.functional.scaled_dot_product_attention(q, q, q))
    with pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend"):
        sdpa_kernel("math").__enter__()  # type: ignore[arg-type]
