"""Every name that PyTorch 0.4 documents is there, or its absence has a reason."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

NAMES: dict[str, list[str]] = json.loads(
    (Path(__file__).parent.parent / "data" / "pytorch_0_4_names.json").read_text("utf-8")
)
ABSENT = {"optim.SparseAdam": "there are no sparse tensors, whose gradients it is for"}
PLACES = {
    "torch": ("tcdsl",),
    "tensor_methods": ("tcdsl.Tensor",),
    "nn_modules": ("tcdsl.nn",),
    "functional_and_utils": ("tcdsl.nn.functional", "tcdsl.nn.init"),
    "optim": ("tcdsl.optim",),
}


def _found(path: str) -> Any:
    """Return what a dotted name stands for, None for nothing."""
    first, *rest = path.split(".")
    found: Any = importlib.import_module(first)
    at = first
    for name in rest:
        at = f"{at}.{name}"
        value = getattr(found, name, None)
        if value is None:
            try:
                value = importlib.import_module(at)
            except ImportError:
                return None
        found = value
    return found


@pytest.mark.cc
def test_every_name_is_there_or_its_absence_has_a_reason() -> None:
    importlib.import_module("tcdsl.library")  # gives Tensor its methods
    absent = {}
    for section, places in PLACES.items():
        for name in NAMES[section]:
            said = name.startswith("torch.")
            paths = [f"tcdsl{name[5:]}"] if said else [f"{p}.{name}" for p in places]
            if all(_found(path) is None for path in paths):
                absent[paths[0].removeprefix("tcdsl.")] = section
    assert absent.keys() == ABSENT.keys()
    assert sum(map(len, map(NAMES.get, PLACES))) > 600  # type: ignore[arg-type]
