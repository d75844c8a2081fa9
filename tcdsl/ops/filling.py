"""Fillings: numbers that follow from where an element is, or from chance. None has a gradient."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from tcdsl.chance.generator import Generator, source_of
from tcdsl.core import Tensor, fresh, is_grad_enabled, made_by
from tcdsl.core.dtypes import float32
from tcdsl.ops import drawing
from tcdsl.ops.node_names import node_name
from tcdsl.ops.on_device import META
from tcdsl.ops.ranges_of_chance import low_and_count, span
from tcdsl.ops.rules import first, not_for, number_of_type
from tcdsl.ops.strides import order_of_strides
from tcdsl.ops.table import Family, op_of_text, publish
from tcdsl.ops.underived import underived
from tcdsl.ops.writing import check_unrecorded

ops = Family(__file__)
_FEW = 4096  # elements


def _filling(name: str) -> Any:
    return ops.op(name, types=first, vjp=None, writes=True)


_fill = ops.op("fill", types=first, writes=True)
zero_ = ops.op("zero", types=first, writes=True)
arange = _filling("arange")
arange_of_integers = _filling("arange_of_integers")
linspace = _filling("linspace")
logspace = _filling("logspace")
eye = _filling("eye")
_lower_triangle = _filling("lower_triangle")
_upper_triangle = _filling("upper_triangle")
rectangle = _filling("rectangle")


@cache
def triangle(name: str, is_small: bool) -> Any:
    """Return the op `lower_triangle` or `upper_triangle`, in float32 where roots are below 2^23.

    Twice as many fit in a vector, and roots of what is no square are still apart from integers.
    """
    if not is_small:
        return _lower_triangle if name == "lower_triangle" else _upper_triangle
    text = ops.text(name).replace("float64", "float32")
    return op_of_text(text, types=first, vjp=None, writes=True)


_uniform = _filling("uniform")
_normal = _filling("normal")
_exponential = _filling("exponential")
_cauchy = _filling("cauchy")
_geometric = _filling("geometric")
_bernoulli = _filling("bernoulli")
_bernoulli_of_number = _filling("bernoulli_of_number")
_integers = _filling("integers")
_are_chances = ops.op("are_chances", vjp=None)


def fill_(input: Tensor, value: Any) -> Tensor:
    """Write one number, of Python's or a tensor's of rank 0, into all elements."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value.ndim} dimensions."
            )
        return input.copy_(value)
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(f"fill_(): argument 'value' must be Number, not {type(value).__name__}")
    filled: Tensor = _fill(input, number_of_type(input.dtype, value))
    return filled


def fill_diagonal_(input: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Fill the places at which all subscripts are the same, in place.

    Parameters
    ----------
    input : Tensor, of two dimensions or more
        More than two have to be of one length.
    fill_value : number
    wrap : bool
        Whether the diagonal of a matrix of more rows than columns begins again below it, one row
        being left out.
    """
    if input.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if input.ndim > 2:
        if len(set(input.shape)) > 1:
            raise RuntimeError("all dimensions of input must be of equal length")
        step = sum(input.stride())
        input.as_strided((input.shape[0],), (step,), input.storage_offset()).fill_(fill_value)
        return input
    input.diagonal().fill_(fill_value)
    if wrap:
        rows, columns = input.shape
        for begin in range(columns + 1, rows, columns + 1):
            input[begin : begin + columns].diagonal().fill_(fill_value)
    return input


def flat(tensor: Tensor) -> Tensor | None:
    """Return a tensor's memory as one dimension; None if its elements do not lie in a row."""
    return tensor.view(tensor.numel()) if tensor.is_contiguous() else None


def _drawn(
    tensor: Tensor, make: Any, op: Any, *settings: Any, generator: Generator | None = None
) -> Tensor:
    """Fill a tensor with numbers of chance.

    On a CPU `make` fills a row with those of a generator's words, in the order of the tensor's
    memory. On a GPU `op` does: element i has the number i of a fresh seed.
    """
    if tensor._device == META:
        return tensor
    if tensor.requires_grad and is_grad_enabled():  # nothing of what was there goes on
        fresh = empty_in_memory(tensor)
        drawn = tensor.copy_(_drawn(fresh, make, op, *settings, generator=generator))
        return made_by(drawn, node_name(make.__name__.partition("_one")[0]))
    source = source_of(generator)
    if tensor._device:
        return _drawn_there(tensor, op, source.draw_seed(), settings)
    if tensor.is_contiguous():
        row = tensor if tensor.ndim == 1 else tensor.view(tensor.numel())
        make(row if tensor.requires_grad else row.detach(), source, *settings)
        return tensor
    order = in_memory(tensor)
    there = tensor.permute(order)
    made = tensor.new_empty(there.shape)
    make(flat(made), source, *settings)
    back = sorted(range(len(order)), key=order.__getitem__)
    return tensor.copy_(made.permute(back))


def _drawn_there(tensor: Tensor, op: Any, seed: int, settings: Any) -> Tensor:
    row = flat(tensor)
    if row is not None:
        op(row.detach() if not tensor.requires_grad else row, seed, *settings)
        return tensor
    made = tensor.new_empty(tensor.shape)
    op(flat(made), seed, *settings)
    return tensor.copy_(made)


def in_memory(tensor: Tensor) -> list[int]:
    """Return a tensor's dimensions as they lie in memory, the one of the longest stride first.

    One that is repeated, of stride 0, stays where it stands among the others, as in PyTorch.
    """
    strides = tensor.stride()
    if any(stride == 0 and n != 1 for stride, n in zip(strides, tensor.shape, strict=True)):
        return list(order_of_strides(strides))
    return sorted(range(tensor.ndim), key=lambda d: -strides[d] if tensor.shape[d] != 1 else 0)


def empty_in_memory(tensor: Tensor) -> Tensor:
    """Return memory of a tensor's shape, whose elements lie in the order of its own."""
    order = in_memory(tensor)
    made = tensor.new_empty([tensor.shape[d] for d in order])
    return made.permute(sorted(range(len(order)), key=order.__getitem__))


def _check_order(name: str, low: float, high: float) -> None:
    if not low <= high:
        raise RuntimeError(
            f"{name} expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )


def _floating(name: str, tensor: Tensor) -> None:
    if not tensor.dtype.is_floating_point:
        raise not_for(name, tensor.dtype)


def uniform_(
    input: Tensor, a: float = 0, b: float = 1, *, generator: Generator | None = None, **named: Any
) -> Tensor:
    """Fill with numbers that are uniform in [from, to); `from` and `to` may come by name."""
    if named:
        a, b = named.pop("from", a), named.pop("to", b)
        if named:
            raise TypeError(f"uniform_() got an unexpected keyword argument '{next(iter(named))}'")
    low, high = float(a), float(b)
    _floating("check_uniform_bounds", input)
    _check_order("uniform_", low, high)
    return _drawn(input, drawing.uniform, _uniform, low, high, generator=generator)


def _is_few(tensor: Tensor) -> bool:
    """Whether numbers are sooner drawn and copied than drawn in their places."""
    return (
        tensor.dtype is float32
        and tensor.numel() <= _FEW
        and tensor.is_contiguous()
        and not tensor.requires_grad
        and not tensor._device
    )


def normal_(
    input: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers that are normal of a mean and a standard deviation."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    _floating("normal_kernel_cpu", input)
    if _is_few(input):
        source = source_of(generator)
        if input.numel() >= 16:
            row = input if input.ndim == 1 else input.view(-1)
            drawing.normal(row, source, float(mean), float(std))
            return input
        drawn = drawing.new_normal(tuple(input.shape), source, float(mean), float(std))
        if drawn is not None:
            return input.copy_(drawn)
    in_groups = input.numel() >= 16 and input.is_contiguous()
    make = drawing.normal if in_groups else drawing.normal_one_by_one
    return _drawn(input, make, _normal, float(mean), float(std), generator=generator)


def exponential_(input: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of the density ``lambd exp(-lambd x)``."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    _floating("exponential_", input)
    return _drawn(input, drawing.exponential, _exponential, float(lambd), generator=generator)


def cauchy_(
    input: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers of Cauchy's distribution."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    _floating("cauchy_", input)
    settings = float(median), float(sigma)
    return _drawn(input, drawing.cauchy, _cauchy, *settings, generator=generator)


def log_normal_(
    input: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers whose logarithm is normal."""
    if input._device:
        return normal_(input, mean, std, generator=generator).exp_()
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    _floating("log_normal_", input)
    settings = float(mean), float(std)
    return _drawn(input, drawing.log_normal, None, *settings, generator=generator)


def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials until the first success of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _drawn(input, drawing.geometric, _geometric, float(p), generator=generator)


def spaced(row: Tensor, low: float, high: float) -> None:
    """Fill a row with numbers at equal distances, both ends among them."""
    linspace(row, *_steps(low, high, max(row.shape[0] - 1, 1), row.dtype is float32))


@lru_cache
def _steps(low: float, high: float, gaps: int, is_float32: bool) -> tuple[float, float, float]:
    """Return both ends and the distance between neighbours."""
    if not is_float32:
        return low, high, (high - low) / gaps
    first, last = np.float32(low), np.float32(high)  # as PyTorch computes it there
    return float(first), float(last), float((last - first) / np.float32(gaps))


def bernoulli_(
    input: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None
) -> Tensor:
    """Fill with 1 by probability p, which may be a tensor of the same shape, else 0."""
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        make = drawing.bernoulli_of_number
        return _drawn(input, make, _bernoulli_of_number, float(p), generator=generator)
    p = p.detach()
    if not _are_chances(p).item():
        raise RuntimeError(
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message "
            "be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    source = source_of(generator)
    if not input._device and input.shape == p.shape and input.is_contiguous():
        drawing.bernoulli(input.view(-1), source, p.reshape(-1))
        return input
    order = in_memory(input)
    made = empty_in_memory(input)
    row, chances = (t.permute(order).reshape(-1) for t in (made, p.expand(input.shape)))
    if input._device:
        _bernoulli(row, chances, source.draw_seed())
    else:
        drawing.bernoulli(row, source, chances)
    return input.copy_(made)


def bernoulli(
    input: Tensor,
    p: float | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return 1 by the probability that each element is, or by p for all; else 0.

    ``out``, of any type, is given that instead, in the shape of the input.
    """
    if out is not None:
        check_unrecorded("bernoulli", (input, out))
        if out.shape != input.shape:
            out.resize_(input.shape)
        return bernoulli_(out, input if p is None else p, generator=generator)
    if p is not None:
        made = bernoulli_(empty_in_memory(input.detach()), p, generator=generator)
    else:
        _floating("bernoulli_tensor_cpu_p_", input)
        made = bernoulli_(input.new_empty(input.shape), input, generator=generator)
    fresh(made)
    if p is not None:
        underived("bernoulli", (input,), (made,))
    return made


_NOT_GIVEN = "not given"


def random_(
    input: Tensor,
    a: int | None = None,
    b: int | str | None = _NOT_GIVEN,
    *,
    generator: Generator | None = None,
    **named: Any,
) -> Tensor:
    """Fill with integers in [from, to); with one number below it, with none of all of the type.

    A `to` of None is behind the last of the type.
    """
    low, high = named.pop("from", a), named.pop("to", b)
    if named:
        raise TypeError(f"random_() got an unexpected keyword argument '{next(iter(named))}'")
    if low is None and high in (None, _NOT_GIVEN):
        count = span(input.dtype)
        if input._device:
            return _drawn(input, None, _integers, 0, count - 1, generator=generator)
        return _drawn(input, drawing.integers_of_type, None, count, generator=generator)
    if high is _NOT_GIVEN:
        low, high = 0, low
    low, count = low_and_count(input.dtype, int(low or 0), None if high is None else int(high))
    return _drawn(input, drawing.integers, _integers, low, count, generator=generator)


for _function in (
    fill_,
    fill_diagonal_,
    uniform_,
    normal_,
    exponential_,
    cauchy_,
    log_normal_,
    geometric_,
    bernoulli_,
    random_,
):
    publish(_function, (_function.__name__,), on=("Tensor",))
publish(zero_, ("zero_",), on=("Tensor",))
publish(bernoulli, ("bernoulli",))
