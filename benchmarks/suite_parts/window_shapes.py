"""Random shapes of windows that are not images of squares with their channels first."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from suite_parts.workload import Workload, definition, floats, size


def _read(offsets: tuple[str, str], stride: int, padding: int, dilation: int = 1) -> str:
    index, offset = offsets
    scaled = index if stride == 1 else f"{stride} * {index}"
    moved = offset if dilation == 1 else f"{dilation} * {offset}"
    return f"{scaled} + {moved}" + (f" - {padding}" if padding else "")


def _channels_last(rng: random.Random) -> Workload:
    """Return a convolution or a pool whose channels are next to each other."""
    kind = rng.choice(("conv", "conv", "depthwise", "max pool", "average pool"))
    k, stride = rng.choice((1, 3, 3, 5) if kind == "conv" else (2, 3, 3, 5)), rng.choice((1, 1, 2))
    p = rng.choice((0, k // 2))
    n, high, wide, c, f = (
        rng.randint(1, 8), size(rng, 8, 64), size(rng, 8, 64), size(rng, 3, 160), size(rng, 3, 160)
    )  # fmt: skip
    ends = [(s + 2 * p - k) // stride + 1 for s in (high, wide)]
    edge = "-inf" if kind == "max pool" else "0"
    at = f"n, {_read(('y', 'i'), stride, p)}, {_read(('x', 'j'), stride, p)}, c"
    read = f"pad(I({at}), {edge})"
    ranges = f"where i in 0:{k}, j in 0:{k}, y in 0:{ends[0]}, x in 0:{ends[1]}"
    weights: tuple[int, ...] = ()
    order: tuple[int, ...] = ()  # of the weights' dimensions, as torch has them
    images = "float(N,H,W,C) I"
    if kind == "conv":
        dims, reads, order = rng.choice(
            (
                ("F,{k},{k},C", "f, i, j, c", (0, 3, 1, 2)),
                ("{k},{k},C,F", "i, j, c, f", (3, 2, 0, 1)),
            )
        )
        named = {"F": f, "C": c}
        weights = tuple(named.get(d, k) for d in dims.split(","))
        parameters = f"{images}, float({dims.format(k=k)}) K"
        body = f"O(n, y, x, f) +=! {read} * K({reads}) {ranges}"
        label = f"{c} F{f} K{reads.replace(', ', '')}"
    else:
        parameters, label = images, str(c)
        if kind == "depthwise":
            parameters, weights = f"{images}, float({k},{k},C) K", (k, k, c)
            body = f"O(n, y, x, c) +=! {read} * K(i, j, c) {ranges}"
        elif kind == "max pool":
            body = f"O(n, y, x, c) max=! {read} {ranges}"
        else:
            body = f"S(n, y, x, c) +=! {read} {ranges}\n  O(n, y, x, c) = S(n, y, x, c) / {k * k}"

    def by_torch(torch: Any, x: Any, *w: Any) -> Any:
        f, x = torch.nn.functional, x.permute(0, 3, 1, 2)
        if kind == "conv":
            y = f.conv2d(x, w[0].permute(order), stride=stride, padding=p)
        elif kind == "depthwise":
            w = w[0].permute(2, 0, 1).unsqueeze(1)
            y = f.conv2d(x, w, stride=stride, padding=p, groups=c)
        else:
            y = (f.max_pool2d if kind == "max pool" else f.avg_pool2d)(x, k, stride, p)
        return y.permute(0, 2, 3, 1)

    return Workload(
        f"{kind} channels last N{n} {high}x{wide} C{label} k{k} s{stride} p{p}",
        "channels last",
        definition("channels_last", parameters, body),
        floats((n, high, wide, c), *((weights,) if weights else ())),
        by_torch,
    )


def _transposed(rng: random.Random) -> Workload:
    """Return a convolution in which each pixel adds a window to the output."""
    k, stride = rng.choice((2, 3, 4, 5)), rng.choice((1, 2, 2, 3))
    n, c, f, s = rng.randint(1, 8), size(rng, 3, 128), size(rng, 3, 128), size(rng, 4, 40)
    at = [f"{stride} * {i}" if stride > 1 else i for i in "yx"]
    text = definition(
        "transposed",
        f"float(N,C,H,W) I, float(C,F,{k},{k}) K",
        f"O(n, f, {at[0]} + i, {at[1]} + j) +=! I(n, c, y, x) * K(c, f, i, j)",
        f"float(N,F,{stride} * (H - 1) + {k},{stride} * (W - 1) + {k}) O",
    )

    def by_torch(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv_transpose2d(x, w, stride=stride)

    name = f"transposed conv N{n} C{c} F{f} {s} k{k} s{stride}"
    inputs = floats((n, c, s, s), (c, f, k, k))
    return Workload(name, "transposed convolutions", text, inputs, by_torch, channels_last=True)


def _line(rng: random.Random) -> Workload:
    """Return a convolution along lines, dilated, of all channels or in groups or of each."""
    k, stride, dilation = rng.choice((2, 3, 5, 7, 9)), rng.choice((1, 1, 2)), rng.choice((1, 2, 4))
    n, long = size(rng, 1, 32), size(rng, 16, 2048) + dilation * k
    g = rng.choice((1, 1, 2, 4))
    c, f = size(rng, 1, 96), size(rng, 1, 96)
    is_deep = rng.random() < 0.25
    p = rng.choice((0, dilation * (k - 1) // 2))
    end = (long + 2 * p - dilation * (k - 1) - 1) // stride + 1
    at = _read(("x", "i"), stride, p, dilation)
    shapes: tuple[tuple[int, ...], ...]
    if is_deep:
        text = definition(
            "line", f"float(N,C,L) I, float(C,{k}) K",
            f"O(n, c, x) +=! pad(I(n, c, {at}), 0) * K(c, i) where x in 0:{end}",
        )  # fmt: skip
        shapes = (n, c, long), (c, k)
    elif g > 1:
        text = definition(
            "line", f"float(N,G,C,L) I, float(G,F,C,{k}) K",
            f"O(n, g, f, x) +=! pad(I(n, g, c, {at}), 0) * K(g, f, c, i) where x in 0:{end}",
        )  # fmt: skip
        shapes = (n, g, c, long), (g, f, c, k)
    else:
        text = definition(
            "line", f"float(N,C,L) I, float(F,C,{k}) K",
            f"O(n, f, x) +=! pad(I(n, c, {at}), 0) * K(f, c, i) where x in 0:{end}",
        )  # fmt: skip
        shapes = (n, c, long), (f, c, k)

    def by_torch(torch: Any, x: Any, w: Any) -> Any:
        if is_deep:
            w = w.unsqueeze(1)
        elif g > 1:
            x, w = x.flatten(1, 2), w.flatten(0, 1)
        groups = c if is_deep else g
        return torch.nn.functional.conv1d(x, w, None, stride, p, dilation, groups)

    kind = "each" if is_deep else f"G{g} C{c} F{f}"
    name = f"conv1d N{n} {f'C{c} ' if is_deep else ''}{kind} {long} k{k} s{stride} d{dilation} p{p}"
    return Workload(name, "lines", text, floats(*shapes), by_torch)


def _volume(rng: random.Random) -> Workload:
    k, stride = rng.choice((1, 3, 3)), rng.choice((1, 1, 2))
    p = rng.choice((0, k // 2))
    n, c, f = rng.randint(1, 3), size(rng, 1, 48), size(rng, 1, 48)
    sizes = tuple(size(rng, 5, 24) for _ in "zyx")
    ends = [(s + 2 * p - k) // stride + 1 for s in sizes]
    at = ", ".join(_read(pair, stride, p) for pair in (("z", "a"), ("y", "i"), ("x", "j")))
    ranges = ", ".join(f"{i} in 0:{e}" for i, e in zip("zyx", ends, strict=True))
    text = definition(
        "volume",
        f"float(N,C,D,H,W) I, float(F,C,{k},{k},{k}) K",
        f"O(n, f, z, y, x) +=! pad(I(n, c, {at}), 0) * K(f, c, a, i, j) where {ranges}",
    )
    name = f"conv3d N{n} C{c} F{f} {'x'.join(map(str, sizes))} k{k} s{stride} p{p}"
    return Workload(
        name,
        "volumes",
        text,
        floats((n, c, *sizes), (f, c, k, k, k)),
        lambda t, x, w: t.nn.functional.conv3d(x, w, stride=stride, padding=p),
    )


def _odd_pool(rng: random.Random) -> Workload:
    """Return a pool of windows that are no squares, that end beyond the image or take all of it."""
    n, c, high, wide = rng.randint(1, 8), size(rng, 4, 128), size(rng, 6, 96), size(rng, 6, 96)
    images = floats((n, c, high, wide))
    kind = rng.choice(("max", "max", "average", "line", "whole"))
    if kind == "whole":
        text = definition(
            "pool", "float(N,C,H,W) I", "S(n, c) +=! I(n, c, y, x)\n  O(n, c) = S(n, c) / (H * W)"
        )
        name = f"whole pool N{n} C{c} {high}x{wide}"
        return Workload(name, "pools", text, images, lambda t, x: x.mean((2, 3)))
    if kind == "line":
        k, stride = rng.choice((2, 3, 4)), rng.choice((1, 2))
        end = (wide - k) // stride + 1
        at = _read(("x", "j"), stride, 0)
        text = definition(
            "pool",
            "float(N,C,L) I",
            f"O(n, c, x) max=! I(n, c, {at}) where j in 0:{k}, x in 0:{end}",
        )
        name = f"max pool1d N{n * high} C{c} {wide} k{k} s{stride}"
        lines = floats((n * high, c, wide))
        return Workload(
            name, "pools", text, lines, lambda t, x: t.nn.functional.max_pool1d(x, k, stride)
        )
    windows, stride = (rng.randint(1, 5), rng.randint(2, 5)), rng.randint(1, 3)
    padding = tuple(rng.randint(0, k // 2) for k in windows)
    beyond = kind == "max"  # of averages torch counts what is beyond in its own way
    ends = [
        _out(s, k, stride, p, beyond)
        for s, k, p in zip((high, wide), windows, padding, strict=True)
    ]
    at = ", ".join(
        _read(pair, stride, p) for pair, p in zip((("y", "i"), ("x", "j")), padding, strict=True)
    )
    ranges = ", ".join(f"{i} in 0:{e}" for i, e in zip("ijyx", (*windows, *ends), strict=True))
    body = (
        f"O(n, c, y, x) max=! pad(I(n, c, {at}), -inf) where {ranges}"
        if kind == "max"
        else f"S(n, c, y, x) +=! pad(I(n, c, {at}), 0) where {ranges}\n"
        f"  O(n, c, y, x) = S(n, c, y, x) / {windows[0] * windows[1]}"
    )

    def by_torch(torch: Any, x: Any) -> Any:
        f = torch.nn.functional
        if kind == "max":
            return f.max_pool2d(x, windows, stride, padding, ceil_mode=True)
        return f.avg_pool2d(x, windows, stride, padding)

    name = f"{kind} pool N{n} C{c} {high}x{wide} k{windows[0]}x{windows[1]} s{stride} p{padding}"
    text = definition("pool", "float(N,C,H,W) I", body)
    return Workload(name, "pools", text, images, by_torch, channels_last=True)


def _out(size: int, window: int, stride: int, padding: int, beyond: bool) -> int:
    """Return how many windows there are; of those that end beyond, those that begin before."""
    rest = stride - 1 if beyond else 0
    count = (size + 2 * padding - window + rest) // stride + 1
    return count - (beyond and (count - 1) * stride >= size + padding)


FORMS: dict[str, Callable[[random.Random], Workload]] = {
    "channels-last": _channels_last,
    "transposed": _transposed,
    "line": _line,
    "volume": _volume,
    "odd-pool": _odd_pool,
}
