"""What a candidate is held against: inputs, expected outputs, tolerances.

A case is made once per problem, saved into a folder, and read by every worker process, however
often one has to be started anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import BY_NAME

Array = np.ndarray[Any, np.dtype[Any]]

Role = Literal["in", "scalar", "out", "update"]

SAMPLES = 4096
_WHOLE = 1 << 16  # outputs up to this many elements are compared whole
_BORDER = 64  # elements from each end of each dimension: no tile's tail is wider


@dataclass(frozen=True, slots=True)
class Operand:
    """One parameter or return, in the order of the ABI.

    strides : in elements; None for C order.
    role : scalar, of rank 0 and by value; update, a return whose buffer is read first.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    role: Role

    @property
    def element_strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        if self.strides is not None:
            return self.strides
        steps = [1]
        for extent in reversed(self.shape[1:]):
            steps.append(steps[-1] * max(extent, 1))
        return tuple(reversed(steps[: len(self.shape)]))

    @property
    def _reach(self) -> tuple[int, int]:
        """Lowest and highest element, counted from element 0, ..., 0."""
        if 0 in self.shape:
            return 0, -1
        ends = [(n - 1) * s for n, s in zip(self.shape, self.element_strides, strict=True)]
        return sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends)

    @property
    def size_bytes(self) -> int:
        """Bytes from the lowest element to the highest, with what lies between them."""
        low, high = self._reach
        return (high - low + 1) * dtype_named(self.dtype).itemsize

    @property
    def lead_bytes(self) -> int:
        """Bytes from the lowest element to element 0, ..., 0: strides may be negative."""
        return -self._reach[0] * dtype_named(self.dtype).itemsize

    def view(self, memory: Array, start: int = 0) -> Array:
        """Return the operand in bytes whose lowest element begins at start."""
        dtype = dtype_named(self.dtype)
        strides = tuple(s * dtype.itemsize for s in self.element_strides)
        return np.ndarray(self.shape, dtype, memory.data, start + self.lead_bytes, strides)

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes it."""
        return self.role in ("out", "update")


@dataclass(frozen=True, slots=True)
class Expected:
    """Values of one output at some positions: |got - want| <= atol + rtol |want|.

    positions : flat, in C order; None for all of them.
    """

    values: Array
    positions: Array | None
    atol: float
    rtol: float


@dataclass(frozen=True, slots=True)
class Case:
    """A problem's operands with the data of those that are read, and what has to come out.

    data : one per operand; None for role out.
    expected : one per written operand, in order.
    sizes : as `tc_args.sizes`.
    """

    operands: tuple[Operand, ...]
    data: tuple[Array | None, ...]
    expected: tuple[Expected, ...]
    sizes: tuple[int, ...]
    threads: int

    def save(self, folder: Path) -> None:
        """Write the case into a folder."""
        head = {
            "operands": [asdict(o) for o in self.operands],
            "tolerances": [(e.atol, e.rtol) for e in self.expected],
            "sizes": self.sizes,
            "threads": self.threads,
        }
        (folder / "case.json").write_text(json.dumps(head))
        for i, array in enumerate(self.data):
            if array is not None:
                np.save(folder / f"data{i}.npy", _bytes_of(array))
        for i, expected in enumerate(self.expected):
            np.save(folder / f"values{i}.npy", expected.values)
            if expected.positions is not None:
                np.save(folder / f"positions{i}.npy", expected.positions)

    @staticmethod
    def load(folder: Path) -> Case:
        """Read what `save` wrote; the arrays are maps that cannot be written."""
        head = json.loads((folder / "case.json").read_text())
        operands = tuple(
            Operand(
                **o
                | {
                    "shape": tuple(o["shape"]),
                    "strides": None if o["strides"] is None else tuple(o["strides"]),
                }
            )
            for o in head["operands"]
        )
        data = tuple(
            None if o.role == "out" else _typed(_mapped(folder / f"data{i}.npy"), o)
            for i, o in enumerate(operands)
        )
        expected = tuple(
            Expected(
                _mapped(folder / f"values{i}.npy"),
                _mapped(path) if (path := folder / f"positions{i}.npy").exists() else None,
                *tolerances,
            )
            for i, tolerances in enumerate(head["tolerances"])
        )
        return Case(operands, data, expected, tuple(head["sizes"]), head["threads"])


def dtype_named(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a language type."""
    return numpy_dtype(BY_NAME[name])


def positions_to_check(shape: Sequence[int], rng: np.random.Generator) -> Array | None:
    """Return where a big output is compared: its border tiles and 4096 random points.

    Returns
    -------
    ndarray of int64 or None
        Sorted flat positions; None where the output is small enough to be compared whole.
    """
    total = int(np.prod(shape, dtype=np.int64))
    if total <= _WHOLE:
        return None
    border = [np.empty(0, np.int64)]
    for d, extent in enumerate(shape):
        # Of each border slab, a sample that holds every distance from the edge.
        for k in range(min(_BORDER, extent)):
            for edge in (k, extent - 1 - k):
                points = [rng.integers(0, n, SAMPLES // _BORDER) for n in shape]
                points[d] = np.full(SAMPLES // _BORDER, edge)
                border.append(np.ravel_multi_index(tuple(points), tuple(shape)))
    inside = rng.integers(0, total, SAMPLES)
    corners = np.array([0, total - 1])
    return np.unique(np.concatenate([*border, inside, corners]).astype(np.int64))


def _bytes_of(array: Array) -> Array:
    """Return an array as bytes: `np.save` does not know bfloat16."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def _typed(raw: Array, operand: Operand) -> Array:
    return raw.view(dtype_named(operand.dtype)).reshape(operand.shape)


def _mapped(path: Path) -> Array:
    """Return a read-only map of a saved array; an empty one cannot be mapped."""
    array: Array = np.load(path)
    if array.size:
        array = np.load(path, mmap_mode="r")
    return array
