"""Random shapes of elements: functions of them, elements elsewhere, those that data chooses."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from suite_parts import rows
from suite_parts.workload import Input, Workload, definition, floats, named, size


def _element(rng: random.Random) -> Workload:
    """Return a gather or a scatter of elements, along rows or along columns."""
    n, m, k = size(rng, 2, 2048), size(rng, 2, 2048), size(rng, 1, 1024)
    kind, dim = rng.choice(("gather", "scatter_add", "scatter")), rng.randint(0, 1)
    width, names = (k, m) if dim == 0 else (n, k), ("K", "M") if dim == 0 else ("N", "K")
    index = "int64", 0, n if dim == 0 else m
    at, place = ("k, m", "I(k, m), m") if dim == 0 else ("n, k", "n, I(n, k)")
    places, table = Input(width, *index), Input((n, m))
    label = named(kind, dim, (n, m), width)
    shapes = f"float(N,M) X, int64({','.join(names)}) I"
    if kind == "gather":
        text = definition("gather", shapes, f"O({at}) = X({place})")
        return Workload(label, "elements", text, (table, places), lambda t, x, i: x.gather(dim, i))
    is_sum = kind == "scatter_add"
    body = f"O(n, m) = X(n, m)\n  O({place}) {'+=' if is_sum else '='} Y({at})"
    text = definition("scatter", f"{shapes}, float({','.join(names)}) Y", body)
    # which of equal places torch keeps is not told: there a number for a place is written
    value = Input(width) if is_sum else Input(width, scale=0.0)

    def by_torch(t: Any, x: Any, i: Any, y: Any) -> Any:
        return x.scatter_add(dim, i, y) if is_sum else x.scatter(dim, i, y)

    return Workload(label, "elements", text, (table, places, value), by_torch)


def _moved(rng: random.Random) -> Workload:
    kind = rng.choice(
        ("cat columns", "cat rows", "flip rows", "flip columns", "roll", "slice", "pad", "repeat",
         "triangle", "stack", "shuffle")
    )  # fmt: skip
    n, m = size(rng, 2, 2048), size(rng, 2, 2048)
    shape, label = (n, m), named(kind, (n, m))

    def made(body: str, peer: Any, returns: str = "O", *more: tuple[int, ...]) -> Workload:
        names = "float(N,M) X" + "".join(
            f", float({'N,K' if 'columns' in kind else 'K,M'}) Y" for _ in more
        )
        text = definition("moved", names, body, returns)
        return Workload(label, "moved", text, floats(shape, *more), peer)

    k = size(rng, 1, 512)
    if kind == "cat columns":
        body = "O(i,j) = X(i,j)\n  O(i,M + j) = Y(i,j)"
        return made(body, lambda t, x, y: t.cat((x, y), 1), "float(N,M + K) O", (n, k))
    if kind == "cat rows":
        body = "O(i,j) = X(i,j)\n  O(N + i,j) = Y(i,j)"
        return made(body, lambda t, x, y: t.cat((x, y), 0), "float(N + K,M) O", (k, m))
    if kind == "flip rows":
        return made("O(i,j) = X(N - 1 - i, j)", lambda t, x: x.flip(0))
    if kind == "flip columns":
        return made("O(i,j) = X(i, M - 1 - j)", lambda t, x: x.flip(1))
    if kind == "roll":
        by = rng.randint(1, m - 1)
        body = f"O(i,j) = X(i, j < {by} ? j + M - {by} : j - {by}) where i in 0:N, j in 0:M"
        return made(body, lambda t, x: x.roll(by, 1), "float(N,M) O")
    if kind == "slice":
        step = rng.choice((2, 3))
        end = (m + step - 1) // step
        body = f"O(i,j) = X(i, {step} * j) where j in 0:{end}"
        return made(body, lambda t, x: x[:, ::step].contiguous())
    if kind == "pad":
        by = rng.randint(1, 4)
        body = f"O(i,j) = pad(X(i - {by}, j - {by}), 0)"
        ends = f"float(N + {2 * by},M + {2 * by}) O"
        return made(body, lambda t, x: t.nn.functional.pad(x, (by,) * 4), ends)
    if kind == "repeat":
        by = rng.randint(2, 4)
        body = f"O(i,r,j,s) = X(i,j) where r in 0:{by}, s in 0:{by}"
        n, m = max(2, n // 4), max(2, m // 4)
        shape, label = (n, m), named(kind, by, (n, m))
        return made(body, lambda t, x: x[:, None, :, None].expand(n, by, m, by).contiguous())
    if kind == "triangle":
        body = "O(i,j) = i >= j ? X(i,j) : 0.0 where i in 0:N, j in 0:M"
        return made(body, lambda t, x: t.tril(x))
    if kind == "stack":
        text = definition(
            "stack", "float(N,M) X, float(N,M) Y", "O(i,j,0) = X(i,j)\n  O(i,j,1) = Y(i,j)",
            "float(N,M,2) O",
        )  # fmt: skip
        inputs = floats(shape, shape)
        return Workload(label, "moved", text, inputs, lambda t, x, y: t.stack((x, y), 2))
    c, s = size(rng, 1, 32), size(rng, 4, 64)
    text = definition("shuffle", "float(N,C,R,S,H,W) X", "O(n,c,h,r,w,s) = X(n,c,r,s,h,w)")
    r, b = rng.randint(2, 3), rng.randint(1, 8)
    return Workload(
        named(kind, (b, c, r, r, s, s)),
        "moved",
        text,
        floats((b, c, r, r, s, s)),
        lambda t, x: x.permute(0, 1, 4, 2, 5, 3).contiguous(),
    )


_POINTS: dict[str, tuple[int, str, Callable[..., Any]]] = {
    "exp": (1, "exp({0})", lambda t, a: t.exp(a)),
    "log": (1, "log(abs({0}))", lambda t, a: t.log(t.abs(a))),
    "sqrt": (1, "sqrt(abs({0}))", lambda t, a: t.sqrt(t.abs(a))),
    "tanh": (1, "tanh({0})", lambda t, a: t.tanh(a)),
    "sigmoid": (1, "sigmoid({0})", lambda t, a: t.sigmoid(a)),
    "relu": (1, "relu({0})", lambda t, a: t.relu(a)),
    "gelu": (1, "gelu({0})", lambda t, a: t.nn.functional.gelu(a)),
    "softplus": (1, "softplus({0})", lambda t, a: t.nn.functional.softplus(a)),
    "elu": (1, "elu({0}, 1)", lambda t, a: t.nn.functional.elu(a)),
    "leaky": (1, "leaky_relu({0}, 0.01)", lambda t, a: t.nn.functional.leaky_relu(a)),
    "clamp": (1, "clamp({0}, -0.5, 0.5)", lambda t, a: t.clamp(a, -0.5, 0.5)),
    "floor": (1, "floor({0})", lambda t, a: t.floor(a)),
    "add": (2, "{0} + {1}", lambda t, a, b: a + b),
    "divide": (2, "{0} / {1}", lambda t, a, b: a / b),
    "maximum": (2, "max({0}, {1})", lambda t, a, b: t.maximum(a, b)),
    "atan2": (2, "atan2({0}, {1})", lambda t, a, b: t.atan2(a, b)),
    "mish": (1, "{0} * tanh(softplus({0}))", lambda t, a: t.nn.functional.mish(a)),
    "hardswish": (
        1,
        "{0} * clamp({0} + 3, 0, 6) / 6",
        lambda t, a: t.nn.functional.hardswish(a),
    ),
    "lerp": (3, "{0} + {2} * ({1} - {0})", lambda t, a, b, c: t.lerp(a, b, c)),
    "where": (3, "{0} > 0 ? {1} : {2}", lambda t, a, b, c: t.where(a > 0, b, c)),
    "geglu": (2, "gelu({0}) * {1}", lambda t, a, b: t.nn.functional.gelu(a) * b),
}


def _point(rng: random.Random) -> Workload:
    name = rng.choice(list(_POINTS))
    count, value, peer = _POINTS[name]
    n = size(rng, 100, 1 << 21)
    made = value.format(*(f"{x}(i)" for x in "ABC"[:count]))
    return rows.pointwise(name, made, peer, count, n)


FORMS: dict[str, Callable[[random.Random], Workload]] = {
    "element": _element,
    "moved": _moved,
    "point": _point,
}
