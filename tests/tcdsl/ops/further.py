"""More of the table of calls: what came after PyTorch 0.4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.tcdsl.ops.samples import CUBE, NONE, ONE, ROW, A, B, Sample

inf, nan = np.inf, np.nan
SPECIAL = np.array([nan, inf, -inf, 0.0, -0.0, 1.5, -2.0])
WHOLE = np.array([3, -1, 0, 3, 7, 7, 7, 2])


def _between(low: float, high: float, *shape: int) -> Any:
    return np.random.default_rng(list(shape)).uniform(low, high, shape)


def functions() -> Iterator[Sample]:
    """Give functions of each element."""
    for name in ("exp2", "deg2rad", "rad2deg", "sinc"):
        yield Sample(name, (A,), order=1 if name == "sinc" else 2)
        yield Sample(name, (WHOLE,), order=0, rtol=1e-6)
    yield Sample("sinc", (np.array([0.0, 0.5, 1, -2]),), order=1)
    yield Sample("lgamma", (_between(0.2, 4, 3, 5),), order=2)
    yield Sample("digamma", (_between(0.2, 4, 3, 5),), order=1)
    yield Sample("polygamma", (1, _between(0.2, 4, 3, 5)), order=0)
    for n in (2, 3, 7):
        yield Sample("polygamma", (n, _between(-3.9, 4, 3, 5)), order=1)
    for name in ("igamma", "igammac"):
        for a, x in ((0.3, 0.7), (3.0, 9.0), (60.0, 55.0), (400.0, 480.0), (1e5, 1.001e5)):
            near = np.array([0.9, 1.0, 1.2, 0.3])
            yield Sample(name, (near * a, x * near[::-1]), order=2, rtol=1e-8, constants=(0,))
        edges = np.array([0.0, 1, 2, inf, -1]), np.array([[0.0], [1], [inf], [-1]])
        yield Sample(name, edges, order=0)
    yield Sample("frexp", (np.array([0.0, -0.0, 1e-300, 5e-324, 1.7e308, inf, nan]),), order=0)
    yield Sample("frexp", (_between(-9, 9, 3, 5),), order=1)
    yield Sample("frexp", (_between(-9, 9, 3, 5).astype(np.float32),), order=0)
    yield Sample("nextafter", (SPECIAL, SPECIAL[::-1].copy()), order=0)
    yield Sample("nextafter", (A.astype(np.float32), ROW.astype(np.float32)), order=0)
    yield Sample("logit", (_between(0.1, 0.9, 3, 5),))
    yield Sample("logit", (_between(-0.1, 1.1, 3, 5),), {"eps": 1e-2}, order=1)
    yield Sample("nan_to_num", (SPECIAL,), order=1)
    yield Sample("nan_to_num", (SPECIAL, 7.0, 8.0, 9.0), order=1)
    yield Sample("nan_to_num", (WHOLE,), order=0)
    for name in ("i0", "mvlgamma"):
        yield Sample(name, (_between(1, 4, 3, 5), 2)[: 1 + (name == "mvlgamma")], order=1)
    for name in ("logaddexp", "logaddexp2", "hypot", "fmax", "fmin", "copysign"):
        yield Sample(name, (A, ROW))
    for name in ("fmax", "fmin"):
        yield Sample(name, (SPECIAL, SPECIAL[::-1].copy()), order=0)
        yield Sample(name, (WHOLE, WHOLE[::-1].copy()), order=0)
    yield Sample("logaddexp", (np.array([-inf, inf, -inf, 1]), np.array([-inf, inf, 2.0, 1])),
                 order=0)  # fmt: skip
    yield Sample("copysign", (SPECIAL[2:], SPECIAL[::-1][:5].copy()), order=0)
    yield Sample("copysign", (A, -1.0))
    yield Sample("xlogy", (_between(0.1, 2, 3, 5), _between(0.1, 2, 5)))
    yield Sample("xlogy", (np.array([0.0, 0, 1, 2]), np.array([0.0, nan, 0, 3])), order=0)
    yield Sample("heaviside", (SPECIAL, np.full(7, 0.3)), order=0)
    for name in ("signbit", "isposinf", "isneginf"):
        yield Sample(name, (SPECIAL,), order=0)
    yield Sample("signbit", (WHOLE,), order=0)
    yield Sample("float_power", (WHOLE, 2), order=0)
    yield Sample("rsub", (A, ROW), {"alpha": 2})
    yield Sample("rsub", (A, 3.0))
    yield Sample("clamp_min", (A, 0.2), order=1)
    yield Sample("clamp_max", (A, 0.2), order=1)
    yield Sample("ldexp", (A, np.array([0, 1, 2, 4, 3])), order=1)


def divisors() -> Iterator[Sample]:
    """Give what divides integers, and parts of rows."""
    for name in ("gcd", "lcm"):
        yield Sample(name, (WHOLE, WHOLE[::-1].copy()), order=0)
    lengths = np.array([2, 0, 1])
    for how in ("sum", "mean", "max", "min", "prod"):
        yield Sample("segment_reduce", (A, how), {"lengths": lengths}, order=1)
    rows = np.array([[3, 2], [5, 0], [1, 4]])
    yield Sample("segment_reduce", (A, "max"), {"lengths": rows, "axis": 1, "initial": 0.2},
                 order=1)  # fmt: skip


def arranged() -> Iterator[Sample]:
    """Give dimensions in another order, parts and places."""
    yield Sample("movedim", (CUBE, 0, -1))
    yield Sample("movedim", (CUBE, (0, 1), (2, 0)))
    yield Sample("swapaxes", (CUBE, 0, 2))
    yield Sample("ravel", (CUBE,))
    yield Sample("select_scatter", (CUBE, CUBE[:, 0].copy(), 1, 2))
    yield Sample("slice_scatter", (CUBE, CUBE[:, 1:3].copy(), 1, 0, 2))
    yield Sample("diagonal_scatter", (A, np.diagonal(A).copy()))
    yield Sample("narrow_copy", (A, 1, 0, 2))
    yield Sample("unflatten", (CUBE, -1, (2, -1)))
    yield Sample("fliplr", (A,))
    yield Sample("flipud", (A,))
    for k in range(-1, 5):
        yield Sample("rot90", (CUBE, k, (0, 2)))
    for cut in (2, 3, (1, 4), (0, 9)):
        yield Sample("tensor_split", (A, cut, 1))
    yield Sample("hsplit", (A, (2,)))
    yield Sample("vsplit", (A, (2,)))
    yield Sample("take_along_dim", (A, np.array([[0, 4], [2, 2], [1, 0]]), 1))
    yield Sample("take_along_dim", (A, np.array([[0, 2, 1, 1, 0]]), 0))
    yield Sample("take_along_dim", (A, np.array([3, 14])))
    yield Sample("repeat_interleave", (A, 3, 1))
    yield Sample("repeat_interleave", (A, 2))
    yield Sample("repeat_interleave", (A, np.array([2, 0, 3]), 0))
    yield Sample("repeat_interleave", (np.array([2, 0, 3]),), order=0)
    yield Sample("argwhere", (A > 0,), order=0)
    for more in (0, 1, -1):
        yield Sample("tril_indices", (3, 4, more), order=0)
        yield Sample("triu_indices", (3, 4, more), order=0)
    yield Sample("tril_indices", (3, 4, -5), order=0)
    yield Sample("triu_indices", (0, 4), order=0)
    yield Sample("unravel_index", (np.array([3, 14]), (3, 5)), order=0)


def together() -> Iterator[Sample]:
    """Give what is made of several."""
    yield Sample("broadcast_tensors", (ROW, A, ONE))
    yield Sample("broadcast_to", (ROW, (2, 3, 5)))
    yield Sample("tile", (A, (2, 1, 2)))
    yield Sample("tile", (CUBE, (2,)))
    for indexing in ("ij", "xy"):
        yield Sample("meshgrid", (ROW, ROW[:3]), {"indexing": indexing})
        yield Sample("meshgrid", (ROW, ROW[:3], ROW[:2]), {"indexing": indexing})
        yield Sample("meshgrid", (ROW,), {"indexing": indexing})
    yield Sample("cartesian_prod", (ROW, ROW[:3]))
    yield Sample("combinations", (ROW, 3))
    yield Sample("combinations", (ROW, 2, True))
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for x in (ONE, ROW, A, CUBE):
            yield Sample(name, (x,))
        yield Sample(name, (ONE, A))
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        for x in (ROW, A):
            yield Sample(name, ((x, x),))
    yield Sample("block_diag", (A, ROW, ONE))
    for offset in (0, 2, -1):
        yield Sample("diag_embed", (A, offset))
        yield Sample("diag_embed", (A, offset, 0, 2))
    for name in ("concat", "concatenate"):
        yield Sample(name, ((A, B), 1))


def statistics() -> Iterator[Sample]:
    """Give counts, spreads, quantiles and places in an order."""
    ties = np.array([[1.0, 3, 3, 2], [nan, 1, nan, 5], [4, 4, -1, 4]])
    for x in (ties, WHOLE):
        yield Sample("count_nonzero", (x,), order=0)
        for name in ("cummax", "cummin"):
            yield Sample(name, (x, 0), order=1)
            yield Sample(name, (x, -1), order=1)
    yield Sample("count_nonzero", (CUBE > 0, (0, 2)), order=0)
    yield Sample("cummax", (NONE, 1), order=0)
    yield Sample("cummax", (NONE, 0), order=0)
    yield Sample("logcumsumexp", (A, 1))
    yield Sample("aminmax", (A,), order=1)
    yield Sample("aminmax", (A,), {"dim": 1, "keepdim": True}, order=1)
    for name in ("std_mean", "var_mean"):
        yield Sample(name, (A,))
        yield Sample(name, (A, 1), {"unbiased": False})
        yield Sample(name, (A, 1), {"keepdim": True})
    yield Sample("nanmean", (ties, 1), order=1)
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        yield Sample("quantile", (CUBE, 0.3, 1), {"interpolation": how}, order=1)
        yield Sample("quantile", (ties, 0.7), {"interpolation": how}, order=0)
        yield Sample("nanquantile", (ties, 0.7, 1), {"interpolation": how}, order=1)
    yield Sample("quantile", (A, np.array([0.0, 0.25, 1])), {"keepdim": True}, order=1,
                 constants=(1,))  # fmt: skip
    yield Sample("quantile", (A, np.array([0.1, 0.9]), 0, True), order=1, constants=(1,))
    yield Sample("msort", (A,), order=1)
    row = np.array([1.0, 2, 2, 2, 5, 9])
    for right in (False, True):
        yield Sample("searchsorted", (row, ties), {"right": right}, order=0)
        yield Sample("searchsorted", (np.sort(A, 1), B), {"right": right}, order=0)
        yield Sample("bucketize", (np.array([0.0, 1, 2, 3, 5, 9, 10, inf, nan]), row),
                     {"right": right}, order=0)  # fmt: skip
    yield Sample("searchsorted", (np.arange(0, 16, 2), np.arange(17)), order=0)
    yield Sample("searchsorted", (NONE[0:0, 0], ROW), order=0)
    yield Sample("isin", (WHOLE, np.array([3, 7, 9])), order=0)
    yield Sample("isin", (ties, np.array([nan, 3.0])), {"invert": True}, order=0)
    yield Sample("isin", (WHOLE, WHOLE[:0]), order=0)
    both = {"return_inverse": True, "return_counts": True}
    yield Sample("unique_consecutive", (WHOLE,), both, order=0)
    pairs = np.array([[1, 2], [1, 2], [1, 3], [1, 2]])
    yield Sample("unique_consecutive", (pairs,), {"dim": 0, **both}, order=0)
    yield Sample("unique_consecutive", (WHOLE[:0],), both, order=0)
    yield Sample("unique_consecutive", (np.array([nan, nan, 1, 1, -0.0, 0.0]),), order=0)
    yield Sample("diff", (A,))
    yield Sample("diff", (CUBE, 2, 1))
    yield Sample("diff", (WHOLE > 2,), order=0)
    yield Sample("diff", (A,), {"prepend": B, "append": B})
    yield Sample("trapezoid", (A,), {"dx": 0.3})
    yield Sample("trapezoid", (A, np.array([0, 1, 3, 4, 8.0])))
    yield Sample("trapezoid", (CUBE, CUBE**2), {"dim": 1})
    yield Sample("trapezoid", (WHOLE,), {"dx": 2}, order=0)
    yield Sample("trapezoid", (NONE,), {"dim": 0}, order=0)
    yield Sample("cumulative_trapezoid", (A,), {"dx": 0.3})
    yield Sample("cov", (A,))
    yield Sample("cov", (ROW,), {"correction": 0})
    yield Sample("corrcoef", (A,), order=1, rtol=1e-8)
    often, much = np.array([1, 2, 0, 3, 1]), np.array([0.5, 1.5, 2.0, 0.1, 1.0])
    yield Sample("cov", (A,), {"fweights": often}, order=1)
    yield Sample("cov", (A,), {"aweights": much, "correction": 0}, order=1)
    yield Sample("cov", (ROW,), {"fweights": often, "aweights": much}, order=1)
    yield Sample("gradient", (CUBE,), {"spacing": 0.5})
    yield Sample("gradient", (CUBE,), {"dim": (0, -1)})
    places = np.array([0.0, 0.5, 2.0, 2.2, 3.0])
    for edge in (1, 2):
        along: dict[str, Any] = {"dim": 1, "edge_order": edge}
        yield Sample("gradient", (A,), {"spacing": [places], **along}, rtol=1e-8)
        yield Sample("gradient", (A,), {"spacing": [0.3], **along})


def between() -> Iterator[Sample]:
    """Give distances of rows and products over named dimensions."""
    x, y = np.random.default_rng(1).standard_normal((2, 2, 4, 3))
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, inf):
        yield Sample("cdist", (x, y, p), order=1 if p else 0, rtol=1e-8)
        yield Sample("cdist", (x[0], x[0, :2], p), order=1 if p > 1 else 0, rtol=1e-8)
        yield Sample("pdist", (x[0], p), order=0, rtol=1e-8)
    yield Sample("pdist", (np.array([[1, nan], [1, inf], [3, inf]]), 0.0), order=0)
    yield Sample("cdist", (x[:, None], y[:1], 2.0), order=1, rtol=1e-8)
    yield Sample("cdist", (np.zeros((3, 0)), np.zeros((2, 0))), order=0)
    yield Sample("tensordot", (CUBE, CUBE.transpose(1, 2, 0).copy(), ([1, 2], [0, 1])))
    yield Sample("tensordot", (CUBE, CUBE.transpose(1, 2, 0).copy()))
    yield Sample("tensordot", (ROW, ROW, 1))
    yield Sample("tensordot", (ROW, A, 0))
    for pair in ((A, B), (ROW, ROW), (A, ROW), (ONE, A)):
        yield Sample("inner", pair)
        yield Sample("kron", pair)
    m = np.random.default_rng(2).standard_normal
    yield Sample("chain_matmul", (m((3, 8)), m((8, 2)), m((2, 9)), m((9, 4))))
    for rising in (False, True):
        yield Sample("vander", (ROW, 4, rising), order=0)
        yield Sample("vander", (WHOLE, 3, rising), order=0)


FURTHER = (functions, divisors, arranged, together, statistics, between)
