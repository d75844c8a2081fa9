"""Which transform leads from all numbers to those that a constraint allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl.distributions import constraints as c
from tcdsl.distributions import transforms as t
from tcdsl.distributions.constraints import Constraint

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], t.Transform]


class ConstraintRegistry:
    """Transforms by kinds of constraints.

    Examples
    --------
    >>> from tcdsl.distributions import constraints
    >>> transform_to(constraints.simplex)
    SoftmaxTransform()
    """

    def __init__(self) -> None:
        self._factories: dict[str, Factory] = {}

    def register(self, constraint: Constraint, factory: Factory | None = None) -> Any:
        """Take what makes the transform of a constraint, and of all of its kind."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        self._factories[constraint.kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> t.Transform:
        """Return the transform to a constraint.

        Raises
        ------
        NotImplementedError
            If there is none of its kind.
        """
        factory = self._factories.get(constraint.kind)
        if factory is None:
            raise NotImplementedError(f"Cannot transform _{constraint.kind} constraints")
        return factory(constraint)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the library's own two by name."""
        for name in ("biject_to", "transform_to"):
            if globals()[name] is self:
                return name
        return super().__reduce_ex__(protocol)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _above(constraint: Constraint) -> t.Transform:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.args[0], 1)])


def _below(constraint: Constraint) -> t.Transform:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.args[0], -1)])


def _between(constraint: Constraint) -> t.Transform:
    low, high = constraint.args
    if low == 0 and high == 1:
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


def _fill(to: ConstraintRegistry) -> None:
    """Give the transforms that both directions have."""
    to.register(c.real, lambda _: t.identity_transform)
    for above in (c.greater_than(0), c.greater_than_eq(0)):
        to.register(above, _above)
    to.register(c.less_than(0), _below)
    for between in (c.interval(0, 1), c.half_open_interval(0, 1)):
        to.register(between, _between)
    to.register(c.corr_cholesky, lambda _: t.CorrCholeskyTransform())
    to.register(
        c.independent(c.real, 1), lambda x: t.IndependentTransform(to(x.args[0]), x.args[1])
    )
    to.register(
        c.cat([], 0, []), lambda x: t.CatTransform([to(p) for p in x.args[0]], x.args[1], x.args[2])
    )
    to.register(c.stack([], 0), lambda x: t.StackTransform([to(p) for p in x.args[0]], x.args[1]))


_fill(biject_to)
_fill(transform_to)
biject_to.register(c.simplex, lambda _: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda _: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda _: t.LowerCholeskyTransform())
for _definite in (c.positive_definite, c.positive_semidefinite):
    transform_to.register(_definite, lambda _: t.PositiveDefiniteTransform())
