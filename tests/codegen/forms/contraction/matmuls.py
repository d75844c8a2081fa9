"""Products of two matrices of any types, in any layout."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.codegen.harness import Problem, problem

Array = np.ndarray[Any, np.dtype[Any]]
BF = ml_dtypes.bfloat16
LAYOUTS = {"NN": ("mk", "kn"), "NT": ("mk", "nk"), "TN": ("km", "kn"), "TT": ("km", "nk")}


def matmul(a: Array, b: Array, layout: str = "NN", to: str = "") -> Problem:
    """Return the product of a(m,k) and b(k,n), which lie as a layout says."""
    is_half = a.dtype in (BF, np.float16)
    of = to or ("float" if is_half else "int32")
    lies = LAYOUTS[layout]
    names = [f"{x}({','.join(at)})" for x, at in zip("AB", lies, strict=True)]
    params = ", ".join(f"{t.dtype.name}{x.upper()[1:]} {x[0]}" for t, x in zip((a, b), names))  # noqa: B905
    term = " * ".join(names if of == a.dtype.name else (f"{of}({x})" for x in names))
    arrays = (x if at in ("mk", "kn") else x.T for x, at in zip((a, b), lies, strict=True))
    text = f"def mm({params}) -> ({of}(M,N) C) {{ C(m,n) +=! {term} }}"
    return problem(text, *(np.ascontiguousarray(x) for x in arrays))
