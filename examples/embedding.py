"""Data as subscripts: what cannot be proved inside is checked, and never read outside."""

import numpy as np

import tcdsl as tc

embed = tc.define("def embed(float(V,D) E, int32(B) I) -> (O) { O(b, d) = E(I(b), d) }")

table = np.arange(20, dtype=np.float32).reshape(5, 4)
print(embed(table, np.array([4, 0], np.int32)))
try:
    embed(table, np.array([4, 7], np.int32))
except IndexError as error:
    print(f"IndexError: {error}")
