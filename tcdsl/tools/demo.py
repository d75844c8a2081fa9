"""`tcdsl demo`: a layer is checked, tuned and timed; a classifier is trained."""

from __future__ import annotations

import importlib.util
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tcdsl.autotune.report import duration
from tcdsl.autotune.store import best
from tcdsl.calls.operands.arguments import Array
from tcdsl.calls.problems import problem_of_sizes
from tcdsl.codegen.program.work import flops_of
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.codegen.toolchain.peak import fma_probe
from tcdsl.definitions import Definitions, define, define_all
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCError
from tcdsl.kernel import Kernel
from tcdsl.tools.timing import Roof, Timing, beside_peak
from tcdsl.tuning import draw_history

Say = Callable[[str], None]

SIZES = {"B": 100, "M": 128, "N": 100}  # of the fcrelu in the announcement of tensor comprehensions
HIDDEN, BATCH, EPOCHS = 64, 32, 40
RATE, MOMENTUM = 0.1, 0.9
WANTED = 0.96
_TIMING_S = 4.0


class DemoError(TCError, RuntimeError):
    """A step of the demo did not give what it promises."""


def demo(say: Say, plot: Path, seconds: float = 15.0, cache: Path | None = None) -> None:
    """Run the whole demo.

    Parameters
    ----------
    say : callable
        Prints a line.
    plot : Path
        Where the tuning history is drawn.
    seconds : float, default 15
        Budget of the tuning.
    cache : Path, optional
        SQLite file of tuned configs.

    Raises
    ------
    DemoError
        If an answer is wrong or the classifier is not good enough.
    """
    text = files("tcdsl.tools").joinpath("demo.tc").read_text(encoding="utf-8")
    one_layer(text, say, plot, seconds, cache)
    classifier(text, say, cache)


# ---- one layer


def one_layer(text: str, say: Say, plot: Path, seconds: float, cache: Path | None) -> None:
    """Check, tune and time fcrelu; show that the tuned config is found again."""
    say(_definition(text, "fcrelu"))
    rng = np.random.default_rng(0)
    b, m, n = SIZES.values()
    x, w, bias = (rng.standard_normal(s, dtype=np.float32) for s in ((b, m), (n, m), (n,)))
    untuned = _kernel(text, "fcrelu", tune="off")
    start = time.perf_counter()
    answer = untuned(x, w, bias)
    say(f"\nfirst call, compiling included: {(time.perf_counter() - start) * 1e3:.0f} ms")
    (expected,) = evaluate(untuned.variant().checked, (x, w, bias), float64=True)
    error = float(np.max(np.abs(answer - expected)))
    say(f"largest error against the reference evaluator in float64: {error:.1e}")
    if not error < 1e-4:
        raise DemoError(f"fcrelu is off by {error}")

    say(f"\ntuning for {seconds:g} s (Ctrl-C keeps the best so far) ...")
    tuned = _kernel(text, "fcrelu", cache=cache)
    config = tuned.autotune(x, w, bias, seconds=seconds)
    if config is None:  # stopped before there was one
        raise KeyboardInterrupt
    say(f"config: {config}")
    problem = problem_of_sizes(tuned.variant(), SIZES)
    say(_finals(best.lookup(tuned.database, problem.key)))
    draw_history(problem, tuned.database, plot)

    again = _kernel(text, "fcrelu", cache=cache)  # a new kernel, as another process has it
    hit = again.tuned_config(x, w, bias)
    if hit != config:
        raise DemoError(f"the tuned config was not found again: {hit}")
    say(f"found again by a new kernel in {again.database}")

    out = np.empty((b, n), np.float32)
    calls: dict[str, Callable[[], object]] = {
        "NumPy": lambda: np.maximum(x @ w.T + bias, 0),
        "tcdsl": lambda: again(x, w, bias, out=out),
        **dict(_torch_call(x, w, bias)),
    }
    cores = untuned.session.threads
    say(f"\ntiming calls and the FMA peak in turns, {_TIMING_S:g} s ...")
    probes = [fma_probe(count) for count in sorted({1, cores})]
    flops = flops_of(untuned.variant().program, SIZES)
    times, roof = beside_peak(calls, flops, probes, _TIMING_S)
    for line in _comparison(times, flops, roof, cores):
        say(line)
    say(f"plot of the tuning: {plot}")


def _finals(found: best.Best | None) -> str:
    """Say what the tuner's last comparison gave: times and their ratio of the same rounds."""
    if found is None or found.time_ns is None or found.default_ns is None:
        return "the search was stopped before its last comparison"
    untuned, tuned = duration(found.default_ns), duration(found.time_ns)
    if found.time_ns == found.default_ns:
        return f"in turns with the best: untuned {untuned}; nothing was faster by more than 1 %"
    ratio = found.default_ns / found.time_ns
    return f"in turns: untuned {untuned}, tuned {tuned}: {ratio:.2f}x"


def _comparison(times: Mapping[str, Timing], flops: float, roof: Roof, cores: int) -> Iterator[str]:
    """Yield the lines of the table: all of one measurement, no share above the peak."""
    sizes = " ".join(f"{name}={extent}" for name, extent in SIZES.items())
    yield f"fcrelu {sizes}, {cores} cores, peak {roof.rate:.0f} GFLOP/s"
    for label, t in times.items():
        rate, ratio = flops / t.time_ns, times["NumPy"].time_ns / t.time_ns
        yield (
            f"  {label:14} {t.time_ns / 1e3:8.1f} us {rate:7.1f} GFLOP/s "
            f"{rate / roof.rate:5.0%} of peak  {ratio:5.2f}x NumPy"
        )
    for note in roof.notes:
        yield f"  note: {note}"


def _torch_call(x: Array, w: Array, bias: Array) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the same layer in torch, if it is installed."""
    if importlib.util.find_spec("torch") is None:  # a peer to time against, nothing more
        return
    torch = importlib.import_module("torch")
    tx, tw, tb = map(torch.from_numpy, (x, w, bias))
    yield "torch", lambda: torch.relu(torch.nn.functional.linear(tx, tw, tb))


# ---- a classifier


@dataclass
class _Net:
    """Two layers and their velocities."""

    w1: Array
    b1: Array
    w2: Array
    b2: Array

    def __post_init__(self) -> None:
        self.velocity = [np.zeros_like(p) for p in self.parameters]

    @property
    def parameters(self) -> list[Array]:
        return [self.w1, self.b1, self.w2, self.b2]


class _Counted:
    """The kernels of the text, counting their calls."""

    def __init__(self, kernels: Definitions) -> None:
        self.kernels = kernels
        self.calls: Counter[str] = Counter()

    def __call__(self, name: str, *args: Any, **options: Any) -> Any:
        self.calls[name] += 1
        return self.kernels[name](*args, **options)


def classifier(text: str, say: Say, cache: Path | None) -> float:
    """Train the digits classifier; return its accuracy on the held-out third."""
    x, labels, is_held = _digits()
    say(f"\nUCI digits: {len(x)} images of 8x8, {int(is_held.sum())} held out")
    run = _Counted(define_all(text, cache=cache))
    rng = np.random.default_rng(1)
    net = _Net(
        rng.standard_normal((HIDDEN, 64), dtype=np.float32) * np.float32((2 / 64) ** 0.5),
        np.zeros(HIDDEN, np.float32),
        rng.standard_normal((10, HIDDEN), dtype=np.float32) * np.float32((2 / HIDDEN) ** 0.5),
        np.zeros(10, np.float32),
    )
    train = np.flatnonzero(~is_held)
    start = time.perf_counter()
    for epoch in range(EPOCHS):
        total = 0.0
        for batch in np.array_split(rng.permutation(train), -(-len(train) // BATCH)):
            total += _step(run, net, x[batch], labels[batch])
        if epoch % 10 == 9 or epoch == 0:
            right = _accuracy(run, net, x[is_held], labels[is_held])
            say(f"  epoch {epoch + 1:2}  loss {total / len(train):.4f}  held out {right:.2%}")
    seconds = time.perf_counter() - start
    accuracy = _accuracy(run, net, x[is_held], labels[is_held])
    counts = ", ".join(f"{n} {c}" for n, c in run.calls.items())
    say(f"trained in {seconds:.1f} s; kernel calls: {counts}")
    say(f"accuracy on the held-out third: {accuracy:.2%}")
    if accuracy < WANTED:
        raise DemoError(f"accuracy {accuracy:.2%} is below {WANTED:.0%}")
    return accuracy


def _step(run: _Counted, net: _Net, x: Array, labels: Array) -> float:
    """Run forward, backward and one step of descent; return the summed loss."""
    a, logits = run("forward", x, *net.parameters)
    losses, d_logits = run("loss", logits, labels)
    gradients = run("backward", x, a, net.w2, d_logits)
    for p, v, g in zip(net.parameters, net.velocity, gradients, strict=True):
        run(f"step{p.ndim}", p, v, g, RATE, MOMENTUM, out=(p, v))
    return float(losses.sum())


def _accuracy(run: _Counted, net: _Net, x: Array, labels: Array) -> float:
    _, logits = run("forward", x, *net.parameters)
    return float((logits.argmax(1) == labels).mean())


def _digits() -> tuple[Array, Array, Array]:
    """Return images, labels, and which third is held out.

    Raises
    ------
    DemoError
        If scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise DemoError('the digits come with scikit-learn: pip install "tcdsl[demo]"') from None
    data = load_digits()
    x = np.ascontiguousarray(data.data / 16, np.float32)
    order = np.random.default_rng(2).permutation(len(x))
    is_held = np.zeros(len(x), bool)
    is_held[order[: len(x) // 3]] = True
    return x, data.target.astype(np.int32), is_held


# ---- the text


def _kernel(text: str, name: str, **settings: Any) -> Kernel:
    kernel = define(text, name, **settings)
    assert isinstance(kernel, Kernel)
    return kernel


def _definition(text: str, name: str) -> str:
    start = text.index(f"def {name}")
    return text[start : text.index("\n}", start) + 2]
