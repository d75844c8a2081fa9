"""A workload: a definition at a size, and how torch and NumPy say the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Peer = Callable[..., Any]


@dataclass(frozen=True)
class Input:
    """An operand: normal numbers of a float type, or integers of `[low, high)`.

    shape : extents. dtype : NumPy's name of the type, or "bfloat16". scale : what normal numbers
    are multiplied by.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: int = -8
    high: int = 8
    scale: float = 1.0

    def numbers(self, seed: int) -> Array:
        """Return the same numbers in every process; a bfloat16 comes as float32."""
        rng = np.random.default_rng((seed, *self.shape))
        if self.dtype in ("float16", "bfloat16", "float32", "float64"):
            normal = rng.standard_normal(self.shape, dtype=np.float32) * np.float32(self.scale)
            stored = "float32" if self.dtype == "bfloat16" else self.dtype
            return np.asarray(normal, stored)  # without a shape it was a number
        return rng.integers(self.low, self.high, self.shape).astype(self.dtype)


@dataclass(frozen=True)
class Workload:
    """What is timed.

    torch takes torch itself and the tensors; numpy, where it is given, the arrays. gradient: the
    way back is timed, of a first return to all float inputs. channels_last: torch may also have its
    images in that layout. tolerance: of results, relative to the largest value. compared: as many
    returns of ours are held against the peers'; all by default.
    """

    name: str
    kind: str
    text: str
    inputs: tuple[Input, ...]
    torch: Peer
    numpy: Peer | None = None
    gradient: bool = False
    channels_last: bool = False
    tolerance: float = 1e-3
    compared: int | None = None

    def operands(self) -> list[Array]:
        """Return its inputs, the same in every process."""
        return [x.numbers(i) for i, x in enumerate(self.inputs)]


def definition(name: str, parameters: str, body: str, returns: str = "O") -> str:
    """Return the text of a definition."""
    return f"def {name}({parameters}) -> ({returns}) {{\n  {body}\n}}"


def floats(*shapes: tuple[int, ...]) -> tuple[Input, ...]:
    """Return float32 inputs of these shapes."""
    return tuple(Input(shape) for shape in shapes)


def size(rng: random.Random, low: int, high: int) -> int:
    """Return a size, as often between 10 and 100 as between 100 and 1000."""
    ratio: float = (high / low) ** rng.random()
    return round(low * ratio)


def named(*words: object) -> str:
    """Return the words of a name; a shape is written as "4x8"."""
    return " ".join("x".join(map(str, w)) if isinstance(w, tuple) else str(w) for w in words)
