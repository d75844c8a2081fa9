"""All workloads, and those of random shapes, by their names."""

from __future__ import annotations

from collections.abc import Iterator

from suite_parts import models, products, rows, shapes, windows
from suite_parts.workload import Workload


def workloads() -> Iterator[Workload]:
    """Yield all of them."""
    for part in (products, windows, rows, models):
        yield from part.workloads()


def find(name: str) -> Workload:
    """Return the workload of a name, also of one of a random shape."""
    if name.startswith("random "):
        return shapes.of_name(name)
    return next(w for w in workloads() if w.name == name)
