"""Lookups, distances, attention, recurrent layers; the ways back of layers of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from layers import BATCHED, LAYERNORM, LINEAR, LSTM, SOFTMAX

from suite_parts import rows, windows
from suite_parts.workload import Input, Peer, Workload, floats

BAG = "def bag(float(V,D) E, int64(B,L) I) -> (O) { O(b,d) +=! E(I(b,l), d) where l in 0:L }"
LOOKUP = "def lookup(float(V,D) E, int64(L) I) -> (O) { O(l,d) = E(I(l), d) }"
GATHER = "def gather(float(N,L) X, int64(N,K) I) -> (O) { O(n,k) = X(n, I(n,k)) }"
SCATTER = """
def scatter(float(V,D) X, int64(L) I, float(L,D) Y) -> (O) {
  O(v,d) = X(v,d)
  O(I(l),d) += Y(l,d)
}"""
COSINE = """
def cosine(float(B,N) A, float(B,N) C) -> (O) {
  x(b) +=! A(b,n) * C(b,n)
  p(b) +=! A(b,n) * A(b,n)
  q(b) +=! C(b,n) * C(b,n)
  O(b) = x(b) / sqrt(p(b) * q(b))
}"""
DISTANCES = """
def distances(float(N,D) A, float(M,D) B) -> (O) {
  O(i,j) +=! (A(i,d) - B(j,d)) * (A(i,d) - B(j,d))
}"""
MANHATTAN = "def l1(float(N,D) A, float(M,D) B) -> (O) { O(i,j) +=! abs(A(i,d) - B(j,d)) }"
ATTENTION = """
def attention(float(P,T,D) Q, float(P,T,D) K, float(P,T,D) V) -> (O) {{
  S(p,i,j) +=! Q(p,i,d) * K(p,j,d)
  M(p,i) max=! 0.125 * S(p,i,j){within}
  E(p,i,j) = exp(0.125 * S(p,i,j) - M(p,i))
  Z(p,i) +=! E(p,i,j){within}
  O(p,i,d) +=! E(p,i,j) * V(p,j,d){within}
  O(p,i,d) = O(p,i,d) / Z(p,i)
}}"""


def attention(heads: int, turns: int, causal: bool) -> Workload:
    """Return attention of heads of width 64."""
    text = ATTENTION.format(within=" where j in 0:i + 1" if causal else "")
    name = f"attention {heads}x{turns}x64{' causal' if causal else ''}"

    def peer(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return Workload(name, "attention", text, floats(*[(heads, turns, 64)] * 3), peer)


def lstm(turns: int, batch: int, hidden: int) -> Workload:
    """Return an LSTM over time."""

    def peer(torch: Any, x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
        nothing = torch.zeros(4 * hidden)
        weights = w.flatten(0, 1), u.flatten(0, 1), nothing, nothing
        y, _, _ = torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, True, False, False)
        return torch.cat((h[None], y))

    scale = hidden**-0.5
    weight = Input((4, hidden, hidden), scale=scale)
    state = Input((batch, hidden))
    inputs = (Input((turns, batch, hidden)), state, state, weight, weight)
    name = f"LSTM T{turns} B{batch} N{hidden}"
    # torch gives the outputs of all turns, the cells of the last alone.
    return Workload(name, "recurrent", LSTM, inputs, peer, compared=1)


def _lookups() -> Iterator[Workload]:
    kind = "lookups"
    yield Workload(
        "embedding 100000x64, 4096",
        kind,
        LOOKUP,
        (Input((100_000, 64)), Input((4096,), "int64", 0, 100_000)),
        lambda t, e, i: t.nn.functional.embedding(i, e),
    )
    yield Workload(
        "embedding bag 100000x64, 128x50",
        kind,
        BAG,
        (Input((100_000, 64)), Input((128, 50), "int64", 0, 100_000)),
        lambda t, e, i: t.nn.functional.embedding_bag(i, e, mode="sum"),
    )
    yield Workload(
        "gather 1000x1000, 1000x300",
        kind,
        GATHER,
        (Input((1000, 1000)), Input((1000, 300), "int64", 0, 1000)),
        lambda t, x, i: x.gather(1, i),
    )
    yield Workload(
        "scatter add 1000x64, 20000",
        kind,
        SCATTER,
        (Input((1000, 64)), Input((20_000,), "int64", 0, 1000), Input((20_000, 64))),
        lambda t, x, i, y: x.index_add(0, i, y),
    )


def _distances() -> Iterator[Workload]:
    kind = "distances"
    points = floats((1024, 64), (1024, 64))
    yield Workload("cosine 4096x512", kind, COSINE, floats((4096, 512), (4096, 512)), _cosine)
    yield Workload(
        "squared 1024x1024x64", kind, DISTANCES, points, lambda t, a, b: t.cdist(a, b) ** 2
    )
    yield Workload(
        "manhattan 1024x1024x64", kind, MANHATTAN, points, lambda t, a, b: t.cdist(a, b, p=1)
    )


def _cosine(torch: Any, a: Any, b: Any) -> Any:
    return torch.nn.functional.cosine_similarity(a, b, dim=1)


def back(layer: Workload, name: str = "") -> Workload:
    """Return the way back of a layer."""
    return Workload(
        f"back of {name or layer.name}",
        "gradients",
        layer.text,
        layer.inputs,
        layer.torch,
        gradient=True,
        tolerance=5e-3,
    )


def _simple(name: str, text: str, peer: Peer, *shapes: tuple[int, ...]) -> Workload:
    return back(Workload(name, "gradients", text, floats(*shapes), peer))


def _gradients() -> Iterator[Workload]:
    yield _simple(
        "linear 128x1024x1024",
        LINEAR,
        lambda t, x, w: t.nn.functional.linear(x, w),
        (128, 1024),
        (1024, 1024),
    )
    yield _simple(
        "64x(128^3)", BATCHED, lambda t, a, b: t.bmm(a, b), (64, 128, 128), (64, 128, 128)
    )
    yield back(windows.conv(8, 1, 64, 64, (56, 56), (3, 3), 1, 1))
    yield back(windows.conv(32, 32, 4, 4, (28, 28), (3, 3), 1, 1))
    yield back(windows.depthwise(8, 64, 56, 3, 1, 1))
    yield back(windows.pool("max", 8, 64, 112, 3, 2, 1))
    yield back(windows.pool("average", 8, 64, 56, 3, 1, 1))
    for kind in ("max", "average"):
        yield back(windows.pool(kind, 8, 64, 56, 2, 2, 0))
    yield back(windows.conv(8, 1, 16, 16, (28, 28), (3, 3), 1, 1))
    yield back(windows.conv(8, 1, 32, 16, (28, 28), (1, 1)))
    yield back(windows.conv(8, 1, 32, 48, (31, 29), (3, 3)))
    yield back(windows.channels_last())
    yield _simple("softmax 1024x1024", SOFTMAX, lambda t, x: t.softmax(x, 1), (1024, 1024))
    yield _simple(
        "log softmax 1024x1000", rows.LOG_SOFTMAX, lambda t, x: t.log_softmax(x, 1), (1024, 1000)
    )
    yield _simple(
        "layernorm 4096x1024",
        LAYERNORM,
        lambda t, x, g, h: t.nn.functional.layer_norm(x, (1024,), g, h),
        (4096, 1024),
        (1024,),
        (1024,),
    )
    for layer in rows.workloads():
        if layer.name.startswith(("gelu", "SwiGLU", "chain", "cumsum rows 512", "batchnorm")):
            yield back(layer)
    yield back(attention(32, 256, False))
    yield back(lstm(64, 32, 256))
    yield back(next(w for w in _lookups() if "bag" in w.name))


def workloads() -> Iterator[Workload]:
    """Yield them."""
    yield from _lookups()
    yield from _distances()
    yield attention(32, 512, False)
    yield attention(32, 512, True)
    yield attention(12, 128, False)
    yield lstm(64, 32, 256)
    yield lstm(128, 8, 64)
    yield from _gradients()
