"""Histograms, and draws by weights."""

from __future__ import annotations

import math

import numpy as np

from tcdsl.chance.generator import Generator, source_of
from tcdsl.core import Tensor, dtypes, from_numpy
from tcdsl.ops import filling
from tcdsl.ops.along import cumsum
from tcdsl.ops.internal import to
from tcdsl.ops.lapack import Array
from tcdsl.ops.matrices import array_of, shown
from tcdsl.ops.rules import first, not_for
from tcdsl.ops.sorting import topk
from tcdsl.ops.table import Family, publish

ops = Family(__file__)
_histc = ops.op("histc", types=first, vjp=None)
_thresholds = ops.op("thresholds", vjp=None)
_keys = ops.op("keys", vjp=None)


def histc(
    input: Tensor,
    bins: int = 100,
    min: float = 0,
    max: float = 0,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Count elements in bins of one width.

    Parameters
    ----------
    input : Tensor
    bins : int
    min, max : float
        Ends of the first and the last bin, both inside; where they are the same, the least and the
        greatest element.

    Returns
    -------
    Tensor, shape (bins,)
    """
    if not input.dtype.is_floating_point:
        raise not_for("histogram_cpu", input.dtype)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    flat = input.detach().reshape(-1)
    low, high = float(min), float(max)
    if low == high and flat.numel():
        low, high = float(flat.min().item()), float(flat.max().item())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    given = {} if out is None else {"out": out}
    made: Tensor = _histc(flat, low, high, BINS=bins, **given)
    return made


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Draw places by weights.

    Parameters
    ----------
    input : Tensor, shape (N,) or (B, N)
        Weights of places, 0 or more; each row has one above 0.
    num_samples : int
        How many are drawn of each row.
    replacement : bool
        Whether a place may be drawn again.
    generator : Generator, optional
        The process's own by default.

    Returns
    -------
    Tensor of int64, shape (num_samples,) or (B, num_samples)

    Raises
    ------
    RuntimeError
        If weights are no such, or fewer than num_samples can be drawn.
    """
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {shown(input.dtype)}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    weights = to(input.detach(), dtypes.float64)
    rows = weights.unsqueeze(0) if input.ndim == 1 else weights
    if not (rows >= 0).all().item() or (rows == float("inf")).any().item():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    sums = cumsum(rows, 1)
    if not rows.shape[1] or not (sums.narrow(1, rows.shape[1] - 1, 1) > 0).all().item():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    source = source_of(generator)
    if not input._device:
        made = _drawn_here(input.detach(), num_samples, replacement, source)
        return made if out is None else _given(out, made)
    seed = source.draw_seed()
    if replacement:
        found = _placed(sums, _thresholds(sums, seed, COUNT=num_samples))
    else:
        if not ((rows > 0).sum(1) >= num_samples).all().item():
            raise RuntimeError(
                "invalid multinomial distribution (with replacement=False, not enough "
                "non-negative category to sample)"
            )
        order = np.argsort(array_of(-_keys(rows, seed)), axis=1, kind="stable")
        found = np.ascontiguousarray(order[:, :num_samples])
    made = from_numpy(found)
    made = made.squeeze(0) if input.ndim == 1 else made
    return made if out is None else _given(out, made)


def _given(out: Tensor, made: Tensor) -> Tensor:
    if tuple(out.shape) != tuple(made.shape):
        out.resize_(tuple(made.shape))
    return out.copy_(made)  # type: ignore[no-any-return]


def _drawn_here(input: Tensor, count: int, replacement: bool, source: Generator) -> Tensor:
    """Draw as PyTorch does on a CPU: the first in an exponential race, or by rising sums."""
    if count == 1 or not replacement:
        race: Tensor = input / filling.exponential_(input.new_empty(input.shape), generator=source)
        made: Tensor = topk(race, count)[1]
        return made
    rows = input.unsqueeze(0) if input.ndim == 1 else input
    sums = cumsum(rows, 1)
    sums = sums / sums.narrow(1, rows.shape[1] - 1, 1)
    at = rows.new_empty((rows.shape[0], count), dtype=dtypes.float64)
    wanted, shares = (
        array_of(filling.uniform_(at, generator=source)),
        array_of(to(sums, dtypes.float64)),
    )
    found = [np.searchsorted(row, numbers) for row, numbers in zip(shares, wanted, strict=True)]
    made = from_numpy(np.stack(found))
    return made.squeeze(0) if input.ndim == 1 else made


def _placed(sums: Tensor, thresholds: Tensor) -> Array:
    """Return where each number lies among rising sums: behind those that are not above it."""
    rows, wanted = array_of(sums), array_of(thresholds)
    found = np.empty(wanted.shape, np.int64)
    for at, row in enumerate(rows):
        last = np.searchsorted(row, row[-1], "left")  # of weight above 0: rounding stops there
        found[at] = np.minimum(np.searchsorted(row, wanted[at], "right"), last)
    return found


publish(histc, ("histc",))
publish(multinomial, ("multinomial",))
