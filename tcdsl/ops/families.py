"""Every family of ops: importing this makes them public."""

from __future__ import annotations

import importlib

FAMILIES = (
    "internal",
    "views",
    "filling",
    "pointwise",
    "comparisons",
    "reductions",
    "products",
    "activations",
    "losses",
    "norms",
    "convolutions",
    "pools",
    "copies",
    "adaptive",
    "resampling",
    "bits",
    "indexing",
    "sorting",
    "dropout",
    "recurrent",
    "linalg",
    "systems",
    "windows",
    "sampling",
)
for _name in FAMILIES:
    importlib.import_module(f"tcdsl.ops.{_name}")
