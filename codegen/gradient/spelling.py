"""Types in text: it has no conversions of halves, and a temporary has the type of its first line.

float32(A(i)) * float32(B(i))   ->   A(i) * B(i)          for halves, computed in float32 anyway
S(i) = 0.0                      ->   S(i) = float64(0.0)  where S is float64
C(i) = 0                        ->   C(i) = int64(0)      where C is int64; 1 == 0 where it is bool
A(int64(I(b)), d)               ->   A(I(b), d)

Without them the text has other types than the tree: the second derivative of a double program with
a loop would be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.lines import Line, Loop, Part
from tcdsl.codegen.program.expressions import map_typed
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT64, DType, promote
from tcdsl.grammar.types.typed import Expr


def with_types(parts: Sequence[Part], annotated: Collection[str]) -> list[Part]:
    """Return parts that as text have the types which they have as trees.

    annotated: the targets whose types the head of the definition gives.
    """
    begun = {*annotated}

    def one(line: Line) -> Line:
        value = map_typed(map_typed(line.value, _unwidened), _plain_subscripts)
        dtype = line.value.dtype
        is_first = line.target not in begun and not line.op.startswith("arg")
        begun.add(line.target)
        if is_first:
            value = _as_typed(value, dtype)
        return replace(line, subs=tuple(map(_plain, line.subs)), value=value)

    return _mapped(parts, one)


def _as_typed(value: Expr, dtype: DType) -> Expr:
    """Return a value that as text has a type."""
    if dtype.is_float:
        fits = (_type_in_text(value) or FLOAT32) == dtype
    elif dtype == BOOL and isinstance(value, typed.Lit):
        return typed.Lit(bool(value.value), BOOL)
    else:
        fits = _whole_type_in_text(value) == dtype
    return value if fits else typed.Cast(value, dtype)


def _mapped(parts: Sequence[Part], f: Callable[[Line], Line]) -> list[Part]:
    return [
        replace(x, body=tuple(_mapped(x.body, f))) if isinstance(x, Loop) else f(x) for x in parts
    ]


def _unwidened(e: Expr) -> Expr:
    """Return a half without the cast in which it computes: the text has its type."""
    match e:
        case typed.Cast(operand, dtype) if dtype == FLOAT32 and operand.dtype.is_half:
            return operand
        case typed.Cast(typed.Cast(_, dtype) as operand, wanted) if dtype == wanted:
            return operand
        case _:
            return e


def _plain_subscripts(e: Expr) -> Expr:
    return replace(e, subs=tuple(map(_plain, e.subs))) if isinstance(e, typed.Read) else e


def _plain(sub: Expr) -> Expr:
    """Return a subscript without the conversion to int64 that all subscripts get."""
    match sub:
        case typed.Cast(typed.Read() as read, dtype) if dtype == INT64 and read.dtype.is_integer:
            return read
        case _:
            return sub


def type_in_text(e: Expr) -> DType | None:
    """Return the float type that an expression has as text; None where literals decide."""
    return _type_in_text(map_typed(e, _unwidened))


def _type_in_text(e: Expr) -> DType | None:
    match e:
        case typed.Read(dtype=dtype) | typed.Cast(dtype=dtype):
            return dtype if dtype.is_float else None
        case typed.Unary(operand=a):
            return _type_in_text(a)
        case typed.Binary(lhs=a, rhs=b) | typed.Select(then=a, other=b):
            return _wider(_type_in_text(a), _type_in_text(b))
        case typed.Builtin(args=args):
            found = None
            for x in args:
                found = _wider(found, _type_in_text(x))
            return found or FLOAT32
        case _:
            return None


def _whole_type_in_text(e: Expr) -> DType:
    """Return the type that an expression of integers or conditions has as text."""
    match e:
        case typed.Lit(bool()):
            return BOOL
        case typed.Lit(int() as value):
            return next(d for d in (INT32, INT64, UINT64) if value <= d.limits[1])
        case typed.IndexValue() | typed.SizeValue():
            return INT32
        case typed.Unary("-", a):
            return _whole_type_in_text(a)
        case typed.Binary(op, a, b) if op in ("+", "-", "*", "/", "%"):
            return promote(_whole_type_in_text(a), _whole_type_in_text(b))
        case typed.Select(_, a, b):
            one, other = _whole_type_in_text(a), _whole_type_in_text(b)
            return one if one == other else promote(one, other)
        case _:
            return e.dtype


def _wider(a: DType | None, b: DType | None) -> DType | None:
    if a is None or b is None or a == b:
        return a or b
    return FLOAT64 if FLOAT64 in (a, b) else FLOAT32
