"""Large matrices: inverses by factors and by triangles that are halved, determinants in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl.library  # noqa: F401  (gives Tensor its methods)
from tcdsl.ops import inverses, lapack
from tests.tiers import sampled

pytestmark = pytest.mark.cc


def scattered(n: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Return a matrix whose pivots lie in other rows and columns: the first one is 0."""
    made = np.random.default_rng(n).standard_normal((n, n)).astype(dtype)
    made[0, 0] = 0
    return made


@sampled(
    "n, dtype",
    [(21, "float32"), (8, "float64"), (1, "float32"), (7, "float64"), (64, "float32")],
    keep=1,
)
def test_inverses_are_those_of_lapack(n: int, dtype: str) -> None:
    a = scattered(n, dtype) if n > 1 else np.full((1, 1), 2, dtype)
    for given in (a, a.T, np.repeat(a, 2, 0)[::2]):
        found = inverses.inverse(given)
        assert found is not None
        assert found.dtype == dtype
        residual = np.abs(given.astype(float) @ found - np.eye(n)).max()
        size = np.abs(given).sum(1).max() * np.abs(found).sum(1).max()
        assert residual <= n * np.finfo(dtype).eps * size


def test_a_singular_matrix_has_no_inverse() -> None:
    a = scattered(21)
    a[:, 5] = 0
    assert inverses.inverse(a) is None


def test_inverses_by_way_of_infinity_are_lapacks() -> None:
    a = scattered(21)
    a[3, 17] = np.inf
    assert inverses.inverse(a) is None


@sampled("n, dtype", [(40, "float32"), (16, "float64"), (150, "float32")], keep=1)
def test_inverses_of_one_matrix_are_as_exact_as_numpys(n: int, dtype: str) -> None:
    a = scattered(n, dtype)
    for given in (a, a.T, a[::-1], np.repeat(a, 2, 0)[::2]):
        found, wanted = lapack.inverse(given), np.linalg.inv(given)
        assert found.dtype == dtype
        assert found.flags.c_contiguous
        error = 4 * np.finfo(dtype).eps + n * np.linalg.cond(given.astype(float)) * 2.0**-53
        assert np.abs(found - wanted).max() <= error * np.abs(wanted).max()


def test_inverses_that_are_not_finite_are_numpys() -> None:
    for value, at in ((np.nan, (3, 17)), (np.inf, (20, 0))):
        a = scattered(21)
        a[at] = value
        np.testing.assert_array_equal(lapack.inverse(a), np.linalg.inv(a))
    tiny = np.diag(np.full(21, 1e-40, np.float32))
    with np.errstate(over="raise"):  # which is nothing to warn of
        assert np.isinf(np.diagonal(lapack.inverse(tiny))).all()


def test_a_singular_matrix_of_some_rows_is_refused_with_its_place() -> None:
    a = scattered(21)
    a[:, 5] = 0
    with pytest.raises(lapack.LinAlgError, match="diagonal element 6 is zero"):
        lapack.inverse(a)


def test_determinants_in_float32_have_the_sign_of_the_exchanges() -> None:
    a = scattered(200)
    a /= np.exp(np.linalg.slogdet(a.astype(float))[1] / 200)  # so that it is about 1
    for given in (a, a[::-1], a[np.r_[1, 0, 2:200]]):
        assert lapack.determinant(given).dtype == np.float32
        assert np.isclose(lapack.determinant(given), np.linalg.det(given.astype(float)), rtol=1e-2)
    a[3] = 0
    assert lapack.determinant(a) == 0
