"""The syntax tree of a text, as the parser gives it and the formatter prints it.

Nodes are frozen; equality ignores where a node stands in the text.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from tcdsl.grammar.text import chain
from tcdsl.grammar.text.chain import Chained
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.text.unread import read_on_use

AssignOp = Literal[
    "=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!", "argmin=!", "argmax=!"
]
BinaryOp = Literal[
    "||", "&&", "<", "<=", ">", ">=", "==", "!=", "|", "^", "&", "<<", ">>", "+", "-", "*", "/", "%"
]


def starts_anew(op: AssignOp) -> bool:
    """Whether what a statement writes has nothing of what was there."""
    return op == "=" or op.endswith("!")


@dataclass(frozen=True, slots=True)
class Node:
    """What all nodes share: the place in the text.

    is_grouped: it stands in parentheses; known only where `parse` was asked to keep them.
    """

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)
    is_grouped: bool = field(default=False, kw_only=True, compare=False, repr=False)


# ---- expressions


@dataclass(frozen=True, slots=True)
class IntLit(Node):
    """An integer literal; a leading minus sign belongs to it. text keeps hexadecimal digits."""

    value: int
    text: str = field(default="", kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FloatLit(Node):
    """A literal with a point or an exponent; text keeps all digits as typed."""

    value: float
    text: str = field(default="", kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A bare identifier: index, size, scalar, let, loop variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Dots(Node):
    """`...` as a subscript or a dimension."""


@dataclass(frozen=True, slots=True)
class Keyword(Node):
    """`NAME=value` in the arguments of a call of a def; a scalar type is a value of that name."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Apply(Node):
    """`name(args)`: an access, a builtin or a call of a def; the check decides which."""

    name: str
    args: tuple[Arg, ...]
    name_span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Extent(Node):
    """`A.1`: the extent of a dimension; negative counts from the last."""

    name: str
    dim: int


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`float64(x)`: conversion to a scalar type."""

    dtype: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class MinMax(Node):
    """`min(a, b)` or `max(a, b)`, which hand NaN on."""

    op: Literal["min", "max"]
    lhs: Expr
    rhs: Expr


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-x`, `!x` or `~x`."""

    op: Literal["-", "!", "~"]
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Chained, Node):
    """A binary operation, left associative.

    A sum of ten thousand terms is ten thousand deep on the left (elsewhere no tree is deeper than
    200): compare, hash and walk it by `spine`, not by recursion into lhs.
    """

    op: BinaryOp
    lhs: Expr
    rhs: Expr
    op_span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)

    def own(self) -> tuple[object, ...]:
        """Return all but the left operand."""
        return self.op, self.rhs


@dataclass(frozen=True, slots=True)
class Ternary(Node):
    """`cond ? then : other`."""

    cond: Expr
    then: Expr
    other: Expr


Expr = IntLit | FloatLit | Name | Apply | Extent | Cast | MinMax | Unary | Binary | Ternary
Arg = Expr | Dots | Keyword
Sub = Expr | Dots


def spine(expr: Expr) -> tuple[Expr, list[Binary]]:
    """Return the leftmost operand of a chain, and the chain from the inside (`chain.spine`)."""
    return chain.spine(Binary, expr)


# ---- clauses of `where`


@dataclass(frozen=True, slots=True)
class RangeClause(Node):
    """`i in lo:hi`, half open."""

    name: str
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Let(Node):
    """`name = value`: a name for an expression."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Exists(Node):
    """`exists e`: its accesses bound ranges; it is not evaluated."""

    value: Expr


Clause = RangeClause | Let | Exists

# ---- statements


@dataclass(frozen=True, slots=True)
class Target(Node):
    """The left side; subs is None where no parentheses were written."""

    name: str
    subs: tuple[Sub, ...] | None
    name_span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Equivalent(Node):
    """`<=> matmul(A(i,k), B(k,j))`: checked for form, warned about, ignored."""

    name: str
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class Comprehension(Node):
    """`O(i) +=! A(i, k) where k in 0:K`."""

    target: Target
    op: AssignOp
    value: Expr
    equivalent: Equivalent | None = None
    clauses: tuple[Clause, ...] = ()
    op_span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MultiCall(Node):
    """`m, v = moments(I)`: a call of a def with several results."""

    targets: tuple[Target, ...]
    callee: str
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class ForLoop(Node):
    """`for t in a:b { ... }`."""

    var: str
    low: Expr
    high: Expr
    body: tuple[Stmt, ...]


Stmt = Comprehension | MultiCall | ForLoop

# ---- definitions


@dataclass(frozen=True, slots=True)
class Generic(Node):
    """`SH=1` or `T` between angle brackets."""

    name: str
    default: int | None = None


@dataclass(frozen=True, slots=True)
class TypeRef(Node):
    """`float(N, M)`: a scalar type or a type variable, and dims (None: not written, 0-d)."""

    name: str
    dims: tuple[Expr | Dots, ...] | None


@dataclass(frozen=True, slots=True)
class Param(Node):
    """A parameter or a return; type is None for a return whose type is inferred.

    default: what a call without it has, of a parameter of rank 0.
    """

    name: str
    type: TypeRef | None
    default: IntLit | FloatLit | None = None
    name_span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@read_on_use("body")
@dataclass(frozen=True, slots=True)
class Def(Node):
    """One tensor comprehension."""

    name: str
    generics: tuple[Generic, ...]
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    body: tuple[Stmt, ...]
    name_span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Program(Node):
    """All definitions of a text, in the order written."""

    defs: tuple[Def, ...]
