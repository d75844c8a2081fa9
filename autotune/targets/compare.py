"""An output beside what is expected: where it differs, and by how much."""

from __future__ import annotations

import numpy as np

from tcdsl.autotune.worker.case import Array, Expected


def difference(got: Array, expected: Expected) -> str | None:
    """Say where an output differs most from what is expected, or return None."""
    values, excess = compare(got, expected)
    bad = excess > 0
    if not bad.any():
        return None
    worst = int(excess.argmax())
    flat = worst if expected.positions is None else int(expected.positions[worst])
    where = ", ".join(str(int(i)) for i in np.unravel_index(flat, got.shape))
    return (
        f"expected {expected.values.flat[worst]!s} at ({where}), got {values[worst]!s}; "
        f"{int(bad.sum())} of {bad.size} compared elements differ"
    )


def compare(got: Array, expected: Expected) -> tuple[Array, Array]:
    """Return the values at the expected positions, and by how much each exceeds its tolerance."""
    values = got.ravel() if expected.positions is None else got.flat[expected.positions]
    wanted = expected.values.ravel()
    if values.dtype.kind in "biu":
        # A byte other than 0 and 1 is no bool, so bools are compared as bytes.
        raw = np.ascontiguousarray(values).view(np.uint8) if values.dtype.kind == "b" else values
        return raw, (raw != wanted).astype(np.float64)
    exact = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        excess = np.abs(exact - wanted) - (expected.atol + expected.rtol * np.abs(wanted))
        same = (exact == wanted) | (np.isnan(exact) & np.isnan(wanted))
    return values, np.where(same, -1.0, np.where(np.isnan(excess), np.inf, excess))
