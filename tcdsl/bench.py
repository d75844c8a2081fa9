"""`tcdsl bench`: times of one definition side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcdsl.autotune.inputs import random_inputs
from tcdsl.codegen.reference import evaluate
from tcdsl.kernel import Kernel
from tcdsl.sizes import check_sizes
from tcdsl.timing import interleaved
from tcdsl.tuning import problem_of_sizes

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
        name, sizes, unit of the rates, and rows with label, time_us, rate, share (of the peak).
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
    work = problem_of_sizes(variant, values).work
    if work.flops < _REFERENCE_POINTS:
        calls["reference"] = lambda: evaluate(checked, args)
    times = interleaved(calls, seconds)
    rows = [
        {
            "label": label,
            "time_us": t.time_ns / 1e3,
            "rate": work.rate(t.time_ns),
            "share": work.share(t.time_ns),
        }
        for label, t in times.items()
    ]
    return {"name": kernel.name, "sizes": values, "unit": work.unit, "rows": rows}
