"""A step along a line after which the function is less, and less steep: the strong Wolfe rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tcdsl.core import Tensor

__all__ = ["Point", "strong_wolfe"]

LESS = 1e-4  # the part of the first slope that the function has to go down by
FLATTER = 0.9  # the part of it that may be left


class Point(NamedTuple):
    """A place on the line: how far, the function there, its gradient, its slope along the line.

    The slope is a tensor, and so are distances that were computed by slopes: numbers of their type.
    """

    at: Any
    value: float
    gradient: Tensor
    slope: Tensor


def strong_wolfe(
    evaluate: Callable[[Any], Point],
    first: Point,
    at: Any,
    length: Any,
    tolerance: float,
    most: int,
) -> tuple[Point, int]:
    """Return a point that fits the rules, or the best that was found, and how many were looked at.

    Parameters
    ----------
    evaluate : callable
        Gives the point at a distance.
    first : Point
        At distance 0.
    at : float
        The distance that is tried first.
    length : float
        The largest element of the direction.
    tolerance : float
        Brackets shorter than this over length are not divided.
    most : int
        Points that may be looked at beside the first try.

    References
    ----------
    Nocedal and Wright, "Numerical optimization", 2006, algorithms 3.5 and 3.6.
    """
    before, point, count = first, evaluate(at), 0
    while True:
        if count >= most:
            bracket = [first, point]
            break
        if _is_high(point, first) or (count > 1 and point.value >= before.value):
            bracket = [before, point]
            break
        if abs(point.slope) <= -FLATTER * first.slope:
            return point, count + 1
        if point.slope >= 0:
            bracket = [before, point]
            break
        bounds = point.at + 0.01 * (point.at - before.at), point.at * 10
        further = _least_of_cubic(before, point, *bounds)
        before, point, count = point, evaluate(further), count + 1
    return _divided(evaluate, first, bracket, count, length, tolerance, most)


def _is_high(point: Point, first: Point) -> bool:
    return bool(point.value > first.value + LESS * point.at * first.slope)


def _divided(
    evaluate: Callable[[Any], Point],
    first: Point,
    bracket: list[Point],
    count: int,
    length: Any,
    tolerance: float,
    most: int,
) -> tuple[Point, int]:
    """Return the point between two by which the rules hold, or the lower end of what is left."""
    low, high = bracket if bracket[0].value <= bracket[1].value else bracket[::-1]
    is_slow = False
    while count < most and abs(high.at - low.at) * length >= tolerance:
        left, right = (low, high) if bracket[0] is low else (high, low)
        ends = min(low.at, high.at), max(low.at, high.at)
        at = _least_of_cubic(left, right, *ends)
        margin = 0.1 * (ends[1] - ends[0])
        if min(ends[1] - at, at - ends[0]) < margin:  # close to an end
            if is_slow or at >= ends[1] or at <= ends[0]:
                nearer_right = abs(at - ends[1]) < abs(at - ends[0])
                at = ends[1] - margin if nearer_right else ends[0] + margin
                is_slow = False
            else:
                is_slow = True
        else:
            is_slow = False
        point, count = evaluate(at), count + 1
        place = [p is low for p in bracket].index(True)
        if _is_high(point, first) or point.value >= low.value:
            bracket[1 - place] = point
            low, high = bracket if bracket[0].value <= bracket[1].value else bracket[::-1]
            continue
        is_flat = abs(point.slope) <= -FLATTER * first.slope
        if not is_flat and point.slope * (high.at - low.at) >= 0:
            bracket[1 - place] = low
        bracket[place] = point
        low, high = point, bracket[1 - place]
        if is_flat:
            break
    return low, count + 1


def _least_of_cubic(a: Point, b: Point, least: Any, most: Any) -> Any:
    """Return where the cubic through two points, with their slopes, is least, within bounds."""
    mixed = a.slope + b.slope - 3 * (a.value - b.value) / (a.at - b.at)
    square = mixed**2 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    root = square.sqrt()
    if a.at > b.at:
        a, b = b, a
    place = b.at - (b.at - a.at) * ((b.slope + root - mixed) / (b.slope - a.slope + 2 * root))
    return min(max(place, least), most)
