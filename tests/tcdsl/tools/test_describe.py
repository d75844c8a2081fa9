"""What `tcdsl show` says of a definition at sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tcdsl as tc
from tcdsl.tools.describe import describe

LAYERS = Path(__file__).parents[3] / "examples" / "recurrent.tc"
CHAIN = "float(A,B) X, float(B,C) Y, float(C,D) Z"


@pytest.mark.cc
def test_products_in_pairs_are_listed_as_they_are_computed() -> None:
    k = tc.define(f"def f({CHAIN}) -> (O) {{ O(a,d) +=! X(a,b) * Y(b,c) * Z(c,d) }}")
    assert len(describe(k.variant(), None)["statements"]) == 1
    pair, whole = describe(k.variant(), {"A": 100, "B": 90, "C": 80, "D": 70})["statements"]
    assert pair["ranges"] == {"b": "0:B", "c": "0:C", "d": "0:D"}
    assert pair["reductions"] == ["c"]
    assert whole["reductions"] == ["b"]
    assert pair["form"].startswith("g0: contraction")
    assert whole["form"].startswith("g1: contraction")


@pytest.mark.cc
def test_what_is_taken_out_of_a_loop_has_a_form() -> None:
    """The gradient of a layer over time may have more statements at sizes than its text."""
    layers: Any = tc.define(LAYERS)
    variant = tc.grad(layers.lstm).variant()
    sizes = dict.fromkeys(variant.signature.sizes, 64) | {"B": 8}
    for name, of in (("H_n0", "T"), ("C_n0", "T"), ("d_H_n0", "T"), ("d_C_n0", "T")):
        if name in sizes:
            sizes[name] = sizes[of] + 1
    said = describe(variant, sizes)["statements"]
    assert len(said) >= len(describe(variant, None)["statements"])
    assert all(s["form"] and s["ranges"] for s in said)
