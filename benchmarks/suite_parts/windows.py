"""Convolutions, pools and stencils."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from suite_parts.workload import Input, Workload, definition, floats


def _taps(index: str, offset: str, stride: int, padding: int) -> str:
    scaled = index if stride == 1 else f"{stride} * {index}"
    return f"{scaled} + {offset}" + (f" - {padding}" if padding else "")


def _out(size: int, window: int, stride: int, padding: int) -> int:
    return (size + 2 * padding - window) // stride + 1


def _read(tensor: str, leading: str, stride: int, padding: int, v: str) -> str:
    rows, columns = _taps("y", "i", stride, padding), _taps("x", "j", stride, padding)
    return f"pad({tensor}({leading}, {rows}, {columns}), {v})"


def conv(
    batch: int, groups: int, channels: int, outputs: int, size: tuple[int, int],
    window: tuple[int, int], stride: int = 1, padding: int = 0, kind: str = "convolutions",
) -> Workload:  # fmt: skip
    """Return a convolution of images; `channels` and `outputs` are those of a group."""
    high, wide = (_out(s, k, stride, padding) for s, k in zip(size, window, strict=True))
    read = _read("I", "n, g, c" if groups > 1 else "n, c", stride, padding, "0")
    ranges = f"y in 0:{high}, x in 0:{wide}"
    if groups > 1:
        parameters = f"float(N,G,C,H,W) I, float(G,F,C,{window[0]},{window[1]}) K"
        body = f"O(n, g, f, y, x) +=! {read} * K(g, f, c, i, j)\n    where {ranges}"
        images: tuple[int, ...] = (batch, groups, channels, *size)
        weights: tuple[int, ...] = (groups, outputs, channels, *window)
    else:
        parameters = f"float(N,C,H,W) I, float(F,C,{window[0]},{window[1]}) K"
        body = f"O(n, f, y, x) +=! {read} * K(f, c, i, j)\n    where {ranges}"
        images, weights = (batch, channels, *size), (outputs, channels, *window)

    def by_torch(torch: Any, x: Any, w: Any) -> Any:
        if groups > 1:
            x, w = x.flatten(1, 2), w.flatten(0, 1)
        return torch.nn.functional.conv2d(x, w, stride=stride, padding=padding, groups=groups)

    name = f"conv N{batch} {f'G{groups} ' if groups > 1 else ''}C{channels} F{outputs}"
    name += f" {size[0]}x{size[1]} k{window[0]}x{window[1]} s{stride} p{padding}"
    text = definition("conv", parameters, body)
    inputs = floats(images, weights)
    return Workload(name, kind, text, inputs, by_torch, channels_last=groups == 1)


def depthwise(
    batch: int, channels: int, size: int, window: int, stride: int = 1, padding: int = 0
) -> Workload:
    """Return a convolution of each channel with a window of its own."""
    end = _out(size, window, stride, padding)
    read = _read("I", "n, c", stride, padding, "0")
    text = definition(
        "depthwise",
        f"float(N,C,H,W) I, float(C,{window},{window}) K",
        f"O(n, c, y, x) +=! {read} * K(c, i, j) where y in 0:{end}, x in 0:{end}",
    )

    def by_torch(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(
            x, w.unsqueeze(1), stride=stride, padding=padding, groups=channels
        )

    name = f"depthwise N{batch} C{channels} {size} k{window} s{stride} p{padding}"
    shapes = ((batch, channels, size, size), (channels, window, window))
    return Workload(name, "depthwise", text, floats(*shapes), by_torch, channels_last=True)


def pool(
    name: str, batch: int, channels: int, size: int, window: int, stride: int, padding: int
) -> Workload:
    """Return a pool by name: max, argmax (the places in the image), average, L2."""
    end = _out(size, window, stride, padding)
    ranges = f"where i in 0:{window}, j in 0:{window}, y in 0:{end}, x in 0:{end}"
    edge = "-inf" if "max" in name else "0"
    read = _read("I", "n, c", stride, padding, edge)
    body = {
        "max": f"O(n, c, y, x) max=! {read} {ranges}",
        "argmax": f"P(n, c, y, x) argmax=! {read} {ranges}\n"
        f"  O(n, c, y, x) = ({stride} * y + P(n, c, y, x) / {window} - {padding}) * W"
        f" + {stride} * x + P(n, c, y, x) % {window} - {padding}",
        "average": f"S(n, c, y, x) +=! {read} {ranges}\n"
        f"  O(n, c, y, x) = S(n, c, y, x) / {window * window}",
        "L2": f"S(n, c, y, x) +=! {read} * {read} {ranges}\n  O(n, c, y, x) = sqrt(S(n, c, y, x))",
    }[name]

    def by_torch(torch: Any, x: Any) -> Any:
        f = torch.nn.functional
        if name == "L2":
            return f.lp_pool2d(x, 2, window, stride)
        if name == "average":
            return f.avg_pool2d(x, window, stride, padding)
        found = f.max_pool2d(x, window, stride, padding, return_indices=name == "argmax")
        return found[1] if name == "argmax" else found

    label = f"{name} pool N{batch} C{channels} {size} k{window} s{stride} p{padding}"
    inputs = floats((batch, channels, size, size))
    text = definition("pool", "float(N,C,H,W) I", body)
    tolerance = 0.0 if name == "argmax" else 1e-3  # a place is right or wrong
    return Workload(label, "pools", text, inputs, by_torch, channels_last=True, tolerance=tolerance)


def heat(size: int, turns: int, padded: bool) -> Workload:
    """Return turns of a stencil of five points."""
    places = ("y - 1, x", "y + 1, x", "y, x - 1", "y, x + 1")
    around = (f"pad(H(t, {p}), 0)" if padded else f"H(t, {p})" for p in places)
    ends = f"y in 0:{size}, x in 0:{size}" if padded else f"y in 1:{size - 1}, x in 1:{size - 1}"
    keep = "" if padded else "    H(t + 1, y, x) = H(t, y, x) where y in 0:N, x in 0:N\n"
    text = f"""def heat(float(N,N) X) -> (float({turns + 1},N,N) H) {{
  H(0, y, x) = X(y, x)
  for t in 0:{turns} {{
{keep}    H(t + 1, y, x) = H(t, y, x) + 0.1 * ({" + ".join(around)} - 4 * H(t, y, x))
        where {ends}
  }}
}}"""

    def by_torch(torch: Any, x: Any) -> Any:
        steps = [x]
        inner = slice(1, -1)
        for _ in range(turns):
            h = steps[-1]
            p = torch.nn.functional.pad(h, (1, 1, 1, 1)) if padded else h
            around = p[:-2, inner] + p[2:, inner] + p[inner, :-2] + p[inner, 2:]
            if padded:
                steps.append(h + 0.1 * (around - 4 * h))
            else:
                new = h.clone()
                new[inner, inner] += 0.1 * (around - 4 * h[inner, inner])
                steps.append(new)
        return torch.stack(steps)

    name = f"heat {size}x{size} {turns} turns{' padded' if padded else ''}"
    return Workload(name, "stencils", text, floats((size, size)), by_torch)


def _blur() -> Workload:
    text = definition(
        "blur",
        "float(H,W) I, float(5,5) K",
        "O(y, x) +=! pad(I(y + i - 2, x + j - 2), 0) * K(i, j) where y in 0:H, x in 0:W",
    )

    def by_torch(torch: Any, x: Any, k: Any) -> Any:
        return torch.nn.functional.conv2d(x[None, None], k[None, None], padding=2)[0, 0]

    inputs = floats((1024, 1024), (5, 5))
    return Workload("blur 5x5 1024x1024", "stencils", text, inputs, by_torch)


def _volume() -> Workload:
    text = definition(
        "conv3d",
        "float(N,C,D,H,W) I, float(F,C,3,3,3) K",
        "O(n, f, z, y, x) +=! I(n, c, z + k, y + i, x + j) * K(f, c, k, i, j)",
    )
    return Workload(
        "conv3d N2 C16 F16 18^3 k3",
        "convolutions",
        text,
        floats((2, 16, 18, 18, 18), (16, 16, 3, 3, 3)),
        lambda t, x, w: t.nn.functional.conv3d(x, w),
    )


def channels_last() -> Workload:
    """Return a depthwise convolution of images whose channels lie next to each other."""
    text = definition(
        "depthwise",
        "float(N,H,W,C) I, float(3,3,C) K",
        "O(n, y, x, c) +=! pad(I(n, y + i - 1, x + j - 1, c), 0) * K(i, j, c)\n"
        "      where y in 0:H, x in 0:W",
    )

    def by_torch(torch: Any, x: Any, w: Any) -> Any:
        y = torch.nn.functional.conv2d(
            x.permute(0, 3, 1, 2), w.permute(2, 0, 1).unsqueeze(1), padding=1, groups=x.shape[3]
        )
        return y.permute(0, 2, 3, 1)

    inputs = floats((8, 56, 56, 64), (3, 3, 64))
    return Workload("depthwise channels last N8 C64 56", "depthwise", text, inputs, by_torch)


def _one_dimension() -> Workload:
    text = definition(
        "conv1d", "float(N,C,L) I, float(F,C,5) K", "O(n, f, x) +=! I(n, c, x + i) * K(f, c, i)"
    )
    return Workload(
        "conv1d N16 C64 F64 512 k5",
        "convolutions",
        text,
        (Input((16, 64, 512)), Input((64, 64, 5))),
        lambda t, x, w: t.nn.functional.conv1d(x, w),
    )


def workloads() -> Iterator[Workload]:
    """Yield the windows."""
    yield conv(32, 1, 16, 16, (56, 56), (3, 3))
    yield conv(32, 1, 4, 4, (56, 56), (3, 3))
    yield conv(8, 1, 64, 64, (56, 56), (3, 3), 1, 1)
    yield conv(8, 1, 64, 128, (56, 56), (3, 3), 2, 1)
    yield conv(8, 1, 256, 256, (14, 14), (3, 3), 1, 1)
    yield conv(8, 1, 64, 256, (56, 56), (1, 1))
    yield conv(8, 1, 3, 64, (224, 224), (7, 7), 2, 3)
    yield conv(8, 1, 4, 8, (143, 55), (13, 24))
    yield conv(32, 32, 16, 16, (14, 14), (3, 3), kind="grouped convolutions")
    yield conv(32, 32, 4, 16, (7, 7), (3, 3), kind="grouped convolutions")
    yield conv(32, 32, 4, 4, (56, 56), (3, 3), kind="grouped convolutions")
    yield _one_dimension()
    yield _volume()
    yield depthwise(8, 64, 56, 3)
    yield depthwise(8, 64, 56, 3, 1, 1)
    yield depthwise(8, 128, 56, 3, 2, 1)
    yield depthwise(1, 256, 14, 5, 1, 2)
    yield depthwise(8, 96, 28, 7, 1, 3)
    yield channels_last()
    yield pool("max", 32, 64, 56, 2, 2, 0)
    yield pool("max", 8, 64, 112, 3, 2, 1)
    yield pool("argmax", 8, 64, 112, 3, 2, 1)
    yield pool("average", 32, 64, 56, 2, 2, 0)
    yield pool("average", 8, 64, 56, 3, 1, 1)
    yield pool("L2", 8, 64, 56, 2, 2, 0)
    yield heat(1000, 10, False)
    yield heat(1000, 10, True)
    yield _blur()
