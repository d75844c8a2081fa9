"""Distributions of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tcdsl import library as tc
from tcdsl.autograd import modes
from tcdsl.distributions import constraints as c
from tcdsl.distributions.distribution import Distribution, broadcast_all

__all__ = ["VonMises"]

_SMALL = (  # of I0 and of I1 over x, by powers of (x / 3.75)^2, up to 3.75
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
)
_LARGE = (  # of both times sqrt(x) exp(-x), by powers of 3.75 / x, above
    (0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281,
     -0.02057706, 0.02635537, -0.01647633, 0.00392377),
    (0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555,
     0.02282967, -0.02895312, 0.01787654, -0.00420059),
)  # fmt: skip


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    value: Any = coefficients[-1]
    for a in reversed(coefficients[:-1]):
        value = a + x * value
    return value


def log_bessel(x: Any, order: int) -> Any:
    """Return the logarithm of the modified Bessel function of order 0 or 1, of positive numbers.

    References
    ----------
    Abramowitz and Stegun, "Handbook of mathematical functions", 9.8.1 to 9.8.4.
    """
    small = _polynomial((x / 3.75) ** 2, _SMALL[order])
    if order:
        small = x.abs() * small
    large = x - 0.5 * x.log() + _polynomial(3.75 / x, _LARGE[order]).log()
    return tc.where(x < 3.75, small.log(), large)


class VonMises(Distribution):
    """Angles of density ``exp(concentration cos(x - loc)) / (2 pi I0(concentration))``.

    Samples lie in [-pi, pi). Mean and variance are those of directions.
    """

    arg_constraints = {"loc": c.real, "concentration": c.positive}
    support = c.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        loc, concentration = broadcast_all(loc, concentration)
        self._have(validate_args, loc=loc, concentration=concentration)

    loc: Any
    concentration: Any
    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @property
    def variance(self) -> Any:
        ratio = log_bessel(self.concentration, 1) - log_bessel(self.concentration, 0)
        return 1 - ratio.exp()

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        height = self.concentration * (value - self.loc).cos()
        return height - math.log(2 * math.pi) - log_bessel(self.concentration, 0)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draw samples by rejection, from a wrapped Cauchy distribution, in float64.

        References
        ----------
        Best and Fisher, "Efficient simulation of the von Mises distribution", 1979.
        """
        with modes.no_grad():
            loc, k = self.loc.double(), self.concentration.double()
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = tc.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))  # 0 / 0 in the second there
            shape = self._shape(sample_shape)
            x = tc.zeros(shape, dtype=tc.float64, device=loc.device)
            done = tc.zeros(shape, dtype=tc.bool, device=loc.device)
            while not done.all():
                u, v, side = tc.rand((3, *shape), dtype=tc.float64, device=loc.device).unbind()
                z = (math.pi * u).cos()
                f = (1 + r * z) / (r + z)
                excess = k * (r - f)
                taken = (excess * (2 - excess) - v > 0) | ((excess / v).log() + 1 - excess >= 0)
                x = tc.where(taken, (side - 0.5).sign() * f.acos(), x)
                done = done | taken
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)
