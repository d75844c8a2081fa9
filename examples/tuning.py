"""Search the fastest config, keep it, find it again in another kernel or process."""

import tempfile
from pathlib import Path

import numpy as np

import tcdsl as tc

TEXT = """
def gate(float(M,N) X, float(M,N) Y) -> (O) {
  O(m, n) = X(m, n) * sigmoid(X(m, n)) * Y(m, n) + X(m, n)
}"""

with tempfile.TemporaryDirectory() as folder:
    cache = Path(folder) / "configs.db"
    gate = tc.define(TEXT, cache=cache)
    x = np.random.default_rng(0).standard_normal((500, 500), dtype=np.float32)
    print("found:", gate.autotune(x, x, trials=4, quiet=True))
    print("again:", tc.define(TEXT, cache=cache).tuned_config(x, x))
