"""All workloads, and those of random shapes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from layers import LAYERNORM, SOFTMAX

from suite_parts import models, products, rows, windows
from suite_parts.workload import Workload, floats


def workloads() -> Iterator[Workload]:
    """Yield all of them."""
    for part in (products, windows, rows, models):
        yield from part.workloads()


def _size(rng: random.Random, low: int, high: int) -> int:
    """Return a size, as often between 10 and 100 as between 100 and 1000."""
    ratio: float = (high / low) ** rng.random()
    return round(low * ratio)


def _conv(rng: random.Random) -> Workload:
    window, image = rng.choice((1, 3, 3, 5)), _size(rng, 7, 64)
    channels, outputs = _size(rng, 3, 160), _size(rng, 3, 160)
    return windows.conv(
        rng.randint(1, 8), 1, channels, outputs, (image, image), (window, window),
        rng.choice((1, 1, 2)), rng.choice((0, window // 2)),
    )  # fmt: skip


def _depthwise(rng: random.Random) -> Workload:
    window = rng.choice((3, 3, 5, 7))
    sizes = rng.randint(1, 8), _size(rng, 8, 256), _size(rng, 8, 112)
    return windows.depthwise(*sizes, window, rng.choice((1, 2)), rng.choice((0, window // 2)))


def _pool(rng: random.Random) -> Workload:
    window = rng.choice((2, 3, 3))
    sizes = rng.randint(1, 8), _size(rng, 8, 128), _size(rng, 8, 112)
    padding = rng.choice((0, 1)) if window == 3 else 0
    return windows.pool(rng.choice(("max", "average")), *sizes, window, rng.choice((1, 2)), padding)


def _softmax(rng: random.Random) -> Workload:
    b, n = _size(rng, 1, 4096), _size(rng, 2, 4096)
    return Workload(
        f"softmax {b}x{n}", "rows", SOFTMAX, floats((b, n)), lambda t, x: t.softmax(x, 1)
    )


def _layernorm(rng: random.Random) -> Workload:
    b, n = _size(rng, 1, 4096), _size(rng, 2, 4096)
    return Workload(
        f"layernorm {b}x{n}",
        "rows",
        LAYERNORM,
        floats((b, n), (n,), (n,)),
        lambda t, x, g, h: t.nn.functional.layer_norm(x, (n,), g, h),
    )


def _product(rng: random.Random) -> Workload:
    m, k, n = (_size(rng, 1, 2048) for _ in range(3))
    return products.product(m, k, n, rng.choice(list(products.LAYOUTS)))


def _batched(rng: random.Random) -> Workload:
    sizes = f"b={_size(rng, 2, 512)} " + " ".join(f"{c}={_size(rng, 2, 160)}" for c in "mkn")
    return products.einsum(f"bmm {sizes}", "batched products", "bmk,bkn->bmn", sizes)


def _permute(rng: random.Random) -> Workload:
    rank = rng.randint(2, 5)
    before = "abcde"[:rank]
    after = "".join(rng.sample(before, rank))
    shape = tuple(_size(rng, 2, round(4e6 ** (1 / rank))) for _ in before)
    return rows.permuted(f"{before}->{after}", shape)


def _scan(rng: random.Random) -> Workload:
    dim = rng.randint(0, 1)
    shape = _size(rng, 1, 2048), _size(rng, 2, 2048)
    return rows.scan("cumsum", "{before} + {x}", shape, lambda t, x: x.cumsum(dim), dim)


def _reduction(rng: random.Random) -> Workload:
    shape = _size(rng, 1, 4096), _size(rng, 1, 4096)
    name = rng.choice(("row sums", "column sums", "row argmax", "column argmax"))
    index, dim = ("i", 1) if "row" in name else ("j", 0)
    op, method = ("argmax=!", "argmax") if "arg" in name else ("+=!", "sum")
    return rows.reduction(
        name, f"O({index}) {op} X(i,j)", shape, lambda t, x: getattr(x, method)(dim),
        lambda x: getattr(x, method)(dim),
    )  # fmt: skip


FORMS: dict[str, Callable[[random.Random], Workload]] = {
    "product": _product,
    "batched": _batched,
    "conv": _conv,
    "depthwise": _depthwise,
    "pool": _pool,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "reduction": _reduction,
    "scan": _scan,
    "permute": _permute,
}


def random_shapes(count: int, seed: int) -> Iterator[str]:
    """Yield the names of `count` workloads of random shapes for each form."""
    for form in FORMS:
        for i in range(count):
            yield f"random {form} {seed} {i}"


def find(name: str) -> Workload:
    """Return the workload of a name, also of one of a random shape."""
    if name.startswith("random "):
        _, form, seed, i = name.split()
        return FORMS[form](random.Random(f"{form} {seed} {i}"))
    return next(w for w in workloads() if w.name == name)
