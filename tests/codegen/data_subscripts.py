"""Definitions whose subscripts come from data: a way to read, guard or write by them each."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.codegen.harness import Array, Problem, problem

OUTSIDE = 120  # bits that no row of a table here has
ROWS, POINTS, WIDTH = 7, 9, 5

# {T} is the type of the index tensors I and J; their rows lie in [0, ROWS).
READS: dict[str, str] = {
    "checked": "def f({T}(B) I, float(N,D) A) -> (O) { O(b,d) = A(I(b), d) }",
    "checked, rows along": "def f({T}(B,D) I, float(N,D) A) -> (O) { O(b,d) = A(I(b,d), d) }",
    "guarded": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b,d) = I(b) >= 0 && I(b) < N ? A(I(b), d) : -1.0 where d in 0:D }""",
    "guarded, rows along": """def f({T}(B,D) I, float(N,D) A) -> (O) {
        O(b,d) = 0 <= I(b,d) && I(b,d) < N ? A(I(b,d), d) : -1.0 }""",
    "guarded by or": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b,d) = I(b) < 0 || I(b) >= N ? -1.0 : A(I(b), d) where d in 0:D }""",
    "guarded by not": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b,d) = !(I(b) < 0 || I(b) >= N) ? A(I(b), d) : -1.0 where d in 0:D }""",
    "padded": "def f({T}(B) I, float(N,D) A) -> (O) { O(b,d) = pad(A(I(b), d), 0) }",
    "padded and shifted": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b) +=! pad(A(int64(I(b)) - 3, d), 0) where d in 0:D }""",
    "clamped": "def f({T}(B) I, float(N,D) A) -> (O) { O(b,d) = A(clamp(I(b), 0, 6), d) }",
    "clamped by min and max": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b,d) = A(min(max(int64(I(b)), 0), N - 1), d) }""",
    "remainder": "def f({T}(B) I, float(N,D) A) -> (O) { O(b,d) = A(int64(I(b)) % N, d) }",
    "summed": "def f({T}(B,L) I, float(N,D) A) -> (O) { O(b,d) +=! A(I(b,l), d) }",
    "summed, guarded": """def f({T}(B,L) I, float(N,D) A) -> (O) {
        O(b) +=! I(b,l) >= 0 && I(b,l) < N ? A(I(b,l), d) : 0.0 where d in 0:D }""",
    "ends of a sum": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(d) +=! A(l, d) where b in 0:B, l in 0:I(b) }""",
    "ends of a sum, bounded": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b,d) +=! A(l, d) where l in max(0, int64(I(b)) - 2):min(int64(I(b)), N), d in 0:D }""",
    "largest": "def f({T}(B,L) I, float(N,D) A) -> (O) { O(b,d) max=! A(I(b,l), d) }",
    "place of the largest": """def f({T}(L) I, float(N,D) A) -> (O) {
        O(d) argmax=! A(I(l), d) }""",
    "two tables": """def f({T}(B) I, float(N,D) A, float(M,D) C) -> (O) {
        O(b) +=! A(I(b), d) * C(I(b), d) }""",
    "two tables, one checked": """def f({T}(B) I, float(N,D) A, float(M,D) C) -> (O) {
        O(b,d) = C(I(b), d) + (I(b) >= 0 && I(b) < N ? A(I(b), d) : 0.0) }""",
    "twice in one": "def f({T}(B) I, float(N,N) S) -> (O) { O(b) = S(I(b), I(b)) }",
    "through another": "def f({T}(B) I, {T}(N) J, float(N,D) A) -> (O) { O(b,d) = A(J(I(b)), d) }",
    "through another, guarded": """def f({T}(B) I, {T}(N) J, float(N,D) A) -> (O) {
        O(b,d) = I(b) >= 0 && I(b) < N && J(I(b)) >= 0 && J(I(b)) < N ? A(J(I(b)), d) : -1.0
            where d in 0:D }""",
    "through another, padded": """def f({T}(B) I, {T}(N) J, float(N,D) A) -> (O) {
        O(b,d) = pad(A(pad(J(I(b)), 0), d), 0) }""",
    "in a branch": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b,d) = b < 4 ? (I(b) >= 0 && I(b) < N ? A(I(b), d) : -1.0) : A(I(b), d)
            where b in 0:B }""",
    "quotient and remainder": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b) = A(int64(I(b)) / D, int64(I(b)) % D) }""",
    "offset of an index": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b,d) = A(int64(I(b)) + b / 100, d) where b in 0:B }""",
    "in a let": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b,d) = r >= 0 && r < N ? A(r, d) : -1.0 where r = I(b), d in 0:D }""",
    "as a value too": """def f({T}(B) I, float(N,D) A) -> (O) {
        O(b,d) = float(I(b)) * pad(A(I(b), d), 0) }""",
    "in a loop": """def f({T}(B) I, float(N,D) A) -> (float(B,D) O) {
        O(b,d) = 0.0 where b in 0:B, d in 0:D
        for t in 0:3 { O(b,d) += pad(A(int64(I(b)) + t, d), 0) } }""",
    "a scale of a product": """def f({T}(M) I, float(N) S, float(M,K) A, float(K,P) C) -> (O) {
        O(m,p) +=! A(m,k) * C(k,p) * S(I(m)) }""",
    "after a product": """def f({T}(M) I, float(N) S, float(M,K) A, float(K,P) C) -> (O) {
        T(m,p) +=! A(m,k) * C(k,p)
        O(m,p) = T(m,p) + pad(S(I(m)), 0) }""",
    "a factor of a product": """def f({T}(M) I, float(N,K) A, float(K,P) C) -> (O) {
        O(m,p) +=! A(I(m),k) * C(k,p) }""",
    "an output chooses": """def f({T}(B) I, float(N,D) A) -> (P, O) {
        P(b) +=! int64(I(b)) O(b,d) = pad(A(P(b), d), 0) }""",
    "a search": """def f({T}(B) I, float(N,D) A) -> (O) {
        P(b) = int64(I(b))
        for t in 0:3 { P(b) = pad(A(P(b), 0), 0) < 0 ? P(b) + 1 : P(b) }
        O(b,d) = pad(A(P(b), d), 0) }""",
    "a search in an output": """def f({T}(B) I, float(N,D) A) -> (P, O) {
        P(b) = int64(I(b))
        for t in 0:3 { P(b) = pad(A(P(b), 0), 0) < 0 ? P(b) + 1 : P(b) }
        O(b,d) = pad(A(P(b), d), 0) }""",
    "a temporary chooses": """def f({T}(B,L) I, float(N,D) A) -> (O) {
        P(b) max=! I(b,l) O(b,d) = pad(A(P(b), d), 0) }""",
}
WRITES: dict[str, str] = {
    "rows": "def f({T}(B) I, float(B,D) X, float(N) L) -> (float(N,D) O) { O(I(b),d) +=! X(b,d) }",
    "rows and a factor": """def f({T}(B) I, float(B,D) X, float(N,D) A) -> (float(N,D) O) {
        O(I(b),d) +=! X(b,d) * A(I(b),d) }""",
    "rows and a guarded factor": """def f({T}(B) I, float(B,D) X, float(N,D) A) -> (float(N,D) O) {
        O(I(b),d) +=! X(b,d) * pad(A(I(b),d), 0) }""",
    "elements": "def f({T}(B) I, float(B) X, float(N) L) -> (float(N) O) { O(I(b)) +=! X(b) }",
    "largest": "def f({T}(B) I, float(B) X, float(N) L) -> (float(N) O) { O(I(b)) max=! X(b) }",
    "counts": "def f({T}(B) I, float(N) L) -> (int32(N) O) { O(I(b)) +=! 1 where b in 0:B }",
    "pairs": """def f({T}(B) I, float(B) X, float(N) L) -> (float(N,N) O) {
        O(I(b), I(b)) +=! X(b) }""",
    "quotient and remainder": """def f({T}(B) I, float(B) X, float(N,D) L) -> (float(N,D) O) {
        O(int64(I(b)) / D, int64(I(b)) % D) +=! X(b) }""",
    "clamped": """def f({T}(B) I, float(B) X, float(N) L) -> (float(N) O) {
        O(min(max(int64(I(b)), 0), N - 1)) +=! X(b) }""",
    "slabs": """def f({T}(C,B) I, float(C,B) X, float(C,N) L) -> (float(C,N) O) {
        O(c, I(c,b)) +=! X(c,b) }""",
    "sums": """def f({T}(B) I, float(B,D) X, float(N) L) -> (float(N) O) { O(I(b)) +=! X(b,d) }""",
}
TEXTS = READS | {f"to {name}": text for name, text in WRITES.items()}

_POISON = np.float32(1e30)  # around every table
_MARGIN = 4 * (OUTSIDE + ROWS) * max(ROWS, WIDTH)  # elements


def text_of(name: str, dtype: str = "int32") -> str:
    """Return a definition with that type of subscripts."""
    return TEXTS[name].replace("{T}", dtype)


def subscripts_problem(name: str, rng: np.random.Generator, dtype: str = "int32") -> Problem:
    """Return a problem whose rows are all inside; what lies around its tables is poisoned."""
    text = text_of(name, dtype)
    sizes = {"N": ROWS, "M": ROWS, "B": POINTS, "L": POINTS, "D": WIDTH, "K": 6, "P": 20, "C": 2}
    if name == "a scale of a product":
        sizes["M"] = POINTS
    args: list[Any] = []
    head = text[text.index("(") + 1 : text.index("->")].strip().removesuffix(")")
    for part in head.replace(", ", ";").split(";"):
        kind, shape = part.split("(")[0], part[part.index("(") + 1 : part.index(")")]
        extents = tuple(sizes[s] for s in shape.split(","))
        if kind == "float":
            args.append(within_poison(rng.normal(size=extents).astype(np.float32)))
        else:
            args.append(rng.integers(0, ROWS, extents).astype(kind))
    return problem(text, *args)


def within_poison(a: Array) -> Array:
    """Return a copy that lies in the middle of poison."""
    base = np.full(a.size + 2 * _MARGIN, _POISON, a.dtype)
    view = base[_MARGIN : _MARGIN + a.size].reshape(a.shape)
    view[...] = a
    return view


def is_clean(a: Array) -> bool:
    """Whether no value of the poison went into an output."""
    size = np.abs(a[np.isfinite(a)].astype(np.float64))
    return bool((size < _POISON / 1e10).all()) and not np.isnan(a).any()
