"""What `tcdsl show` says of a definition at sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tcdsl as tc
from tcdsl.tools.describe import describe

LAYERS = Path(__file__).parents[3] / "examples" / "recurrent.tc"


@pytest.mark.cc
def test_what_is_taken_out_of_a_loop_is_listed_with_its_form() -> None:
    """The gradient of a layer over time may have more statements at sizes than its text."""
    layers: Any = tc.define(LAYERS)
    variant = tc.grad(layers.lstm).variant()
    signature = variant.signature
    sizes = dict.fromkeys(signature.sizes, 64) | {"B": 8}
    for name, of in (("H_n0", "T"), ("C_n0", "T"), ("d_H_n0", "T"), ("d_C_n0", "T")):
        if name in sizes:
            sizes[name] = sizes[of] + 1
    said = describe(variant, sizes)
    assert len(said["statements"]) >= len(describe(variant, None)["statements"])
    assert all(s["form"] for s in said["statements"])
