"""Pointwise kernels, rows, reductions, scans and layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from layers import COLSUM, LAYERNORM, ROWSUM, SOFTMAX, TRANSPOSE

from suite_parts.workload import Input, Peer, Workload, definition, floats

MEGA = 1 << 20


def pointwise(
    name: str, value: str, peer: Peer, count: int = 1, n: int = MEGA, of: str = "float"
) -> Workload:
    """Return a function of points of `count` vectors A, B, C."""
    letters = "ABC"[:count]
    parameters = ", ".join(f"{of}(N) {x}" for x in letters)
    returns = "O" if of == "float" else f"{of}(N) O"
    text = definition("pointwise", parameters, f"O(i) = {value}", returns)
    dtype = "float32" if of == "float" else of
    tolerance = 1e-3 if of == "float" else 2e-2
    inputs = tuple(Input((n,), dtype) for _ in letters)
    return Workload(f"{name} {n}", "pointwise", text, inputs, peer, tolerance=tolerance)


def _points() -> Iterator[Workload]:
    yield pointwise("add", "A(i) + B(i)", lambda t, a, b: a + b, 2, 1000)
    yield pointwise("add", "A(i) + B(i)", lambda t, a, b: a + b, 2)
    yield pointwise("add", "A(i) + B(i)", lambda t, a, b: a + b, 2, 16 * MEGA)
    yield pointwise("exp", "exp(A(i))", lambda t, a: t.exp(a))
    yield pointwise("log1p", "log1p(abs(A(i)))", lambda t, a: t.log1p(t.abs(a)))
    yield pointwise("sin", "sin(A(i))", lambda t, a: t.sin(a))
    yield pointwise("tanh", "tanh(A(i))", lambda t, a: t.tanh(a))
    yield pointwise("sigmoid", "sigmoid(A(i))", lambda t, a: t.sigmoid(a))
    yield pointwise("pow", "pow(abs(A(i)), 1.7)", lambda t, a: t.pow(t.abs(a), 1.7))
    yield pointwise("silu", "silu(A(i))", lambda t, a: t.nn.functional.silu(a))
    gelu = "0.5 * A(i) * (1 + erf(A(i) * 0.70710678118))"
    yield pointwise("gelu by erf", gelu, lambda t, a: t.nn.functional.gelu(a))
    swiglu = "A(i) * sigmoid(A(i)) * B(i)"
    yield pointwise("SwiGLU", swiglu, lambda t, a, b: t.nn.functional.silu(a) * b, 2)
    chain = "tanh(A(i) * sigmoid(A(i)) * B(i) + C(i))"
    yield pointwise("chain", chain, lambda t, a, b, c: t.tanh(a * t.sigmoid(a) * b + c), 3)
    clamp = "A(i) > B(i) ? fmin(A(i), 1) : fmax(B(i), -1)"
    yield pointwise(
        "select", clamp, lambda t, a, b: t.where(a > b, a.clamp(max=1), b.clamp(min=-1)), 2
    )
    for half in ("bfloat16", "float16"):
        yield pointwise(f"add {half}", "A(i) + B(i)", lambda t, a, b: a + b, 2, MEGA, half)


SOFTMAX_CHANNELS = """
def softmax(float(B,C,P) X) -> (Y) {
  M(b,p) max=! X(b,c,p)
  E(b,c,p) = exp(X(b,c,p) - M(b,p))
  S(b,p) +=! E(b,c,p)
  Y(b,c,p) = E(b,c,p) / S(b,p)
}"""
LOG_SOFTMAX = """
def log_softmax(float(B,N) X) -> (Y) {
  M(b) max=! X(b,n)
  S(b) +=! exp(X(b,n) - M(b))
  Y(b,n) = X(b,n) - M(b) - log(S(b))
}"""
RMSNORM = """
def rmsnorm(float(B,N) X, float(N) g) -> (Y) {
  s(b) +=! X(b,n) * X(b,n)
  Y(b,n) = X(b,n) * rsqrt(s(b) / N + 1e-5) * g(n)
}"""
BATCHNORM = """
def batchnorm(float(N,C,P) X, float(C) g, float(C) h) -> (Y) {
  s(c) +=! X(n,c,p)
  m(c) = s(c) / (N * P)
  v(c) +=! (X(n,c,p) - m(c)) * (X(n,c,p) - m(c))
  Y(n,c,p) = (X(n,c,p) - m(c)) * (rsqrt(v(c) / (N * P) + 1e-5) * g(c)) + h(c)
}"""
GROUPNORM = """
def groupnorm(float(N,G,C,P) X, float(G,C) g, float(G,C) h) -> (Y) {
  s(n,k) +=! X(n,k,c,p)
  m(n,k) = s(n,k) / (C * P)
  v(n,k) +=! (X(n,k,c,p) - m(n,k)) * (X(n,k,c,p) - m(n,k))
  Y(n,k,c,p) = (X(n,k,c,p) - m(n,k)) * (rsqrt(v(n,k) / (C * P) + 1e-5) * g(k,c)) + h(k,c)
}"""
CROSS_ENTROPY = """
def cross_entropy(float(B,N) X, int64(B) y) -> (L) {
  M(b) max=! X(b,n)
  S(b) +=! exp(X(b,n) - M(b))
  L(b) = log(S(b)) + M(b) - X(b, y(b))
}"""


def _norm(torch: Any, x: Any, g: Any, h: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], g, h)


def group_norm(torch: Any, x: Any, g: Any, h: Any) -> Any:
    n, groups, channels, points = x.shape
    flat = x.reshape(n, groups * channels, points)
    return torch.nn.functional.group_norm(flat, groups, g.flatten(), h.flatten()).view_as(x)


def _rows() -> Iterator[Workload]:
    kind = "rows"
    for b, n in ((4096, 1024), (1024, 1000), (128, 100), (500, 26)):
        peer: Peer = lambda t, x: t.softmax(x, 1)  # noqa: E731
        yield Workload(f"softmax {b}x{n}", kind, SOFTMAX, floats((b, n)), peer)
    channels = floats((8, 64, 3136))
    yield Workload(
        "softmax over channels", kind, SOFTMAX_CHANNELS, channels, lambda t, x: t.softmax(x, 1)
    )
    rows = floats((1024, 1000))
    yield Workload(
        "log softmax 1024x1000", kind, LOG_SOFTMAX, rows, lambda t, x: t.log_softmax(x, 1)
    )
    yield Workload(
        "cross entropy 1024x1000",
        kind,
        CROSS_ENTROPY,
        (*rows, Input((1024,), "int64", 0, 1000)),
        lambda t, x, y: t.nn.functional.cross_entropy(x, y, reduction="none"),
    )
    for b, n in ((4096, 1024), (100, 77)):
        inputs = floats((b, n), (n,), (n,))
        yield Workload(f"layernorm {b}x{n}", kind, LAYERNORM, inputs, _norm)
    yield Workload(
        "rmsnorm 4096x1024",
        kind,
        RMSNORM,
        floats((4096, 1024), (1024,)),
        lambda t, x, g: t.nn.functional.rms_norm(x, (1024,), g, 1e-5),
    )
    yield Workload(
        "batchnorm 32x64x784",
        kind,
        BATCHNORM,
        floats((32, 64, 784), (64,), (64,)),
        lambda t, x, g, h: t.nn.functional.batch_norm(x, None, None, g, h, True),
    )
    yield Workload(
        "groupnorm 4x32x32x2304",
        kind,
        GROUPNORM,
        floats((4, 32, 32, 2304), (32, 32), (32, 32)),
        group_norm,
    )


def reduction(
    name: str,
    statement: str,
    shape: tuple[int, ...],
    peer: Peer,
    by_numpy: Peer,
    kind: str = "reductions",
) -> Workload:
    names = ",".join("MNPQ"[: len(shape)])
    text = definition("reduction", f"float({names}) X", statement)
    label = f"{name} {'x'.join(map(str, shape))}"
    tolerance = 0 if "arg" in name else 1e-3
    return Workload(label, kind, text, floats(shape), peer, by_numpy, tolerance=tolerance)


def _reductions() -> Iterator[Workload]:
    big = (4096, 4096)
    yield Workload(
        "column sums 4096x4096",
        "reductions",
        COLSUM,
        floats(big),
        lambda t, x: x.sum(0),
        lambda x: x.sum(0),
    )
    yield Workload(
        "row sums 4096x4096",
        "reductions",
        ROWSUM,
        floats(big),
        lambda t, x: x.sum(1),
        lambda x: x.sum(1),
    )
    yield reduction("sum", "O +=! X(i,j)", (1000, 1000), lambda t, x: x.sum(), np.sum)
    yield reduction(
        "middle sum",
        "O(i,k) +=! X(i,j,k)",
        (64, 256, 196),
        lambda t, x: x.sum(1),
        lambda x: x.sum(1),
    )
    yield reduction(
        "row max", "O(i) max=! X(i,j)", (4096, 1000), lambda t, x: x.amax(1), lambda x: x.max(1)
    )
    yield reduction(
        "row argmax",
        "O(i) argmax=! X(i,j)",
        (4096, 1000),
        lambda t, x: x.argmax(1),
        lambda x: x.argmax(1),
        "arg reductions",
    )
    yield reduction(
        "column argmax",
        "O(j) argmax=! X(i,j)",
        (1000, 4096),
        lambda t, x: x.argmax(0),
        lambda x: x.argmax(0),
        "arg reductions",
    )
    yield reduction(
        "row argmin",
        "O(i) argmin=! X(i,j)",
        (20000, 33),
        lambda t, x: x.argmin(1),
        lambda x: x.argmin(1),
        "arg reductions",
    )


def scan(name: str, step: str, shape: tuple[int, int], peer: Peer, dim: int) -> Workload:
    first, read, before = ("b, 0", "b, t", "b, t - 1") if dim else ("0, b", "t, b", "t - 1, b")
    names = "B,N" if dim else "N,B"
    value = step.format(before=f"O({before})", x=f"X({read})")
    body = f"O({first}) = X({first})\n  for t in 1:N {{ O({read}) = {value} }}"
    text = definition("scan", f"float({names}) X", body, f"float({names}) O")
    label = f"{name} {'rows' if dim else 'columns'} {shape[0]}x{shape[1]}"
    return Workload(label, "scans", text, floats(shape), peer)


RECURRENCE = """
def recurrence(float(T,N) A, float(T,N) X) -> (float(T,N) H) {
  H(0, n) = X(0, n)
  for t in 1:T { H(t, n) = A(t, n) * H(t - 1, n) + X(t, n) }
}"""


def _recurrence(torch: Any, a: Any, x: Any) -> Any:
    states = [x[0]]
    for t in range(1, len(x)):
        states.append(torch.addcmul(x[t], a[t], states[-1]))
    return torch.stack(states)


def _scans() -> Iterator[Workload]:
    for dim, shape in ((1, (512, 4096)), (0, (4096, 512)), (1, (1, MEGA))):
        yield scan("cumsum", "{before} + {x}", shape, lambda t, x, d=dim: x.cumsum(d), dim)
    yield scan("cumprod", "{before} * {x}", (512, 100), lambda t, x: x.cumprod(1), 1)
    yield scan("cummax", "max({before}, {x})", (512, 4096), lambda t, x: x.cummax(1)[0], 1)
    log = "logaddexp({before}, {x})"
    yield scan("logcumsumexp", log, (512, 1000), lambda t, x: x.logcumsumexp(1), 1)
    inputs = (Input((1000, 512), scale=0.3), Input((1000, 512)))
    yield Workload("linear recurrence 1000x512", "scans", RECURRENCE, inputs, _recurrence)
    triangle = definition(
        "prefix", "float(B,N) X", "O(b, i) +=! X(b, j) where j in 0:i+1, i in 0:N"
    )
    yield Workload(
        "triangular sum 512x512", "scans", triangle, floats((512, 512)), lambda t, x: x.cumsum(1)
    )


def permuted(spec: str, shape: tuple[int, ...]) -> Workload:
    before, after = spec.split("->")
    order = tuple(before.index(c) for c in after)
    body = f"O({','.join(after)}) = X({','.join(before)})"
    text = definition("permute", f"float({','.join(before.upper())}) X", body)
    name = f"permute {spec} {'x'.join(map(str, shape))}"
    return Workload(
        name,
        "layouts",
        text,
        floats(shape),
        lambda t, x: x.permute(order).contiguous(),
        lambda x: np.ascontiguousarray(x.transpose(order)),
    )


def _layouts() -> Iterator[Workload]:
    for n in (2048, 4096):
        square = floats((n, n))
        yield Workload(
            f"transpose {n}", "layouts", TRANSPOSE, square, lambda t, x: x.t().contiguous()
        )
    yield permuted("nchw->nhwc", (8, 64, 56, 56))
    yield permuted("abcde->ecbda", (16, 24, 12, 20, 18))
    yield permuted("abc->bac", (300, 200, 64))
    both = definition(
        "cat", "float(N,A) X, float(N,B) Y", "O(n, a) = X(n, a)\n  O(n, A + b) = Y(n, b)",
        "float(N,A + B) O",
    )  # fmt: skip
    yield Workload(
        "cat 1000x500+700",
        "layouts",
        both,
        floats((1000, 500), (1000, 700)),
        lambda t, x, y: t.cat((x, y), 1),
    )


def workloads() -> Iterator[Workload]:
    """Yield them."""
    yield from _points()
    yield from _rows()
    yield from _reductions()
    yield from _scans()
    yield from _layouts()
