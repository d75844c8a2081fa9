"""Images and volumes read at other places, under PyTorch's names and defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache

from tcdsl.core import Op, Tensor
from tcdsl.ops.casting import wide
from tcdsl.ops.table import Family, op_of_text

ops = Family(__file__)
_INT32 = 2**31
_affine = {4: ops.op("each_affine_grid"), 5: ops.op("each_affine_volume")}
_EDGES = {"zeros": 0, "border": 1, "reflection": 2}
_TEXTS = {
    ("bilinear", 4): ("scaled", "inside", "places", "element", "sample_linear"),
    ("nearest", 4): ("scaled", "inside", "places", "element", "sample_nearest"),
    ("bicubic", 4): ("scaled", "inside", "cubic", "sample_cubic"),
    ("bilinear", 5): ("scaled", "inside", "places", "volume_linear"),
    ("nearest", 5): ("scaled", "inside", "places", "volume_nearest"),
}


@wide
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Read images or volumes at places from -1 to 1.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (N, C, D, H, W)
    grid : Tensor, shape (N, HO, WO, 2) or (N, DO, HO, WO, 3)
        Places as (x, y) or (x, y, z).
    mode : {"bilinear", "nearest", "bicubic"}
        The last of images only.
    padding_mode : {"zeros", "border", "reflection"}
        What places outside read.
    align_corners : bool
        Whether -1 and 1 are the middles of the outer elements, not their outer sides.

    Returns
    -------
    Tensor, shape (N, C, HO, WO) or (N, C, DO, HO, WO)
    """
    edge = _EDGES.get(padding_mode)
    if edge is None:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    shape, places = input.shape, grid.shape
    op, image = _known(mode, edge, bool(align_corners), shape, places)
    if len(shape) == 4:
        return op(input.flatten(2), grid, *image)  # type: ignore[no-any-return]
    made = op(input.flatten(2), grid.flatten(1, -2), *image)
    return made.unflatten(2, places[1:-1])  # type: ignore[no-any-return]


@lru_cache(maxsize=4096)
def _known(
    mode: str, edge: int, align: bool, shape: tuple[int, ...], places: tuple[int, ...]
) -> tuple[Op, tuple[int, ...]]:
    """Return the op for images and a grid of these shapes, and the images' sizes."""
    _check(list(shape), list(places), mode)
    image = tuple(shape[2:])
    return _sample(mode, len(shape), edge, align, math.prod(image) < _INT32), image


def _check(shape: list[int], places: list[int], mode: str) -> None:
    """Refuse shapes that do not go together."""
    rank = len(shape)
    if rank not in (4, 5) or len(places) != rank:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got input with sizes {shape} and grid with sizes {places}"
        )
    if places[0] != shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {shape} and grid with sizes {places}"
        )
    if places[-1] != rank - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {rank - 2} in last dimension, but "
            f"got grid with sizes {places}"
        )
    for d, n in enumerate(shape[2:], 2):
        if not n:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {shape} with dimension {d} being empty"
            )
    if mode == "bicubic" and rank == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


@cache
def _sample(mode: str, rank: int, edge: int, align: bool, is_narrow: bool) -> Op:
    """Return the op that reads images; of huge ones, elements are counted in 64 bits."""
    names = _TEXTS[mode, rank]
    text = "\n".join(map(ops.text, names))
    wide = text if is_narrow else text.replace("int32(", "int64(")
    made = op_of_text(wide, names[-1], node=f"GridSampler{rank - 2}DBackward0")
    return made.with_generics(ALIGN=int(align), EDGE=edge)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the places that affine maps give an image's or a volume's elements.

    Parameters
    ----------
    theta : Tensor, shape (N, 2, 3) or (N, 3, 4)
    size : sequence of int
        N, C, H and W of the image; N, C, D, H and W of the volume.
    align_corners : bool

    Returns
    -------
    Tensor, shape (N, H, W, 2) or (N, D, H, W, 3)
    """
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in _affine:
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    rank = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[-2:]) != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size "
            f"{size}. Got {theta.shape}."
        )
    extents = dict(zip("DHW"[-rank:], size[2:], strict=True))
    made: Tensor = _affine[len(size)](theta, ALIGN=int(bool(align_corners)), **extents)
    return made
