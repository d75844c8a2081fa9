"""Random shapes of integers and of floats of 16 bits."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from suite_parts.workload import Input, Workload, definition, named, size


def _integers(rng: random.Random) -> Workload:
    of = rng.choice(("int32", "int32", "int64", "int8", "uint8"))
    low, high = (0, 100) if of == "uint8" else (-100, 100)
    kind = rng.choice(
        ("quotient", "remainder", "compare", "bits", "sums", "column sums", "argmax", "max",
         "product", "cumsum", "cast")
    )  # fmt: skip
    shape = size(rng, 2, 2048), size(rng, 2, 2048)
    a, label = Input(shape, of, low, high), named(kind, of, shape)

    def made(returns: str, body: str, peer: Any, *more: Input) -> Workload:
        names = ", ".join(f"{of}(N,M) {x}" for x in "XY"[: 1 + len(more)])
        text = definition("integers", names, body, returns)
        return Workload(label, "integers", text, (a, *more), peer, tolerance=0)

    b = Input(shape, of, 1, 12)
    here = f"{of}(N,M) O"
    if kind == "quotient":
        text = "O(i,j) = X(i,j) / Y(i,j)"
        return made(here, text, lambda t, x, y: t.div(x, y, rounding_mode="floor"), b)
    if kind == "remainder":
        return made(here, "O(i,j) = X(i,j) % Y(i,j)", lambda t, x, y: t.remainder(x, y), b)
    if kind == "compare":
        text = "O(i,j) = X(i,j) > Y(i,j) ? X(i,j) - Y(i,j) : Y(i,j)"
        return made(here, text, lambda t, x, y: t.where(x > y, x - y, y), b)
    if kind == "bits":
        return made(here, "O(i,j) = X(i,j) & Y(i,j) ^ X(i,j)", lambda t, x, y: (x & y) ^ x, b)
    if kind == "cast":
        return made("float(N,M) O", "O(i,j) = float(X(i,j)) * 0.5", lambda t, x: x.float() * 0.5)
    if kind in ("sums", "column sums"):
        left, dim = ("i", 1) if kind == "sums" else ("j", 0)
        wide = "int64" if of in ("int32", "int64") else "int32"
        torch_wide = {"int64": "int64", "int32": "int32"}[wide]
        text = f"O({left}) +=! {wide}(X(i,j))"
        return made(
            f"{wide}({'N' if dim else 'M'}) O",
            text,
            lambda t, x: x.sum(dim, dtype=getattr(t, torch_wide)),
        )
    if kind == "max":
        return made(f"{of}(N) O", "O(i) max=! X(i,j)", lambda t, x: x.amax(1))
    if kind == "argmax":
        # torch promises no first one of equals, but gives it
        return made("int64(N) O", "O(i) argmax=! X(i,j)", lambda t, x: x.argmax(1))
    if kind == "cumsum":
        text = "O(i,0) = int64(X(i,0))\n  for t in 1:M { O(i,t) = O(i,t - 1) + int64(X(i,t)) }"
        return made("int64(N,M) O", text, lambda t, x: x.cumsum(1))
    m, k, n = (size(rng, 2, 512) for _ in range(3))
    wide = "int64" if of == "int64" else "int32"
    text = definition(
        "product", f"{of}(M,K) A, {of}(K,N) B", f"C(m,n) +=! {wide}(A(m,k)) * {wide}(B(k,n))",
        f"{wide}(M,N) C",
    )  # fmt: skip
    inputs = Input((m, k), of, low, high), Input((k, n), of, low, high)

    def by_torch(t: Any, x: Any, y: Any) -> Any:
        return t.mm(x.to(getattr(t, wide)), y.to(getattr(t, wide)))

    return Workload(named(kind, of, (m, k, n)), "integers", text, inputs, by_torch, tolerance=0)


def _halves(rng: random.Random) -> Workload:
    of = rng.choice(("bfloat16", "float16"))
    kind = rng.choice(
        ("add", "silu", "softmax", "sums", "column sums", "cast", "product", "transpose")
    )
    shape = size(rng, 2, 2048), size(rng, 2, 2048)
    a, label = Input(shape, of), named(kind, of, shape)
    here = f"{of}(N,M) O"

    def made(returns: str, body: str, peer: Any, *more: Input) -> Workload:
        names = ", ".join(f"{of}(N,M) {x}" for x in "XY"[: 1 + len(more)])
        text = definition("halves", names, body, returns)
        return Workload(label, "halves", text, (a, *more), peer, tolerance=2e-2)

    if kind == "add":
        return made(here, "O(i,j) = X(i,j) + Y(i,j)", lambda t, x, y: x + y, a)
    if kind == "silu":
        return made(here, "O(i,j) = silu(X(i,j))", lambda t, x: t.nn.functional.silu(x))
    if kind == "cast":
        return made("float(N,M) O", "O(i,j) = float(X(i,j))", lambda t, x: x.float())
    if kind == "transpose":
        return made(f"{of}(M,N) O", "O(j,i) = X(i,j)", lambda t, x: x.t().contiguous())
    if kind in ("sums", "column sums"):
        left, dim = ("i", 1) if kind == "sums" else ("j", 0)
        return made(
            f"{of}({'N' if dim else 'M'}) O", f"O({left}) +=! X(i,j)", lambda t, x: x.sum(dim)
        )
    if kind == "softmax":
        body = (
            "M(i) max=! X(i,j)\n  E(i,j) = exp(X(i,j) - M(i))\n  S(i) +=! E(i,j)\n"
            "  O(i,j) = E(i,j) / S(i)"
        )
        text = definition("halves", f"{of}(N,K) X", body, f"{of}(N,K) O")
        return Workload(label, "halves", text, (a,), lambda t, x: t.softmax(x, 1), tolerance=2e-2)
    m, k, n = (size(rng, 2, 768) for _ in range(3))
    right, at = rng.choice((("K,N", "k,n"), ("N,K", "n,k")))
    body = f"C(m,n) +=! A(m,k) * B({at})"
    text = definition("product", f"{of}(M,K) A, {of}({right}) B", body, f"{of}(M,N) C")
    inputs = Input((m, k), of), Input((k, n) if at == "k,n" else (n, k), of)
    return Workload(
        named(kind, of, at, (m, k, n)),
        "halves",
        text,
        inputs,
        lambda t, x, y: t.mm(x, y if at == "k,n" else y.t()),
        tolerance=2e-2,
    )


FORMS: dict[str, Callable[[random.Random], Workload]] = {
    "integer": _integers,
    "half": _halves,
}
