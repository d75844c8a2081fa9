"""`tcdsl bench`: times of one definition side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcdsl.autotune.targets.inputs import random_inputs
from tcdsl.autotune.worker.problem import Roofline
from tcdsl.calls.bindings.sizes import check_sizes
from tcdsl.calls.problems import problem_of_sizes
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.codegen.toolchain.peak import busy_notes, fma_probe, triad_probe
from tcdsl.grammar.types.dtypes import FLOAT64
from tcdsl.kernel import Kernel
from tcdsl.tools.timing import Roof, Timing, beside_peak, interleaved

_REFERENCE_POINTS = 1e8  # above this the reference takes too long to be timed beside the rest


def bench_kernel(
    kernel: Kernel,
    sizes: Mapping[str, int],
    seconds: float,
    generics: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return times, rates and shares of the machine's peak at some sizes.

    Parameters
    ----------
    kernel : Kernel
    sizes : mapping of str to int
    seconds : float
        Of timing, for all rows together.
    generics : mapping, optional
        Integers and types by name.

    Returns
    -------
    dict
        name, sizes, unit of the rates, peak (that rate of the machine, measured in turns with the
        rows), notes on it, and rows with label, time_us, rate, share (of the peak; None where data
        come from caches, faster than memory gives them).
    """
    generics = generics or {}
    variant = kernel.variant(**generics)
    checked = variant.checked
    values = check_sizes(checked, sizes)
    args = random_inputs(checked, values, 0)
    untuned = kernel.with_tune("off")
    outs = untuned(*args, **generics)
    out = outs if len(checked.returns) > 1 else (outs,)
    again = tuple(np.empty_like(o) for o in out)
    calls: dict[str, Callable[[], object]] = {
        "untuned": lambda: untuned(*args, out=out, **generics)
    }
    if kernel.tuned_config(*args, **generics) is not None:
        kernel(*args, out=again, **generics)
        calls["tuned"] = lambda: kernel(*args, out=again, **generics)
    roofline = problem_of_sizes(variant, values).roofline
    if roofline.flops < _REFERENCE_POINTS:
        calls["reference"] = lambda: evaluate(checked, args)
    times, roof = _timed(calls, roofline, kernel.session.threads, variant.program, seconds)
    rows = [
        {
            "label": label,
            "time_us": t.time_ns / 1e3,
            "rate": roofline.rate(t.time_ns),
            "share": None
            if roofline.rate(t.time_ns) > roof.rate
            else roofline.rate(t.time_ns) / roof.rate,
        }
        for label, t in times.items()
    ]
    return {
        "name": kernel.name,
        "sizes": values,
        "unit": roofline.unit,
        "peak": roof.rate,
        "notes": list(roof.notes),
        "rows": rows,
    }


def _timed(
    calls: Mapping[str, Callable[[], object]],
    roofline: Roofline,
    threads: int,
    program: Program,
    seconds: float,
) -> tuple[dict[str, Timing], Roof]:
    """Return the times of calls, and what the machine reaches of that which bounds them."""
    if roofline.is_compute_bound:
        element_bytes = 8 if any(b.dtype == FLOAT64 for b in program.buffers) else 4
        probes = [fma_probe(n, element_bytes) for n in sorted({1, threads})]
        return beside_peak(calls, roofline.flops, probes, seconds)
    # A roof for what comes from memory only: who is faster has its data in caches.
    probe = triad_probe(threads)
    times = interleaved({**calls, "": probe}, seconds)
    del times[""]
    return times, Roof(max(probe.rate, roofline.peak_gbps), busy_notes([probe]))
