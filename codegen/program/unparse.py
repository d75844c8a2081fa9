"""Checked expressions and statements as TC text, for headers, `show` and messages."""

from __future__ import annotations

from typing import assert_never

from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64, UINT64

_STRENGTH = {
    "||": 2, "&&": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4,
    "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_TERNARY, _UNARY, _PRIMARY = 1, 11, 12


def statement_text(s: typed.Statement) -> str:
    """Return a statement as one line: as written where its place is known."""
    if s.span is not None:
        return " ".join(s.span.text.split())
    subs = ", ".join(map(expr_text, s.subs))
    ranges = ", ".join(map(range_text, s.ranges))
    where = f" where {ranges}" if ranges else ""
    return f"{s.target}{f'({subs})' if subs else ''} {s.op} {expr_text(s.value)}{where}"


def range_text(r: typed.Range) -> str:
    """Return the range of an index as `where` has it."""
    if r.bounds is None:
        return f"{r.name} in {r.low}:{r.high}"
    low, high = map(_subscript, r.bounds)
    return f"{r.name} in {low}:{high}"


def expr_text(e: typed.Expr, place: int = 0) -> str:
    """Return an expression, in parentheses if it binds less than its place asks for."""
    text, strength = _text(e)
    return f"({text})" if strength < place else text


def _subscript(e: typed.Expr) -> str:
    """Return a subscript, which is int64 without a word."""
    while isinstance(e, typed.Cast) and e.dtype == INT64 and e.operand.dtype.is_integer:
        e = e.operand
    return expr_text(e)


def _text(e: typed.Expr) -> tuple[str, int]:
    match e:
        case typed.Lit(bool() as value):  # there is no word for it
            return ("1 == 1" if value else "1 == 0"), _STRENGTH["=="]
        case typed.Lit(int() as value) if value > INT64.limits[1]:  # a literal is int64 at most
            return f"{UINT64}({value - 2**64})", _PRIMARY
        case typed.Lit(value):
            text = repr(value)
            return text, _UNARY if text.startswith("-") else _PRIMARY
        case typed.IndexValue(name):
            return name, _PRIMARY
        case typed.SizeValue(size):
            text = str(size)
            return text, _PRIMARY if text.isalnum() else _STRENGTH["+"]
        case typed.Read(tensor, subs):
            return tensor + (f"({', '.join(map(_subscript, subs))})" if subs else ""), _PRIMARY
        case typed.Unary(op, operand):
            return op + expr_text(operand, _PRIMARY), _UNARY
        case typed.Binary():
            first, chain = typed.spine(e)
            text, strength = _text(first)
            parts = [text]
            for link in chain:
                p = _STRENGTH[link.op]
                if strength < p:
                    parts = [f"({''.join(parts)})"]
                parts.append(f" {link.op} {expr_text(link.rhs, p + 1)}")
                strength = p
            return "".join(parts), strength
        case typed.Select(cond, then, other):
            head = expr_text(cond, _TERNARY + 1)
            return f"{head} ? {expr_text(then)} : {expr_text(other, _TERNARY)}", _TERNARY
        case typed.Cast(operand, dtype):
            return f"{dtype}({expr_text(operand)})", _PRIMARY
        case typed.Builtin(name, args):
            return f"{name}({', '.join(map(expr_text, args))})", _PRIMARY
        case _:
            assert_never(e)
