"""Layers as texts, for both libraries."""

FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""
NORM = """
def norm<T>(T(B,N) x, T(N) scale, T(N) shift, float eps) -> (y) {
  mean(i) +=! float(x(i, n)) / N
  var(i) +=! (float(x(i, n)) - mean(i)) * (float(x(i, n)) - mean(i)) / N
  y(i, n) = T((float(x(i, n)) - mean(i)) * rsqrt(var(i) + eps) * float(scale(n)) + float(shift(n)))
}"""
