"""Covariances as callers give them: themselves, their inverses, or their triangular factors."""

from __future__ import annotations

from typing import Any

from tcdsl import library as tc
from tcdsl import linalg
from tcdsl.distributions import constraints as c

CONSTRAINTS = {
    "covariance_matrix": c.positive_definite,
    "precision_matrix": c.positive_definite,
    "scale_tril": c.lower_cholesky,
}


def the_given(error: type[Exception], *matrices: Any) -> tuple[str, Any]:
    """Return the name and the matrix that is given, of the three in the order of CONSTRAINTS.

    Raises
    ------
    error
        If there is none, or more than one.
    """
    given = [(n, m) for n, m in zip(CONSTRAINTS, matrices, strict=True) if m is not None]
    if len(given) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return given[0]


def factor_of(name: str, matrix: Any) -> Any:
    """Return the triangular factor of the covariance that a matrix of this name tells."""
    if name == "scale_tril":
        return matrix
    return linalg.cholesky(matrix if name == "covariance_matrix" else tc.inverse(matrix))


def by_factor(of: object, factor: Any, name: str) -> Any:
    """Return a distribution's matrix of this name by its factor; None: it has none yet.

    Raises
    ------
    AttributeError
        If that is no name of one, or there is no factor yet.
    """
    if factor is None or name not in CONSTRAINTS:
        raise AttributeError(f"'{type(of).__name__}' object has no attribute '{name}'")
    if name == "scale_tril":
        return factor
    whole = factor @ factor.mT
    return whole if name == "covariance_matrix" else tc.inverse(whole)
