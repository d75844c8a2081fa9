"""Ranges follow from the shapes: h runs as far as every access to I allows."""

import numpy as np

import tcdsl as tc

conv = tc.define("""
def conv<SH=1, SW=1>(float(N,C,H,W) I, float(F,C,KH,KW) K, float(F) b) -> (O) {
  O(n, f, h, w) +=! I(n, c, SH * h + kh, SW * w + kw) * K(f, c, kh, kw)
  O(n, f, h, w) = O(n, f, h, w) + b(f)
}""")

rng = np.random.default_rng(0)
image = rng.standard_normal((2, 3, 32, 32), dtype=np.float32)
window, bias = rng.standard_normal((8, 3, 3, 3), dtype=np.float32), np.zeros(8, np.float32)
print("stride 1:", conv(image, window, bias).shape)
print("stride 2:", conv(image, window, bias, SH=2, SW=2).shape)
