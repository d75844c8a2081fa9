"""Every family of ops: importing this makes them public."""

from __future__ import annotations

import importlib

FAMILIES = (
    "internal",
    "views",
    "view_parts",
    "filling",
    "pointwise",
    "comparisons",
    "reductions",
    "products",
    "bits",
    "activations",
    "losses",
    "class_losses",
    "distances",
    "norms",
    "convolutions",
    "pools",
    "fractional",
    "adaptive",
    "resampling",
    "copies",
    "joins",
    "indexing",
    "scattered",
    "masks",
    "embeddings",
    "sorting",
    "dropout",
    "linalg",
    "systems",
    "factors",
    "windows",
    "spectra",
    "recurrent",
    "sampling",
    "rates",
    "functions",
    "arranged",
    "together",
    "statistics",
    "quantiles",
    "between",
    "patches",
    "composed",
    "linear_algebra",
)
for _name in FAMILIES:
    importlib.import_module(f"tcdsl.ops.{_name}")
