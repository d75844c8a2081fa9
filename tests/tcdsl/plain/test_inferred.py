"""What a call would give, asked without arrays: shapes, types, work."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.library import load
from tcdsl.forms import AbstractArray
from tcdsl.grammar.proofs.signs import maximum, minimum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.grammar.types.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT32, INT64

CONV = """
def conv(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {
  O(n, f, h, w) +=! I(n, c, h + kh, w + kw) * K(f, c, kh, kw)
}"""
EVERY = "def every<S=2, T>(T(N) A) -> (B, float64 s) { B(i) = A(S * i) s +=! A(i) }"
WINDOW = "def window(float(N) A, int32 K) -> (B) { B(i) +=! A(i + k) where k in 0:K }"
ADD = "def add<T>(T(...) A, T(...) B) -> (C) { C(...) = A(...) + B(...) }"


@pytest.fixture(autouse=True)
def _nothing_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("something is compiled")

    monkeypatch.setattr(load, "compile_and_load", refused)
    monkeypatch.setattr(compiler, "lower", refused)


def define(text: str) -> Any:
    return tc.define(text, tune="off")


def test_shapes_come_of_sizes_shapes_and_arrays() -> None:
    conv = define(CONV)
    sizes = {"N": 1, "C": 2, "H": 8, "W": 9, "F": 4, "KH": 3, "KW": 3}
    wanted = {"O": (1, 4, 6, 7)}
    assert conv.output_shapes(**sizes) == wanted
    assert conv.output_shapes((1, 2, 8, 9), [4, 2, 3, 3]) == wanted
    assert conv.output_shapes(np.zeros((1, 2, 8, 9), "f"), np.zeros((4, 2, 3, 3), "f")) == wanted
    with pytest.raises(ShapeError, match=r"conv needs the sizes .*; KW is missing"):
        conv.output_shapes(**{k: v for k, v in sizes.items() if k != "KW"})
    with pytest.raises(ShapeError, match="expected K of shape"):
        conv.output_shapes((1, 2, 8, 9), (4, 3, 3, 3))
    with pytest.raises(TCTypeError, match=r"conv\(I, K\) takes 2 arguments, got 3"):
        conv.output_shapes((1, 2, 8, 9), (4, 2, 3, 3), (1,))
    with pytest.raises(TCTypeError, match="got 'N' beside arguments"):
        conv.output_shapes((1, 2, 8, 9), (4, 2, 3, 3), N=1)
    with pytest.raises(TCTypeError, match="expected an array, a shape or a number for 'I'"):
        conv.output_shapes("I", (4, 2, 3, 3))


def test_generics_and_numbers_in_bounds_count() -> None:
    every, window = define(EVERY), define(WINDOW)
    assert every.output_shapes(N=7, T="float32")["B"] == (4,)
    assert every.output_shapes((7,), S=3, T=np.int8)["B"] == (3,)
    assert every.output_shapes(np.zeros(7), S=3)["B"] == (3,)
    with pytest.raises(TCTypeError, match='a shape does not say\n  give it by keyword, T="float'):
        every.output_shapes((7,))
    for given in (3, np.int64(3), np.array(3, np.int32)):
        assert window.output_shapes((7,), given) == {"B": (5,)}
    assert window.output_shapes(N=7, K=3) == {"B": (5,)}
    with pytest.raises(TCTypeError, match="expected K of type int32, got a number of type float64"):
        window.output_shapes((7,), 3.0)


def test_any_rank_is_that_of_the_shapes_or_of_the_sizes_named() -> None:
    add = define(ADD)
    assert add.output_shapes((3, 1), (4,), T="float32") == {"C": (3, 4)}
    assert add.output_shapes(D0=3, D1=4, T="float32") == {"C": (3, 4)}
    assert add.output_dtypes(T="float16") == {"C": np.dtype(np.float16)}


def test_types_are_numpys() -> None:
    every = define(EVERY)
    kinds = {"B": np.dtype(ml_dtypes.bfloat16), "s": np.dtype(np.float64)}
    assert every.output_dtypes(T="bfloat16") == kinds
    assert every.output_dtypes(T=ml_dtypes.bfloat16, N=3) == kinds
    assert every.output_dtypes(np.zeros(3, ml_dtypes.bfloat16)) == kinds
    with pytest.raises(TCTypeError, match="'T' has no type"):
        every.output_dtypes()


def test_work_is_that_of_the_description() -> None:
    mm = define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }")
    assert mm.flops(M=3, K=5, N=7) == mm.flops((3, 5), (5, 7)) == 2 * 3 * 5 * 7
    assert mm.bytes(M=3, K=5, N=7) == 4 * (15 + 35 + 21)
    assert mm.flops(M=0, K=5, N=7) == 0
    rows = define("def rows(float(V,D) E, int64(L) I) -> (O) { O(l, d) = E(I(l), d) }")
    assert rows.bytes(V=1000, D=4, L=6) == 8 * 6 + 2 * 4 * (6 * 4)  # not the table
    assert rows.bytes(V=3, D=4, L=6) == 8 * 6 + 4 * (3 * 4) + 4 * (6 * 4)
    turns = "H(0, n) = X(n)  for t in 0:T { H(t + 1, n) = H(t, n) + E(t, n) + X(n) }"
    scan = define(f"def scan(float(N) X, float(T,N) E) -> (H) {{ {turns} }}")
    assert scan.bytes(N=5, T=7) == 4 * (5 + 5 * 7 + 5 * 8)
    padded = define("""def same(float(N) X, float(3) K) -> (float(N) Y) {
      Y(i) +=! pad(X(i + j - 1), 0) * K(j)
    }""")
    assert padded.flops(N=100) == 2 * 3 * 100  # guards are not arithmetic
    choice = define("def relu(float(N) X) -> (Y) { Y(i) = X(i) > 0 ? X(i) : 0 }")
    assert choice.flops(N=100) == 2 * 100


def test_a_gradient_checks_the_shapes_of_adjoints() -> None:
    slope = tc.grad(define(CONV))
    image, window, d_o = (1, 2, 8, 9), (4, 2, 3, 3), (1, 4, 6, 7)
    assert slope.output_shapes(image, window, d_o) == {"d_I": image, "d_K": window}
    with pytest.raises(ShapeError, match="expected d_O of the shape of 'O'"):
        slope.output_shapes(image, window, (1, 4, 6, 8))


class Symbol:
    """Counts by an unknown: an expression as text, and a value to compare by."""

    def __init__(self, text: str, value: int) -> None:
        self.text, self.value = text, value

    def __str__(self) -> str:
        return self.text


def _operation(sign: str, apply: Callable[[int, int], int]) -> Any:
    def forwards(a: Symbol, b: Symbol | int) -> Symbol:
        return Symbol(f"({a} {sign} {b})", apply(a.value, _value(b)))

    def backwards(a: Symbol, b: int) -> Symbol:
        return Symbol(f"({b} {sign} {a})", apply(b, a.value))

    return forwards, backwards


def _value(x: Symbol | int) -> int:
    return x.value if isinstance(x, Symbol) else x


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}.items():
    _forwards, _backwards = _operation(_sign, getattr(operator, _name))
    setattr(Symbol, f"__{_name}__", _forwards)
    setattr(Symbol, f"__r{_name}__", _backwards)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _compare = getattr(operator, _name)
    setattr(Symbol, f"__{_name}__", lambda a, b, c=_compare: c(a.value, _value(b)))
Symbol.__hash__ = None  # type: ignore[assignment]


def test_extents_are_expressions_of_whatever_counts() -> None:
    n, m = Size.symbol("N"), Size.symbol("M")
    size = (n * m + 3) // 2 * 5 + n % m + maximum(n - m, m - 2) - minimum(n, m)
    values = {"N": Symbol("n", 7), "M": Symbol("m", 4)}
    found = size.over(values)
    assert found.value == size.evaluate({"N": 7, "M": 4})
    evaluated = eval(str(found), {"n": 7, "m": 4})
    assert evaluated == found.value
    told: list[str] = []

    def least(*args: Symbol) -> Symbol:
        told.append("least")
        return Symbol(f"min({', '.join(map(str, args))})", min(map(_value, args)))

    def most(*args: Symbol) -> Symbol:
        told.append("most")
        return Symbol(f"max({', '.join(map(str, args))})", max(map(_value, args)))

    found = size.over(values, least, most)
    assert sorted(told) == ["least", "most"]
    for a, b in ((7, 4), (4, 7), (3, 3), (0, 5), (9, 1)):
        evaluated = eval(str(found), {"n": a, "m": b})
        assert evaluated == size.evaluate({"N": a, "M": b})


def test_a_call_on_symbols_gives_expressions() -> None:
    h, w = Symbol("h", 8), Symbol("w", 9)
    image = AbstractArray((Symbol("n", 1), 2, h, w), FLOAT32)
    (found,) = define(CONV).infer([image, AbstractArray((4, 2, 3, 3), FLOAT32)])
    assert [_value(n) for n in found.shape] == [1, 4, 6, 7]
    assert eval(str(found.shape[2]), {"h": 20}) == 18
    assert [eval(str(s), {"h": 20, "w": 30}) for s in found.strides] == [2016, 504, 28, 1]
    (b,) = define(WINDOW).infer(
        [AbstractArray((h,), FLOAT32), AbstractArray((), INT64, Symbol("k", 3))]
    )
    assert eval(str(b.shape[0]), {"h": 20, "k": 5}) == 16
    with pytest.raises(ShapeError, match="expected K of shape"):
        define(CONV).infer([image, AbstractArray((4, 3, 3, 3), FLOAT32)])


def test_the_forms_of_results_are_those_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    every = define(EVERY)
    b, s = every.infer([AbstractArray((7,), BFLOAT16)], {"S": 3})
    assert (b.shape, b.dtype, b.strides) == ((3,), BFLOAT16, (1,))
    assert (s.shape, s.dtype, s.ndim) == ((), FLOAT64, 0)
    monkeypatch.undo()
    real = every(np.zeros(7, ml_dtypes.bfloat16), S=3)
    assert [(r.shape, r.dtype.name) for r in real] == [(f.shape, f.dtype.name) for f in (b, s)]


def test_an_integer_is_needed_where_a_bound_depends_on_it() -> None:
    with pytest.raises(TCTypeError, match="the value of K is needed, it is used in a bound"):
        define(WINDOW).infer([AbstractArray((7,), FLOAT32), AbstractArray((), INT32)])


@pytest.mark.torch
def test_tensors_of_torch_are_read_for_shape_and_type_only() -> None:
    torch = pytest.importorskip("torch")
    x = torch.empty((3, 4), dtype=torch.bfloat16, device="meta")
    add = define(ADD)
    (c,) = add.infer([x, x])
    assert (c.shape, c.dtype) == ((3, 4), BFLOAT16)
    assert add.output_shapes(x, x) == {"C": (3, 4)}
    with pytest.raises(TCTypeError, match=r"'A' has type torch\.complex64, which the"):
        add.infer([x.to(torch.complex64)] * 2)
