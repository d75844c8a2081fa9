"""Contractions against torch and the FMA peak, exact and size-generic, none of them tuned.

`python benchmarks/contraction.py [--seconds 2] [--only TEXT]` prints, for each problem, GFLOP/s of
the executable for its exact sizes and of the size-generic one, their ratio, the share of the peak
measured in the same run, and how many times faster than torch the exact one is. All calls write
into given outputs, in one process, in turns; times are 20 % quantiles.

`--random 30` compares, for each problem, the analytic schedule with that many random legal ones
instead: its share of the best one's speed, and which that is. The three that seem fastest are
timed again with it, or the luckiest of many would count as the best.
"""

from __future__ import annotations

import os

# Two pools of threads on the same cores only measure each other: let idle ones sleep.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import argparse
import functools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from common import Array, rand
from layers import BATCHED, CONV, FCRELU, LINEAR, MATMUL

import tcdsl as tc
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.variant import Variant
from tcdsl.codegen.choose import compile as compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.codegen.toolchain.peak import Probe, busy_notes, fma_probe
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.kernel import Kernel
from tcdsl.tools.timing import interleaved


@dataclass(frozen=True)
class Problem:
    """A definition, its inputs, what torch does instead, and the multiply-adds."""

    name: str
    text: str
    inputs: tuple[Array, ...]
    shape: tuple[int, ...]
    peer: Callable[..., torch.Tensor]
    fma: int


def problems() -> Iterator[Problem]:
    """Yield the problems, the large ones first."""
    squares = (1024, 1024, 1024), (263, 109, 1825), (839, 268, 38), (128, 32, 256)
    for m, k, n in (*squares, (64, 64, 64), (17, 33, 65)):
        inputs = rand(m, k), rand(k, n)
        yield Problem(f"{m}x{k}x{n}", MATMUL, inputs, (m, n), torch.mm, m * k * n)
    inputs = rand(500, 26, 72), rand(500, 72, 26)
    yield Problem("500x(26x72x26)", BATCHED, inputs, (500, 26, 26), torch.bmm, 500 * 26 * 72 * 26)
    for m, k, n in ((128, 1024, 1024), (100, 128, 100)):
        inputs3 = rand(m, k), rand(n, k), rand(n)
        yield Problem(
            f"fcrelu {m}x{k}x{n}",
            FCRELU,
            inputs3,
            (m, n),
            lambda a, w, c: torch.relu(torch.nn.functional.linear(a, w, c)),
            m * k * n,
        )
    for n, c, h in ((8, 64, 58), (32, 16, 58), (8, 256, 16)):
        inputs = rand(n, c, h, h), rand(c, c, 3, 3)
        shape = n, c, h - 2, h - 2
        count = n * c * c * 9 * (h - 2) ** 2
        yield Problem(f"conv N{n} C{c} {h}x{h}", CONV, inputs, shape, torch.conv2d, count)
    inputs = rand(128, 32), rand(256, 32)
    peer = torch.nn.functional.linear
    yield Problem("linear 128x32x256", LINEAR, inputs, (128, 256), peer, 128 * 32 * 256)
    for m in (1, 4, 16):
        inputs = rand(m, 1024), rand(1024, 1024)
        yield Problem(
            f"linear {m}x1024x1024",
            LINEAR,
            inputs,
            (m, 1024),
            torch.nn.functional.linear,
            m << 20,
        )


def kernel(text: str) -> Kernel:
    """Return the only definition of a text, never tuned."""
    k = tc.define(text, tune="off")
    assert isinstance(k, Kernel)
    return k


def measure(p: Problem, seconds: float, probe: Probe) -> dict[str, float]:
    """Return GFLOP/s by executable, and the peak: of the probe, or of who is faster than it."""
    out = np.zeros(p.shape, np.float32)
    tensors = [torch.from_numpy(x) for x in p.inputs]
    exact, generic = kernel(p.text), kernel(p.text)
    exact(*p.inputs, out=out)
    want = p.peer(*(t.double() for t in tensors)).numpy()
    assert np.allclose(out, want, atol=1e-3), f"{p.name} is wrong"
    # the first sizes get an executable of their own, the next ones a generic one
    generic(*(x[tuple(slice(0, 3) for _ in x.shape)].copy() for x in p.inputs))
    generic(*p.inputs, out=out)
    assert np.allclose(out, want, atol=1e-3), f"{p.name} is wrong with generic sizes"
    calls: dict[str, Callable[[], object]] = {
        "torch": lambda: p.peer(*tensors),
        "rest": lambda: time.sleep(1e-3),  # until threads of torch no longer spin
        "wake": lambda: exact(*p.inputs, out=out),  # our own threads
        "exact": lambda: exact(*p.inputs, out=out),
        "generic": lambda: generic(*p.inputs, out=out),
        "peak": probe,
    }
    rates = {name: 2 * p.fma / t.time_ns for name, t in interleaved(calls, seconds).items()}
    rates["peak"] = max(probe.rate, *(rates[name] for name in ("torch", "exact", "generic")))
    return rates


class Fixed(Session):
    """A session in which exact sizes follow one config."""

    def __init__(self, like: Session, config: Config) -> None:
        super().__init__(like.program, like.settings)
        self.config = config

    def tuned(self, variant: Variant) -> Callable[[Spec], Config | None]:
        return lambda spec: self.config


def compare(p: Problem, count: int, seconds: float) -> str:
    """Return how the default stands among random configs."""
    out = np.zeros(p.shape, np.float32)
    default = kernel(p.text)
    call = default.call(*p.inputs)
    of = call.variant.program, call.spec
    start = call.variant.default_config(call.spec, call.sizes)
    forms = compiler.choices(*of, call.variant.machine, call.sizes)
    ((form, *_), *_) = forms[str(start.get("partition", ""))]
    rng = random.Random(0)
    configs: dict[str, Config] = {"default": start}
    for _ in range(count):
        values = {f"g0.{knob.name}": rng.choice(knob.values) for knob in form.knobs}
        config = Config.of({**dict(start.items), **values})
        configs[", ".join(f"{k.name} {values[f'g0.{k.name}']}" for k in form.knobs)] = config
    calls: dict[str, Callable[[], object]] = {}
    for name, config in configs.items():
        k = Kernel(Fixed(default.session, config), default.definition)
        calls[name] = functools.partial(k, *p.inputs, out=out)
        try:
            calls[name]()
        except ScheduleError:  # a value that other values rule out
            del calls[name]
    times = interleaved(calls, seconds)
    finalists = {"default", *sorted(times, key=lambda n: times[n].time_ns)[:3]}
    times = interleaved({n: calls[n] for n in finalists}, seconds)
    best = min(times, key=lambda n: times[n].time_ns)
    share = times[best].time_ns / times["default"].time_ns
    return f"{p.name:24}{share:7.2f} of the best of {len(calls)}: {best}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="per problem")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--random", type=int, default=0, help="how many configs to compare with")
    args = parser.parse_args()
    threads = usable_cores()
    torch.set_num_threads(threads)
    chosen = [p for p in problems() if args.only in p.name]
    if args.random:
        for p in chosen:
            print(compare(p, args.random, args.seconds), flush=True)
        return
    probe = fma_probe(threads)
    print(
        f"{threads} threads, torch {torch.__version__}; the FMA peak is measured in turns with all"
    )
    head = (
        f"{'problem':24}{'exact':>8}{'generic':>9}{'torch':>7}{'g/e':>7}{'peak':>7}{'x torch':>9}"
    )
    print(head)
    for p in chosen:
        got = measure(p, args.seconds, probe)
        e, g, t = got["exact"], got["generic"], got["torch"]
        ratios = f"{g / e:7.2f}{e / got['peak']:7.0%}{e / t:9.2f}"
        print(f"{p.name:24}{e:8.0f}{g:9.0f}{t:7.0f}{ratios}", flush=True)
    for note in busy_notes([probe]):
        print(f"note: {note}")


if __name__ == "__main__":
    main()
