"""Random numbers without a state: Philox4x32-10, the reference for `rand` in every target.

References
----------
Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(
    counter: tuple[Array, Array, Array, Array], key: tuple[int, int]
) -> tuple[Array, Array, Array, Array]:
    """Return four words of 32 bits for each counter.

    Parameters
    ----------
    counter : four arrays of uint64, each below 2^32
    key : two numbers below 2^32
    """
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        p, q = a * _M0, c * _M1
        a, b, c, d = (
            (q >> _32) ^ b ^ np.uint64(k0), q & _LOW, (p >> _32) ^ d ^ np.uint64(k1), p & _LOW,
        )  # fmt: skip
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return a, b, c, d


def uniform(seed: int, counter: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers in [0, 1): with 24 random bits in float32, with 53 in float64.

    Parameters
    ----------
    seed : int
        The key, as uint64.
    counter : array of int64
        Which numbers of the sequence; taken as uint64.
    dtype
        float32 or float64.
    """
    c = counter.astype(np.int64).view(np.uint64)
    zero = np.zeros_like(c)
    x0, x1, _, _ = philox((c & _LOW, c >> _32, zero, zero), (seed & 0xFFFFFFFF, seed >> 32))
    if dtype == np.float32:
        return ((x0 >> np.uint64(8)) * 2.0**-24).astype(np.float32)
    return ((x1 << _32 | x0) >> np.uint64(11)).astype(np.float64) * 2.0**-53
