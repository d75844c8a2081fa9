"""The examples for PyTorch: torch, torch.compile, ours, and ours under torch.compile, in one run.

`python benchmarks/torch_layers.py [--seconds 4] [--threads 2] [--only TEXT] [--json FILE]` prints,
for each layer or model of `examples/torch_*.py`, the microseconds of torch's forward pass and of a
training step (forward, and the gradient by every input and parameter that has one), and how many
times faster the other three are; then what a call costs on tiny tensors. Results and gradients are
held against torch's before their time counts. No kernel is tuned. The four routes of a
layer take their turns in one process; times are 20 % quantiles.
"""

from __future__ import annotations

import os

# Two pools of threads on the same cores only measure each other: let idle ones sleep.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import argparse
import functools
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config
from reports import asking, facts, keep

import tcdsl.torch as tct
from tcdsl.codegen import runtime
from tcdsl.tools.timing import interleaved
from tcdsl.torch import native

EXAMPLES = Path(__file__).parent.parent / "examples"
F = torch.nn.functional
ROUTES = ("torch", "torch.compile", "ours", "ours compiled")


@dataclass(frozen=True)
class Case:
    """A function or module of ours, torch's, their inputs, and what the gradient is taken by."""

    name: str
    ours: Callable[..., torch.Tensor]
    plain: Callable[..., torch.Tensor]
    inputs: Sequence[torch.Tensor]

    def wanted(self, function: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        own = [*function.parameters()] if isinstance(function, torch.nn.Module) else []
        return [x for x in (*self.inputs, *own) if x.requires_grad]


def example(name: str) -> dict[str, Any]:
    """Return the names of an example, which is not run."""
    spec = importlib.util.spec_from_file_location(f"torch_{name}", EXAMPLES / f"torch_{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # where torch.compile looks for names
    spec.loader.exec_module(module)
    return vars(module)


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def cases() -> Iterator[Case]:
    """Yield the cases."""
    text = example("fcrelu")["FCRELU"]
    for b, m, n in ((100, 128, 100), (128, 784, 512)):
        yield Case(
            f"fcrelu {b}x{m}x{n}",
            tct.define(text),
            lambda x, w, bias: torch.relu(F.linear(x, w, bias)),
            (rand(b, m), rand(n, m), rand(n)),
        )
    found = example("convolution")
    for batch, c, f, h, w in (
        (4, 1, 1, 96, 96),
        (4, 1, 8, 96, 96),
        (4, 3, 16, 96, 96),
        (4, 16, 16, 64, 64),
        (2, 64, 64, 32, 48),
    ):
        yield Case(
            f"conv 13x24, {batch}x{c}x{h}x{w} to {f}",
            tct.define(found["CONV"]),
            F.conv2d,
            (rand(batch, c, h, w), rand(f, c, 13, 24), rand(f)),
        )
    found = example("group_norm")
    for shape in ((8, 32, 32, 32), (32, 64, 28, 28)):
        plain, ours = torch.nn.GroupNorm(8, shape[1]), found["GroupNorm"](8, shape[1])
        yield Case(f"group norm {'x'.join(map(str, shape))} by 8", ours, plain, (rand(*shape),))
    found = example("attention")
    for batch, heads, t, d in ((4, 8, 128, 32), (2, 8, 512, 64)):
        qkv = [rand(batch, heads, t, d) for _ in range(3)]
        slopes = torch.rand(heads, requires_grad=True)
        yield Case(
            f"ALiBi attention {batch}x{heads}x{t}x{d}",
            tct.define(found["ATTENTION"]),
            found["in_torch"],
            (*qkv, slopes),
        )
    found = example("gpt")
    torch.manual_seed(0)
    ours = found["GPT"](64, 128, 4, 4)
    plain = found["GPT"](64, 128, 4, 4, norm=found["rms_norm"], attend=found["attention"])
    plain.load_state_dict(ours.state_dict())
    yield Case("GPT, 4 blocks of 128, 8x128", ours, plain, (torch.randint(64, (8, 128)),))
    found = example("resnet")
    torch.manual_seed(0)
    for batch, width in ((16, 16), (16, 32)):
        plain, ours = found["resnet"](width), found["fuse"](found["resnet"](width))
        ours.load_state_dict(plain.state_dict())
        yield Case(
            f"ResNet-18 of width {width}, {batch}x3x32x32",
            ours,
            plain,
            (torch.randn(batch, 3, 32, 32),),
        )


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """Return the times of the routes in microseconds, forward and step."""
    torch.compiler.reset()
    functions = (
        case.plain,
        torch.compile(case.plain),
        case.ours,
        torch.compile(case.ours, fullgraph=True),
    )
    seed = torch.randn_like(case.plain(*case.inputs).detach())

    def step(function: Callable[..., torch.Tensor], wanted: list[torch.Tensor]) -> Any:
        return torch.autograd.grad(function(*case.inputs), wanted, seed)

    def forward(function: Callable[..., torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            return function(*case.inputs)

    calls: dict[str, Callable[[], object]] = {}
    for i, (route, function) in enumerate(zip(ROUTES, functions, strict=True)):
        wanted = case.wanted(case.plain if i < 2 else case.ours)
        calls[f"{route}, forward"] = functools.partial(forward, function)
        calls[f"{route}, step"] = functools.partial(step, function, wanted)
        calls[f"rest {i}"] = lambda: time.sleep(1e-3)  # until threads no longer spin
    for what in ("forward", "step"):
        results = [_flat(calls[f"{route}, {what}"]()) for route in ROUTES]
        for route, found in zip(ROUTES, results, strict=True):
            # a relu whose input is about 0 goes either way
            far = (found - results[0]).norm() / results[0].norm()
            assert far < 0.02, f"{case.name}: {route}, {what} is off by {far:.1%}"
    times = interleaved(calls, seconds)
    return {
        "layer": case.name,
        "time_us": {n: t.time_ns / 1e3 for n, t in times.items() if not n.startswith("rest")},
        "samples": min(t.samples for t in times.values()),
    }


def _flat(found: Any) -> torch.Tensor:
    """Return results as one vector."""
    listed = found if isinstance(found, tuple) else (found,)
    return torch.cat([x.detach().flatten() for x in listed])


def call_costs(seconds: float) -> dict[str, float]:
    """Return nanoseconds of calls whose work is nothing: of torch and of ours."""
    add = tct.define("def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }")
    linear = tct.define("""
    def linear(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
      O(b_, n) +=! I(b_, m) * W(n, m)
      O(b_, n) = O(b_, n) + b(n)
    }""")
    a, b, c = torch.randn(3, 8)
    p = torch.nn.Parameter(a.clone())
    x, w = torch.randn(2, 4), torch.randn(3, 4)
    bias, v = torch.randn(3), torch.nn.Parameter(w.clone())
    calls: dict[str, Callable[[], object]] = {
        "torch.add, out=": lambda: torch.add(a, b, out=c),
        "ours, out=": lambda: add(a, b, out=c),
        "torch.add": lambda: torch.add(a, b),
        "ours": lambda: add(a, b),
        "torch.add, recorded": lambda: torch.add(p, b),
        "ours, recorded": lambda: add(p, b),
        "F.linear": lambda: F.linear(x, w, bias),
        "ours, linear": lambda: linear(x, w, bias),
        "F.linear, recorded": lambda: F.linear(x, v, bias),
        "ours, linear, recorded": lambda: linear(x, v, bias),
    }
    return {name: t.time_ns for name, t in interleaved(calls, seconds).items()}


def alone(name: str, seconds: float, threads: int) -> dict[str, Any]:
    """Measure a case in a process of its own: layers of one text share what is compiled."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_alone, name, seconds, threads).result()


def _alone(name: str, seconds: float, threads: int) -> dict[str, Any]:
    _set(threads)
    return measure(next(case for case in cases() if case.name == name), seconds)


def _set(threads: int) -> None:
    runtime.set_num_threads(threads)
    torch.set_num_threads(threads)
    native.wait()  # a program has it from its second minute on
    # the same graph goes backward in every turn
    torch._functorch.config.donated_buffer = False


def main() -> None:
    parser = asking(__doc__, 4.0, "per layer")
    parser.set_defaults(threads=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as graphs:  # those of another version are not reused
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = graphs
        _compare(options)


def _compare(options: argparse.Namespace) -> None:
    _set(options.threads)
    load = [os.getloadavg()[0]]
    print(f"{options.threads} threads, torch {torch.__version__}, load {load[0]:.1f}")
    print(f"{'':38}{'forward':>9}{'x compile':>10}{'ours':>7}{'both':>7}", end="")
    print(f"{'step':>11}{'x compile':>10}{'ours':>7}{'both':>7}")
    names = [case.name for case in cases() if options.only in case.name]
    costs = call_costs(options.seconds) if options.only in "calls" else {}
    rows: list[dict[str, Any]] = []
    report = {**facts(), "torch": torch.__version__, "load": load, "call_ns": costs}
    report["without bridge"] = native.why()
    for name in names:
        rows.append(alone(name, options.seconds, options.threads))
        load.append(os.getloadavg()[0])
        keep({**report, "layers": rows}, options.json)  # a part is better than nothing
        line = f"{name:38}"
        for what, width in (("forward", 9), ("step", 11)):
            us = [rows[-1]["time_us"][f"{route}, {what}"] for route in ROUTES]
            line += (
                f"{us[0]:{width}.0f}{us[0] / us[1]:10.2f}{us[0] / us[2]:7.2f}{us[0] / us[3]:7.2f}"
            )
        print(line, flush=True)
    for name, ns in costs.items():
        print(f"{name:38}{ns:9.0f} ns")


if __name__ == "__main__":
    main()
