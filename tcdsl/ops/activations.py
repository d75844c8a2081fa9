"""Activations, under the names and with the defaults of PyTorch's nn.functional."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from tcdsl.core import Op, Tensor, dtypes, made_by
from tcdsl.ops.arguments import free
from tcdsl.ops.casting import lower
from tcdsl.ops.internal import to
from tcdsl.ops.on_device import empty_beside
from tcdsl.ops.over import over
from tcdsl.ops.rules import floating, floats
from tcdsl.ops.spatial import without_rest
from tcdsl.ops.strides import Laid, Shape, Strides, in_c_order, strides_of_result
from tcdsl.ops.table import Family, op_of_text, publish
from tcdsl.ops.views import dim_of

ops = Family(__file__)

relu = ops.row("relu", text="each_relu", vjp="relu_vjp", inplace=True)
_threshold = ops.op("each_threshold", vjp="threshold_vjp")
_hardtanh = ops.op("each_hardtanh", vjp="hardtanh_vjp")
_elu = ops.op("each_elu", types=floats("elu_cpu"))
_celu = ops.op("celu", types=floats("elu_cpu"))
_leaky_relu = ops.op("each_leaky_relu", types=floats("leaky_relu_cpu"))
_not_above_0 = ops.op("not_above_0", vjp=None)
_rrelu = ops.op("rrelu", vjp="rrelu_vjp")
_prelu = ops.op("prelu")
_prelu_of_one = ops.op("prelu_of_one")
logsigmoid = ops.op("logsigmoid", types=floats("log_sigmoid_cpu"), layout=in_c_order)
_hardshrink = ops.op("hardshrink", types=floats("hardshrink_cpu"))
_softshrink = ops.op("softshrink", types=floats("softshrink_check"))
tanhshrink = ops.op("tanhshrink", types=floating)
softsign = ops.op("softsign", types=floating)
_softplus = ops.op("each_softplus", types=floats("softplus_cpu"))
_gelu_vjp = ops.op("each_gelu_vjp", vjp="each_gelu_vjp_vjp")
_gelu_slope = ops.op("gelu_slope", vjp="each_gelu_vjp_vjp")


def _back_of_gelu(needs: int, d_out: Tensor, input: Tensor) -> Tensor:
    op = _gelu_slope if input.dtype is dtypes.float32 else _gelu_vjp
    found: Tensor = op(input, d_out)
    return found


_gelu = ops.op("each_gelu", types=floats("GeluKernelImpl"), vjp=_back_of_gelu, saves=("input",))
_gelu_by_tanh = ops.op("gelu_by_tanh", types=floats("GeluKernelImpl"))
_silu = ops.op("each_silu", types=floats("silu_cpu"), vjp="each_silu_vjp")
_mish = ops.op("mish", types=floats("mish_cpu"))
_hardsigmoid = ops.op("hardsigmoid", types=floats("hardsigmoid_cpu"), vjp="hardsigmoid_vjp")
_hardswish = ops.op("hardswish", types=floats("hardswish_cpu"), vjp="hardswish_vjp")

_WRITTEN: dict[Op, Op] = {
    relu: relu.__dict__["inplace"],
    _threshold: ops.op("each_threshold", vjp="threshold_vjp", writes=True),
    _hardtanh: ops.op("each_hardtanh", vjp="hardtanh_vjp", writes=True),
    _elu: ops.op("each_elu", types=floats("elu_cpu"), writes=True),
    _celu: ops.op("celu", types=floats("elu_cpu"), writes=True),
    _leaky_relu: ops.op("each_leaky_relu", types=floats("leaky_relu_cpu"), writes=True),
    _silu: ops.op("each_silu", types=floats("silu_cpu"), vjp="each_silu_vjp", writes=True),
    _mish: ops.op("mish", types=floats("mish_cpu"), writes=True),
    _hardsigmoid: ops.op(
        "hardsigmoid", types=floats("hardsigmoid_cpu"), vjp="hardsigmoid_vjp", writes=True
    ),
    _hardswish: ops.op(
        "hardswish", types=floats("hardswish_cpu"), vjp="hardswish_vjp", writes=True
    ),
}


def _called(op: Op, input: Tensor, inplace: bool, *numbers: float) -> Tensor:
    made: Tensor = (_WRITTEN[op] if inplace else op)(input, *numbers)
    return made


def _rounded(input: Tensor, *numbers: float) -> tuple[float, ...]:
    """Return the numbers as they stand beside the input: beside integers, rounded towards zero."""
    return numbers if input.dtype.is_floating_point else tuple(int(number) for number in numbers)


@free
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Put a value where elements are not above a threshold."""
    return _called(_threshold, input, inplace, *_rounded(input, threshold, value))


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Bring elements between two numbers; there is no gradient at the ends."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _called(_hardtanh, input, inplace, *_rounded(input, min_val, max_val))


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Bring elements between 0 and 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``alpha * (exp(x) - 1)`` where x is not above 0, else x."""
    return _called(_elu, input, inplace, alpha, 1.0)


@free
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the elu that keeps mean 0 and variance 1.

    References
    ----------
    Klambauer et al. 2017, Self-Normalizing Neural Networks, for both numbers.
    """
    return _called(_elu, input, inplace, 1.6732632423543772, 1.0507009873554805)


@free
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return ``alpha * (exp(x / alpha) - 1)`` where x is not above 0, else x."""
    return _called(_celu, input, inplace, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Multiply what is not above 0 by a slope."""
    return _called(_leaky_relu, input, inplace, negative_slope)


@free
def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Multiply what is not above 0 by a slope, in training by one drawn for each element."""
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    count = int(_not_above_0(input.detach()).item())
    if count:
        drawn = to(
            empty_beside(input, (count,), dtypes.float64).uniform_(lower, upper), input.dtype
        )
        out = _rrelu(input.reshape(-1), drawn)[0].view(input.shape)
    else:
        out = input.clone()
    made = made_by(out, "RreluWithNoiseBackward0")
    return input.copy_(made) if inplace else made


@cache
def _prelu_of_rows() -> Op:
    return op_of_text(without_rest(ops.text("prelu")))


@free
@lower
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Multiply what is not above 0 by the slope of its channel.

    Parameters
    ----------
    input : Tensor, shape (N, C, ...)
    weight : Tensor, shape (C,) or (1,)
    """
    if weight.numel() == 1:
        made: Tensor = _prelu_of_one(input, weight.reshape(1))
        return made
    if input.ndim < 2 or input.shape[1] != weight.numel():
        got = input.shape[1] if input.ndim > 1 else 1
        raise RuntimeError(
            f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{weight.numel()} and channel size = {got}."
        )
    if input.ndim == 2:
        return _prelu_of_rows()(input, weight)  # type: ignore[no-any-return]
    shape = tuple(input.shape)
    made = _prelu(input.reshape(shape[0], shape[1], math.prod(shape[2:])), weight)
    return made.view(*shape)  # type: ignore[no-any-return]


@cache
def _glu(rank: int, dim: int) -> Op:
    text = f"{ops.text('glu')}\n{ops.text('glu_vjp')}"

    def order(shape: Shape, operands: Sequence[Laid]) -> Strides | None:
        strides = operands[0].strides  # a half lies as both do
        return strides_of_result(shape, [Laid(shape, strides[:dim] + strides[dim + 1 :])])

    made = over(text, rank, (dim,))
    return op_of_text(made, types=floats("glu_cpu"), vjp="glu_vjp", order=order)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return half of a dimension, by the sigmoid of the other half."""
    at = dim_of(dim, input.ndim)
    shape = input.shape
    half, odd = divmod(shape[at], 2)
    if odd:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {at} is size {shape[at]}"
        )
    halves = input.view(*shape[:at], 2, half, *shape[at + 1 :])
    return _glu(len(shape) + 1, at)(halves)  # type: ignore[no-any-return]


@free
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Put 0 where elements are between -lambd and lambd."""
    made: Tensor = _hardshrink(input, lambd)
    return made


@free
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Bring elements nearer to 0 by lambd, and no farther than 0."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    made: Tensor = _softshrink(input, lambd)
    return made


@free
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Return ``log(1 + exp(beta * x)) / beta``, or x where ``beta * x`` is above a threshold."""
    made: Tensor = _softplus(input, beta, threshold)
    return made


@free
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return x times the normal distribution's share below x, or an approximation by tanh."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    made: Tensor = (_gelu if approximate == "none" else _gelu_by_tanh)(input)
    return made


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x times its sigmoid."""
    return _called(_silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x times the tanh of its softplus."""
    return _called(_mish, input, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``x / 6 + 1 / 2`` between 0 and 1."""
    return _called(_hardsigmoid, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x times its hardsigmoid."""
    return _called(_hardswish, input, inplace)


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def written(input: Tensor, *args: Any, **named: Any) -> Tensor:
        return function(input, *args, **named, inplace=True)

    written.__name__ = written.__qualname__ = f"{function.__name__}_"
    written.__doc__ = f"{function.__name__}, in place."
    return free(written)


threshold_ = _in_place(threshold)
hardtanh_ = _in_place(hardtanh)
relu6_ = _in_place(relu6)
elu_ = _in_place(elu)
selu_ = _in_place(selu)
celu_ = _in_place(celu)
leaky_relu_ = _in_place(leaky_relu)
rrelu_ = _in_place(rrelu)
relu_ = relu.__dict__["inplace"]

for made in (prelu, selu, celu, rrelu, threshold, threshold_, selu_, celu_, rrelu_):
    publish(made, (made.__name__,), on=("torch",))
publish(prelu, ("prelu",), on=("Tensor",))
