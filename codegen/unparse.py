"""Checked expressions and statements as TC text, for headers, `show` and messages."""

from __future__ import annotations

from typing import assert_never

from tcdsl.grammar import typed

_STRENGTH = {
    "||": 2, "&&": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4,
    "+": 5, "-": 5, "*": 6, "/": 6, "%": 6,
}  # fmt: skip
_TERNARY, _UNARY, _PRIMARY = 1, 7, 8


def statement_text(s: typed.Statement) -> str:
    """Return a statement as one line: as written where its place is known."""
    if s.span is not None:
        return " ".join(s.span.text.split())
    subs = ", ".join(map(expr_text, s.subs))
    ranges = ", ".join(f"{r.name} in {r.low}:{r.high}" for r in s.ranges)
    where = f" where {ranges}" if ranges else ""
    return f"{s.target}{f'({subs})' if subs else ''} {s.op} {expr_text(s.value)}{where}"


def expr_text(e: typed.Expr, place: int = 0) -> str:
    """Return an expression, in parentheses if it binds less than its place asks for."""
    text, strength = _text(e)
    return f"({text})" if strength < place else text


def _text(e: typed.Expr) -> tuple[str, int]:
    match e:
        case typed.Lit(value):
            text = str(value).lower() if isinstance(value, bool) else repr(value)
            return text, _UNARY if text.startswith("-") else _PRIMARY
        case typed.IndexValue(name):
            return name, _PRIMARY
        case typed.SizeValue(size):
            text = str(size)
            return text, _PRIMARY if text.isalnum() else 5
        case typed.Read(tensor, subs):
            return tensor + (f"({', '.join(map(expr_text, subs))})" if subs else ""), _PRIMARY
        case typed.Unary(op, operand):
            return op + expr_text(operand, _PRIMARY), _UNARY
        case typed.Binary(op, lhs, rhs):
            p = _STRENGTH[op]
            return f"{expr_text(lhs, p)} {op} {expr_text(rhs, p + 1)}", p
        case typed.Select(cond, then, other):
            head = expr_text(cond, _TERNARY + 1)
            return f"{head} ? {expr_text(then)} : {expr_text(other, _TERNARY)}", _TERNARY
        case typed.Cast(operand, dtype):
            return f"{dtype}({expr_text(operand)})", _PRIMARY
        case typed.Builtin(name, args):
            return f"{name}({', '.join(map(expr_text, args))})", _PRIMARY
        case _:
            assert_never(e)
