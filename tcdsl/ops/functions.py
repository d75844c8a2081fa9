"""Further numbers made of numbers, element by element."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Tensor, empty, made_by
from tcdsl.core.dtypes import DType, bool_, float64, int64
from tcdsl.ops import pointwise
from tcdsl.ops.clamping import clamp, clamp_
from tcdsl.ops.internal import filled
from tcdsl.ops.pointwise import mul, sub
from tcdsl.ops.powers import pow
from tcdsl.ops.results import result
from tcdsl.ops.rules import broadcast, floating, promote
from tcdsl.ops.table import Family, in_place, publish

ops = Family(__file__)

# What types hold: the largest finite number, and the least.
LIMITS = {
    "float16": (65504.0, -65504.0),
    "bfloat16": (3.3895313892515355e38, -3.3895313892515355e38),
    "float32": (3.4028234663852886e38, -3.4028234663852886e38),
    "float64": (1.7976931348623157e308, -1.7976931348623157e308),
}

angle = ops.row("angle", types=floating)
exp2 = ops.row("exp2", text="each_exp2", types=floating, inplace=True)
lgamma = pointwise.ops.row("lgamma", text="each_lgamma", types=floating, inplace=True)
digamma = ops.row("digamma", text="each_digamma", types=floating, inplace=True)
trigamma = ops.op("each_trigamma", types=floating)
i0 = ops.row("i0", text="each_i0", types=floating, inplace=True)
i0e, i1 = ops.op("each_i0e", types=floating), ops.op("each_i1", types=floating)
i1e = ops.op("each_i1e", types=floating)
entr = ops.op("entr", types=floating, vjp="entr_vjp")
deg2rad = ops.row("deg2rad", types=floating, inplace=True)
rad2deg = ops.row("rad2deg", types=floating, inplace=True)
sinc = ops.row("sinc", types=floating, vjp="sinc_vjp", inplace=True)
logaddexp = ops.row("logaddexp", text="each_logaddexp", types=promote, shape=broadcast)
xlogy = ops.row("xlogy", types=floating, shape=broadcast, inplace=True)
xlog1py = ops.op("xlog1py", types=floating, shape=broadcast)
hypot = ops.row("hypot", text="each_hypot", types=promote, shape=broadcast, inplace=True)
copysign = ops.row("copysign", text="each_copysign", types=floating, shape=broadcast, inplace=True)
fmax = ops.row("fmax", text="each_fmax", integers="fmax_integers", types=promote, shape=broadcast)
fmin = ops.row("fmin", text="each_fmin", integers="fmin_integers", types=promote, shape=broadcast)
_heaviside = ops.op("heaviside", shape=broadcast, vjp=None)
signbit = ops.row("signbit", integers="signbit_integers", vjp=None)
isposinf = ops.row("isposinf", vjp=None)
isneginf = ops.row("isneginf", vjp=None)
_logit = ops.op("logit", types=floating, vjp="logit_vjp")
_nan_to_num = ops.op("nan_to_num", vjp="nan_to_num_vjp")
nextafter = ops.row(
    "nextafter", text="each_nextafter", types=promote, shape=broadcast, vjp=None, inplace=True
)
_frexp = ops.op("each_frexp", vjp="frexp_vjp")
Parts = result("frexp", "mantissa", "exponent")


def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """Return ``log2(2 ** input + 2 ** other)``."""
    natural = 0.6931471805599453
    made: Tensor = logaddexp(mul(input, natural), mul(other, natural)) / natural
    return made


def frexp(input: Tensor) -> Any:
    """Return m and e of ``input == m * 2 ** e``, m at least 1/2 and below 1.

    Returns
    -------
    mantissa : Tensor, exponent : Tensor of int32
    """
    if not input.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return Parts(*_frexp(input))


def multigammaln(input: Tensor, p: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    made: Tensor = lgamma(input) + p * (p - 1) / 4 * 1.1447298858494002
    for j in range(1, p):
        made = made + lgamma(input - j / 2)
    return made


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """Return 0 below 0, 1 above it, and elements of `values` at it."""
    if input.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    made: Tensor = _heaviside(input, values)
    return made


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """Return ``log(x / (1 - x))``, of x between eps and 1 - eps where that is given."""
    if eps is not None:
        input = clamp(input, eps, 1 - eps)
    made: Tensor = _logit(input)
    return made


def nan_to_num(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replace NaN, inf and -inf by numbers, infinities by the ends of the type by default."""
    if not input.dtype.is_floating_point:
        return input.clone()  # type: ignore[no-any-return]
    high, low = LIMITS[input.dtype.name]
    made: Tensor = _nan_to_num(
        input,
        0.0 if nan is None else nan,
        high if posinf is None else posinf,
        low if neginf is None else neginf,
    )
    return made


def float_power(input: Any, exponent: Any) -> Tensor:
    """Return powers as float64, whatever the operands are."""
    operands = (input, exponent)
    input, exponent = (o.to(float64) if isinstance(o, Tensor) else float(o) for o in operands)
    made: Tensor = pow(input, exponent)
    return made


def float_power_(input: Tensor, exponent: Any) -> Tensor:
    """Replace elements by their powers, of float64."""
    if input.dtype is not float64:
        raise RuntimeError(
            f"float_power_() needs a tensor of float64, as its powers are, got {input.dtype}"
        )
    return _float_power_(input, exponent)


def rsub(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """Return ``other - alpha * input``."""
    if not isinstance(other, Tensor):
        other = filled(empty((), promote((input, other))), other)
    return sub(other, input, alpha=alpha)


def clamp_min(input: Tensor, min: Any, *, out: Any = None) -> Tensor:
    """Bring elements to at least a bound."""
    return made_by(clamp(input, min=min, out=out), "ClampMinBackward0")


def clamp_max(input: Tensor, max: Any, *, out: Any = None) -> Tensor:
    """Bring elements to at most a bound."""
    return made_by(clamp(input, max=max, out=out), "ClampMaxBackward0")


def clamp_min_(input: Tensor, min: Any) -> Tensor:
    """Bring elements to at least a bound, in place."""
    return clamp_(input, min=min)


def clamp_max_(input: Tensor, max: Any) -> Tensor:
    """Bring elements to at most a bound, in place."""
    return clamp_(input, max=max)


def positive(input: Tensor) -> Tensor:
    """Return the tensor itself; a bool is refused."""
    if input.dtype is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """Return ``input * 2 ** other``, of floats and integers in the input's type.

    Of integers the power is multiplied by in halves: all of it may be beyond the type.
    """
    made: Tensor
    if not input.dtype.is_floating_point or other.dtype.is_floating_point:
        made = mul(input, exp2(other))
        return made
    places = other.detach().to(int64)
    half = places // 2
    scaled: Tensor = mul(
        mul(input.to(float64), exp2(half.to(float64))), exp2((places - half).to(float64))
    )
    made = scaled.to(input.dtype)
    return made


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """Return the type that an operation on two operands, tensors or numbers, computes in."""
    return promote((tensor1, tensor2))


publish(result_type, ("result_type",), on=("torch",))
for made in (
    frexp, logaddexp2, heaviside, logit, nan_to_num, float_power, clamp_min, clamp_max, positive,
    ldexp,
):  # fmt: skip
    publish(made, (made.__name__,))
_float_power_ = in_place(float_power)
publish(float_power_, ("float_power_",), on=("Tensor",))
for written in (clamp_min_, clamp_max_):
    publish(written, (written.__name__,), on=("torch", "Tensor"))
for made in (logit, nan_to_num):
    publish(in_place(made), (f"{made.__name__}_",))
publish(multigammaln, ("mvlgamma",))
publish(rsub, ("rsub",), on=("torch",))
publish(pointwise.sign, ("sgn",))
