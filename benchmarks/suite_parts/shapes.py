"""Workloads of random shapes, form by form; a seed and a number tell each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

from layers import LAYERNORM, SOFTMAX

from suite_parts import (
    axis_shapes,
    element_shapes,
    models,
    products,
    rows,
    type_shapes,
    window_shapes,
    windows,
)
from suite_parts.workload import Input, Workload, definition, floats, size

_MOST = 1 << 22  # points of an operand where only its rank is given
_MOST_TERMS = 1 << 28  # of a contraction


# ---- products


def _product(rng: random.Random) -> Workload:
    m, k, n = (size(rng, 1, 2048) for _ in range(3))
    return products.product(m, k, n, rng.choice(list(products.LAYOUTS)))


def _linear(rng: random.Random) -> Workload:
    return products.linear(*(size(rng, 1, 2048) for _ in range(3)))


def _batched(rng: random.Random) -> Workload:
    sizes = f"b={size(rng, 2, 512)} " + " ".join(f"{c}={size(rng, 2, 160)}" for c in "mkn")
    spec = rng.choice(("bmk,bkn->bmn", "bmk,bnk->bmn", "bkm,bkn->bmn", "mbk,kbn->mbn"))
    return products.einsum(f"bmm {spec} {sizes}", "batched products", spec, sizes)


def _contraction(rng: random.Random) -> Workload:
    """Return a product over letters of which each operand has some, in any order."""
    parts = {"m": rng.randint(1, 2), "n": rng.randint(1, 2), "k": rng.randint(1, 2)}
    letters = iter("abcdef")
    of = {part: [next(letters) for _ in range(count)] for part, count in parts.items()}
    names = [x for found in of.values() for x in found]
    most = round(_MOST_TERMS ** (1 / len(names)))
    sizes = " ".join(f"{x}={size(rng, 4, most)}" for x in names)
    sides = (rng.sample(s, len(s)) for s in (of["m"] + of["k"], of["n"] + of["k"]))
    left, right = ("".join(s) for s in sides)
    out = "".join(rng.sample(of["m"] + of["n"], parts["m"] + parts["n"]))
    spec = f"{left},{right}->{out}"
    return products.einsum(f"{spec} {sizes}", "odd contractions", spec, sizes)


# ---- windows


def _conv(rng: random.Random) -> Workload:
    window, image = rng.choice((1, 3, 3, 5)), size(rng, 7, 64)
    channels, outputs = size(rng, 3, 160), size(rng, 3, 160)
    return windows.conv(
        rng.randint(1, 8), 1, channels, outputs, (image, image), (window, window),
        rng.choice((1, 1, 2)), rng.choice((0, window // 2)),
    )  # fmt: skip


def _grouped(rng: random.Random) -> Workload:
    window, image = rng.choice((1, 3, 3, 5)), size(rng, 7, 56)
    channels, outputs, groups = size(rng, 2, 32), size(rng, 2, 32), size(rng, 2, 32)
    return windows.conv(
        rng.randint(1, 8), groups, channels, outputs, (image, image), (window, window),
        rng.choice((1, 1, 2)), rng.choice((0, window // 2)), "grouped convolutions",
    )  # fmt: skip


def _depthwise(rng: random.Random) -> Workload:
    window = rng.choice((3, 3, 5, 7))
    sizes = rng.randint(1, 8), size(rng, 8, 256), size(rng, 8, 112)
    return windows.depthwise(*sizes, window, rng.choice((1, 2)), rng.choice((0, window // 2)))


def _pool(rng: random.Random) -> Workload:
    window = rng.choice((2, 3, 3))
    sizes = rng.randint(1, 8), size(rng, 8, 128), size(rng, 8, 112)
    padding = rng.choice((0, 1)) if window == 3 else 0
    kind = rng.choice(("max", "average", "argmax"))
    return windows.pool(kind, *sizes, window, rng.choice((1, 2)), padding)


# ---- rows and points


def _softmax(rng: random.Random) -> Workload:
    b, n = size(rng, 1, 4096), size(rng, 2, 4096)
    return Workload(
        f"softmax {b}x{n}", "rows", SOFTMAX, floats((b, n)), lambda t, x: t.softmax(x, 1)
    )


def _layernorm(rng: random.Random) -> Workload:
    b, n = size(rng, 1, 4096), size(rng, 2, 4096)
    return Workload(
        f"layernorm {b}x{n}",
        "rows",
        LAYERNORM,
        floats((b, n), (n,), (n,)),
        lambda t, x, g, h: t.nn.functional.layer_norm(x, (n,), g, h),
    )


def _reduction(rng: random.Random) -> Workload:
    shape = size(rng, 1, 4096), size(rng, 1, 4096)
    name = rng.choice(("row sums", "column sums", "row argmax", "column argmax"))
    index, dim = ("i", 1) if "row" in name else ("j", 0)
    op, method = ("argmax=!", "argmax") if "arg" in name else ("+=!", "sum")
    return rows.reduction(
        name, f"O({index}) {op} X(i,j)", shape, lambda t, x: getattr(x, method)(dim),
        lambda x: getattr(x, method)(dim),
    )  # fmt: skip


def _scan(rng: random.Random) -> Workload:
    dim = rng.randint(0, 1)
    shape = size(rng, 1, 2048), size(rng, 2, 2048)
    return rows.scan("cumsum", "{before} + {x}", shape, lambda t, x: x.cumsum(dim), dim)


def _permute(rng: random.Random) -> Workload:
    rank = rng.randint(2, 5)
    before = "abcde"[:rank]
    after = before
    while after == before:  # which NumPy and torch need not copy
        after = "".join(rng.sample(before, rank))
    shape = tuple(size(rng, 2, round(_MOST ** (1 / rank))) for _ in before)
    return rows.permuted(f"{before}->{after}", shape)


def _broadcast(rng: random.Random) -> Workload:
    """Return a pointwise function of a tensor and of two that lack some of its dimensions."""
    letters = "abcd"[: rng.randint(1, 4)]
    of = {x: size(rng, 2, round(_MOST ** (1 / len(letters)))) for x in letters}
    some = ["".join(x for x in letters if rng.random() < 0.6) for _ in range(2)]
    reads = [f"X{i}({','.join(s)})" if s else f"X{i}" for i, s in enumerate((letters, *some))]
    parameters = ", ".join(
        f"float({','.join(s.upper())}) X{i}" if s else f"float X{i}"
        for i, s in enumerate((letters, *some))
    )
    body = f"O({','.join(letters)}) = {reads[0]} * {reads[1]} + {reads[2]}"

    def wide(x: object, has: str) -> object:
        return x.reshape([of[c] if c in has else 1 for c in letters])  # type: ignore[attr-defined]

    shapes = [tuple(of[x] for x in s) for s in (letters, *some)]
    name = f"{letters}*{some[0] or 1}+{some[1] or 1} {'x'.join(map(str, shapes[0]))}"
    return Workload(
        name,
        "pointwise",
        definition("broadcast", parameters, body),
        floats(*shapes),
        lambda t, x, y, z: t.addcmul(wide(z, some[1]), x, wide(y, some[0])),
    )


# ---- models


def _attention(rng: random.Random) -> Workload:
    return models.attention(size(rng, 1, 48), size(rng, 4, 1024), rng.random() < 0.5)


def _lookup(rng: random.Random) -> Workload:
    count, width, long = size(rng, 4, 50_000), size(rng, 1, 512), size(rng, 1, 8192)
    places = Input((long,), "int64", 0, count)
    table = Input((count, width))
    if rng.random() < 0.5:
        return Workload(
            f"lookup {count}x{width}, {long}",
            "lookups",
            models.LOOKUP,
            (table, places),
            lambda t, e, i: t.nn.functional.embedding(i, e),
        )
    return Workload(
        f"scatter add {count}x{width}, {long}",
        "lookups",
        models.SCATTER,
        (table, places, Input((long, width))),
        lambda t, x, i, y: x.index_add(0, i, y),
    )


def _gradient(rng: random.Random) -> Workload:
    # no relu: a sum next to 0 has another sign in another order, and its gradient is there or not
    makers = (
        _conv, _grouped, _depthwise, _softmax, _layernorm, _batched, _product, _attention,
        *window_shapes.FORMS.values(), axis_shapes.norm,
    )  # fmt: skip
    while True:
        layer = rng.choice(makers)(rng)
        if "argmax" not in layer.name:
            return models.back(layer)


FORMS: dict[str, Callable[[random.Random], Workload]] = {
    "product": _product,
    "linear": _linear,
    "batched": _batched,
    "contraction": _contraction,
    "conv": _conv,
    "grouped": _grouped,
    "depthwise": _depthwise,
    "pool": _pool,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "reduction": _reduction,
    "scan": _scan,
    "permute": _permute,
    "broadcast": _broadcast,
    "attention": _attention,
    "lookup": _lookup,
    **window_shapes.FORMS,
    **axis_shapes.FORMS,
    **element_shapes.FORMS,
    **type_shapes.FORMS,
    "gradient": _gradient,
}


def random_shapes(count: int, seed: int, forms: Iterable[str] = FORMS) -> Iterator[str]:
    """Yield the names of `count` workloads of random shapes for each form."""
    for form in forms:
        for i in range(count):
            yield f"random {form} {seed} {i}"


def of_name(name: str) -> Workload:
    """Return the workload that such a name tells."""
    _, form, seed, i = name.split()
    return FORMS[form](random.Random(f"{form} {seed} {i}"))


def form_of(name: str) -> str:
    """Return the form that such a name tells."""
    return name.split()[1]
