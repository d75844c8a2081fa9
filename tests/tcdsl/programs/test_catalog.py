"""Every program that users of the original wrote runs, and gives what the reference gives."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.autotune.targets.structural_text import structural_text
from tcdsl.calls.bindings.rankfree import view_of
from tcdsl.grammar.text.errors import TCError
from tcdsl.kernel import Kernel
from tests.tcdsl.differential import assert_close, reference, results
from tests.tcdsl.programs.catalog import (
    CATALOG,
    LEGAL,
    NOT_YET,
    REFUSED,
    arguments,
    name_of,
    points,
    small_sizes,
)
from tests.tiers import sampled

# Programs that differ in names only share a kernel: the later ones meet its size-generic form.
KERNELS: dict[str, Kernel] = {}


def defined(entry: dict[str, Any]) -> Kernel:
    name = name_of(entry)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = tc.define(entry["tc"], name, tune="off", source=entry["name"])
    assert bool(caught) == (entry.get("status") == "warn"), [str(w.message) for w in caught]
    assert isinstance(kernel, Kernel)
    return kernel


@pytest.mark.cc
@sampled("entry", LEGAL, ids=lambda e: e["name"], keep=5, wide=10)
def test_catalog_program_computes_what_the_reference_computes(entry: dict[str, Any]) -> None:
    rng = np.random.default_rng(zlib.crc32(entry["name"].encode()))
    new = defined(entry)
    kernel = KERNELS.setdefault(structural_text(new.variant().checked), new)
    checked = kernel.variant().checked
    sizes = [small_sizes(checked, entry, rng) for _ in range(2)]
    for at in sizes:  # the first has an executable of its own, the second one for all; or all one
        args = arguments(checked, at, rng)
        want = reference(checked, args, float64=True)
        terms = 8 * max(points(checked, at) // max(min(w.size for w in want), 1), 8)
        for got, exact in zip(results(kernel(*args)), want, strict=True):
            assert_close(got, exact, terms)
    if kernel is new and sizes[0] != sizes[1] and checked.sizes:
        served = [e.spec.sizes is None for e in kernel.variant().executables]
        signature = kernel.variant().signature
        pointwise = signature.pointwise
        walked = [
            [d for d in p if d is not None] for p in (pointwise.places if pointwise else ()) if p
        ]
        is_turned = any(dims != sorted(dims) for dims in walked)
        # one from the first call on, but of what is turned, or dear and repeated along rows
        is_for_all = pointwise and not is_turned and view_of(signature, sizes[0])
        assert served in ([True], [True, True]) if is_for_all else served == [False, True]


@pytest.mark.parametrize("name", [*REFUSED, *NOT_YET])
def test_what_is_refused_says_why(name: str) -> None:
    (entry,) = [e for e in CATALOG if e["name"] == name]
    with pytest.raises(TCError, match={**REFUSED, **NOT_YET}[name]):
        tc.define(entry["tc"], entry["def_name"])
