"""Operations of the language on scalar values, as loop IR: conversions, operators, reductions."""

from __future__ import annotations

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    TRUTH,
    Bin,
    Call,
    Expr,
    Load,
    Scalar,
)
from tcdsl.codegen.loops.target import short_name
from tcdsl.grammar.text.errors import InternalError
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.types.builtins import RAND
from tcdsl.grammar.types.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, DType

# Builtins whose C name is not the language's.
_RENAMED = {"fabs": "abs"}
_WIDENED = {f"tc_{short_name(half)}_f32": half for half in (FLOAT16, BFLOAT16)}


def convert(x: Expr, source: DType, to: DType) -> Expr:
    """Return x as another type of the language; x is in the computing type of source."""
    held = source.computed
    if to.is_half:
        if source == to:
            return x
        if held.bits >= 32 and held != FLOAT32 and (held.is_float or to.name == "bfloat16"):
            # float32 does not hold all of it, and a value is rounded once
            name = f"tc_{short_name(held)}_{short_name(to)}"
            return widen(Call(name, (x,), Scalar(to)), to)
        return widen(narrow(convert(x, source, FLOAT32), to), to)
    if held == to:
        return x
    if to == BOOL or (held.is_float and to.is_integer):
        return Call(f"tc_{short_name(held)}_{short_name(to)}", (x,), Scalar(to))
    return b.cast(x, Scalar(to))


def once(place: Load) -> Expr:
    """Return a stored element that is read exactly once, for what chooses an address."""
    assert isinstance(place.type, Scalar)
    at = b.offset(place.pointer, place.index)
    return Call(f"tc_once_{short_name(place.type.dtype)}", (at,), place.type)


def widen(place: Expr, stored: DType) -> Expr:
    """Return a stored element in its computing type."""
    if not stored.is_half:
        return place
    return Call(f"tc_{short_name(stored)}_f32", (place,), Scalar(FLOAT32))


def widened(x: Expr) -> tuple[Expr, DType] | None:
    """Return what a value is widened from, and its type; None where it is none."""
    half = _WIDENED.get(x.function) if isinstance(x, Call) else None
    return None if half is None else (x.args[0], half)  # type: ignore[union-attr]


def narrow(x: Expr, stored: DType) -> Expr:
    """Return a value as it is stored; what was widened from that type is what it was."""
    if not stored.is_half:
        return x
    before = widened(x)
    if before is not None and before[1] == stored:
        return before[0]
    return Call(f"tc_f32_{short_name(stored)}", (x,), Scalar(stored))


def binary(op: str, x: Expr, y: Expr, dtype: DType) -> Expr:
    """Return x op y on values of one type; dtype is the result's."""
    match op:
        case "<" | "<=" | ">" | ">=" | "==" | "!=":
            return Bin(op, x, y, TRUTH)
        case "+" | "-" | "*":
            return Bin(op, x, y, Scalar(dtype))
        case "&" | "|" | "^":
            return Bin(op, x, y, TRUTH if dtype == BOOL else Scalar(dtype))
        case "<<" | ">>":
            name = "shl" if op == "<<" else "shr"
            return Call(f"tc_{name}_{short_name(dtype)}", (x, y), Scalar(dtype))
        case "/" if dtype.is_float:
            return Bin("/", x, y, Scalar(dtype))
        case "/" | "%" if (power := power_of_two(b.value_of(y))) is not None:
            if op == "/":  # a shift floors too, and no compiler has to see through a call
                return Bin(">>", x, b.const(power, dtype), Scalar(dtype))
            return Bin("&", x, b.const((1 << power) - 1, dtype), Scalar(dtype))
        case "/" | "%":
            name = "div" if op == "/" else "mod"
            return Call(f"tc_{name}_{short_name(dtype)}", (x, y), Scalar(dtype))
        case _:
            raise InternalError(f"operator {op} on {dtype}")


def power_of_two(value: int | None) -> int | None:
    """Return which power of two a constant is, or None."""
    if value is None or value <= 0 or value & (value - 1):
        return None
    return value.bit_length() - 1


def builtin(name: str, args: tuple[Expr, ...], dtype: DType) -> Expr:
    """Return a call of a builtin function of the language."""
    if name == RAND:  # the only one whose type does not follow from its arguments
        return Call(f"tc_rand_{short_name(dtype)}", args, Scalar(dtype))
    first = args[0].type
    assert isinstance(first, Scalar)
    function = f"tc_{_RENAMED.get(name, name)}_{short_name(first.dtype)}"
    return Call(function, args, Scalar(dtype))


def combine(op: AssignOp, acc: Expr, value: Expr) -> Expr:
    """Return acc combined with value by a reducing operator."""
    scalar = b.type_of(acc)
    assert isinstance(scalar, Scalar)
    match op.rstrip("!"):
        case "=":
            return value
        case "+=":
            return Bin("+", acc, value, scalar)
        case "*=":
            return Bin("*", acc, value, scalar)
        case "min=" | "max=" as extreme:
            name = f"tc_{extreme[:3]}_{short_name(scalar.dtype)}"
            return Call(name, (acc, value), scalar)
        case _:
            raise InternalError(f"{op} is not a plain reduction")


def identity(op: AssignOp, dtype: DType) -> Expr:
    """Return what a reduction starts from (0 for `=`), in the computing type of dtype."""
    held = dtype.computed
    match op.rstrip("!"):
        case "=" | "+=" | "argmin=" | "argmax=":
            return b.const(False if held == BOOL else 0, held)
        case "*=":
            return b.const(True if held == BOOL else 1, held)
        case "min=":
            return b.const(_extreme(held, highest=True), held)
        case "max=":
            return b.const(_extreme(held, highest=False), held)
        case _:
            raise InternalError(f"{op} is not a plain reduction")


def _extreme(dtype: DType, *, highest: bool) -> int | float:
    match dtype.kind:
        case "float":
            return float("inf") if highest else float("-inf")
        case "bool":
            return int(highest)
        case "uint":
            return (1 << dtype.bits) - 1 if highest else 0
        case "int":
            return (1 << (dtype.bits - 1)) - 1 if highest else -(1 << (dtype.bits - 1))
