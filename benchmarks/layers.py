"""The layers that several benchmarks time, as texts."""

MATMUL = "def matmul(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
LINEAR = "def linear(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
BATCHED = "def bmm(float(P,M,K) A, float(P,K,N) B) -> (C) { C(p,m,n) +=! A(p,m,k) * B(p,k,n) }"
FCRELU = """
def fcrelu(float(M,K) A, float(N,K) B, float(N) bias) -> (C) {
  C(m,n) +=! A(m,k) * B(n,k)
  C(m,n) = fmax(C(m,n) + bias(n), 0)
}"""
CONV = """
def conv(float(N,C,H,W) I, float(F,C,KH,KW) P) -> (O) {
  O(n,f,h,w) +=! I(n,c,h+kh,w+kw) * P(f,c,kh,kw)
}"""
SOFTMAX = """
def softmax(float(B,N) X) -> (Y) {
  M(b) max=! X(b,n)
  E(b,n) = exp(X(b,n) - M(b))
  S(b) +=! E(b,n)
  Y(b,n) = E(b,n) / S(b)
}"""
LAYERNORM = """
def layernorm(float(B,N) X, float(N) g, float(N) h) -> (Y) {
  s(b) +=! X(b,n)
  m(b) = s(b) / N
  v(b) +=! (X(b,n) - m(b)) * (X(b,n) - m(b))
  Y(b,n) = (X(b,n) - m(b)) * rsqrt(v(b) / N + 1e-5) * g(n) + h(n)
}"""
ROWSUM = "def rowsum(float(M,N) A) -> (O) { O(i) +=! A(i,j) }"
COLSUM = "def colsum(float(M,N) A) -> (O) { O(j) +=! A(i,j) }"
TOTAL = "def total(float(M,N) A) -> (O) { O +=! A(i,j) }"
ADD = "def add(float(N) A, float(N) B) -> (O) { O(i) = A(i) + B(i) }"
EXP = "def exponential(float(N) A) -> (O) { O(i) = exp(A(i)) }"
GELU = """
def gelu_tanh(float(N) A) -> (O) {
  O(i) = 0.5 * A(i) * (1 + tanh(0.7978845608 * (A(i) + 0.044715 * A(i) * A(i) * A(i))))
}"""
TRANSPOSE = "def transpose(float(N,M) A) -> (O) { O(i,j) = A(j,i) }"
LSTM = """
def lstm(float(T,B,I) X, float(B,N) H0, float(B,N) C0, float(4,N,I) W, float(4,N,N) U) -> (H, C) {
  H(0, b, n) = H0(b, n)
  C(0, b, n) = C0(b, n)
  for t in 0:T {
    G(b, k, n) +=! X(t, b, i) * W(k, n, i)
    G(b, k, n) += H(t, b, m) * U(k, n, m)
    C(t + 1, b, n) = sigmoid(G(b, 1, n)) * C(t, b, n) + sigmoid(G(b, 0, n)) * tanh(G(b, 2, n))
    H(t + 1, b, n) = sigmoid(G(b, 3, n)) * tanh(C(t + 1, b, n))
  }
}"""
