"""Texts that several tests of PyTorch call, and what they mean."""

from __future__ import annotations

FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""

# several results, one of integers; a number; a reduction that the way back keeps
SOFTMAX = """
def softmax(double(N) x, double a) -> (y, best) {
  m max=! x(i)
  e(i) = exp(a * (x(i) - m))
  s +=! e(i)
  y(i) = e(i) / s
  best argmax=! x(i)
}"""

CONV = """
def conv<S=1>(float(N,C,H,W) x, float(F,C,K,L) w) -> (y) {
  y(n, f, h, v) +=! x(n, c, S * h + k, S * v + l) * w(f, c, k, l)
}"""

FIRST = "def first(float(N) x, float a, int32 n) -> (y) { y(i) = a * x(i) where i in 0:n }"

NOISE = "def noise(float(N) x, uint64 seed) -> (y) { y(i) = x(i) + rand(seed, i) }"
