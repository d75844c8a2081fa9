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

import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from beside_torch import Problem, in_turns, use_threads
from layers import BATCHED, CONV, FCRELU, LINEAR, MATMUL
from operands import check, generic, kernel, rand
from reports import Table, asking, facts, keep

from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.variant import Variant
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain.peak import Probe, busy_notes, fma_probe
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.kernel import Kernel
from tcdsl.tools.timing import interleaved

F = torch.nn.functional


@dataclass(frozen=True)
class Product(Problem):
    """A problem with its multiply-adds."""

    fma: int


def problems() -> Iterator[Product]:
    """Yield the problems, the large ones first."""
    squares = (1024, 1024, 1024), (263, 109, 1825), (839, 268, 38), (128, 32, 256)
    for m, k, n in (*squares, (64, 64, 64), (17, 33, 65)):
        inputs = rand(m, k), rand(k, n)
        yield Product(f"{m}x{k}x{n}", MATMUL, inputs, torch.mm, m * k * n)
    inputs = rand(500, 26, 72), rand(500, 72, 26)
    yield Product("500x(26x72x26)", BATCHED, inputs, torch.bmm, 500 * 26 * 72 * 26)
    for m, k, n in ((128, 1024, 1024), (100, 128, 100)):
        inputs3 = rand(m, k), rand(n, k), rand(n)
        yield Product(
            f"fcrelu {m}x{k}x{n}",
            FCRELU,
            inputs3,
            lambda a, w, c: torch.relu(F.linear(a, w, c)),
            m * k * n,
        )
    for n, c, h in ((8, 64, 58), (32, 16, 58), (8, 256, 16)):
        inputs = rand(n, c, h, h), rand(c, c, 3, 3)
        count = n * c * c * 9 * (h - 2) ** 2
        yield Product(f"conv N{n} C{c} {h}x{h}", CONV, inputs, torch.conv2d, count)
    inputs = rand(128, 32), rand(256, 32)
    yield Product("linear 128x32x256", LINEAR, inputs, F.linear, 128 * 32 * 256)
    for m in (1, 4, 16):
        inputs = rand(m, 1024), rand(1024, 1024)
        yield Product(f"linear {m}x1024x1024", LINEAR, inputs, F.linear, m << 20)


def measure(p: Product, seconds: float, probe: Probe) -> dict[str, float]:
    """Return GFLOP/s by executable, and the peak: of the probe, or of who is faster than it."""
    tensors = p.tensors()
    want = p.peer(*(t.double() for t in tensors)).numpy()
    out = np.zeros(want.shape, np.float32)
    kernels = {"exact": kernel(p.text), "generic": generic(p.text, p.inputs)}
    calls = {form: functools.partial(k, *p.inputs, out=out) for form, k in kernels.items()}
    for form, call in calls.items():
        call()
        check(f"{p.name}, {form}", out, want, 1e-5, 1e-3)
    us = in_turns({"torch": lambda: p.peer(*tensors)}, {**calls, "peak": probe}, seconds)
    rates = {name: 2e-3 * p.fma / t for name, t in us.items() if name != "peak"}
    return {**rates, "peak": max(probe.rate, *rates.values())}


class Fixed(Session):
    """A session in which exact sizes follow one config."""

    def __init__(self, like: Session, config: Config) -> None:
        super().__init__(like.program, like.settings)
        self.config = config

    def tuned(self, variant: Variant) -> Callable[[Spec], Config | None]:
        return lambda spec: self.config


def compare(p: Product, count: int, seconds: float) -> str:
    """Return how the default stands among random configs."""
    default = kernel(p.text)
    out = np.empty_like(default(*p.inputs))
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
    parser = asking(__doc__, 2.0, "per problem")
    parser.add_argument("--random", type=int, default=0, help="how many configs to compare with")
    options = parser.parse_args()
    threads = use_threads(options.threads)
    chosen = [p for p in problems() if options.only in p.name]
    if options.random:
        for p in chosen:
            print(compare(p, options.random, options.seconds), flush=True)
        return
    probe = fma_probe(threads)
    print(f"{threads} threads, torch {torch.__version__}; the FMA peak is measured in turns")
    heads = {"exact": "8.0f", "generic": "9.0f", "torch": "7.0f", "g/e": "7.2f", "peak": "7.0%"}
    table = Table("problem", 24, {**heads, "x torch": "9.2f"})
    rows = []
    for p in chosen:
        got = measure(p, options.seconds, probe)
        rows.append({"problem": p.name, "gflops": got})
        e, g, t = got["exact"], got["generic"], got["torch"]
        table.row(p.name, e, g, t, g / e, e / got["peak"], e / t)
    for note in busy_notes([probe]):
        print(f"note: {note}")
    keep({**facts(), "torch": torch.__version__, "problems": rows}, options.json)


if __name__ == "__main__":
    main()
