"""Histograms over one variable or several, of bins of any widths, counted by weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tcdsl.core import Tensor, dtypes
from tcdsl.ops import filling
from tcdsl.ops.indexing import index_add
from tcdsl.ops.pointwise import where
from tcdsl.ops.quantiles import searchsorted
from tcdsl.ops.results import result
from tcdsl.ops.rules import not_for
from tcdsl.ops.table import publish
from tcdsl.ops.underived import underived

__all__ = ["histogram", "histogramdd"]

Edges = list[Tensor]


def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> Any:
    """Count elements in bins.

    Parameters
    ----------
    input : Tensor
    bins : int, or Tensor of shape (BINS + 1,)
        How many of one width there are, or the edges of all, rising.
    range : two numbers, optional
        The ends of bins of one width; by default the least and the greatest element.
    weight : Tensor, of input's shape, optional
        What each element counts.
    density : bool
        Divide by the sum of counts and by the width of each bin.
    out : (Tensor, Tensor), optional

    Returns
    -------
    hist : Tensor, shape (BINS,)
        The last bin holds its end too; what lies outside counts nowhere.
    bin_edges : Tensor, shape (BINS + 1,)
    """
    column = input.detach().reshape(-1, 1)
    weights = None if weight is None else weight.detach().reshape(-1)
    listed = [bins] if isinstance(bins, Tensor) else [int(bins)]
    hist, edges = _counted(column, listed, range, weights, density)
    if out is None:
        _record("histogram", input, weight, bins, hist, edges)
        return result("histogram", "hist", "bin_edges")(hist, edges[0])
    for to, made in zip(out, (hist, edges[0]), strict=True):
        to.resize_(tuple(made.shape)).copy_(made)
    return result("histogram_out", "hist", "bin_edges")(*out)


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Count points in boxes.

    Parameters
    ----------
    input : Tensor, shape (..., D)
    bins : int, D ints, or D tensors of edges
        As of `histogram`, for each variable.
    range : 2 D numbers, optional
        The ends of each variable, one behind the other.
    weight : Tensor, shape (...), optional
    density : bool

    Returns
    -------
    hist : Tensor of D dimensions
    bin_edges : tuple of D Tensors
    """
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    width = int(input.shape[-1])
    listed: list[Any] = [bins] * width if isinstance(bins, int) else list(bins)
    if len(listed) != width:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    points, weights = input.detach().reshape(-1, width), weight
    if weights is not None:
        weights = weights.detach()
        if weights.shape == input.shape[:-1]:
            weights = weights.reshape(-1)
    hist, edges = _counted(points, listed, range, weights, density)
    _record("histogramdd", input, weight, bins, hist, edges)
    return result("histogramdd", "hist", "bin_edges")(hist, tuple(edges))


def _record(
    name: str, input: Tensor, weight: Tensor | None, bins: Any, hist: Tensor, edges: Edges
) -> None:
    """Let the way back through counts, and through edges that were found, raise."""
    are_given = not isinstance(bins, int) and isinstance(bins[0], Tensor)
    inputs = (input,) if weight is None else (input, weight)
    underived(name, inputs, (hist,) if are_given else (hist, *edges))


def _counted(
    points: Tensor,
    bins: Sequence[Any],
    ends: Sequence[float] | None,
    weight: Tensor | None,
    density: bool,
) -> tuple[Tensor, Edges]:
    """Return the counts of points, shape (N, D), and the edges of the boxes."""
    if points.dtype not in (dtypes.float32, dtypes.float64):
        raise not_for("histogramdd", points.dtype)
    if weight is not None and tuple(weight.shape) != tuple(points.shape[:1]):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{list(points.shape)} and weight with shape {list(weight.shape)}"
        )
    if isinstance(bins[0], Tensor):
        edges = [e.detach() for e in bins]
    else:
        edges = _of_one_width(points, [int(n) for n in bins], ends)
    sizes = [max(e.shape[0] - 1, 0) for e in edges]
    place, is_inside = None, None
    for d, (edge, size) in enumerate(zip(edges, sizes, strict=True)):
        x = points.select(1, d).contiguous()
        low, high = edge.select(0, 0), edge.select(0, size)
        at = (searchsorted(edge.contiguous(), x, right=True) - 1).clamp(0, max(size - 1, 0))
        inside = (x >= low) & (x <= high)
        place = at if place is None else place * size + at
        is_inside = inside if is_inside is None else is_inside & inside
    assert place is not None
    assert is_inside is not None
    one = points.new_ones(points.shape[0]) if weight is None else weight.to(points.dtype)
    hist = points.new_zeros(math.prod(sizes))
    hist = index_add(hist, 0, where(is_inside, place, 0), where(is_inside, one, 0.0)).view(*sizes)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            hist = hist / edge.diff().view([-1 if d == k else 1 for k in range(len(sizes))])
    return hist, edges


def _of_one_width(points: Tensor, counts: list[int], ends: Sequence[float] | None) -> Edges:
    """Return edges at equal distances, for each variable."""
    width = len(counts)
    for d, count in enumerate(counts):
        if count <= 0:
            raise RuntimeError(
                f"torch.histogram(): bins must be > 0, but got {count} for dimension {d}"
            )
    if ends is not None and len(ends) != 2 * width:
        raise RuntimeError(
            f"torch.histogramdd: for a {width}-dimensional histogram range should have "
            f"{2 * width} elements, but got {len(ends)}"
        )
    edges = []
    for d, count in enumerate(counts):
        if ends is not None:
            low, high = float(ends[2 * d]), float(ends[2 * d + 1])
        elif not points.shape[0]:
            low, high = 0.0, 1.0
        else:
            x = points.select(1, d)
            low, high = x.min().item(), x.max().item()
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(
                f"torch.histogramdd: dimension {d}'s range [{low:g}, {high:g}] is not finite"
            )
        if low > high:
            raise RuntimeError(
                f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} "
                f"for dimension {d}"
            )
        if low == high:
            low, high = low - 0.5, high + 0.5
        row = points.new_empty(count + 1)
        filling.spaced(row, low, high)
        edges.append(row)
    return edges


publish(histogram, ("histogram",))
publish(histogramdd, ("histogramdd",), on=("torch",))
