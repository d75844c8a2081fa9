"""Random numbers without a state: Philox4x32-10, the reference for `rand` in every target.

References
----------
Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Key = Array | np.uint64

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(
    counter: tuple[Array, Array, Array, Array], key: tuple[Key, Key]
) -> tuple[Array, Array, Array, Array]:
    """Return four words of 32 bits for each counter.

    Parameters
    ----------
    counter : four arrays of uint64, each below 2^32
    key : two numbers or arrays like these
    """
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        p, q = a * _M0, c * _M1
        a, b, c, d = (
            (q >> _32) ^ b ^ k0, q & _LOW, (p >> _32) ^ d ^ k1, p & _LOW,
        )  # fmt: skip
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return a, b, c, d


def uniform(seed: Key, counter: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers in [0, 1): with 24 random bits in float32, with 53 in float64.

    Parameters
    ----------
    seed : uint64, or array of uint64
        The key, or one for each counter.
    counter : array of int64
        Which numbers of the sequence; taken as uint64.
    dtype
        float32 or float64.
    """
    c = counter.astype(np.int64).view(np.uint64)
    zero = np.zeros_like(c)
    x0, x1, _, _ = philox((c & _LOW, c >> _32, zero, zero), (seed & _LOW, seed >> _32))
    if dtype == np.float32:
        return ((x0 >> np.uint64(8)) * 2.0**-24).astype(np.float32)
    return ((x1 << _32 | x0) >> np.uint64(11)).astype(np.float64) * 2.0**-53
