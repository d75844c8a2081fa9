"""`tcdsl.special` agrees with `torch.special`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import special
from tests.tcdsl.ops.calls import tensor
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

inf, nan = np.inf, np.nan
X = np.array([-3.7, -1.2, -0.4, 0.0, 1e-12, 0.3, 1, 2.5, 7, 31, 700, inf, nan])
ABOVE = X[3:]
POLYNOMIALS = [n for n in special.__all__ if "_polynomial_" in n]
BY_ONE = {  # above 5 PyTorch loses digits of the first
    **dict.fromkeys(("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"), X[1:8]),
    "spherical_bessel_j0": X,
    "erfcx": X, "log_ndtr": X, "ndtr": X, "entr": X,
    "modified_bessel_k0": X, "modified_bessel_k1": X,
    "scaled_modified_bessel_k0": X, "scaled_modified_bessel_k1": X,
}  # fmt: skip
CALLS: list[tuple[str, tuple[Any, ...]]] = [
    *((name, (x,)) for name, x in BY_ONE.items()),
    *((name, (X[:8], n)) for name in POLYNOMIALS for n in (0, 1, 5)),
    ("legendre_polynomial_p", (X[:5], np.array([-1.0, 0, 1, 2, 4]))),
    ("zeta", (np.array([1.5, 2, 7, 30, 1, 0.5, nan]), np.array([[0.1], [1], [9.5], [1e9], [0]]))),
    ("xlog1py", (X[:, None], X)),
    ("zeta", (np.array([2.0, 3, 2.5]), np.array([[-0.5], [-3.2], [-4.0]]))),
]


@sampled("name, args", CALLS, keep=3, wide=14, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CALLS)])
def test_a_function_agrees_with_torch(name: str, args: tuple[Any, ...]) -> None:
    mine = [tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    theirs = [torch.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in args]
    found = getattr(special, name)(*mine)._array()
    wanted = getattr(torch.special, name)(*theirs).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


def test_places_of_the_normal_distribution_keep_their_digits_in_its_tails() -> None:
    """The probability of float32 2^-149 and of 1e-300 too; of what is no probability it is NaN."""
    p = np.array([-5e-324, 0, 1e-300, 1e-45, 1e-10, 0.3, 0.5, 1 - 1e-10, 1, 1.5, nan])
    for dtype, rtol in ((np.float64, 1e-12), (np.float32, 1e-6)):
        mine, theirs = tensor(p.astype(dtype)), torch.from_numpy(p.astype(dtype))
        wanted = torch.special.ndtri(theirs.double()).numpy()
        np.testing.assert_allclose(special.ndtri(mine)._array(), wanted, rtol=rtol)
    x = np.array([-38.0, -27, -9, 0, 5])
    wanted = torch.special.log_ndtr(torch.from_numpy(x)).exp().numpy()
    np.testing.assert_allclose(special.ndtr(tensor(x))._array(), wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["ndtr", "ndtri"])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
def test_normal_distributions_take_integers(name: str, dtype: str) -> None:
    x = np.array([0, 1, 1]).astype(dtype)
    found = getattr(special, name)(tensor(x))
    wanted = getattr(torch.special, name)(torch.from_numpy(x))
    assert str(found.dtype) == str(wanted.dtype)
    np.testing.assert_allclose(found._array(), wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize("args", [(ABOVE, 2), (2, ABOVE), (np.arange(3), 2.5)])
def test_products_with_logarithms_take_numbers(args: tuple[Any, Any]) -> None:
    mine = [tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    theirs = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    found, wanted = special.xlog1py(*mine), torch.special.xlog1py(*theirs)
    assert str(found.dtype) == str(wanted.dtype)
    np.testing.assert_allclose(found._array(), wanted.numpy(), rtol=1e-6)


def test_the_slope_of_a_product_with_a_logarithm_is_that_at_0_too() -> None:
    grads = []
    for u, x in ((special, tensor(X[3:7] * 0)), (torch.special, torch.zeros(4).double())):
        x.requires_grad_()
        y = tensor(X[3:7]) if u is special else torch.from_numpy(X[3:7])
        u.xlog1py(x, y).sum().backward()
        grads.append(x.grad.tolist())
    np.testing.assert_allclose(grads[0], grads[1])
