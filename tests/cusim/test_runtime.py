"""The simulator runs units as they are emitted, in any order of threads and blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

from tcdsl.codegen.choose.compiler import emit_cuda
from tcdsl.grammar.text.errors import BoundsError
from tests.codegen.harness import problem
from tests.cusim.build import compile_all
from tests.cusim.harness import differential, lowered, simulate
from tests.cusim.report import Report
from tests.cusim.simulator import Array, Module, Simulator

pytestmark = pytest.mark.cusim

FCRELU = """def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
    O(b_, n) +=! I(b_, m) * W(n, m)
    O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""


def test_a_unit_gives_what_the_reference_gives(rng: np.random.Generator) -> None:
    shapes = ((33, 20), (10, 20), (10,))
    p = problem(FCRELU, *(rng.standard_normal(s, np.float32) for s in shapes))
    differential(p, terms=20, orders=("forward", "reverse", "random"))


def test_views_are_reached_by_their_strides_alone(rng: np.random.Generator) -> None:
    a = rng.standard_normal((33, 20), np.float32)[::-1, ::2]
    out = np.zeros((20, 33), np.float32)[::2]
    differential(problem("def t(float(M,N) A) -> (O) { O(j,i) = A(i,j) * 2 }", a, outs=[out]))


def _reached(view: Array, at: int) -> Report:
    """Write one element of a view, at a distance in elements from its first."""
    module = Module(
        '#include "prelude.cuh"\n'
        'extern "C" __global__ void __launch_bounds__(1) k(float *y, tc_i64 at) { y[at] = 1; }'
    )
    simulator = Simulator()
    simulator.add_array("y", view, "write")
    arguments = [ctypes.c_void_p(view.ctypes.data), ctypes.c_int64(at)]
    simulator.launch(module, "k", 1, 1, arguments)
    return simulator.report


@pytest.mark.parametrize(
    ("slices", "inside", "outside", "between"),
    [
        (np.s_[10:20], (0, 9), (-1, 10), ()),
        (np.s_[10:20:2], (0, 8), (-1, 9), (1, 7)),
        (np.s_[20:10:-2], (0, -8), (1, -9), (-1, -7)),
    ],
)
def test_a_view_ends_where_its_elements_end(
    slices: slice, inside: Sequence[int], outside: Sequence[int], between: Sequence[int]
) -> None:
    view = np.zeros(40, np.float32)[slices]
    for at in inside:
        assert _reached(view, at).kinds == set()
    for at in outside:
        assert _reached(view, at).kinds == {"out of bounds"}
    for at in between:
        assert _reached(view, at).kinds == {"between elements"}


def test_memory_that_is_given_back_is_no_longer_reached() -> None:
    module = Module(
        '#include "prelude.cuh"\n'
        'extern "C" __global__ void __launch_bounds__(1) k(float *y, const float *x) { *y = *x; }'
    )
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    simulator = Simulator()
    number = simulator.add_array("x", x, "read")
    simulator.add_array("y", y, "write")
    arguments = [ctypes.c_void_p(y.ctypes.data), ctypes.c_void_p(x.ctypes.data)]
    assert simulator.launch(module, "k", 1, 1, arguments)
    assert y[0] == 1
    simulator.remove(number)
    assert not simulator.launch(module, "k", 1, 1, arguments)
    assert simulator.report.kinds == {"out of bounds"}


def test_a_fault_of_a_kernel_is_a_bounds_error() -> None:
    text = "def take(float(N) x, int32(M) at) -> (y) { y(i) = x(at(i)) }"
    p = problem(text, np.ones(3, np.float32), np.array([0, 3, 1], np.int32))
    unit = lowered(p)
    with pytest.raises(BoundsError, match="operand 0 dim 0: 3 of 3"):
        simulate(unit, emit_cuda(unit), p)
    differential(p)  # the reference faults too


def test_units_are_compiled_side_by_side_and_once() -> None:
    texts = [
        f'#include "prelude.cuh"\nextern "C" __global__ void k{i}(float *y) {{ *y = {i}; }}'
        for i in range(3)
    ]
    first = compile_all(texts)
    stamps = [p.stat().st_mtime_ns for p in first]
    assert compile_all(texts) == first
    assert [p.stat().st_mtime_ns for p in first] == stamps
