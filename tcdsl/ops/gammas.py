"""Functions around the gamma function: zeta, derivatives of digamma, shares of its integral."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np

from tcdsl.core import Op, Tensor, from_numpy, made_by
from tcdsl.core.dtypes import DType
from tcdsl.ops.functions import digamma, trigamma
from tcdsl.ops.on_device import moved
from tcdsl.ops.rules import Operands, broadcast_shape, floating
from tcdsl.ops.table import Family, in_place, publish
from tcdsl.ops.underived import refuse
from tcdsl.ops.writing import kept_for_all

ops = Family(__file__)
_POINTS = 60  # of Gauss' rule: as many as reach an eps of float64


def _of_two(operands: Operands) -> DType:
    return floating(operands[:2])


def _spread(operands: Operands) -> Operands | None:
    """Return operands in one shape, so that gradients by hand have it; None if they are."""
    shapes = [tuple(o.shape) for o in operands[:2] if isinstance(o, Tensor)]
    if len({*shapes}) == 1:
        return None
    shape = broadcast_shape(shapes)
    two = (o.expand(shape) if isinstance(o, Tensor) else o for o in operands[:2])
    return (*two, *operands[2:])


def _not_by_first(name: str, needs: int) -> None:
    if needs & 1:
        refuse(f"{name}: input")


def _zeta_vjp(needs: int, d_out: Tensor, x: Any, q: Any) -> Any:
    _not_by_first("zeta", needs)
    return None, d_out * -x * _zeta(x + 1, q)


def _share_vjp(name: str, needs: int, d_out: Tensor, a: Any, x: Any) -> Any:
    signed = -d_out if name == "igammac" else d_out
    _not_by_first(name, needs)
    return None, signed * _density(a, x), None, None


_zeta = ops.op("hurwitz", types=_of_two, spread=_spread, vjp=_zeta_vjp, saves=("x", "q"))
_density = ops.op("gamma_density", types=_of_two, spread=_spread)


@cache
def _share(name: str) -> Op:
    """Return the op of `igamma` or `igammac`."""
    made = ops.op(
        "gamma_share", types=_of_two, spread=_spread, vjp=partial(_share_vjp, name),
        saves=("a", "x"),
    )  # fmt: skip
    return made.with_generics(ABOVE=int(name == "igammac"))


@cache
@kept_for_all()
def _rule(place: int) -> tuple[Tensor, Tensor]:
    """Return points and weights of Gauss' rule in 0:1, in the memory of a place."""
    points, weights = zip(*map(_point, range(_POINTS)), strict=True)
    return moved(from_numpy(np.array(points)), place), moved(from_numpy(np.array(weights)), place)


def _point(i: int) -> tuple[float, float]:
    """Return a point of Gauss' rule in 0:1, a zero of Legendre's polynomial, and its weight."""
    n = _POINTS
    x = math.cos(math.pi * (i + 0.75) / (n + 0.5))
    for _ in range(5):  # Newton's steps; three reach the precision of doubles
        before, p = 1.0, x
        for k in range(2, n + 1):
            before, p = p, ((2 * k - 1) * x * p - (k - 1) * before) / k
        slope = n * (x * p - before) / (x * x - 1)
        x -= p / slope
    return (1 + x) / 2, 1 / ((1 - x * x) * slope * slope)


def _shared(name: str, input: Any, other: Any, out: Tensor | None) -> Tensor:
    given = {} if out is None else {"out": out}
    where = input if isinstance(input, Tensor) else other
    made: Tensor = _share(name)(input, other, *_rule(where._device), **given)
    return made


def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the share of ``t ** (a - 1) exp(-t)`` below x of its integral over all t.

    Parameters
    ----------
    input, other : Tensor
        a and x, neither below 0. There is no gradient by a.
    """
    return _shared("igamma", input, other, out)


def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the share above x: ``1 - igamma(input, other)``, also where that is small."""
    return _shared("igammac", input, other, out)


def zeta(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Return Hurwitz' zeta function, the sum of ``(other + k) ** -input`` over k from 0 on.

    Parameters
    ----------
    input, other : Tensor or float
        At least one is a tensor. There is no gradient by `input`.
    """
    given = {} if out is None else {"out": out}
    made: Tensor = _zeta(input, other, **given)
    return made


def polygamma(n: int, input: Tensor) -> Tensor:
    """Return the n-th derivative of `digamma`."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    made: Tensor
    if n < 2:
        made = (trigamma if n else digamma)(input)
        return made
    made = zeta(n + 1.0, input) * (math.factorial(n) * (1.0 if n % 2 else -1.0))
    return made_by(made, "PolygammaBackward0")


def _polygamma_of(input: Tensor, n: int) -> Tensor:
    """Return the n-th derivative of `digamma`."""
    return polygamma(n, input)


for _function in (igamma, igammac):
    publish(_function, (_function.__name__,))
    publish(in_place(_function), (f"{_function.__name__}_",), on=("Tensor",))
publish(polygamma, ("polygamma",), on=("torch",))
publish(_polygamma_of, ("polygamma",), on=("Tensor",))
