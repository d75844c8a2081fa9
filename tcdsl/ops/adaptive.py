"""Pools whose outputs have a size: their windows share an image."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Any

from tcdsl.core import Op, Tensor, empty, made_by
from tcdsl.core.dtypes import DType, float32, float64
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.ops import pools
from tcdsl.ops.arguments import listed
from tcdsl.ops.casting import wide
from tcdsl.ops.formats import channels_behind, channels_second, has_channels_last
from tcdsl.ops.pools import put_back, put_back_last, shares
from tcdsl.ops.rules import check_floats
from tcdsl.ops.spatial import spatial, with_channels_behind
from tcdsl.ops.table import Family, op_of_text
from tcdsl.ops.writing import kept_for_all

ops = Family(__file__)
Size = int | None | Sequence[int | None]
_FEW = 8  # elements of a window, which are read whether they are in it or not
_MANY_WINDOWS = 8  # of a dimension: as many as make a vector
_LONG = 16  # elements of a row of a window, from which on rows go in vectors
_MAX = {
    rank: ops.op(f"adaptive_max_pool{rank}d", vjp=put_back, saves=("like:input", "indices"))
    for rank in (2, 3)
}


@cache
def _avg(rank: int, size: tuple[int, ...], last: bool = False) -> Op:
    text = spatial(ops.text("adaptive_avg_pool"), rank)
    made = _of_means(text, last)
    return made.with_generics(**{f"O{d + 1}": n for d, n in enumerate(size)})


def _of_means(text: str, last: bool) -> Op:
    """Return the op of a text of means, whose images may have their channels last."""
    if last:
        text = with_channels_behind(text)
    return op_of_text(text, vjp=_spread_last if last else _spread, saves=("like:input", "share"))


@cache
def _avg_of_few(image: tuple[int, ...], size: tuple[int, ...], last: bool = False) -> Op | None:
    """Return the op of means of few elements each, one dimension after the other; None of many.

    A window reads as many elements as the longest one has, those behind its end for nothing. The
    last dimension comes first: along it elements are gathered, along the others they are vectors.
    """
    rank = len(image)
    most = [_longest(n, o) for n, o in zip(image, size, strict=True)]
    if max(most) > _FEW or min(size) < _MANY_WINDOWS:
        return None
    statements, before = [], "input"
    for d in reversed(range(rank)):
        elements, done = [f"h{i}" for i in range(d)], [f"o{i}" for i in range(d + 1, rank)]
        to, at = (", ".join(["n", *elements, here, *done]) for here in (f"o{d}", "at"))
        first = f"int64(o{d}) * H{d} / O{d}"  # as a value of int32 it might wrap
        behind = f"((int64(o{d}) + 1) * H{d} + O{d} - 1) / O{d}"
        statements += [
            f"first{d}(o{d}) = int32({first}) where o{d} in 0:O{d}",
            f"count{d}(o{d}) = int32({behind} - {first}) where o{d} in 0:O{d}",
            f"s{d}({to}) +=! k < count{d}(o{d}) ? {before}({at}) : 0 "
            f"where k in 0:K{d}, at = clamp(first{d}(o{d}) + k, 0, H{d} - 1)",
        ]
        before = f"s{d}"
    windows = ", ".join(f"o{d}" for d in range(rank))
    extents, sizes, taps = (", ".join(f"{c}{d}" for d in range(rank)) for c in "HOK")
    statements.append(f"out(n, {windows}) = share({windows}) * s0(n, {windows})")
    text = (
        f"def adaptive_avg_pool_of_few<{sizes}, {taps}, T>(T(N, {extents}) input, T({sizes}) share)"
        f" -> (T(N, {sizes}) out) {{\n  " + "\n  ".join(statements) + "\n}"
    )
    made = _of_means(text, last)
    bound = {f"O{d}": n for d, n in enumerate(size)} | {f"K{d}": n for d, n in enumerate(most)}
    return made.with_generics(**bound)


def _spread(needs: int, d_out: Tensor, input: Tensor, share: Tensor) -> Any:
    """Return the gradient of means: each element has its share of the windows that hold it."""
    image, size = tuple(input.shape[1:]), tuple(share.shape)
    return _spreading(image, size)(d_out, share), None


def _spread_last(needs: int, d_out: Tensor, input: Tensor, share: Tensor) -> Any:
    """Return the same where channels lie last."""
    image, size = tuple(input.shape[1:-1]), tuple(share.shape)
    return _spreading(image, size, True)(d_out, share), None


def _gather(last: bool, needs: int, d_input: Tensor, share: Tensor) -> Any:
    """Return the gradient of shares, which are linear: means."""
    return _avg(share.ndim, tuple(share.shape), last)(d_input, share), None


@cache
def _spreading(image: tuple[int, ...], size: tuple[int, ...], last: bool = False) -> Op:
    """Return the op that gives elements their shares, one dimension after the other.

    Element h is in windows h O / H to (h O + O - 1) / H: one or two of them where there are no more
    windows than elements. The last dimension comes first, while all others are short. It looks its
    elements up by first + last in a table: the windows, each with its sum with the next behind it.
    """
    rank = len(image)
    windows = [f"o{d}" for d in range(rank)]
    sizes = [f"O{d}" for d in range(rank)]
    before, end = windows[:-1], rank - 1
    if 0 < size[end] <= image[end]:
        read = ", ".join([*before, f"min(j / 2 + k, O{end} - 1)"])
        statements = [
            f"t(n, {', '.join([*before, 'j'])}) +=! k <= j % 2 ? d_out(n, {read}) * share({read}) "
            f": 0 where j in 0 : 2 * O{end} - 1, k in 0:2",
            f"at(h) = int64(h) * O{end} / H{end} + (int64(h) * O{end} + O{end} - 1) / H{end} "
            f"where h in 0:H{end}",
            f"s{end}(n, {', '.join([*before, 'h'])}) = "
            f"t(n, {', '.join([*before, f'clamp(at(h), 0, 2 * O{end} - 2)'])})",
        ]
    else:
        read = ", ".join(windows)
        statements = [f"s{rank}(n, {read}) = d_out(n, {read}) * share({read})"]
        statements.append(_summed(rank, end))
    statements += [
        _at_most_two(rank, d) if size[d] <= image[d] else _summed(rank, d)
        for d in reversed(range(end))
    ]
    extents = [f"H{d}" for d in range(rank)]
    text = (
        f"def adaptive_avg_pool_spread<{', '.join(extents)}, T>(T(N, {', '.join(sizes)}) d_out, "
        f"T({', '.join(sizes)}) share) -> (T(N, {', '.join(extents)}) s0) {{\n  "
        + "\n  ".join(statements)
        + "\n}"
    )
    if last:
        text = with_channels_behind(text)
    made = op_of_text(text, vjp=partial(_gather, last), saves=("share",))
    return made.with_generics(**{f"H{d}": n for d, n in enumerate(image)})


def _parts(rank: int, d: int, *at: str) -> list[str]:
    """Return subscripts where dimensions up to d are of windows, those behind of elements."""
    before, behind = [f"o{i}" for i in range(d)], [f"h{i}" for i in range(d + 1, rank)]
    return [", ".join(["n", *before, here, *behind]) for here in at]


def _at_most_two(rank: int, d: int) -> str:
    """Return the statement that gives elements of a dimension what their windows have."""
    low, high = f"h{d} * O{d} / H{d}", f"(h{d} * O{d} + O{d} - 1) / H{d}"
    to, first, last = _parts(rank, d, f"h{d}", low, high)
    differ = f"{low} < {high}".replace(f"h{d}", f"int64(h{d})")  # as values they might wrap
    both = f"s{d + 1}({first}) + ({differ} ? s{d + 1}({last}) : 0)"
    return f"s{d}({to}) = {both} where h{d} in 0:H{d}"


def _summed(rank: int, d: int) -> str:
    """Return the same where windows are more than elements."""
    to, each = _parts(rank, d, f"h{d}", f"o{d}")
    there = f"o{d} in h{d} * O{d} / H{d} : (h{d} * O{d} + O{d} - 1) / H{d} + 1"
    return f"s{d}({to}) +=! s{d + 1}({each}) where h{d} in 0:H{d}, {there}"


@cache
def _max(windows: tuple[int, ...], size: tuple[int, ...]) -> Op:
    generics = {f"K{d + 1}": n for d, n in enumerate(windows)}
    generics |= {f"O{d + 1}": n for d, n in enumerate(size)}
    return _MAX[len(size)].with_generics(**generics)


@cache
@kept_for_all()
def _shares(image: tuple[int, ...], size: tuple[int, ...], dtype: DType) -> Tensor:
    """Return one over how many elements each window has."""
    empty(size, dtype)  # an error where there is no room for as many: they are counted below
    extents = [
        [-(-(i + 1) * n // o) - i * n // o for i in range(o)]
        for n, o in zip(image, size, strict=True)
    ]
    return shares(extents, dtype)


@dataclass(frozen=True)
class _Pool:
    """What is known of a pool of images of a shape: sizes, and windows of a plain pool like it."""

    size: tuple[int, ...]
    image: tuple[int, ...]
    windows: tuple[int, ...] | None
    rows: tuple[int, ...]
    outs: tuple[int, ...]


def _pool(rank: int, input: Tensor, output_size: Size) -> _Pool:
    try:
        return _known_pool(rank, input.shape, output_size)
    except TypeError:  # a list is no key
        return _known_pool.__wrapped__(rank, input.shape, output_size)


@lru_cache(maxsize=4096, typed=True)
def _known_pool(rank: int, shape: tuple[int, ...], output_size: Size) -> _Pool:
    size = _sizes(shape, output_size, rank)
    image, before = tuple(shape[-rank:]), tuple(shape[:-rank])
    rows = (math.prod(before), *image)
    return _Pool(size, image, _regular(image, size), rows, (*before, *size))


def _longest(extent: int, windows: int) -> int:
    """Return how many elements the largest of so many windows over an extent has.

    Window i is of floor(i n / o) to ceil((i + 1) n / o). The remainders of i n by o are all
    multiples of what o and n share, so the most is behind the last of these.
    """
    if not windows:
        return 1
    return -(-(extent + windows - math.gcd(extent, windows)) // windows)


def _ends(at: str, extent: str, windows: str) -> str:
    """Return the range of elements that one of so many windows has."""
    return f"{at} * {extent} / {windows} : (({at} + 1) * {extent} + {windows} - 1) / {windows}"


def _each_window(statement: str, windows: int) -> str:
    """Return a statement for each window of the last dimension: each of one range."""
    found = (f"{statement} where w in {_ends(str(x), 'W', str(windows))}" for x in range(windows))
    return "\n  ".join(line.format(x) for x, line in enumerate(found))


def _chosen(name: str, windows: int) -> str:
    """Return the value that the window x has."""
    ahead = (f"x == {x} ? {name.format(x)} : " for x in range(windows - 1))
    return "".join(ahead) + name.format(windows - 1)


def _of_long(text: str) -> Op:
    return op_of_text(text, vjp=put_back, saves=("like:input", "indices"))


@cache
def _max_of_rows(windows: int) -> Op:
    """Return the op of the greatest elements of long windows, so many of them, of rows."""
    return _of_long(f"""
def adaptive_max_of_rows<T>(T(N, W) input) -> (T(N, {windows}) out, int64(N, {windows}) indices) {{
  {_each_window("at{}(n) argmax=! input(n, w)", windows)}
  indices(n, x) = {_chosen("at{}(n)", windows)} where x in 0:{windows}
  out(n, x) = input(n, indices(n, x))
}}""")


@cache
def _max_of_long(windows: int) -> Op:
    """Return the op of the greatest elements of windows with long rows, so many side by side.

    All that reads all elements is the greatest of each row of a window. In which part of the depth
    the greatest of all is, then in which row of that, and where there, is found of these.
    """
    sizes = f"N, O1, O2, {windows}"
    return _of_long(f"""
def adaptive_max_of_long<O1, O2, T>(T(N, D, H, W) input)
    -> (T({sizes}) out, int64({sizes}) indices) {{
  {_each_window("row{}(n, d, h) max=! input(n, d, h, w)", windows)}
  row(n, d, h, x) = {_chosen("row{}(n, d, h)", windows)} where x in 0:{windows}
  part(n, d, y, x) max=! row(n, d, h, x) where y in 0:O2, h in {_ends("y", "H", "O2")}
  front(n, z, y, x) argmax=! part(n, d, y, x) where z in 0:O1, d in {_ends("z", "D", "O1")}
  top(n, z, y, x) argmax=! row(n, front(n, z, y, x), h, x) where h in {_ends("y", "H", "O2")}
  left(n, z, y, x) argmax=! input(n, front(n, z, y, x), top(n, z, y, x), w)
      where w in {_ends("x", "W", str(windows))}
  indices(n, z, y, x) = (front(n, z, y, x) * H + top(n, z, y, x)) * W + left(n, z, y, x)
  out(n, z, y, x) = input(n, front(n, z, y, x), top(n, z, y, x), left(n, z, y, x))
}}""")


@lru_cache(maxsize=4096)
def _max_of(rank: int, image: tuple[int, ...], size: tuple[int, ...]) -> tuple[Op, tuple[int, ...]]:
    """Return the op of the greatest elements, and the shape of the image that it takes."""
    if 0 < size[-1] <= _FEW and image[-1] // size[-1] >= _LONG:
        if rank == 1:
            return _max_of_rows(*size), image
        one = (1,) * (3 - rank)  # an image of depth 1
        outer = (one + size)[:2]
        return _max_of_long(size[-1]).with_generics(O1=outer[0], O2=outer[1]), one + image
    one = (1,) if rank == 1 else ()  # an image of height 1
    most = tuple(_longest(n, o) for n, o in zip(one + image, one + size, strict=True))
    return _max(most, one + size), one + image


@cache
def _max_last(image: tuple[int, ...], size: tuple[int, ...]) -> Op:
    """Return the op of the greatest elements of images whose channels lie last."""
    text = with_channels_behind(ops.text("adaptive_max_pool2d"))
    made = op_of_text(text, vjp=put_back_last, saves=("like:input", "indices"))
    most = (_longest(n, o) for n, o in zip(image, size, strict=True))
    generics = {f"K{d + 1}": n for d, n in enumerate(most)}
    return made.with_generics(**generics, **{f"O{d + 1}": n for d, n in enumerate(size)})


def _sizes(shape: tuple[int, ...], output_size: Size, rank: int) -> tuple[int, ...]:
    """Return the size of outputs; None is that of the image."""
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"adaptive_avg_pool{rank}d(): Expected {rank + 1}D or {rank + 2}D tensor, but got "
            f"{list(shape)}"
        )
    image = tuple(shape[-rank:])
    size = listed(output_size)
    sizes = (size,) * rank if isinstance(size, int | None) else tuple(size)
    if len(sizes) != rank:
        raise RuntimeError(f"adaptive_avg_pool{rank}d: output_size must be {rank}")
    found = tuple(n if o is None else operator.index(o) for n, o in zip(image, sizes, strict=True))
    if min(found) < 0:
        raise RuntimeError(
            "adaptive pool: elements of output_size must be greater than or equal to 0, but got "
            f"{list(found)}"
        )
    return found


def _regular(image: tuple[int, ...], size: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the windows of a plain pool that does the same."""
    if any(o == 0 or n % o for n, o in zip(image, size, strict=True)):
        return None
    return tuple(n // o for n, o in zip(image, size, strict=True))


def _node(name: str, rank: int) -> str:
    return "SqueezeBackward1" if rank == 1 else f"Adaptive{name}{rank}DBackward0"


def _adaptive_avg(rank: int, input: Tensor, output_size: Size) -> Tensor:
    check_floats("adaptive_avg_pool3d_cpu" if rank == 3 else "adaptive_avg_pool2d", input.dtype)
    p = _pool(rank, input, output_size)
    lies_last = input.ndim == rank + 2 and has_channels_last(input)
    if p.size == (1,) * rank and input.numel():
        if lies_last:
            places = channels_behind(input).flatten(1, -2)
            means = channels_second(places.mean(1).view(p.outs[0], *p.size, p.outs[1]))
            return made_by(means, "MeanBackward1")
        flat = input.reshape(*p.outs[:-rank], math.prod(p.image))
        name = "SqueezeBackward1" if rank == 1 else "MeanBackward1"
        return made_by(flat.mean(-1).view(p.outs), name)
    if p.windows is not None:
        pool = (pools.avg_pool1d, pools.avg_pool2d, pools.avg_pool3d)[rank - 1]
        return made_by(pool(input, p.windows), _node("AvgPool", rank))
    share = _shares(p.image, p.size, input.dtype)
    last = rank == 2 and lies_last  # of volumes PyTorch's are in C order
    few = _avg_of_few(p.image, p.size, last) if input.dtype in (float32, float64) else None
    x = channels_behind(input) if last else input.reshape(p.rows)
    found: Tensor = (few or _avg(rank, p.size, last))(x, share)
    made = channels_second(found) if last else found.view(p.outs)
    return made_by(made, _node("AvgPool", rank))


def _adaptive_max(rank: int, input: Tensor, output_size: Size, return_indices: bool) -> Any:
    check_floats("adaptive_max_pool3d_cpu" if rank == 3 else "adaptive_max_pool2d", input.dtype)
    p = _pool(rank, input, output_size)
    if p.windows is not None:
        pool = (pools.max_pool1d, pools.max_pool2d, pools.max_pool3d)[rank - 1]
        laid = input.contiguous() if rank == 3 else input  # PyTorch's are in C order
        found = pool(laid, p.windows, return_indices=return_indices)
        made_by(found[0] if return_indices else found, _node("MaxPool", rank))
        return found
    if rank == 2 and input.ndim == 4 and has_channels_last(input):
        out, at = (channels_second(t) for t in _max_last(p.image, p.size)(channels_behind(input)))
    else:
        op, image = _max_of(rank, p.image, p.size)
        flat_out, at = op(input.reshape((p.rows[0], *image)))
        out = flat_out.view(p.outs)
        if return_indices:
            at = at.view(p.outs)
    made = made_by(out, _node("MaxPool", rank))
    return (made, at) if return_indices else made


def adaptive_avg_pool1d(input: Tensor, output_size: Size) -> Tensor:
    """Return means of windows that share an image of one dimension.

    Parameters
    ----------
    input : Tensor, shape (N, C, L) or (C, L)
    output_size : int
    """
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Size) -> Tensor:
    """Return means of windows that share an image; None in a size is that of the image."""
    return _adaptive_avg(2, input, output_size)


@wide
def adaptive_avg_pool3d(input: Tensor, output_size: Size) -> Tensor:
    """Return means of windows that share an image of three dimensions."""
    return _adaptive_avg(3, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Size, return_indices: bool = False) -> Any:
    """Return the greatest elements of windows that share an image of one dimension."""
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Size, return_indices: bool = False) -> Any:
    """Return the greatest elements of windows that share an image, and where they are."""
    return _adaptive_max(2, input, output_size, return_indices)


@wide
def adaptive_max_pool3d(input: Tensor, output_size: Size, return_indices: bool = False) -> Any:
    """Return the greatest elements of windows that share an image of three dimensions."""
    return _adaptive_max(3, input, output_size, return_indices)
