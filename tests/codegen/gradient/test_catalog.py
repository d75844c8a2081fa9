"""Every program of the original's users that has floats can be differentiated."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tests.codegen.gradient.differences import assert_gradient, differentiated_def
from tests.tcdsl.programs.catalog import LEGAL, arguments, checked_of, small_sizes
from tests.tiers import sampled

POSITIVE = {"var", "rVarIn"}


def is_differentiable(entry: dict[str, Any]) -> bool:
    checked = checked_of(entry)
    return all(any(t.dtype.is_float for t in part) for part in (checked.params, checked.returns))


@sampled("entry", [e for e in LEGAL if is_differentiable(e)], ids=lambda e: e["name"], keep=5)
def test_gradient_of_a_catalog_program(entry: dict[str, Any]) -> None:
    rng = np.random.default_rng(zlib.crc32(entry["name"].encode()))
    d = differentiated_def(checked_of(entry))
    args = arguments(d.checked, small_sizes(d.checked, entry, rng), rng)
    args = [
        abs(a) if t.name in POSITIVE else a for t, a in zip(d.checked.params, args, strict=True)
    ]
    assert_gradient(d, args, rng)
