"""A few ops for tests of the core, from a text of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import tcdsl.ops.view_parts
from tcdsl.core import Op, Tensor, dtypes, empty, set_grad_enabled
from tcdsl.ops.forms import Forms
from tcdsl.ops.rules import broadcast, floating, promote, widen
from tcdsl.ops.table import op_of_text

TEXT = """
def plus<R, T, U>(T(...) input, U(...) other) -> (R(...) out) {
  out(...) = R(input(...)) + R(other(...))
}
def times<R, T, U>(T(...) input, U(...) other) -> (R(...) out) {
  out(...) = R(input(...)) * R(other(...))
}
def total<R, T>(T(...) input) -> (R out) { out +=! R(input(...)) }
def e_to<R, T>(T(...) input) -> (R(...) out) { out(...) = exp(R(input(...))) }
def matmul<T>(T(M, K) input, T(K, N) other) -> (T(M, N) out) {
  out(i, j) +=! input(i, k) * other(k, j)
}
def halves<T>(T(N) input) -> (T(N) low, T(N) high, int64(N) place) {
  low(i) = input(i) * 2
  high(i) = input(i) * input(i)
  place(i) = int64(i) where exists input(i)
}
def normed<T>(T(N, K) x, T(K) w) -> (T(N, K) y) {
  mean(n) +=! x(n, k) / K
  var(n) +=! (x(n, k) - mean(n)) * (x(n, k) - mean(n)) / K
  y(n, k) = (x(n, k) - mean(n)) * rsqrt(var(n) + T(0.1)) * w(k)
}
def ramp<T>(T(...) input) -> (T(...) out) { out(...) = relu(input(...)) }
def ramp_vjp<T>(T(...) out, T(...) d_out) -> (T(...) d_input) {
  d_input(...) = out(...) > 0 ? d_out(...) : T(0)
}
"""
assert tcdsl.ops.view_parts

plus = op_of_text(TEXT, "plus", types=promote, shape=broadcast)
times = op_of_text(TEXT, "times", types=promote, shape=broadcast)
total = op_of_text(TEXT, "total", types=widen)
e_to = op_of_text(TEXT, "e_to", types=floating)
matmul = op_of_text(TEXT, "matmul")
halves = op_of_text(TEXT, "halves")
normed = op_of_text(TEXT, "normed")
ramp = op_of_text(TEXT, "ramp", vjp="ramp_vjp")


def writing(op: Op) -> Op:
    """Return an op's twin that writes its first operand."""
    forms: Forms = op.forms
    return Forms(f"{forms.name}_", forms.session, forms.definition, forms.meaning, writes=True).op


plus_, times_, ramp_ = writing(plus), writing(times), writing(ramp)


def tensor(values: Any, dtype: Any = np.float64, *, requires_grad: bool = False) -> Tensor:
    """Return a tensor of these values."""
    array = np.asarray(values, dtype)
    kind = dtypes.dtype_of(array.dtype)
    assert kind is not None
    made = empty(array.shape, kind)
    made._array()[...] = array
    made.requires_grad = requires_grad
    return made


def array(t: Any) -> Any:
    """Return the elements of a tensor."""
    return np.array(t._array())


@contextmanager
def no_grad() -> Iterator[None]:
    """Record nothing in a block."""
    old = set_grad_enabled(False)
    try:
        yield
    finally:
        set_grad_enabled(old)
