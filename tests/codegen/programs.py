"""Programs and sizes that every form is held against, and arguments for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import CheckedDef
from tests.codegen.harness import Problem

Array = np.ndarray[Any, np.dtype[Any]]
View = Literal["c", "transposed", "strided", "reversed", "broadcast"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A definition and the sizes it runs at.

    below: for integer parameters, the exclusive upper bound of random values (a size or a
    number), with 0 as lower bound; others are drawn from [-8, 8].
    """

    text: str
    sizes: tuple[Mapping[str, int], ...]
    below: Mapping[str, str | int] | None = None

    def checked(self) -> CheckedDef:
        return check(parse(self.text))


def problem_of(
    entry: Entry, sizes: Mapping[str, int], rng: np.random.Generator, view: View = "c"
) -> Problem:
    """Return an entry with random arguments at sizes."""
    checked = entry.checked()
    args: list[Any] = []
    for t in checked.params:
        shape = tuple(s.evaluate(sizes) for s in t.shape)
        if t.name in checked.sizes:
            args.append(sizes[t.name])
            continue
        bound = (entry.below or {}).get(t.name)
        high = sizes[bound] if isinstance(bound, str) else bound
        array = values(shape, numpy_dtype(t.dtype), rng, high)
        args.append(viewed(array, view) if shape else array[()])
    return Problem(checked, tuple(args))


def values(
    shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, below: int | None
) -> Array:
    """Return random values of a type."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        low = 0 if below is not None or dtype.kind == "u" else -8
        return rng.integers(low, 9 if below is None else max(below, 1), shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def viewed(a: Array, view: View) -> Array:
    """Return an array of the same shape and values (broadcast: first row) in another layout."""
    if view == "c" or a.ndim == 0 or a.size == 0:
        return a
    if view == "transposed":
        return np.ascontiguousarray(a.T).T
    if view == "reversed":
        return np.ascontiguousarray(a[::-1])[::-1]
    if view == "broadcast":
        return np.broadcast_to(a[:1], a.shape)
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 3), a.dtype)
    out = wide[..., 1 : 1 + 2 * a.shape[-1] : 2]
    out[...] = a
    return out


_NM = ({"N": 5, "M": 37}, {"N": 33, "M": 65}, {"N": 1, "M": 1}, {"N": 0, "M": 3}, {"N": 3, "M": 0})
_MNK = (
    {"M": 17, "N": 33, "K": 65},
    {"M": 5, "N": 7, "K": 3},
    {"M": 1, "N": 1, "K": 1},
    {"M": 4, "N": 4, "K": 0},
    {"M": 0, "N": 4, "K": 2},
)

PROGRAMS: Mapping[str, Entry] = {
    "copy": Entry("def f(float(N,M) A) -> (O) { O(n,m) = A(n,m) }", _NM),
    "transpose": Entry("def f(float(N,M) A) -> (O) { O(m,n) = A(n,m) }", _NM),
    "row": Entry("def f(float(N,M) A, float(M) b) -> (O) { O(n,m) = A(n,m) * b(m) + n }", _NM),
    "chain": Entry(
        "def f(float(N,M) A, float(N,M) B) -> (O) {"
        " t(n,m) = A(n,m) * B(n,m)  u(n,m) = t(n,m) + t(n,m) * A(n,m)  O(n,m) = u(n,m) - 1 }",
        _NM,
    ),
    "two_outputs": Entry(
        "def f(float(N,M) A) -> (O, P) { O(n,m) = A(n,m) + 1  P(n,m) = O(n,m) * O(n,m) }", _NM
    ),
    "double": Entry("def f(double(N,M) A) -> (O) { O(n,m) = A(n,m) / (A(n,m) + 10) }", _NM),
    "integers": Entry(
        "def f(int32(N,M) A, int32(N,M) B) -> (O) {"
        " O(n,m) = A(n,m) / B(n,m) * 3 - A(n,m) % B(n,m) }",
        _NM,
    ),
    "bytes": Entry(
        "def f(uint8(N,M) A, int8(N,M) B) -> (O, P) {"
        " O(n,m) = A(n,m) * A(n,m) + 200  P(n,m) = B(n,m) * B(n,m) - B(n,m) }",
        _NM,
    ),
    "truth": Entry(
        "def f(float(N,M) A, bool(N,M) B) -> (O) {"
        " O(n,m) = B(n,m) && !(A(n,m) < 0.5) || A(n,m) > 1.0 }",
        _NM,
    ),
    "casts": Entry(
        "def f(float(N,M) A) -> (O, P) {"
        " O(n,m) = int32(A(n,m) * 1e10)  P(n,m) = uint8(A(n,m) * 300.0) }",
        _NM,
    ),
    "indices": Entry("def f(float(N,M) A) -> (O) { O(n,m) = A(n,m) + n * M - m }", _NM),
    "sum": Entry("def f(float(N,M) A) -> (O) { O(n) +=! A(n,m) }", _NM),
    "column_sum": Entry("def f(float(N,M) A) -> (O) { O(m) +=! A(n,m) }", _NM),
    "total": Entry("def f(float(N,M) A) -> (O) { O +=! A(n,m) }", _NM),
    "product": Entry("def f(int64(N,M) A) -> (O) { O(n) *=! A(n,m) }", _NM),
    "largest": Entry("def f(float(N,M) A) -> (O, P) { O(n) max=! A(n,m)  P(m) min=! A(n,m) }", _NM),
    "update": Entry("def f(float(N,M) A) -> (O) { O(n) += A(n,m) }", _NM),
    "softmax": Entry(
        "def f(float(N,M) A) -> (O) { mx(n) max=! A(n,m)  O(n,m) = exp(A(n,m) - mx(n))"
        "  s(n) +=! O(n,m)  O(n,m) = O(n,m) / s(n) }",
        _NM,
    ),
    "layernorm": Entry(
        "def f(float(N,M) A, float(M) g) -> (O) { mean(n) +=! A(n,m) / M"
        "  var(n) +=! (A(n,m) - mean(n)) * (A(n,m) - mean(n)) / M"
        "  O(n,m) = (A(n,m) - mean(n)) / sqrt(var(n) + 0.001) * g(m) }",
        _NM,
    ),
    "batchnorm": Entry(
        "def f(float(N,C,H) A) -> (O) { s(c) +=! A(n,c,h)  q(c) +=! A(n,c,h) * A(n,c,h)"
        "  O(n,c,h) = A(n,c,h) * q(c) - s(c) }",
        ({"N": 3, "C": 4, "H": 5}, {"N": 1, "C": 17, "H": 33}, {"N": 0, "C": 2, "H": 2}),
    ),
    "groupnorm": Entry(
        "def f(float(N,G,D,H) A, float(G,D) gamma) -> (S, Q, O) { S(n,g) +=! A(n,g,d,h)"
        "  Q(n,g) +=! A(n,g,d,h) * A(n,g,d,h)"
        "  O(n,g,d,h) = gamma(g,d) * (A(n,g,d,h) - S(n,g) / (D * H)) / (Q(n,g) + 1) }",
        ({"N": 2, "G": 3, "D": 4, "H": 9}, {"N": 1, "G": 2, "D": 3, "H": 40}),
    ),
    "matvec": Entry("def f(float(M,K) A, float(K) x) -> (O) { O(m) +=! A(m,k) * x(k) }", _MNK),
    "gram_m": Entry(
        "def f(float(R,M,K) A, float(R,M,N) B) -> (O) { O(m,k,n) +=! A(r,m,k) * B(r,m,n) }",
        ({"R": 3, "M": 4, "K": 5, "N": 18}, {"R": 40, "M": 2, "K": 17, "N": 9}),
    ),
    "matmul": Entry("def f(float(M,K) A, float(K,N) B) -> (O) { O(m,n) +=! A(m,k)*B(k,n) }", _MNK),
    "matmul_nt": Entry(
        "def f(float(M,K) A, float(N,K) B) -> (O) { O(m,n) +=! A(m,k)*B(n,k) }", _MNK
    ),
    "fcrelu": Entry(
        "def f(float(M,K) I, float(N,K) W, float(N) b) -> (O) {"
        " O(m,n) +=! I(m,k) * W(n,k)  O(m,n) = O(m,n) + b(n)  O(m,n) = fmax(O(m,n), 0) }",
        _MNK,
    ),
    "mlp": Entry(
        "def f(float(M,K) I, float(N,K) W, float(K,N) V) -> (H, O) {"
        " H(m,n) +=! I(m,k) * W(n,k)  H(m,n) = fmax(H(m,n), 0)"
        " O(m,k) +=! H(m,n) * V(k,n)  O(m,k) = fmax(O(m,k), 0) }",
        _MNK,
    ),
    "conv": Entry(
        "def f(float(N,C,H,W) I, float(F,C,KH,KW) K) -> (O) {"
        " O(n,o,h,w) +=! I(n,c,h+kh,w+kw) * K(o,c,kh,kw) }",
        (
            {"N": 2, "C": 3, "H": 7, "W": 9, "F": 4, "KH": 3, "KW": 2},
            {"N": 1, "C": 1, "H": 3, "W": 3, "F": 1, "KH": 3, "KW": 3},
        ),
    ),
    "strided_pool": Entry(
        "def f(float(N,H,W) I) -> (O) {"
        " O(n,h,w) max=! I(n, 2*h+kh, 2*w+kw) where kh in 0:2, kw in 0:3 }",
        ({"N": 2, "H": 8, "W": 9}, {"N": 1, "H": 2, "W": 3}),
    ),
    "shift": Entry("def f(float(N,M) A) -> (O) { O(n,m) = A(n,m) - A(n,m-1) }", _NM[:2]),
    "lowest": Entry(
        "def f(float(N) A) -> (O) { O(i) = A(i-2) * 2  O(i) = O(i) + 1 }",
        ({"N": 5}, {"N": 1}, {"N": 70}),
    ),
    "concatenate": Entry(
        "def f(float(N) A, float(M) B) -> (float(N+M) O) { O(i) = A(i)  O(i + N) = B(i) }", _NM
    ),
    "every_second": Entry(
        "def f(float(N) A) -> (O) { O(2*i) = A(i)  O(2*i+1) = A(i) + 1 }",
        ({"N": 5}, {"N": 1}, {"N": 40}),
    ),
    "some_elements": Entry(
        "def f(float(N) A) -> (float(3*N) O) { O(3*i+1) max=! A(i) }", ({"N": 5}, {"N": 40})
    ),
    "reshape": Entry(
        "def f(float(H,W) A) -> (O) { O(n) = A(n / W, n % W) where n in 0:H*W }",
        ({"H": 3, "W": 5}, {"H": 1, "W": 1}, {"H": 0, "W": 4}),
    ),
    "gather": Entry(
        "def f(float(V,D) T, int32(B) I) -> (O) { O(b,d) = T(I(b), d) }",
        ({"V": 9, "D": 4, "B": 6}, {"V": 1, "D": 1, "B": 1}),
        {"I": "V"},
    ),
    "guard": Entry(
        "def f(float(N,M) A) -> (O) {"
        " O(n,m) = m > 0 && m < M - 1 ? A(n,m-1) + A(n,m+1) : A(n,m) where m in 0:M }",
        _NM,
    ),
    "scalar": Entry(
        "def f(float(N,M) A, float alpha, int32 k) -> (O) { O(n,m) = A(n,m) * alpha + k }", _NM
    ),
    "scalar_bound": Entry(
        "def f(float(N) A, int32 L) -> (O) { O(n) +=! A(n) where l in 0:L }",
        ({"N": 5, "L": 3}, {"N": 4, "L": 0}),
    ),
    "half": Entry(
        "def f(float16(N,M) A, float16(N,M) B) -> (O) { O(n,m) = A(n,m) * B(n,m) + A(n,m) }", _NM
    ),
    "half_sum": Entry("def f(bfloat16(N,M) A) -> (O) { O(n) +=! A(n,m) }", _NM),
    "overwrite": Entry(
        "def f(float(N,M) A) -> (O) {"
        " t(n,m) = A(n,m) * 2  u(n,m) = t(n,m) + 1  t(n,m) = A(n,m) * 3"
        " O(n,m) = t(n,m) * u(n,m) }",
        _NM,
    ),
    "stencil_chain": Entry(
        "def f(float(N) A) -> (O) { t(i) = A(i) + A(i+1)  O(i) = t(i) * t(i+1) }",
        ({"N": 5}, {"N": 3}, {"N": 50}),
    ),
    "c_names": Entry(
        "def f(float(int) double_, float(int) args) -> (register) {"
        " register(begin) = double_(begin) + args(begin) }",
        ({"int": 5},),
    ),
}
