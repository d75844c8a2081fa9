"""Products: dense, thin, batched, contractions of any letters, of several tensors, small types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from layers import FCRELU

from suite_parts.workload import Input, Workload, definition, floats

LAYOUTS = {"NN": ("mk", "kn"), "NT": ("mk", "nk"), "TN": ("km", "kn")}


def einsum(name: str, kind: str, spec: str, sizes: str) -> Workload:
    """Return a sum of products in the letters of `np.einsum`; sizes are said as "b=8 m=4"."""
    size = {pair[0]: int(pair[2:]) for pair in sizes.split()}
    inputs, out = spec.split("->")
    operands = inputs.split(",")
    shapes = [tuple(size[c] for c in letters) for letters in operands]
    parameters = ", ".join(
        f"float({','.join(letters.upper())}) X{i}" for i, letters in enumerate(operands)
    )
    factors = " * ".join(f"X{i}({', '.join(x)})" for i, x in enumerate(operands))
    body = f"Out({', '.join(out)}) +=! {factors}"

    def by_torch(torch: Any, *xs: Any) -> Any:
        return torch.einsum(spec, *xs)

    def by_numpy(*xs: Any) -> Any:
        return np.einsum(spec, *xs, optimize=True)

    text = definition("contraction", parameters, body, "Out")
    return Workload(name, kind, text, floats(*shapes), by_torch, by_numpy)


def product(m: int, k: int, n: int, layout: str, kind: str = "dense products") -> Workload:
    """Return a matrix product whose operands lie as a layout says."""
    left, right = LAYOUTS[layout]
    size = {"m": m, "k": k, "n": n}

    def by_torch(torch: Any, a: Any, b: Any) -> Any:
        return torch.mm(a.t() if left == "km" else a, b.t() if right == "nk" else b)

    def by_numpy(a: Any, b: Any) -> Any:
        return np.matmul(a.T if left == "km" else a, b.T if right == "nk" else b)

    text = definition(
        "product",
        f"float({','.join(left.upper())}) A, float({','.join(right.upper())}) B",
        f"C(m, n) +=! A({','.join(left)}) * B({','.join(right)})",
        "C",
    )
    shapes = (tuple(size[c] for c in left), tuple(size[c] for c in right))
    return Workload(f"mm {m}x{k}x{n} {layout}", kind, text, floats(*shapes), by_torch, by_numpy)


def linear(batch: int, width: int, out: int) -> Workload:
    """Return a fully connected layer with its bias and relu."""

    def by_torch(torch: Any, x: Any, w: Any, b: Any) -> Any:
        return torch.relu(torch.nn.functional.linear(x, w, b))

    inputs = floats((batch, width), (out, width), (out,))
    name = f"linear relu {batch}x{width}x{out}"
    return Workload(name, "fully connected", FCRELU, inputs, by_torch, _linear)


def _linear(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w.T + b, 0)


MLP = """
def mlp3(float(B,M) I, float(N,M) W1, float(N) b1, float(O,N) W2, float(O) b2, float(P,O) W3,
    float(P) b3) -> (Z) {
  X(b, n) +=! I(b, m) * W1(n, m)
  X(b, n) = fmax(X(b, n) + b1(n), 0)
  Y(b, o) +=! X(b, n) * W2(o, n)
  Y(b, o) = fmax(Y(b, o) + b2(o), 0)
  Z(b, p) +=! Y(b, o) * W3(p, o)
  Z(b, p) = fmax(Z(b, p) + b3(p), 0)
}"""


def _torch_mlp(torch: Any, x: Any, *weights: Any) -> Any:
    for w, b in zip(weights[::2], weights[1::2], strict=True):
        x = torch.relu(torch.nn.functional.linear(x, w, b))
    return x


def _small(name: str, left: str, right: str, out: str, cast: str, peer: Any) -> Workload:
    a, b = "A(m, k)", "B(k, n)"
    body = f"C(m, n) +=! {cast}({a}) * {cast}({b})" if cast else f"C(m, n) +=! {a} * {b}"
    text = definition("small", f"{left}(M,K) A, {right}(K,N) B", body, f"{out}(M,N) C")
    lows = [0 if x.startswith("u") else -8 for x in (left, right)]
    inputs = (Input((512, 512), left, lows[0]), Input((512, 512), right, lows[1]))
    tolerance = 0 if cast else 2e-2
    return Workload(f"{name} 512^3", "small types", text, inputs, peer, tolerance=tolerance)


def workloads() -> Iterator[Workload]:
    """Yield the products."""
    for m, k, n in ((128, 32, 256), (128, 1024, 1024), (512, 512, 512), (1000, 777, 513)):
        yield product(m, k, n, "NN")
    for layout in ("NN", "NT", "TN"):
        yield product(1024, 1024, 1024, layout)
    yield product(128, 1024, 1024, "NT")
    for rows, layouts in ((1, ("NN", "NT")), (8, ("NN", "NT", "TN")), (16, ("NN",))):
        for layout in layouts:
            yield product(rows, 4096, 4096, layout, "thin products")
    yield product(4096, 4096, 1, "NN", "thin products")
    yield einsum("8 x (4x512x512)", "thin products", "bmk,bkn->bmn", "b=8 m=4 k=512 n=512")
    yield einsum("500x(26x72x26)", "batched products", "bnm,bmk->bnk", "b=500 n=26 m=72 k=26")
    yield einsum("64x(128^3)", "batched products", "bmk,bkn->bmn", "b=64 m=128 k=128 n=128")
    yield einsum(
        "scores 32x512x64",
        "batched products",
        "bid,bjd->bij",
        "b=32 i=512 j=512 d=64",
    )
    for spec, sizes in (
        ("fbea,ecfd->dcba", "a=32 b=32 c=32 d=32 e=32 f=32"),
        ("dabfe,fc->edcba", "a=24 b=24 c=20 d=24 e=24 f=48"),
        ("aebd,ce->dcba", "a=72 b=72 c=24 d=72 e=72"),
        ("dac,bcd->ba", "a=312 b=296 c=24 d=312"),
        ("cged,bafg->fedcba", "a=24 b=16 c=16 d=24 e=16 f=12 g=24"),
        ("adb,cd->cba", "a=312 b=296 c=24 d=312"),
    ):
        yield einsum(spec, "odd contractions", spec, sizes)
    kron = "m=256 a=32 b=32 c=32 x=16 y=16 z=16"
    for spec in ("mabc,xa,yb,zc->mxyz", "mabc,zc->mabz", "mabz,yb->mayz"):
        yield einsum(f"kronecker {spec}", "several factors", spec, kron)
    yield einsum(
        "chain ab,bc,cd->ad",
        "several factors",
        "ab,bc,cd->ad",
        "a=200 b=300 c=250 d=150",
    )
    yield einsum(
        "bilinear bi,oij,bj->bo",
        "several factors",
        "bi,oij,bj->bo",
        "b=64 i=128 o=64 j=128",
    )
    yield linear(100, 128, 100)
    yield linear(128, 1024, 1024)
    yield linear(128, 2000, 128)
    yield Workload(
        "mlp3 128,128,64,32,2",
        "fully connected",
        MLP,
        floats((128, 128), (64, 128), (64,), (32, 64), (32,), (2, 32), (2,)),
        _torch_mlp,
    )
    yield _small("int8", "int8", "int8", "int32", "int32", lambda t, a, b: t._int_mm(a, b))
    yield _small(
        "uint8 x int8", "uint8", "int8", "int32", "int32", lambda t, a, b: t.mm(a.int(), b.int())
    )
    yield _small("int32", "int32", "int32", "int32", "int32", lambda t, a, b: t.mm(a, b))
    yield _small("bfloat16", "bfloat16", "bfloat16", "bfloat16", "", lambda t, a, b: t.mm(a, b))
    yield _small("float16", "float16", "float16", "float16", "", lambda t, a, b: t.mm(a, b))
