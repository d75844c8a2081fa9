"""One executable serves all sizes, and strides cost no memory: as `benchmarks/sizes.py` counts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.tiers import sampled


def _script() -> ModuleType:
    path = Path(__file__).parents[4] / "benchmarks" / "sizes.py"
    sys.path.insert(0, str(path.parent))  # what it shares with other benchmarks is beside it
    spec = importlib.util.spec_from_file_location("sizes_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


sizes = _script()


def _expected(name: str, operands: list[Any]) -> Any:
    x = [o.astype(np.float64) for o in operands]
    match name:
        case "matmul" | "batched matmul":
            return x[0] @ x[1]
        case "pointwise":
            return x[0] / (1 + np.exp(-x[1]))
        case "column sums":
            return x[0].sum(0)
        case "softmax":
            e = np.exp(x[0] - x[0].max(-1, keepdims=True))
            return e / e.sum(-1, keepdims=True)
        case _:
            windows = np.lib.stride_tricks.sliding_window_view(x[0], x[1].shape[2:], (2, 3))
            return np.einsum("nchwij,fcij->nfhw", windows, x[1])


@pytest.mark.cc
@sampled("name", sizes.CALLS, keep=1)
def test_a_hundred_sizes_compile_at_most_three_executables(name: str) -> None:
    text, shapes = sizes.CALLS[name]
    kernel = sizes.kernel(text)
    for i in range(100):
        operands = [sizes.rand(*shape) for shape in shapes(i)]
        np.testing.assert_allclose(kernel(*operands), _expected(name, operands), atol=1e-4)
    assert len({shapes(i) for i in range(100)}) == 100
    found = kernel.variant().executables
    # Sums of columns have one for few columns too, and one column is a single row of any layout.
    # Convolutions have more for few columns where columns are their vectors.
    assert len(found) <= {"column sums": 4, "conv": 5}.get(name, 3)
    first = kernel.variant().signature.pointwise is not None  # all sizes from the first on
    assert [c.spec.sizes is None for c in found] == [first] + [True] * (len(found) - 1)


@pytest.mark.cc
@sampled("text", [sizes.MATMUL, sizes.BATCHED], keep=1)
def test_operands_of_any_strides_allocate_nothing_of_their_size(text: str) -> None:
    """Blocks are packed in the workspace of a thread, whose size tiles and caches bound."""
    shapes = ((300, 290), (290, 310)) if text == sizes.MATMUL else ((40, 30, 50), (40, 50, 60))
    case = sizes.Case("product", text, tuple(sizes.rand(*shape) for shape in shapes))
    least = min(x.nbytes for x in case.inputs)
    kernel = sizes.kernel(text)
    for change in sizes.LAYOUTS.values():
        a, b, out = map(change, (*case.inputs, case.output()))

        def call(a: Any = a, b: Any = b, out: Any = out) -> None:
            kernel(a, b, out=out)

        call()
        sizes.check(case, out)
        allocated, _ = sizes.new_bytes(call)
        assert allocated < 4096 < least
