"""Calls in a process of its own: `python calls.py KERNELS`; prints where the core lies."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from tcdsl.codegen import runtime

library = ctypes.CDLL(sys.argv[1])
F4 = np.dtype(np.float32)


def address(name: str) -> int:
    """Return the address of an executable."""
    return ctypes.addressof(ctypes.c_char.in_dll(library, f"tc_exe_{name}"))


class Add(runtime.Launcher):
    """C(m, n) = A(m, n) + B(m, n)."""

    def __init__(self) -> None:
        super().__init__("add", ("a", "b"), ("c",), self.slow, print)
        self.misses = 0

    def slow(self, a: Any, b: Any, out: Any = None) -> Any:
        """Install an entry for C-contiguous arrays."""
        self.misses += 1
        form = (F4, a.shape, None)
        outs = None if out is None else (out,)
        pairs = ((0, 0), (0, 1))
        entry = runtime.Entry(address("add"), a.shape, (form, form), (form,), pairs, library)
        self.install(entry, (a, b), outs)
        return self.run(entry, (a, b), outs)


k = Add()
for shape in ((2, 3), (1, 1), (0, 4), (1000, 1000)):
    x = np.ones(shape, np.float32)
    y = x.copy()
    for _ in range(300):
        c = k(x, y)
        assert k(x, c, out=c) is c
        assert (c == 3).all()
assert k.misses == 8
runtime.set_num_threads(2)
for _ in range(20):
    assert (k(x, y) == 2).all()
try:
    k(x)
except TypeError as e:
    assert "'b'" in str(e)  # noqa: PT017
print(runtime._core.__file__)
