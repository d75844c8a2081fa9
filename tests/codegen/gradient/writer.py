"""What writers of random programs share: choices, tensors by shapes, names that come again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Writer:
    """A program in the making; tensors by the letters of their dimensions."""

    late: tuple[int, float]  # of how many of the last tensors one is read, and how often
    again: float  # how often a tensor is written over

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.shapes = {"A": "nm", "B": "nm", "c": "m", "d": "n", "k": ""}
        self.lines: list[str] = []
        self.made = 0

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def of(self, shape: str, but: str = "") -> str:
        """Return a tensor of a shape, rather a late one."""
        found = [t for t, s in self.shapes.items() if s == shape and t != but]
        count, p = self.late
        return self.pick(found[-count:] if self.chance(p) else found)

    def new(self, shape: str) -> str:
        """Return the name of a new tensor, or of one that is written over."""
        old = [t for t, s in self.shapes.items() if s == shape and t.startswith("t")]
        if old and self.chance(self.again):
            return self.pick(old)
        return self.another()

    def another(self) -> str:
        """Return the name of a new tensor."""
        self.made += 1
        return f"t{self.made}"
