"""Several statements, one kernel: the temporaries `top` and `Z` never reach memory."""

import numpy as np

import tcdsl as tc
from tcdsl.tools.describe import describe

softmax = tc.define("""
def softmax(float(B,N) X) -> (Y) {
  top(b) max=! X(b, n)
  Z(b) +=! exp(X(b, n) - top(b))
  Y(b, n) = exp(X(b, n) - top(b)) / Z(b)
}""")

x = np.random.default_rng(0).standard_normal((64, 1000), dtype=np.float32)
print("rows sum to", softmax(x).sum(1)[:3])
for statement in describe(softmax.variant(), {"B": 64, "N": 1000})["statements"]:
    print(f"{statement['text']:40} {statement['form']}")
