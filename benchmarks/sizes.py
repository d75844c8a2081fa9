"""One executable for all sizes and strides: how many there are, and what they cost.

`python benchmarks/sizes.py [--seconds 1.5] [--threads N] [--only TEXT] [--json FILE]` prints:

- executables: how many of them 100 calls of different sizes compile;
- sizes: time of the size-generic executable over that of the exact one, which knows its sizes;
- strides: time with operands that do not lie in C order over that with operands that do, by
  executables of their own for these sizes and by size-generic ones, and the bytes allocated.

No kernel is tuned. All calls write into given outputs, in one process, in turns; times are 20 %
quantiles. `--threads 1` counts processor time instead of time, so that a busy machine disturbs
little. Bytes are the largest sum of new Python and NumPy memory during a call, and what the
runtime holds more for workspaces (packed blocks) than for operands in C order.
"""

from __future__ import annotations

import functools
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from layers import BATCHED, CONV, MATMUL
from operands import Array, generic, kernel, rand
from reports import Table, asking, facts, keep

from tcdsl.codegen import runtime
from tcdsl.tools.timing import interleaved

Shapes = tuple[tuple[int, ...], ...]

POINTWISE = "def gate(float(M,N) A, float(M,N) B) -> (O) { O(m,n) = A(m,n) * sigmoid(B(m,n)) }"
SOFTMAX = """
def softmax(float(B,N) X) -> (Y) {
  top(b) max=! X(b,n)
  Z(b) +=! exp(X(b,n) - top(b))
  Y(b,n) = exp(X(b,n) - top(b)) / Z(b)
}"""
SUMS = "def sums(float(M,N) A) -> (O) { O(n) +=! A(m,n) }"


def matrix(i: int) -> tuple[int, int]:
    """Return extents that differ widely."""
    return 1 + i * 37 % (29, 61, 907)[i % 3], 1 + i * 2741 % (31, 71, 8009, 503)[i % 4]


# What a call of the i-th of 100 sizes brings; every size symbol takes many values, 1 among them.
CALLS: dict[str, tuple[str, Callable[[int], Shapes]]] = {
    "matmul": (MATMUL, lambda i: ((1 + i, 1 + 7 * i % 90), (1 + 7 * i % 90, 1 + 3 * i % 101))),
    "batched matmul": (
        BATCHED,
        lambda i: ((1 + i % 5, 1 + i, 2 + i % 9), (1 + i % 5, 2 + i % 9, 1 + 3 * i % 67)),
    ),
    "pointwise": (POINTWISE, lambda i: (matrix(i),) * 2),
    "softmax": (SOFTMAX, lambda i: (matrix(i),)),
    "column sums": (SUMS, lambda i: (matrix(i),)),
    "conv": (
        CONV,
        lambda i: (
            (1 + i % 3, 1 + i % 5, 7 + i, 5 + i % 31),
            (1 + i % 7, 1 + i % 5, 1 + i % 4, 1 + i % 5),
        ),
    ),
}

CUBES = ((768, 768, 768), (1024, 1024, 1024), (1023, 1023, 1023), (997, 997, 997))
PRODUCTS = (*CUBES, (128, 64, 64), (130, 77, 41))
BATCHES = (
    (16, 256, 256, 256),
    (64, 128, 128, 128),
    (2, 1023, 1023, 1023),
    (2, 997, 997, 997),
    (500, 26, 72, 26),
    (64, 130, 77, 41),
    (8, 130, 77, 41),
)
STRIDED = (
    (MATMUL, ((512, 512), (512, 512))),
    (MATMUL, ((1024, 1024), (1024, 1024))),
    (BATCHED, ((64, 128, 128), (64, 128, 128))),
    (BATCHED, ((500, 26, 72), (500, 72, 26))),
)


def swapped(x: Array) -> Array:
    """Return x in new memory, its matrices by columns: what a transposed view is."""
    return x.swapaxes(-1, -2).copy().swapaxes(-1, -2)


def second_rows(x: Array) -> Array:
    """Return x in new memory, only every second row of which is used."""
    return np.repeat(x, 2, axis=-2)[..., ::2, :]


def backwards(x: Array) -> Array:
    """Return x in new memory, with negative strides."""
    turned = (slice(None, None, -1),) * x.ndim
    return x[turned].copy()[turned]


def backwards_rows(x: Array) -> Array:
    """Return x in new memory, rows from last to first."""
    return x[..., ::-1, :].copy()[..., ::-1, :]


# The matrices of a batch in Fortran order lie inside each other: it is the innermost dimension.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "column-major": swapped,
    "second rows": second_rows,
    "negative": backwards,
    "negative rows": backwards_rows,
    "Fortran order": np.asfortranarray,
}
OPERANDS = {"A": (0,), "B": (1,), "A B": (0, 1), "C": (2,), "A B C": (0, 1, 2)}


@dataclass(frozen=True)
class Case:
    """A contraction, its inputs and the shape of its output."""

    name: str
    text: str
    inputs: tuple[Array, Array]

    def output(self) -> Array:
        a, b = self.inputs
        return np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)


def times_of(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the microseconds of calls that are made in turns for so many seconds each."""
    clock = time.thread_time_ns if runtime.get_num_threads() == 1 else time.perf_counter_ns
    times = interleaved(calls, seconds * len(calls), clock)
    return {label: t.time_ns / 1e3 for label, t in times.items()}


def check(case: Case, out: Array) -> None:
    a, b = case.inputs
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(out - want).max() < 1e-6 * a.shape[-1] * 30, f"{case.name} is wrong"


# ---- executables


def executables() -> dict[str, int]:
    """Return how many executables calls of 100 sizes compile."""
    counts = {}
    table = Table("executables of 100 sizes", 44, {"all": "6.0f"})
    for name, (text, shapes) in CALLS.items():
        k = kernel(text)
        for i in range(100):
            k(*(rand(*shape) for shape in shapes(i)))
        counts[name] = len(k.variant().executables)
        table.row(name, counts[name])
    return counts


# ---- sizes


def size_cases() -> Iterator[Case]:
    """Yield contractions at multiples of the register tile and beside them."""
    for m, k, n in PRODUCTS:
        yield Case(f"matmul {m}x{k}x{n}", MATMUL, (rand(m, k), rand(k, n)))
    for p, m, k, n in BATCHES:
        inputs = rand(p, m, k), rand(p, k, n)
        yield Case(f"batched matmul {p}x({m}x{k}x{n})", BATCHED, inputs)


def sizes(only: str, seconds: float) -> list[dict[str, Any]]:
    """Return times of exact and size-generic executables."""
    rows = []
    heads = {"exact us": "10.1f", "generic us": "12.1f", "generic/exact": "15.3f"}
    print()
    table = Table("time", 44, heads)
    for case in size_cases():
        if only not in case.name:
            continue
        out = case.output()
        calls: dict[str, Callable[[], object]] = {}
        for label, k in (
            ("exact", kernel(case.text)),
            ("generic", generic(case.text, case.inputs)),
        ):
            calls[label] = functools.partial(k, *case.inputs, out=out)
            calls[label]()
            check(case, out)
        us = times_of(calls, seconds)
        ratio = us["generic"] / us["exact"]
        limit = 1.08 if us["exact"] > 50 else 1.12
        rows.append({"case": case.name, "time_us": us, "ratio": ratio, "limit": limit})
        late = "" if ratio <= limit else f"  above {limit}"
        table.row(case.name, us["exact"], us["generic"], ratio, note=late)
    return rows


# ---- strides


def new_bytes(call: Callable[[], object]) -> tuple[int, int]:
    """Return the bytes that a call allocates for Python and NumPy, and for its workspaces."""
    call()
    runtime.empty_cache()
    before = sum(runtime.memory()[:2])
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, sum(runtime.memory()[:2]) - before


def strides(only: str, seconds: float) -> list[dict[str, Any]]:
    """Return times with operands in other orders over times with operands in C order."""
    rows = []
    heads = {"exact": "8.2f", "generic": "9.2f", "bytes": "7.0f", "workspace": "11.0f"}
    print()
    table = Table("time over that in C order", 44, heads)
    for text, shapes in STRIDED:
        plain = (rand(*shapes[0]), rand(*shapes[1]))
        case = Case(f"{text.split('(')[0][4:]} {'x'.join(map(str, shapes[0]))}", text, plain)
        base = relaid(case, lambda x: x, ())
        base["exact"]()
        for layout, change in LAYOUTS.items():
            if layout == "Fortran order" and plain[0].ndim == 2:
                continue  # the same as column-major
            name = f"{case.name}, {layout}"
            if only not in name:
                continue
            for which, operands in OPERANDS.items():
                forms = relaid(case, change, operands)
                times = times_of({"base": base["exact"], **forms}, seconds)
                ratio = {form: times[form] / times["base"] for form in forms}
                allocated, workspace = new_bytes(forms["exact"])
                more = workspace - new_bytes(base["exact"])[1]
                row = {"case": f"{name} {which}", "ratio": ratio, "base_us": times["base"]}
                rows.append({**row, "bytes": allocated, "workspace": more})
                late = "" if max(ratio.values()) <= 2 else "  above 2"
                figures = (ratio["exact"], ratio["generic"], allocated, more)
                table.row(f"{name} {which}", *figures, note=late)
    return rows


def relaid(
    case: Case, change: Callable[[Array], Array], which: tuple[int, ...]
) -> dict[str, Callable[[], object]]:
    """Return the exact and the generic call of a case, some operands (A, B, C) in another order."""
    operands = [*case.inputs, case.output()]
    for d in which:
        operands[d] = change(operands[d])
    a, b, out = operands
    kernels = {"exact": kernel(case.text), "generic": generic(case.text, (a, b))}
    calls: dict[str, Callable[[], object]] = {}
    for form, k in kernels.items():
        calls[form] = functools.partial(k, a, b, out=out)
        out[...] = 0
        calls[form]()
        check(case, out)
    return calls


def main() -> None:
    options = asking(__doc__, 1.5, "for each of the calls compared").parse_args()
    if options.threads:
        runtime.set_num_threads(options.threads)
    report: dict[str, Any] = {
        **facts(),
        "executables": {} if options.only else executables(),
        "sizes": sizes(options.only, options.seconds),
        "strides": strides(options.only, options.seconds),
    }
    keep(report, options.json)


if __name__ == "__main__":
    main()
