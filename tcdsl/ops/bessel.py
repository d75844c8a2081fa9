"""Bessel functions, normal distributions, small error functions: as `torch.special` has them."""

from __future__ import annotations

from tcdsl.ops.rules import floating
from tcdsl.ops.table import Family

ops = Family(__file__)
bessel_j0, bessel_j1 = (ops.op(f"bessel_j{n}", types=floating) for n in range(2))
bessel_y0, bessel_y1 = (ops.op(f"bessel_y{n}", types=floating) for n in range(2))
_k = ops.op("bessel_k", types=floating)
modified_bessel_k0, modified_bessel_k1 = (
    _k.with_generics(ORDER=order, SCALED=0) for order in range(2)
)
scaled_modified_bessel_k0, scaled_modified_bessel_k1 = (
    _k.with_generics(ORDER=order, SCALED=1) for order in range(2)
)
spherical_bessel_j0 = ops.op("spherical_j0", types=floating)
erfcx = ops.op("each_erfcx", types=floating)
log_ndtr = ops.op("log_ndtr", types=floating)
ndtr, ndtri = ops.op("ndtr", types=floating), ops.op("ndtri", types=floating)
