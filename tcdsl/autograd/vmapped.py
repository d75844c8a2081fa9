"""`vmap`: a function over a batch of what it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tcdsl.autograd.trees import filled, leaves
from tcdsl.chance.generator import default_generator
from tcdsl.core import Tensor
from tcdsl.ops.arranged import movedim
from tcdsl.ops.joins import stack

__all__ = ["vmap"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies a function to each element of a batch.

    The function is called once for each element, and what it gives is stacked: right for every
    function, and no faster than a loop. Operations over leading dimensions are faster where a
    function can be written so.

    Parameters
    ----------
    func : callable
        Of Tensors, or containers of them; gives Tensors or containers of them.
    in_dims : int, None, or containers of them as the arguments are
        The dimension of the batch; None: all elements share the argument.
    out_dims : int, None, or a container of them as the outputs are
        Where results have the batch; None: a result that is the same for all elements, alone.
    randomness : {"error", "different", "same"}
        Whether the function may draw: each element other numbers, or all the same.
    chunk_size : int, optional
        Taken: elements are computed one by one.

    Raises
    ------
    ValueError
        If no argument has a batch, sizes of batches differ, or a result without a batch does.
    RuntimeError
        If the function draws random numbers, unless `randomness` says how.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )

    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        given = leaves(args)
        dims = _spread(in_dims, args if not isinstance(in_dims, int) else None, len(given))
        size = _size(given, dims)
        made, form = [], None
        begin = default_generator.get_state()
        for i in range(size or 1):
            if randomness == "same":
                default_generator.set_state(begin)
            each = [
                x if d is None else x.select(d, i) if size else _element(x, d)
                for x, d in zip(given, dims, strict=True)
            ]
            form = func(*filled(args, each), **kwargs)
            made.append(leaves(form))
        if not size or randomness == "error":
            drew = not _same(begin, default_generator.get_state())
            default_generator.set_state(begin)
        if randomness == "error" and drew:
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap"
            )
        places = _spread(out_dims, form if not isinstance(out_dims, int) else None, len(made[0]))
        columns = [_joined([row[n] for row in made], place, size) for n, place in enumerate(places)]
        return filled(form, columns)

    def _joined(column: list[Any], place: int | None, size: int) -> Any:
        """Return what the elements of a batch gave as one result."""
        if place is None:
            if isinstance(column[0], Tensor) and not all(_same(column[0], c) for c in column[1:]):
                raise ValueError(
                    f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor "
                    "when out_dim is None"
                )
            return column[0]
        if not isinstance(column[0], Tensor):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type "
                f"{type(column[0])}. Did you mean to set out_dims= to None for output?"
            )
        return movedim(stack(column, 0).narrow(0, 0, size), 0, place)

    def _size(given: list[Any], dims: list[Any]) -> int:
        sizes = []
        for x, d in zip(given, dims, strict=True):
            if d is None:
                continue
            if not isinstance(x, Tensor):
                raise ValueError(
                    f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an "
                    f"input but the input is of type {type(x)}. We cannot vmap over non-Tensor "
                    "arguments, please use None as the respective in_dim"
                )
            if not -x.ndim <= d < x.ndim:
                raise ValueError(
                    f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for "
                    f"some input, but that input is a Tensor of dimensionality {x.ndim} so "
                    f"expected in_dim to satisfy -{x.ndim} <= in_dim < {x.ndim}."
                )
            sizes.append(x.shape[d])
        if not sizes:
            raise ValueError(
                f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): at least one input must "
                "have a dimension that is mapped over"
            )
        if len(set(sizes)) > 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sizes} for the mapped dimension"
            )
        return int(sizes[0])

    return batched


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


def _element(x: Tensor, dim: int) -> Tensor:
    """Return an element of an empty batch: what the function makes of it has the results' form."""
    shape = list(x.shape)
    del shape[dim]
    return x.detach().new_zeros(shape)


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same; NaN is the same as NaN."""
    if a is b:
        return True
    a, b = a.detach(), b.detach()
    return a.shape == b.shape and bool(a.eq(b).logical_or(a.ne(a).logical_and(b.ne(b))).all())


def _spread(dims: Any, tree: Any, count: int) -> list[Any]:
    """Return a dimension for each leaf of a container: each stands for all that is below it."""
    if dims is None or isinstance(dims, int):
        if tree is None:
            return [dims] * count
        return [dims] * len(leaves(tree))
    if isinstance(dims, dict):
        pairs = [(dims[k], v) for k, v in tree.items()]
    else:
        if (
            not isinstance(dims, list | tuple)
            or not isinstance(tree, list | tuple)
            or len(dims) != len(tree)
        ):
            raise ValueError(
                "vmap: in_dims and out_dims are a number, or as the arguments and the results are"
            )
        pairs = list(zip(dims, tree, strict=True))
    return [d for below, part in pairs for d in _spread(below, part, 0)]
