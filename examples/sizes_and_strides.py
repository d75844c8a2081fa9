"""Any size, any stride: two executables serve them all, and nothing is copied."""

import numpy as np

import tcdsl as tc

mm = tc.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }")

rng = np.random.default_rng(0)
for n in range(1, 40):
    a, b = rng.standard_normal((n, 17)), rng.standard_normal((17, 2 * n))
    a, b = a.astype(np.float32), b.astype(np.float32)
    assert np.allclose(mm(a, b), a @ b, atol=1e-4)
print("executables after 39 sizes:", len(mm.variant().executables))
a = rng.standard_normal((64, 48)).astype(np.float32)
assert np.allclose(mm(a.T[::-2], a), a.T[::-2] @ a, atol=1e-3)
print("executables after a transposed, reversed operand:", len(mm.variant().executables))
