"""What parameters and values of distributions may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl.grammar.text.dataclass import dataclass

__all__ = ["Constraint"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on tensors, held over the last `event_dim` dimensions at once.

    `shown` is what messages call it, as PyTorch does.
    """

    shown: str
    check: Callable[[Any], Any]
    event_dim: int = 0
    is_discrete: bool = False

    def __repr__(self) -> str:
        return self.shown


def _is_whole(x: Any) -> Any:
    return x % 1 == 0


def _is_simplex(x: Any) -> Any:
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


def _is_triangle(x: Any) -> Any:
    return (x.tril() == x).flatten(-2).all(-1) & (x.diagonal(0, -2, -1) > 0).all(-1)


def _is_definite(x: Any) -> Any:
    from tcdsl import linalg  # late: it is of use to matrices only

    scale = x.abs().amax((-2, -1))
    is_symmetric = (x - x.transpose(-2, -1)).abs().amax((-2, -1)) <= 1e-6 * scale
    return is_symmetric & (linalg.eigvalsh((x + x.transpose(-2, -1)) / 2).amin(-1) > 0)


real = Constraint("Real()", lambda x: x == x)
real_vector = Constraint("IndependentConstraint(Real(), 1)", lambda x: (x == x).all(-1), 1)
positive = Constraint("GreaterThan(lower_bound=0.0)", lambda x: x > 0)
nonnegative = Constraint("GreaterThanEq(lower_bound=0.0)", lambda x: x >= 0)
unit_interval = Constraint(
    "Interval(lower_bound=0.0, upper_bound=1.0)", lambda x: (x >= 0) & (x <= 1)
)
boolean = Constraint("Boolean()", lambda x: (x == 0) | (x == 1), is_discrete=True)
nonnegative_integer = Constraint(
    "IntegerGreaterThan(lower_bound=0)", lambda x: (x >= 0) & _is_whole(x), is_discrete=True
)
simplex = Constraint("Simplex()", _is_simplex, 1)
one_hot = Constraint(
    "OneHot()",
    lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1),
    1,
    is_discrete=True,
)
lower_cholesky = Constraint("LowerCholesky()", _is_triangle, 2)
positive_definite = Constraint("PositiveDefinite()", _is_definite, 2)


def interval(low: Any, high: Any) -> Constraint:
    """Return that values lie from one bound to another, both inside."""
    shown = f"Interval(lower_bound={low}, upper_bound={high})"
    return Constraint(shown, lambda x: (x >= low) & (x <= high))


def integer_interval(low: Any, high: Any) -> Constraint:
    """Return that values are integers from one bound to another, both inside."""
    shown = f"IntegerInterval(lower_bound={low}, upper_bound={high})"
    return Constraint(shown, lambda x: (x >= low) & (x <= high) & _is_whole(x), is_discrete=True)


def counts(total: Any) -> Constraint:
    """Return that vectors of integers add up to a number."""
    return Constraint(
        "Multinomial()",
        lambda x: ((x >= 0) & _is_whole(x)).all(-1) & (x.sum(-1) == total),
        1,
        is_discrete=True,
    )
