"""A layer as mathematics: fully connected, bias, relu."""

import numpy as np

import tcdsl as tc

fcrelu = tc.define("""
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}""")

rng = np.random.default_rng(0)
x, w, b = (rng.standard_normal(s, dtype=np.float32) for s in ((100, 128), (100, 128), (100,)))
y = fcrelu(x, w, b)
print("largest difference to NumPy:", np.abs(y - np.maximum(x @ w.T + b, 0)).max())
