"""Parts of tensors as views: by subscripts, lengths and places; gradients are spread into zeros."""

from __future__ import annotations

import operator
from functools import cache, partial
from typing import Any

from tcdsl.core import FORM, Op, Tensor, is_grad_enabled
from tcdsl.ops.internal import copy_, zeros
from tcdsl.ops.table import op_of_text, publish
from tcdsl.ops.view_writes import write_view
from tcdsl.ops.views import ARGUMENTS, dim_of, unsqueeze, viewed


def _spread(dim: int, start: int, n: int, gradient: Tensor) -> Tensor:
    """Return a gradient with zeros for the elements that a part has not."""
    found: Tensor = _spreading(gradient.ndim, dim)(gradient, start, n)
    return found


@cache
def _spreading(rank: int, dim: int) -> Op:
    sizes = ", ".join(f"D{d}" for d in range(rank))
    grown = ", ".join("n" if d == dim else f"D{d}" for d in range(rank))
    index = ", ".join(f"i{d}" for d in range(rank))
    read = ", ".join(f"i{d} - start" if d == dim else f"i{d}" for d in range(rank))
    return op_of_text(
        f"def spread<T>(T({sizes}) g, int64 start, int64 n) -> (T({grown}) out) "
        f"{{ out({index}) = pad(g({read}), 0) where i{dim} in 0:n }}",
        vjp=partial(_unspread, dim),
        saves=("like:g", "start"),
    )


def _unspread(dim: int, needs: int, gradient: Tensor, part: Tensor, start: int) -> Any:
    return narrow(gradient, dim, start, part.shape[dim]), None, None


def of_part(gradient: Tensor, form: Tensor, arguments: tuple[Any, ...]) -> Tensor:
    """Return the gradient of a tensor by that of a part, which a plain subscript has chosen."""
    key = arguments[0] if isinstance(arguments[0], tuple) else arguments
    at = key.index(Ellipsis) if Ellipsis in key else len(key)
    named = sum(e is not None for e in key) - (at < len(key))
    listed = [*key[:at], *(slice(None),) * (form.ndim - named), *key[at + 1 :]]
    cut: list[tuple[int, int]] = []  # dimensions and where parts of them begin
    is_single = None not in listed
    for dim, e in enumerate(e for e in listed if e is not None):
        n = form.shape[dim]
        start, stop, step = e.indices(n) if isinstance(e, slice) else (e % n, n, 1)
        if isinstance(e, int) or step != 1 or stop - start != n:
            cut.append((dim, start))
            is_single = is_single and step == 1
    if is_single and len(cut) == 1:
        ((dim, start),) = cut
        part = unsqueeze(gradient, dim) if isinstance(listed[dim], int) else gradient
        return _spread(dim, start, form.shape[dim], part)
    whole: Tensor = zeros(form)
    written_into(subscript(whole, tuple(listed)), gradient)
    return whole


def written_into(part: Tensor, gradient: Tensor) -> None:
    """Write a gradient into a view of zeros, which are a function of it where that is recorded."""
    if is_grad_enabled() and gradient.requires_grad:
        write_view(part, gradient)
    else:
        copy_(part, gradient)


@viewed("SliceBackward0", "subscripted", of_part, FORM, ARGUMENTS)
def subscript(input: Tensor, key: Any) -> Tensor:
    """Return the part at a subscript of numbers, slices, None and `...`."""
    raise TypeError(f"{key!r} is no subscript that a view has")


def slice_(input: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """Return the elements from start to stop of a dimension, both within it, each step-th."""
    return subscript(input, (slice(None),) * dim_of(dim, input.ndim) + (slice(start, stop, step),))


def _narrowed(gradient: Tensor, form: Tensor, arguments: tuple[Any, ...]) -> Tensor:
    dim, start, _ = arguments
    dim = dim_of(dim, form.ndim)
    n = form.shape[dim]
    return _spread(dim, start + n if start < 0 else start, n, gradient)


@viewed("SliceBackward0", "narrowed", _narrowed, FORM, ARGUMENTS)
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return length elements of a dimension, from start on."""
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    dim, start, length = dim_of(dim, input.ndim), operator.index(start), operator.index(length)
    n = input.shape[dim]
    first = start + n if start < 0 else start
    if not 0 <= first <= n:
        raise IndexError(
            f"start out of range (expected to be in range of [{-n}, {n}], but got {start})"
        )
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if first + length > n:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({n}).")
    return narrow(input, dim, int(first), int(length))


def _selected(gradient: Tensor, form: Tensor, arguments: tuple[Any, ...]) -> Tensor:
    dim, index = arguments
    dim = dim_of(dim, form.ndim)
    n = form.shape[dim]
    return _spread(dim, index % n, n, unsqueeze(gradient, dim))


@viewed("SelectBackward0", "selected", _selected, FORM, ARGUMENTS)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Return the part at one place of a dimension, without that dimension."""
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim, index = dim_of(dim, input.ndim), int(operator.index(index))
    n = input.shape[dim]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at "
            f"dimension {dim}"
        )
    return select(input, dim, index)


def _is_plain(input: Tensor, *arguments: int) -> Tensor:
    raise AssertionError("parts are asked for by plain numbers")


# Of one call that gives several views: its parts, which PyTorch does not let be written to.
split_part, sized_part = (
    viewed(f"{name}Backward0", "narrowed", _narrowed, FORM, ARGUMENTS, several=True)(_is_plain)
    for name in ("Split", "SplitWithSizes")
)
unbound = viewed("UnbindBackward0", "selected", _selected, FORM, ARGUMENTS, several=True)(_is_plain)

publish(narrow, ("narrow",))
publish(select, ("select",))
publish(slice_, ("slice",), ("Tensor",))
