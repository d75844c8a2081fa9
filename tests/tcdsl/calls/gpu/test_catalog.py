"""Every program of the catalog, called on a simulated GPU."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest

from tests.tcdsl.calls.gpu.sim import SimDevice
from tests.tcdsl.differential import assert_close, reference
from tests.tcdsl.programs.catalog import LEGAL, arguments, points, small_sizes
from tests.tcdsl.programs.test_catalog import defined

pytestmark = [pytest.mark.cusim, pytest.mark.deep]


@pytest.mark.parametrize("entry", LEGAL, ids=lambda e: e["name"])
def test_catalog_program_computes_what_the_reference_computes(
    device: SimDevice, entry: dict[str, Any]
) -> None:
    rng = np.random.default_rng(zlib.crc32(entry["name"].encode()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = defined(entry)
    checked = kernel.variant().checked
    for _ in range(2):  # an executable of its own, then the size-generic one
        at = small_sizes(checked, entry, rng)
        args = arguments(checked, at, rng)
        want = reference(checked, args, float64=True)
        terms = 8 * max(points(checked, at) // max(min(w.size for w in want), 1), 8)
        got = kernel(*(device.array(np.asarray(a)) if np.ndim(a) else a for a in args))
        for g, exact in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
            assert_close(g.get(), exact, terms)
