"""Every program of the original's users that has floats can be differentiated."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from tests.codegen.gradient.differences import assert_gradient, differentiated_def
from tests.tcdsl.programs.catalog import (
    DIFFERENTIABLE,
    LEGAL,
    arguments,
    checked_of,
    small_sizes,
)
from tests.tiers import sampled

POSITIVE = {"var", "rVarIn"}


@pytest.mark.wide
def test_those_without_a_gradient_have_integers_alone_on_one_side() -> None:
    for entry in LEGAL:
        checked = checked_of(entry)
        sides = (checked.params, checked.returns)
        has_floats = all(any(t.dtype.is_float for t in side) for side in sides)
        assert has_floats == (entry in DIFFERENTIABLE), entry["name"]


@sampled("entry", DIFFERENTIABLE, ids=lambda e: e["name"], keep=5, wide=40)
def test_gradient_of_a_catalog_program(entry: dict[str, Any]) -> None:
    rng = np.random.default_rng(zlib.crc32(entry["name"].encode()))
    d = differentiated_def(checked_of(entry))
    args = arguments(d.checked, small_sizes(d.checked, entry, rng), rng)
    args = [
        abs(a) if t.name in POSITIVE else a for t, a in zip(d.checked.params, args, strict=True)
    ]
    assert_gradient(d, args, rng)
