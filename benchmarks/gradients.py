"""Gradients beside their forward passes and beside torch, none of them tuned.

`python benchmarks/gradients.py [--seconds 2] [--threads N] [--only TEXT] [--json FILE]` prints, for
each layer, the microseconds of the forward pass and of the whole gradient, the gradient's time per
useful flop over the forward's, how many times faster than torch both are, and the forms that the
statements of the gradient have (of an executable for these sizes).

Useful flops are those of the taps that exist: each product of the forward pass stands once in the
gradient by either operand, so a gradient has `work` times as many, 2 for a layer of two operands.
`limit` is the largest ratio that is asked for. All calls write into given outputs where the
library can, in one process, in turns; times are 20 % quantiles.
"""

from __future__ import annotations

import os

# Two pools of threads on the same cores only measure each other: let idle ones sleep.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from beside_torch import in_turns, use_threads
from layers import BATCHED, LINEAR, LSTM, MATMUL, SOFTMAX
from operands import Array, check, kernel, rand
from reports import Table, asking, facts, keep

from tcdsl.kernel import Kernel
from tcdsl.tools.describe import describe

F = torch.nn.functional

CONV = """
def conv(float(N,C,H,W) I, float(F,C,KH,KW) P) -> (O) {{
  O(n,f,y,x) +=! pad(I(n, c, {s}*y + i - {p}, {s}*x + j - {p}), 0) * P(f,c,i,j)
      where y in 0:(H + 2*{p} - KH)/{s} + 1, x in 0:(W + 2*{p} - KW)/{s} + 1
}}"""
BAG = """
def bag(float(V,D) E, int64(B,L) I) -> (O) {
  O(b,d) +=! E(I(b,l), d) where l in 0:L
}"""


@dataclass(frozen=True)
class Layer:
    """A definition, its inputs, and what torch does instead.

    work: useful flops of the gradient over those of the forward pass. limit: of the gradient's
    time per useful flop over the forward's, or None where no limit is set.
    """

    name: str
    text: str
    inputs: tuple[Array, ...]
    peer: Callable[..., torch.Tensor]
    work: float = 2
    limit: float | None = 1.15


def conv(n: int, c: int, f: int, size: int, window: int, stride: int, pad: int) -> Layer:
    """Return a convolution of square images."""
    return Layer(
        f"conv {window}x{window} N{n} C{c} F{f} {size}x{size} s{stride} p{pad}",
        CONV.format(s=stride, p=pad).replace(" - 0", "").replace("1*", ""),
        (rand(n, c, size, size), rand(f, c, window, window)),
        functools.partial(F.conv2d, stride=stride, padding=pad),
    )


def layers() -> Iterator[Layer]:
    """Yield the layers."""
    for m, k, n in ((512, 512, 512), (1024, 1024, 1024), (130, 77, 41)):
        name = f"matmul {m}x{k}x{n}"
        yield Layer(name, MATMUL, (rand(m, k), rand(k, n)), torch.matmul)
    yield Layer("linear 128x1024x1024", LINEAR, (rand(128, 1024), rand(1024, 1024)), F.linear)
    for p, m, k, n in ((500, 26, 72, 26), (64, 128, 128, 128)):
        inputs = rand(p, m, k), rand(p, k, n)
        yield Layer(f"batched matmul {p}x({m}x{k}x{n})", BATCHED, inputs, torch.bmm)
    yield conv(8, 64, 64, 58, 3, 1, 0)
    yield conv(8, 64, 64, 56, 3, 1, 1)
    yield conv(8, 64, 64, 56, 3, 2, 1)
    yield conv(8, 256, 256, 14, 3, 1, 1)
    yield conv(8, 256, 256, 14, 3, 2, 1)
    yield conv(8, 512, 512, 7, 3, 1, 1)
    yield conv(32, 16, 16, 56, 3, 1, 1)
    yield conv(32, 16, 16, 56, 3, 2, 1)
    yield conv(8, 64, 64, 56, 5, 1, 2)
    yield conv(8, 64, 128, 56, 1, 1, 0)
    yield conv(8, 3, 64, 224, 7, 2, 3)
    yield lstm(64, 32, 256)
    yield lstm(64, 8, 64)
    rows = np.random.default_rng(0).integers(0, 1000, (4096, 16))
    yield Layer(
        "embedding bag 1000x64, 4096x16",
        BAG,
        (rand(1000, 64), rows),
        lambda table, i: F.embedding_bag(i, table, mode="sum"),
        work=1,
        limit=None,
    )
    softmax = functools.partial(torch.softmax, dim=1)
    yield Layer("softmax 1024x1024", SOFTMAX, (rand(1024, 1024),), softmax, work=1, limit=None)


def lstm(turns: int, batch: int, hidden: int) -> Layer:
    """Return an LSTM whose gradient may take 4 times as long as its forward pass."""
    scale = np.float32(hidden**-0.5)
    w, u = (rand(4, hidden, hidden) * scale for _ in range(2))
    nothing = torch.zeros(4 * hidden)

    def peer(x: Any, h: Any, c: Any, w: Any, u: Any) -> torch.Tensor:
        weights = w.flatten(0, 1), u.flatten(0, 1), nothing, nothing
        y, _, _ = torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, True, False, False)
        return torch.cat((h[None], y))

    state = np.zeros((batch, hidden), np.float32)
    return Layer(
        f"LSTM T{turns} B{batch} N{hidden}",
        LSTM,
        (rand(turns, batch, hidden), state, state.copy(), w, u),
        peer,
        work=1,
        limit=4,
    )


def measure(layer: Layer, seconds: float) -> dict[str, Any]:
    """Return times in microseconds, ratios, and the forms of the gradient."""
    k = kernel(layer.text)
    made = k.with_grad().of(k.variant())
    forward, backward = made.forward, made.backward
    results = listed(forward(*layer.inputs))
    found = dict(zip(forward.returns, results, strict=True))
    adjoints = [rand(*found[name].shape) for name in k.returns[:1]]
    adjoints += [np.zeros_like(found[name]) for name in k.returns[1:]]
    given = (*layer.inputs, *(found[name] for name in made.gradient.kept), *adjoints)
    grads = listed(backward(*given))

    leaves = [torch.tensor(x, requires_grad=x.dtype == np.float32) for x in layer.inputs]
    wanted = [x for x in leaves if x.requires_grad]
    result = layer.peer(*leaves)
    seed = torch.from_numpy(adjoints[0])

    def torch_forward() -> object:
        with torch.no_grad():
            return layer.peer(*leaves)

    def torch_backward() -> Sequence[torch.Tensor]:
        return torch.autograd.grad(result, wanted, seed, retain_graph=True, allow_unused=True)

    check(layer.name, results[0], result.detach().numpy(), 1e-3)
    for ours, theirs in zip(grads, torch_backward(), strict=True):
        if theirs is not None:
            check(f"the gradient of {layer.name}", ours, theirs.numpy(), 1e-3)
    out, d_out = (x if len(x) > 1 else x[0] for x in (tuple(results), tuple(grads)))
    us = in_turns(
        {"torch forward": torch_forward, "torch backward": torch_backward},
        {
            "forward": lambda: forward(*layer.inputs, out=out),
            "backward": lambda: backward(*given, out=d_out),
        },
        seconds,
    )
    return {
        "layer": layer.name,
        "time_us": us,
        "ratio": us["backward"] / us["forward"] / layer.work,
        "limit": layer.limit,
        "torch/forward": us["torch forward"] / us["forward"],
        "torch/backward": us["torch backward"] / us["backward"],
        "forms": forms(backward, given),
    }


def listed(results: Any) -> list[Array]:
    """Return the results of a call, one or several."""
    return list(results) if isinstance(results, tuple) else [results]


def forms(k: Kernel, args: Sequence[Any]) -> list[str]:
    """Return the forms of a kernel's statements at the sizes of a call, with how many have each."""
    sizes = k.session.bind(k.definition, list(args), {})[1]
    found = describe(k.variant(), sizes)["statements"]
    counts = Counter(str(s["form"]).split(": ")[-1] for s in found)
    return [form if n == 1 else f"{n} {form}" for form, n in counts.items()]


def main() -> None:
    options = asking(__doc__, 2.0, "per layer").parse_args()
    threads = use_threads(options.threads)
    print(f"{threads} threads, torch {torch.__version__}, times in us")
    heads = {"forward": "9.0f", "gradient": "10.0f", "per flop": "10.2f", "limit": "7"}
    table = Table("layer", 34, {**heads, "x torch": "9.2f", "gradient x": "11.2f"})
    rows = []
    for layer in layers():
        if options.only not in layer.name:
            continue
        row = measure(layer, options.seconds)
        rows.append(row)
        us, ratio, limit = row["time_us"], row["ratio"], row["limit"]
        beside = row["torch/forward"], row["torch/backward"]
        late = " above" if limit and ratio > limit else ""
        table.row(layer.name, us["forward"], us["backward"], ratio, limit, *beside, note=late)
        print(f"    {', '.join(row['forms'])}", flush=True)
    keep({**facts(), "torch": torch.__version__, "layers": rows}, options.json)


if __name__ == "__main__":
    main()
