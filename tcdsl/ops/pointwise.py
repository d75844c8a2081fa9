"""Numbers made of numbers, element by element."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from tcdsl.core import (
    Op,
    Tensor,
    empty,
    operator,
)
from tcdsl.core.dtypes import DType, bool_, int64
from tcdsl.ops.internal import filled
from tcdsl.ops.meaning import Slow
from tcdsl.ops.rules import (
    Operands,
    TypeRule,
    broadcast,
    floating,
    floats,
    not_for,
    only,
    promote,
    same,
)
from tcdsl.ops.strides import strides_of_result
from tcdsl.ops.table import Family, publish

ops = Family(__file__)
Number = bool | int | float

# ---- of one number


def _no_bools(operands: Operands) -> DType:
    """Return the type that holds all operands, of which none is a bool."""
    kinds = [o.dtype is bool_ if isinstance(o, Tensor) else isinstance(o, bool) for o in operands]
    if all(kinds):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if any(kinds):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return promote(operands)


def _negated(operands: Operands) -> DType:
    """Return the type of the operand, which is no bool."""
    if operands[0].dtype is bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return same(operands)


def _squared(operands: Operands) -> DType:
    """Return the type of powers by a number: int64 for bool."""
    dtype = same(operands)
    return int64 if dtype is bool_ else dtype


abs = ops.row("abs", text="each_abs", vjp="abs_vjp", inplace=True, aliases=("absolute",))
neg = ops.row("neg", types=_negated, inplace=True, aliases=("negative",))
sign = ops.row("sign", text="each_sign", inplace=True)
square = ops.row("square", types=_squared, inplace=True)
ceil = ops.row("ceil", text="each_ceil", integers="itself", inplace=True)
floor = ops.row("floor", text="each_floor", integers="itself", inplace=True)
trunc = ops.row("trunc", text="each_trunc", integers="itself", inplace=True, aliases=("fix",))
_round_behind = ops.op("round_behind")
_round_before = ops.op("round_before")
_round_plain = ops.op("each_round", integers="itself")


def _round(input: Tensor, *, decimals: int = 0, out: Any = None) -> Any:
    """Round to a whole number, or to so many digits behind the point; halves to even."""
    given = {} if out is None else {"out": out}
    if decimals == 0:
        return _round_plain(input, **given)
    if not input.dtype.is_floating_point:
        raise not_for("round_cpu", input.dtype)
    op = _round_behind if decimals > 0 else _round_before
    return op(input, 10.0 ** builtins.abs(decimals), **given)


round = ops.row("round", text="each_round", integers="itself", slow=_round, inplace=True)
frac = ops.row("frac", types=floats("frac_cpu"), inplace=True)


def _function(name: str, text: str = "", vjp: str = "derived", aliases: tuple[str, ...] = ()) -> Op:
    """Return the row of a function of floats."""
    text = text or f"each_{name}"
    return ops.row(name, text=text, types=floating, vjp=vjp, inplace=True, aliases=aliases)


acos = _function("acos", aliases=("arccos",))
acosh = _function("acosh", aliases=("arccosh",))
asin = _function("asin", aliases=("arcsin",))
asinh = _function("asinh", aliases=("arcsinh",))
atan = _function("atan", aliases=("arctan",))
atanh = _function("atanh", aliases=("arctanh",))
cos = _function("cos")
cosh = _function("cosh")
erf = _function("erf")
erfc = _function("erfc")
erfinv = _function("erfinv")
exp = _function("exp", vjp="exp_vjp")
expm1 = _function("expm1", vjp="expm1_vjp")
log = _function("log")
log10 = _function("log10")
log1p = _function("log1p")
log2 = _function("log2")
reciprocal = _function("reciprocal", "reciprocal", vjp="reciprocal_vjp")
rsqrt = _function("rsqrt", vjp="rsqrt_vjp")
sigmoid = _function("sigmoid", vjp="sigmoid_vjp")
sin = _function("sin")
sinh = _function("sinh")
sqrt = _function("sqrt", vjp="sqrt_vjp")
tan = _function("tan", vjp="tan_vjp")
tanh = _function("tanh", vjp="tanh_vjp")

# ---- of two


def _scaled(operands: Operands) -> DType:
    """Return the type that holds all operands; what scales integers is no float."""
    if isinstance(operands[2], float) and not promote(operands[:2]).is_floating_point:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    return promote(operands)


def _ops_of_sums(name: str, types: TypeRule, bools: str | None = None) -> tuple[Slow, Slow]:
    """Return the ways of calls that name what scales the second operand, and of those in place."""
    ways = []
    for writes in (False, True):
        plain = ops.op(name, types=types, shape=broadcast, bools=bools, writes=writes)
        scaled = ops.op(f"{name}_scaled", types=_scaled, shape=broadcast, writes=writes)
        ways.append(_with_alpha(plain, scaled))
    return ways[0], ways[1]


def _with_alpha(plain: Op, scaled: Op) -> Slow:
    def summed(
        input: Any, other: Any, third: Any = None, *, alpha: Number = 1, out: Any = None
    ) -> Any:
        """Add or subtract ``alpha`` times a tensor; 0.4 also has ``(input, alpha, other)``."""
        if third is not None:
            alpha, other = other, third
        if type(alpha) is int and alpha == 1:
            return plain(input, other) if out is None else plain(input, other, out=out)
        if isinstance(alpha, Tensor) and alpha.ndim:
            raise TypeError(f"{plain.__name__}() takes 2 positional arguments but 3 were given")
        return scaled(input, other, alpha) if out is None else scaled(input, other, alpha, out=out)

    return summed


def _numbers(kernel: str) -> TypeRule:
    """Return the rule of what PyTorch divides and rounds: any numbers, but no bool by a bool."""
    return only(f"{kernel}_cpu", (1, 2), promote)


def _ops_of_quotients(*, writes: bool) -> dict[str | None, Op]:
    """Return the op of each way to round quotients."""

    def op(text: str, types: TypeRule, integers: str | None = None) -> Op:
        return ops.op(
            text,
            integers=integers,
            types=types,
            shape=broadcast,
            order=strides_of_result,
            writes=writes,
        )

    return {
        None: op("div", floating),
        "floor": op("div_floor", _numbers("div_floor"), "div_floor_integers"),
        "trunc": op("div_trunc", _numbers("div_trunc"), "div_trunc_integers"),
    }


def _with_rounding(known: dict[str | None, Op]) -> Slow:
    def divided(
        input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None
    ) -> Any:
        """Divide, and round down (``"floor"``) or towards 0 (``"trunc"``) if told so."""
        op = known.get(rounding_mode)
        if op is None:
            raise RuntimeError(
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' "
                f"but found '{rounding_mode}'"
            )
        if isinstance(input, np.ndarray) and isinstance(other, Tensor):
            return reciprocal(other) * input  # which NumPy knows to multiply by
        return op(input, other) if out is None else op(input, other, out=out)

    return divided


_add, _add_ = _ops_of_sums("add", promote, bools="either")
_sub, _sub_ = _ops_of_sums("sub", _no_bools)
_quotients = _ops_of_quotients(writes=False)
_div_floor = _quotients["floor"]
add = ops.row(
    "add", types=promote, shape=broadcast, slow=_add, into=_add_, inplace=True, bools="either"
)
sub = ops.row(
    "sub",
    types=_no_bools,
    shape=broadcast,
    slow=_sub,
    into=_sub_,
    inplace=True,
    aliases=("subtract",),
)
mul = ops.row(
    "mul", types=promote, shape=broadcast, inplace=True, aliases=("multiply",), bools="both"
)
div = ops.row(
    "div",
    types=floating,
    shape=broadcast,
    slow=_with_rounding(_quotients),
    into=_with_rounding(_ops_of_quotients(writes=True)),
    inplace=True,
    aliases=("divide", "true_divide"),
)
remainder = ops.row(
    "remainder",
    text="each_remainder",
    integers="remainder_integers",
    types=promote,
    shape=broadcast,
    order=strides_of_result,
    inplace=True,
)
fmod = ops.row(
    "fmod",
    text="each_fmod",
    integers="fmod_integers",
    types=promote,
    shape=broadcast,
    order=strides_of_result,
    inplace=True,
)
atan2 = ops.row(
    "atan2", text="each_atan2", types=floating, shape=broadcast, inplace=True, aliases=("arctan2",)
)
maximum = ops.row(
    "maximum", integers="maximum_integers", bools="either", types=promote, shape=broadcast
)
minimum = ops.row(
    "minimum", integers="minimum_integers", bools="both", types=promote, shape=broadcast
)


def floor_divide(input: Any, other: Any) -> Any:
    """Divide and round down."""
    return _div_floor(input, other)


publish(floor_divide, ("floor_divide",))

# ---- of three

chosen = ops.op("chosen", types=promote, shape=broadcast)
lerp = ops.row(
    "lerp", types=floats("lerp_kernel_scalar"), shape=broadcast, inplace=True, keeps_numbers=True
)
_addcmul = ops.op("addcmul", types=promote, shape=broadcast)
_addcdiv = ops.op("addcdiv", types=floating, shape=broadcast)
_addcmul_ = ops.op("addcmul", types=promote, shape=broadcast, writes=True)
_addcdiv_ = ops.op("addcdiv", types=floating, shape=broadcast, writes=True)


def where(condition: Tensor, input: Any, other: Any) -> Any:
    """Take elements of one tensor where a condition holds, of another elsewhere.

    Parameters
    ----------
    condition : Tensor of bool
    input, other : Tensor or number, shapes that broadcast
    """
    if condition.dtype.category:
        condition = condition != 0
    if not (isinstance(input, Tensor) or isinstance(other, Tensor)):
        input = filled(empty((), promote((input, other))), input)
    return chosen(condition, input, other)


def _multiplied(op: Op, args: tuple[Any, ...], value: Any, given: dict[str, Any]) -> Any:
    if len(args) == 4:  # addcmul(input, value, tensor1, tensor2), as PyTorch 0.4 has it
        args, value = (args[0], args[2], args[3]), args[1]
    if given.keys() > {"out"} or (given and "out" not in given):  # tensors by name
        return op(*args, value=value, **given)
    return op(*args, value, **given)


def addcmul(*args: Any, value: Number = 1, **given: Any) -> Tensor:
    """Add a product: ``out = input + value * tensor1 * tensor2``."""
    found: Tensor = _multiplied(_addcmul, args, value, given)
    return found


def addcmul_(*args: Any, value: Number = 1, **given: Any) -> Tensor:
    """Add a product in place."""
    found: Tensor = _multiplied(_addcmul_, args, value, given)
    return found


def addcdiv(*args: Any, value: Number = 1, **given: Any) -> Tensor:
    """Add a quotient: ``out = input + value * tensor1 / tensor2``."""
    found: Tensor = _multiplied(_addcdiv, args, value, given)
    return found


def addcdiv_(*args: Any, value: Number = 1, **given: Any) -> Tensor:
    """Add a quotient in place."""
    found: Tensor = _multiplied(_addcdiv_, args, value, given)
    return found


for made in (addcmul, addcmul_, addcdiv, addcdiv_):
    publish(
        made,
        (made.__name__,),
        on=("Tensor",) if made.__name__.endswith("_") else ("torch", "Tensor"),
    )

# ---- the operators of Python, each for its reflected one too

for _name, _op in {
    "__abs__": abs,
    "__neg__": neg,
    "__pos__": lambda input: input,
    "__add__": add,
    "__sub__": sub,
    "__mul__": mul,
    "__truediv__": div,
    "__floordiv__": floor_divide,
    "__mod__": remainder,
}.items():
    operator(_name, _op)
for _name, _op in {"add": add, "sub": sub, "mul": mul, "truediv": div, "mod": remainder}.items():
    operator(f"__i{_name}__", _op.__dict__["inplace"])
