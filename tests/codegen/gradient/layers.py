"""Layers and corners of the language whose gradients are tested: texts, sizes, generics."""

from __future__ import annotations

from typing import Any, NamedTuple


class Layer(NamedTuple):
    """A definition to differentiate; sizes are of its symbols."""

    text: str
    sizes: dict[str, int]
    generics: dict[str, Any] = {}  # noqa: RUF012


CONV = """def conv<SH=1, SW=1, PH=0, PW=0, DH=1, DW=1>(float(N,C,H,W) I, float(F,C,KH,KW) K,
    float(F) B) -> (O) {
  O(n, f, h, w) +=! pad(I(n, c, SH * h + DH * kh - PH, SW * w + DW * kw - PW), 0) * K(f, c, kh, kw)
      where h in 0:(H + 2 * PH - DH * (KH - 1) - 1) / SH + 1,
            w in 0:(W + 2 * PW - DW * (KW - 1) - 1) / SW + 1
  O(n, f, h, w) = O(n, f, h, w) + B(f)
}"""
GROUPED = """def grouped(float(N,G,C,H,W) I, float(G,F,C,KH,KW) K) -> (O) {
  O(n, g, f, h, w) +=! I(n, g, c, h + kh, w + kw) * K(g, f, c, kh, kw)
}"""
STRIDED = """def strided(float(C,H,W) I, float(M,C,KH,KW) K) -> (O) {
  O(m, h, w) +=! I(c, 2 * h + kh, 3 * w + 2 * kw) * K(m, c, kh, kw)
}"""
TRANSPOSED = """def transposed(float(C,H) I, float(C,F,K) W) -> (float(F,2*H+K-2) O) {
  O(f, 2 * h + k) +=! I(c, h) * W(c, f, k)
}"""
MAX_POOL = """def max_pool(float(N,C,H,W) I) -> (O) {
  O(n, c, h, w) max=! I(n, c, 2 * h + kh, 2 * w + kw) where kh in 0:3, kw in 0:2
}"""
AVG_POOL = """def avg_pool(float(N,C,H,W) I) -> (O) {
  O(n, c, h, w) +=! pad(I(n, c, 2 * h + kh - 1, 2 * w + kw - 1), 0) / 9
      where kh in 0:3, kw in 0:3, h in 0:(H + 1) / 2, w in 0:(W + 1) / 2
}"""
SOFTMAX = """def softmax(float(B,N) X) -> (Y) {
  top(b) max=! X(b, n)
  Z(b) +=! exp(X(b, n) - top(b))
  Y(b, n) = exp(X(b, n) - top(b)) / Z(b)
}"""
SOFTMAX_TMP = """def softmax_tmp(float(B,N) X) -> (Y) {
  tmp(b) max=! X(b, n)
  Y(b, n) = exp(X(b, n) - tmp(b))
  tmp(b) +=! Y(b, n)
  Y(b, n) = Y(b, n) / tmp(b)
}"""
LOG_SOFTMAX = """def log_softmax(float(B,N) X) -> (Y) {
  top(b) max=! X(b, n)
  Z(b) +=! exp(X(b, n) - top(b))
  Y(b, n) = X(b, n) - top(b) - log(Z(b))
}"""
LAYER_NORM = """def layer_norm(float(B,N) X, float(N) g, float(N) h, float eps) -> (Y) {
  m(b) +=! X(b, n) / N
  v(b) +=! (X(b, n) - m(b)) * (X(b, n) - m(b)) / N
  Y(b, n) = (X(b, n) - m(b)) * rsqrt(v(b) + fabs(eps) + 0.1) * g(n) + h(n)
}"""
GROUP_NORM = """def group_norm(float(N,G,C,H,W) X, float(G,C) s, float(G,C) t) -> (Y) {
  m(n, g) +=! X(n, g, c, h, w)
  m(n, g) = m(n, g) / (C * H * W)
  v(n, g) +=! (X(n, g, c, h, w) - m(n, g)) * (X(n, g, c, h, w) - m(n, g))
  r(n, g) = 1 / sqrt(v(n, g) / (C * H * W) + 1e-3)
  Y(n, g, c, h, w) = (X(n, g, c, h, w) - m(n, g)) * r(n, g) * s(g, c) + t(g, c)
}"""
BATCH_NORM = """def batch_norm(float(N,C,H,W) I, float(C) rm_in, float(C) rv_in) -> (O, rm, rv) {
  mean(c) +=! I(nn, c, hh, ww)
  mean(c) = mean(c) / (N * H * W)
  rm(c) = 0.9 * rm_in(c) + 0.1 * mean(c)
  centered(n, c, h, w) = I(n, c, h, w) - rm(c)
  variance(n, c, h, w) = centered(n, c, h, w) * centered(n, c, h, w)
  e(c) +=! (variance(n, c, h, w) + 0.01) / (N * H * W)
  rv(c) = 0.9 * rv_in(c) * rv_in(c) + 0.1 * e(c)
  O(n, c, h, w) = centered(n, c, h, w) * rsqrt(rv(c) + 1e-2)
}"""
BATCH_NORM_OF_A_BATCH = """def batch_norm(float(N,C,H,W) I, float(C) s, float(C) t) -> (O) {
  m(c) +=! I(n, c, h, w) / (N * H * W)
  v(c) +=! (I(n, c, h, w) - m(c)) * (I(n, c, h, w) - m(c)) / (N * H * W)
  O(n, c, h, w) = (I(n, c, h, w) - m(c)) * rsqrt(v(c) + 1e-2) * s(c) + t(c)
}"""
ATTENTION = """def attention(float(B,T,D) Q, float(B,S,D) K, float(B,S,E) V) -> (O) {
  P(b, t, s) +=! Q(b, t, d) * K(b, s, d)
  top(b, t) max=! P(b, t, s)
  P(b, t, s) = exp(P(b, t, s) - top(b, t))
  Z(b, t) +=! P(b, t, s)
  O(b, t, e) +=! P(b, t, s) * V(b, s, e)
  O(b, t, e) = O(b, t, e) / Z(b, t)
}"""
RNN = """def rnn(float(T,B,N) X, float(B,N) H0, float(N,N) U) -> (H) {
  H(0, b, n) = H0(b, n)
  for t in 0:T {
    Z(b, n) +=! H(t, b, m) * U(n, m)
    H(t + 1, b, n) = tanh(X(t, b, n) + Z(b, n))
  }
}"""
LSTM = """def lstm(float(T,B,I) X, float(B,N) H0, float(B,N) C0, float(4,N,I) W, float(4,N,N) U,
    float(4,N) bias) -> (H, C) {
  H(0, b, n) = H0(b, n)
  C(0, b, n) = C0(b, n)
  for t in 0:T {
    G(b, k, n) +=! X(t, b, i) * W(k, n, i)
    G(b, k, n) += H(t, b, m) * U(k, n, m)
    G(b, k, n) = G(b, k, n) + bias(k, n)
    C(t + 1, b, n) = sigmoid(G(b, 1, n)) * C(t, b, n) + sigmoid(G(b, 0, n)) * tanh(G(b, 2, n))
    H(t + 1, b, n) = sigmoid(G(b, 3, n)) * tanh(C(t + 1, b, n))
  }
}"""
GRU = """def gru(float(T,B,N) X, float(B,N) H0, float(3,N,N) W, float(3,N,N) U) -> (H) {
  H(0, b, n) = H0(b, n)
  for t in 0:T {
    A(b, k, n) +=! X(t, b, i) * W(k, n, i)
    D(b, k, n) +=! H(t, b, m) * U(k, n, m)
    R(b, n) = sigmoid(A(b, 0, n) + D(b, 0, n))
    Z(b, n) = sigmoid(A(b, 1, n) + D(b, 1, n))
    C(b, n) = tanh(A(b, 2, n) + R(b, n) * D(b, 2, n))
    H(t + 1, b, n) = (1 - Z(b, n)) * C(b, n) + Z(b, n) * H(t, b, n)
  }
}"""
BAG = """def bag(int32(B,L) I, float(V,D) E, float(B,L) w) -> (O) {
  O(b, d) +=! E(I(b, l), d) * w(b, l)
}"""
EMBED = "def embed(float(V,D) E, int32(B) I) -> (O) { O(b, d) = E(I(b), d) }"
SCATTER = """def scatter(int32(B) I, float(B,D) g, float(N) like) -> (float(N,D) O) {
  O(I(b), d) +=! g(b, d) * g(b, d)
}"""
KRONECKER = """def kron(float(A0,A1) X, float(B0,B1) Y, float(C0,C1) Z, float(M,R) V) -> (O) {
  P(m, a, b, k) +=! V(m, (a * B1 + b) * C1 + c) * Z(k, c) where a in 0:A1, b in 0:B1, c in 0:C1
  Q(m, a, j, k) +=! P(m, a, b, k) * Y(j, b)
  O(m, i, j, k) +=! Q(m, a, j, k) * X(i, a)
}"""
MIN_DISTANCE = """def min_distance(float(P,D) A, float(Q,D) B) -> (O, W) {
  S(p, q) +=! (A(p, d) - B(q, d)) * (A(p, d) - B(q, d))
  O(p) min=! S(p, q)
  W(p) argmin=! S(p, q)
}"""
CUM_SUM = """def cum_sum(float(B,N) A) -> (S) {
  S(b, 0) = A(b, 0)
  for t in 1:N { S(b, t) = S(b, t - 1) + A(b, t) * A(b, t) }
}"""
CUM_PROD = "def cum_prod(float(N) A) -> (S) { S(0) = A(0) for t in 1:N { S(t) = S(t-1) * A(t) } }"

LAYERS: dict[str, Layer] = {
    "conv": Layer(CONV, {"N": 2, "C": 2, "H": 5, "W": 6, "F": 3, "KH": 3, "KW": 2}),
    "conv_padded": Layer(
        CONV, {"N": 2, "C": 2, "H": 5, "W": 6, "F": 3, "KH": 3, "KW": 3}, {"PH": 1, "PW": 2}
    ),
    "conv_strided": Layer(
        CONV, {"N": 1, "C": 2, "H": 7, "W": 8, "F": 2, "KH": 3, "KW": 2}, {"SH": 2, "SW": 3}
    ),
    "conv_dilated": Layer(
        CONV,
        {"N": 1, "C": 2, "H": 9, "W": 8, "F": 2, "KH": 3, "KW": 2},
        {"SH": 2, "SW": 1, "PH": 2, "PW": 1, "DH": 2, "DW": 3},
    ),
    "grouped": Layer(GROUPED, {"N": 2, "G": 2, "C": 2, "H": 4, "W": 5, "F": 3, "KH": 3, "KW": 2}),
    "strided": Layer(STRIDED, {"C": 3, "H": 7, "W": 9, "M": 2, "KH": 3, "KW": 2}),
    "transposed": Layer(TRANSPOSED, {"C": 2, "H": 4, "F": 3, "K": 3}),
    "max_pool": Layer(MAX_POOL, {"N": 2, "C": 2, "H": 7, "W": 6}),
    "avg_pool": Layer(AVG_POOL, {"N": 2, "C": 2, "H": 7, "W": 6}),
    "softmax": Layer(SOFTMAX, {"B": 3, "N": 5}),
    "softmax_tmp": Layer(SOFTMAX_TMP, {"B": 3, "N": 5}),
    "log_softmax": Layer(LOG_SOFTMAX, {"B": 3, "N": 5}),
    "layer_norm": Layer(LAYER_NORM, {"B": 3, "N": 5}),
    "group_norm": Layer(GROUP_NORM, {"N": 2, "G": 2, "C": 3, "H": 2, "W": 3}),
    "batch_norm": Layer(BATCH_NORM, {"N": 3, "C": 2, "H": 2, "W": 3}),
    "batch_norm_of_a_batch": Layer(BATCH_NORM_OF_A_BATCH, {"N": 3, "C": 2, "H": 2, "W": 3}),
    "attention": Layer(ATTENTION, {"B": 2, "T": 3, "S": 4, "D": 3, "E": 2}),
    "rnn": Layer(RNN, {"T": 4, "B": 2, "N": 3}),
    "lstm": Layer(LSTM, {"T": 3, "B": 2, "I": 3, "N": 2}),
    "lstm of 64 turns": Layer(LSTM, {"T": 64, "B": 1, "I": 2, "N": 2}),
    "gru": Layer(GRU, {"T": 3, "B": 2, "N": 2}),
    "bag": Layer(BAG, {"B": 3, "L": 4, "V": 3, "D": 2}),
    "embed": Layer(EMBED, {"V": 3, "D": 2, "B": 4}),
    "scatter": Layer(SCATTER, {"B": 4, "D": 2, "N": 3}),
    "kron": Layer(
        KRONECKER, {"A0": 2, "A1": 3, "B0": 3, "B1": 2, "C0": 2, "C1": 2, "M": 2, "R": 12}
    ),
    "min_distance": Layer(MIN_DISTANCE, {"P": 3, "Q": 4, "D": 2}),
    "cum_sum": Layer(CUM_SUM, {"B": 2, "N": 4}),
    "cum_prod": Layer(CUM_PROD, {"N": 5}),
}


def _n(text: str, **sizes: int) -> Layer:
    return Layer(text, sizes or {"N": 5})


CORNERS: dict[str, Layer] = {
    "several outputs": _n(
        "def f(float(N) A) -> (O, P) { O(i) = sin(A(i)) P(i) = O(i) * O(i) O(i) = O(i) * P(i) }"
    ),
    "in place": _n(
        "def f(float(N) A) -> (O) { O(i) = A(i) * A(i) O(i) = sin(O(i)) O(i) += A(i) O(i) *= A(i) }"
    ),
    "in place, partly": _n(
        "def f(float(N) A) -> (O) { O(i) = A(i) * A(i) O(i) = O(i) * 3.5 where i in 1:N-1 }"
    ),
    "updates of a part": _n(
        """def f(float(N) A, float(N) B) -> (O) {
          O(i) = A(i) O(i) max= B(i) where i in 1:N O(i) min= A(i) * B(i) where i in 0:N-1
          O(i) *= A(i) where i in 1:N-1 }"""
    ),
    "parts of a sum begun one by one": _n(
        """def f(float(N) A, float(N) B) -> (float(2*N) O) {
          t(2 * i) +=! A(i) * A(i) t(2 * i + 1) = B(i) t(i + N - 1) *= A(i) where i in 1:N
          O(2 * i) +=! t(i) * B(i) where i in 0:N O(2 * i + 1) max=! A(i) + t(i) where i in 0:N
          O(i + N - 1) += B(i) * B(i) where i in 0:N }"""
    ),
    "accumulating onto the output": _n("def f(float(N,M) A) -> (O) { O(i) += A(i, j) }", N=3, M=4),
    "product onto the output": _n("def f(float(N,M) A) -> (O) { O(i) *= A(i, j) }", N=3, M=4),
    "casts": _n("def f(float(N) A, double(N) B) -> (double(N) O) { O(i) = A(i) * B(i) }"),
    "casts between": _n(
        "def f(double(N) A) -> (O, P) { O(i) = float(A(i)) * 2 P(i) = double(float(A(i) * A(i))) }"
    ),
    "integers between": _n(
        "def f(float(N) A, int32(N) K) -> (O, C) { O(i) = A(i) * K(i) + float(K(i)) C(i) = K(i) }"
    ),
    "ternary": _n("def f(float(N) A) -> (O) { O(i) = A(i) > 0 ? A(i) * A(i) : sin(A(i)) }"),
    "nested ternary": _n(
        "def f(float(N) A, int32(N) K) -> (O) {"
        "O(i) = K(i) == 0 ? A(i) : K(i) == 1 ? exp(A(i)) : 2 }"
    ),
    "arms that read alike": _n(
        "def f(float(N) A, float(N) B) -> (O) { O(i) = B(i) < -0.5 ? A(i) * 2 : B(i) < 0 ? B(i)"
        " : B(i) < 0.5 ? A(i) * A(i) : A(i) < 0 ? (A(i) < -0.5 ? A(i) * B(i) : A(i)) : 3 }",
        N=31,
    ),
    "arms that gather alike": _n(
        "def f(float(N) A, int32(M) I) -> (O) { O(m) = I(m) > 0 ?"
        " (I(m) > 2 ? A(I(m) - 1) : sin(A(I(m) - 1))) : I(m) == 0 ? A(I(m)) * 0.5 : 2.0 }",
        N=5,
        M=14,
    ),
    "ternary guards a read": _n(
        "def f(float(N) A) -> (O) { O(i) = i > 0 ? A(i - 1) * A(i) : A(i) where i in 0:N }"
    ),
    "guarded gather": _n(
        "def f(float(N) A, int32(M) I) -> (O) { O(m) = I(m) > 0 ? A(I(m) - 1) : 0.5 }", N=5, M=4
    ),
    "pad with a value": _n(
        "def f(float(N) A) -> (O) { O(i) = pad(A(i - 1), 2) * pad(A(i + 2), -1) where i in 0:N }"
    ),
    "pad with a tensor": _n(
        "def f(float(N) A, float(N) B) -> (O) { O(i) = pad(A(i + 2), B(i)) where i in 0:N }"
    ),
    "shift up": _n("def f(float(N) A) -> (O) { O(i) = A(i - 1) * A(i - 1) }"),
    "shift down": _n("def f(float(N) A) -> (O) { O(i) = A(i + 1) * A(i + 2) }"),
    "shifted temporary": _n("def f(float(N) A) -> (O) { t(i) = A(i - 2) O(j) = t(j) * t(j) }"),
    "shift of the output": _n("def f(float(N) A) -> (O) { O(i + 2) = A(i) * A(i) }"),
    "concatenate": _n(
        "def f(float(M) A, float(N) B) -> (O) { O(i) = A(i) O(i + M) = B(i) * B(i) }", M=3, N=4
    ),
    "transpose and reverse": _n(
        "def f(float(N,M) A) -> (O) { O(j, i) = A(N - 1 - i, j) * A(i, j) }", N=3, M=4
    ),
    "diagonal": _n("def f(float(N,N) A) -> (O) { O(i) = A(i, i) * A(i, i) }"),
    "trace": _n("def f(float(N,N) A) -> (O) { O +=! A(i, i) * A(i, i) }"),
    "broadcast": _n("def f(float(N) A) -> (O) { O(i, j) = A(i) where j in 0:3 }"),
    "reshape": _n(
        "def f(float(H,W) A) -> (O) { O(n) = A(n / W, n % W) * 2 where n in 0:H*W }", H=3, W=4
    ),
    "pixel shuffle": _n(
        "def f(float(C,H,W) A) -> (O) { O(h, w) = A(2 * (h % 2) + w % 2, h / 2, w / 2) "
        "where h in 0:2*H, w in 0:2*W }",
        C=4,
        H=2,
        W=3,
    ),
    "scalars": _n("def f(float a, float(N) B, float c) -> (O) { O(i) = a * B(i) * c + a }"),
    "scalar result": _n("def f(float(N) A) -> (O) { O +=! A(i) * A(i) O = sqrt(O) }"),
    "scalar in bounds": Layer(
        "def f(float(N) A, int32 n) -> (O) { O +=! A(i) * A(i) where i in 0:n }", {"N": 5}
    ),
    "repeated sum": _n("def f(float(N) A) -> (O) { O(i) +=! A(i) * A(i) where k in 0:3 }"),
    "index as a value": _n("def f(float(N) A) -> (O) { O(i) = A(i) * i + N * A(i) }"),
    "product with zeros": _n("def f(float(B,N) A) -> (O) { O(b) *=! relu(A(b, n)) }", B=4, N=3),
    "maximum of several": _n(
        "def f(float(B,N,M) A) -> (O) { O(b) max=! A(b, n, m) }", B=3, N=3, M=4
    ),
    "minimum goes on": _n(
        "def f(float(B,N) A, float(B,N) C) -> (O) { O(b) min=! A(b, n) O(b) min= C(b, n) * 2 }",
        B=4,
        N=3,
    ),
    "maximum over a window": _n("def f(float(N) A) -> (O) { O(i) max=! A(i + k) where k in 1:3 }"),
    "temporary of a temporary": _n(
        "def f(float(N,M) A) -> (O) { s(i) +=! A(i, j) t = 1.0 t +=! s(i) * s(i) O(i) = s(i) / t }",
        N=3,
        M=4,
    ),
    "unused parameter": _n("def f(float(N) A, float(N) B) -> (O) { O(i) = A(i) }"),
    "only the shape": _n(
        "def f(float(N) A, float(M) B) -> (O) { O(i) = A(i) where i in 0:min(N,M) }", N=5, M=3
    ),
    "integer result beside": _n(
        "def f(float(B,N) A) -> (O, W) { W(b) argmax=! A(b, n) O(b) = A(b, W(b)) }", B=3, N=4
    ),
    "gather by a computed index": _n(
        "def f(float(N) A, float(N) B) -> (O) { O(i) = A((i * 2) % N) * B(i) }"
    ),
    "scatter twice": _n(
        "def f(float(N) A, int32(N) I) -> (float(3) O) { O(I(i)) +=! A(i) O(I(i)) += A(i) * A(i) }"
    ),
    "names i0 and i1": _n(
        """def f(float(i0,i1) x, float(i0,i1) d_x) -> (y) {
          y(a, b) = x(a, b) * d_x(a, b) y(a, b) = y(a, b) * x(a, b) where a in 1:i0 }""",
        i0=3,
        i1=4,
    ),
    "names of builtins": _n(
        "def f(float(sign) sigmoid, float(sign) relu) -> (abs) {"
        "abs(i) = fabs(sigmoid(i)) * relu(i) }",
        sign=4,
    ),
    "loop with two states": _n(
        """def f(float(T,N) X) -> (A, B) {
          A(0, n) = 1.0 where n in 0:N
          B(0, n) = 0.5 where n in 0:N
          for t in 0:T { A(t+1, n) = B(t, n) * X(t, n)  B(t+1, n) = A(t+1, n) + B(t, n) } }""",
        T=3,
        N=2,
    ),
    "nested loops": _n(
        """def f(float(T,S) X) -> (A) {
          A(0, s) = X(0, s)
          A(t + 1, 0) = X(t, 0) where t in 0:T
          for t in 0:T { for s in 1:S { A(t+1, s) = tanh(A(t, s) + A(t+1, s-1) * X(t, s)) } } }""",
        T=3,
        S=3,
    ),
    "loop backwards": _n(
        """def f(float(T,N) X) -> (A) {
          A(T, n) = X(0, n)
          for t in 0:T { A(T - 1 - t, n) = A(T - t, n) * X(T - 1 - t, n) } }""",
        T=3,
        N=2,
    ),
    "a sum over turns": _n(
        "def f(float(T,N) X) -> (A) {A(n) +=! X(0, n) for t in 1:T { A(n) += X(t, n) * X(t, n) } }",
        T=3,
        N=2,
    ),
    "state overwritten": _n(
        """def f(float(T,N) X) -> (A) { A(n) = X(0, n)
          for t in 1:T { A(n) = tanh(A(n) + X(t, n)) } }""",
        T=4,
        N=2,
    ),
    "state overwritten, then used": _n(
        """def f(float(T,N) X, float(N,N) U) -> (O) { h(n) = X(0, n)
          for t in 1:T { z(n) +=! h(m) * U(n, m)  h(n) = tanh(z(n) + X(t, n)) }
          O(n) = h(n) * h(n) }""",
        T=4,
        N=2,
    ),
    "calls": Layer(
        """def moments(float(B,N) X) -> (m, v) { m(b) +=! X(b, n) / N
             v(b) +=! (X(b, n) - m(b)) * (X(b, n) - m(b)) / N }
           def f(float(B,N) X) -> (Y) { m, v = moments(X)
             Y(b, n) = (X(b, n) - m(b)) * rsqrt(v(b) + 1e-2) }""",
        {"B": 3, "N": 4},
    ),
    "type variable": Layer(
        "def f<T>(T(N) A) -> (O) { O(i) = T(2.5) * A(i) * A(i) }", {"N": 4}, {"T": "float64"}
    ),
    "long sum": _n("def f(float(N) A) -> (O) { O(i) = " + " + ".join(["A(i)"] * 60) + " }"),
    "division": _n("def f(float(N) A, float(N) B) -> (O) { O(i) = A(i) / (2 + B(i) * B(i)) }"),
    "remainder": _n("def f(float(N) A) -> (O) { O(i) = A(i) % 0.7 }"),
    "negative literals": _n("def f(float(N) A) -> (O) { O(i) = -1.5 - -A(i) * -2 - (-(-A(i))) }"),
    "infinity": _n("def f(float(N) A) -> (O) { O(i) = A(i) > 100 ? inf : fmin(A(i), inf) }"),
    "dropout": _n(
        "def f(float(N) A, uint64 seed) -> (O) { O(i) = rand(seed, i) < 0.5 ? A(i) * 2 : 0 }"
    ),
    "gather from a temporary": _n(
        "def f(float(N) A, int32(M) I) -> (O) { t(i) = A(i) * A(i) O(m) = t(I(m)) * t(I(m)) }",
        N=5,
        M=4,
    ),
    "scatter of the largest": _n(
        "def f(float(N) A, int32(N) I) -> (float(3) O) { O(I(i)) max=! A(i) }"
    ),
    "scatter of products": _n(
        "def f(float(N) A, int32(N) I) -> (float(3) O) { O(I(i)) *=! relu(A(i)) }", N=6
    ),
    "scatter of products, then more": _n(
        "def f(float(N) A, float(3) B, int32(N) I) -> (float(3) O) {"
        "O(i) = B(i) O(I(i)) *= A(i) O(I(i)) max= A(i) * A(i) }"
    ),
    "extremes of blocks": _n("def f(float(N) A) -> (O) { O(i / 2) max=! A(i) }", N=6),
    "read before it is finished": _n(
        "def f(float(N) A) -> (O, P) { O(i) = A(i) where i in 0:N-1"
        " P(i) = O(i) * O(i) O(N - 1) = A(0) * A(N - 1) }"
    ),
    "read before it is written in a loop": _n(
        "def f(float(T,N) X) -> (H, S) { H(T, n) = X(0, n) "
        "for t in 0:T { Z(n) = H(t + 1, n) H(t, n) = X(t, n) * X(t, n) "
        "S(t, n) = Z(n) * X(t, n) } }",
        T=3,
        N=2,
    ),
    "zero in each turn": _n(
        "def f(float(T,S,N) X) -> (H) { H(0, n) = X(0, 0, n) for t in 0:T { "
        "Z(n) = 0.5 where n in 0:N for s in 0:S { Z(n) += X(t, s, n) * H(t, n) } "
        "H(t + 1, n) = tanh(Z(n)) } }",
        T=2,
        S=3,
        N=2,
    ),
    "a part of a state": _n(
        "def f(float(T,N) X) -> (A) { A(n) = X(0, n) "
        "for t in 1:T { A(n) = A(n) * A(N - 1) * X(t, n) where n in 0:N-1 A(n) += X(t, n) } }",
        T=3,
        N=4,
    ),
    "bubbles": _n(
        "def f(float(N) X) -> (A) { A(n) = X(n) * X(n) "
        "for t in 0:2 { A(n) = max(A(n), X(n) - t) A(0) = A(0) * 2 } }",
        N=4,
    ),
    "a running maximum": _n(
        "def f(float(T,N) X) -> (A) { A(n) max=! X(0, n) for t in 1:T { A(n) max= X(t, n) } }",
        T=4,
        N=3,
    ),
    "no turns": _n(
        "def f(float(T,N) X, float(N) a) -> (A) { A(n) = a(n) "
        "for t in 1:T { A(n) = A(n) * X(t, n) } }",
        T=1,
        N=3,
    ),
    "diagonals": _n(
        "def f(float(N,M) A) -> (O) { O(i, k) = A(i + k, 2 * i) where i in 0:2, k in 0:3 }",
        N=5,
        M=4,
    ),
    "a state that is not returned": _n(
        "def f(float(T,N) X) -> (O) { A(0, n) = 1.0 where n in 0:N B(0, n) = X(0, n) "
        "for t in 0:T { A(t+1, n) = B(t, n) * X(t, n)  B(t+1, n) = A(t, n) + B(t, n) } "
        "O(n) = A(T, n) }",
        T=4,
        N=2,
    ),
    "half": _n(
        "def f(float16(N) A, bfloat16(N) B) -> (float16(N) O, P) {"
        "O(i) = float16(A(i) * B(i)) P +=! A(i) * B(i) }"
    ),
    "half in place": _n(
        "def f(float16(B,N) A) -> (float16(B) O) { O(b) max=! A(b, n) O(b) *= A(b, 0) }", B=3, N=4
    ),
    "half of a temporary": _n(
        "def f(float16(N,M) A) -> (float16(N) O) {"
        "t(n) +=! A(n, m) * A(n, m) O(n) = 2 * t(n) * tanh(t(n)) }",
        N=3,
        M=4,
    ),
}
