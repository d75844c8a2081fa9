"""What parameters and values of distributions may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcdsl.grammar.text.dataclass import dataclass

__all__ = ["Constraint"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on tensors, held over the last `event_dim` dimensions at once.

    `shown` is what messages call it, as PyTorch does; `args` what it is made of: bounds, parts.
    """

    shown: str
    check: Callable[[Any], Any]
    event_dim: int = 0
    is_discrete: bool = False
    args: tuple[Any, ...] = ()

    @property
    def kind(self) -> str:
        """What constraints of all bounds and parts have in common."""
        return self.shown.partition("(")[0]

    def __repr__(self) -> str:
        return self.shown

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle what this file names by that name, the others by what makes them."""
        for name, found in globals().items():
            if found is self:
                return name
        if type(self) is Constraint and self.args and self.kind in _MAKERS:
            return _MAKERS[self.kind], self.args
        return object.__reduce_ex__(self, protocol)


def _is_whole(x: Any) -> Any:
    return x % 1 == 0


def _is_simplex(x: Any) -> Any:
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


def _is_triangle(x: Any) -> Any:
    return (x.tril() == x).flatten(-2).all(-1) & (x.diagonal(0, -2, -1) > 0).all(-1)


def _is_corr_triangle(x: Any) -> Any:
    near = 10 * x.shape[-1] * 1.1920928955078125e-07
    return _is_triangle(x) & ((x.square().sum(-1).sqrt() - 1).abs() < near).all(-1)


def _is_square(x: Any) -> Any:
    holds = x.shape[-2] == x.shape[-1]
    return (x.new_ones(x.shape[:-2]) == 1) & holds


def _is_symmetric(x: Any) -> Any:
    scale = x.abs().amax((-2, -1))
    return (x - x.transpose(-2, -1)).abs().amax((-2, -1)) <= 1e-6 * scale


def _is_definite(x: Any, half: bool = False) -> Any:
    from tcdsl import linalg  # late: it is of use to matrices only

    least = linalg.eigvalsh((x + x.transpose(-2, -1)) / 2).amin(-1)
    return _is_symmetric(x) & (least >= 0 if half else least > 0)


def greater_than(low: Any) -> Constraint:
    """Return that values lie above a bound."""
    return Constraint(f"GreaterThan(lower_bound={low})", lambda x: x > low, args=(low,))


def greater_than_eq(low: Any) -> Constraint:
    """Return that values lie at a bound or above it."""
    return Constraint(f"GreaterThanEq(lower_bound={low})", lambda x: x >= low, args=(low,))


def less_than(high: Any) -> Constraint:
    """Return that values lie below a bound."""
    return Constraint(f"LessThan(upper_bound={high})", lambda x: x < high, args=(high,))


def interval(low: Any, high: Any) -> Constraint:
    """Return that values lie from one bound to another, both inside."""
    shown = f"Interval(lower_bound={low}, upper_bound={high})"
    return Constraint(shown, lambda x: (x >= low) & (x <= high), args=(low, high))


def half_open_interval(low: Any, high: Any) -> Constraint:
    """Return that values lie from one bound on and below another."""
    shown = f"HalfOpenInterval(lower_bound={low}, upper_bound={high})"
    return Constraint(shown, lambda x: (x >= low) & (x < high), args=(low, high))


def independent(base_constraint: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """Return that values are as another constraint says, all of the last dimensions at once."""
    base, dims = base_constraint, reinterpreted_batch_ndims

    def check(x: Any) -> Any:
        held = base.check(x)
        if held.ndim < dims:
            raise ValueError(f"Expected value.dim() >= {base.event_dim + dims} but got {x.ndim}")
        return held.flatten(-dims).all(-1) if dims else held

    shown = f"IndependentConstraint({base!r}, {dims})"
    return Constraint(shown, check, base.event_dim + dims, base.is_discrete, (base, dims))


real = Constraint("Real()", lambda x: x == x)
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = Constraint("Boolean()", lambda x: (x == 0) | (x == 1), is_discrete=True)
nonnegative_integer = Constraint(
    "IntegerGreaterThan(lower_bound=0)", lambda x: (x >= 0) & _is_whole(x), is_discrete=True
)
positive_integer = Constraint(
    "IntegerGreaterThan(lower_bound=1)", lambda x: (x >= 1) & _is_whole(x), is_discrete=True
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
positive_semidefinite = Constraint("PositiveSemidefinite()", lambda x: _is_definite(x, True), 2)
lower_triangular = Constraint("LowerTriangular()", lambda x: (x.tril() == x).flatten(-2).all(-1), 2)
corr_cholesky = Constraint("CorrCholesky()", _is_corr_triangle, 2)
square = Constraint("Square()", lambda x: _is_square(x), 2)
symmetric = Constraint("Symmetric()", lambda x: _is_symmetric(x), 2)
dependent = Constraint("Dependent()", lambda x: True)


def integer_interval(low: Any, high: Any) -> Constraint:
    """Return that values are integers from one bound to another, both inside."""
    shown = f"IntegerInterval(lower_bound={low}, upper_bound={high})"
    return Constraint(
        shown, lambda x: (x >= low) & (x <= high) & _is_whole(x), is_discrete=True, args=(low, high)
    )


def counts(total: Any) -> Constraint:
    """Return that vectors of counts add up to a number or to less, as PyTorch has it."""
    return Constraint(
        "Multinomial()",
        lambda x: (x >= 0).all(-1) & (x.sum(-1) <= total),
        1,
        is_discrete=True,
        args=(total,),
    )


multinomial = counts


def cat(
    cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
) -> Constraint:
    """Return that parts of a dimension, one behind the other, are each as a constraint says."""
    parts = list(cseq)
    sizes = [1] * len(parts) if lengths is None else list(lengths)

    def check(x: Any) -> Any:
        from tcdsl import library  # late: constraints are made where it is not needed

        held = [p.check(v) for p, v in zip(parts, x.split(sizes, dim), strict=True)]
        return library.cat(held, dim)

    event_dim = max((p.event_dim for p in parts), default=0)
    return Constraint("Cat()", check, event_dim, args=(parts, dim, sizes))


def stack(cseq: Sequence[Constraint], dim: int = 0) -> Constraint:
    """Return that elements of a dimension are each as a constraint says."""
    parts = list(cseq)

    def check(x: Any) -> Any:
        from tcdsl import library  # late: as in `cat`

        held = [p.check(v) for p, v in zip(parts, x.unbind(dim), strict=True)]
        return library.stack(held, dim)

    event_dim = max((p.event_dim for p in parts), default=0)
    is_within = dim + event_dim < 0  # whether the elements lie in one value
    return Constraint("Stack()", check, event_dim + is_within, args=(parts, dim))


_MAKERS = {
    "GreaterThan": greater_than,
    "GreaterThanEq": greater_than_eq,
    "LessThan": less_than,
    "Interval": interval,
    "HalfOpenInterval": half_open_interval,
    "IndependentConstraint": independent,
    "IntegerInterval": integer_interval,
    "Multinomial": counts,
    "Cat": cat,
    "Stack": stack,
}


class dependent_property(property):  # noqa: N801  (PyTorch's name)
    """A constraint that follows from the parameters of each object."""

    def __init__(self, fn: Any = None, *, is_discrete: Any = None, event_dim: Any = None) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:
        """Return the property of a function, with what was said of it."""
        return type(self)(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint follows from parameters."""
    return constraint is dependent or isinstance(constraint, dependent_property)
