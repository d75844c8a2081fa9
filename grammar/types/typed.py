"""A checked definition: names resolved, types explicit, ranges solved, calls inlined.

The check makes it, the reference evaluator runs it, codegen compiles it. Every conversion is a
`Cast` node, every let is substituted, every generic is bound, `min`/`max`/casts/builtins are told
apart. Names are those of the text; what inlining adds is fresh.

Half types are storage: a node that computes never has one. A `Read` of a float16 or bfloat16
parameter or output stands inside a `Cast` to float32; literals, builtins and operators beside it
are float32; an explicit `float16(x)` is `Cast(Cast(x, float16), float32)`, which rounds. A
temporary of a half type is a float32 tensor. `O(i) = x` into a half output has `Cast(x, float16)`
as its value; a reducing statement into one has a float32 value: the reduction is kept in float32,
starts from the old contents as float32, and is rounded once when it is stored.

Subscripts, and the indices, sizes and literals in them, are int64; elsewhere the value of an index
or a size is int32, and each call checks that it fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Literal, assert_never

from tcdsl.grammar.proofs.ranges import ANY, Interval
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import chain
from tcdsl.grammar.text.chain import Chained
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import Diagnostic
from tcdsl.grammar.text.nodes import AssignOp, BinaryOp
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class Node:
    """What all nodes share: the place in the text."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Lit(Node):
    """A literal of known type; a float value is exact (inf and nan too)."""

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class IndexValue(Node):
    """The value of an index or loop variable, int32 where the text uses it as a number."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class SizeValue(Node):
    """The value of an expression of sizes (int32 in the language)."""

    size: Size
    dtype: DType


@dataclass(frozen=True, slots=True)
class Read(Node):
    """An element of a tensor; subs are integer expressions, () for a scalar.

    checked[d] is true where ranges and guards do not prove subscript d inside: the kernel checks
    it and raises `BoundsError`.
    """

    tensor: str
    subs: tuple[Expr, ...]
    dtype: DType
    checked: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-x`, `!x` or `~x`."""

    op: Literal["-", "!", "~"]
    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Chained, Node):
    """Both operands of one type; arithmetic and bits keep it, comparisons and `&& ||` give bool.

    A shift by the width of the type or more, or by less than 0, leaves none of the bits.
    """

    op: BinaryOp
    lhs: Expr
    rhs: Expr
    dtype: DType

    def own(self) -> tuple[object, ...]:
        """Return all but the left operand."""
        return self.op, self.rhs, self.dtype


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`cond ? then : other`; only the chosen branch is evaluated."""

    cond: Expr
    then: Expr
    other: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """Conversion to dtype: float to int saturates and NaN gives 0, to bool is `x != 0`."""

    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Builtin(Node):
    """A builtin function, `min` and `max` among them; arguments already of the computing type."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType


Expr = Lit | IndexValue | SizeValue | Read | Unary | Binary | Select | Cast | Builtin


def spine(expr: Expr) -> tuple[Expr, list[Binary]]:
    """Return the leftmost operand of a chain, and the chain from the inside (`chain.spine`)."""
    return chain.spine(Binary, expr)


def indices_in(*roots: Expr) -> frozenset[str]:
    """Return the indices and variables of loops whose values expressions depend on."""
    found: set[str] = set()
    todo = [*roots]
    while todo:
        match todo.pop():
            case IndexValue(name):
                found.add(name)
            case Lit() | SizeValue():
                pass
            case Read(subs=parts) | Builtin(args=parts):
                todo += parts
            case Unary(operand=a) | Cast(operand=a):
                todo.append(a)
            case Binary(lhs=a, rhs=b):
                todo += (a, b)
            case Select(a, b, c):
                todo += (a, b, c)
            case other:
                assert_never(other)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Range:
    """The solved half-open range [low, high) of an index of one statement.

    bounds: of a ragged one its first value and the one behind its last, int64 expressions over the
    indices that stand before it in the statement; it is empty where the second is not larger. Then
    low and high are the ends of all its values; is_guess: they are what the other accesses leave,
    since data says what they are, good for costs and for nothing that has to be right.
    """

    name: str
    low: Size
    high: Size
    kind: Literal["output", "reduction"]
    bounds: tuple[Expr, Expr] | None = None
    is_guess: bool = False

    @property
    def extent(self) -> Size:
        """Number of values, of a ragged range at most."""
        return self.high - self.low

    @property
    def values(self) -> Interval:
        """Least and greatest value at any point."""
        return ANY if self.is_guess else Interval(self.low, self.high - 1)


@dataclass(frozen=True, slots=True)
class Statement(Node):
    """One comprehension: for every point of the ranges, combine value into target[subs].

    ranges holds output indices first, in order of appearance on the left, then reduction indices
    in order of appearance on the right, then indices that only `where` names (kind reduction); but
    a ragged range stands behind those of the indices that its bounds name.
    subs_checked[d]: the write of dimension d is not proved inside the box (scatter).
    value has the target's type; into a half output, a reducing op has a float32 value. The target
    of an arg reduction is int64 and value is what it compares.
    """

    target: str
    subs: tuple[Expr, ...]
    op: AssignOp
    value: Expr
    ranges: tuple[Range, ...]
    subs_checked: tuple[bool, ...] = ()

    @property
    def is_reduction(self) -> bool:
        """Whether op combines."""
        return self.op != "="

    @property
    def is_ragged(self) -> bool:
        """Whether ranges depend on indices or on data."""
        return any(r.bounds is not None for r in self.ranges)

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """All that it evaluates: its value, its subscripts, the bounds of ragged ranges."""
        return (self.value, *self.subs, *(e for r in self.ranges for e in r.bounds or ()))

    @property
    def is_ragged_scatter(self) -> bool:
        """Whether ranges of the points that it writes do."""
        return any(r.bounds is not None and r.kind == "output" for r in self.ranges)


@dataclass(frozen=True, slots=True)
class Loop(Node):
    """`for var in low:high { body }`."""

    var: str
    low: Size
    high: Size
    body: tuple[Stmt, ...]


Stmt = Statement | Loop


def tensors_read(*roots: Expr) -> Iterator[str]:
    """Yield the tensors that expressions read; a long sum is a tree as deep as it is long."""
    todo = [*roots]
    while todo:
        match todo.pop():
            case Lit() | IndexValue() | SizeValue():
                pass
            case Read(name, subs):
                yield name
                todo += subs
            case Unary(operand=a) | Cast(operand=a):
                todo.append(a)
            case Binary(lhs=a, rhs=b):
                todo += (a, b)
            case Select(a, b, c):
                todo += (a, b, c)
            case Builtin(args=args):
                todo += args
            case other:
                assert_never(other)


def statements(body: Sequence[Stmt]) -> Iterator[Statement]:
    """Yield the statements of a body in the order of the text, those of loops too."""
    for s in body:
        if isinstance(s, Loop):
            yield from statements(s.body)
        else:
            yield s


@dataclass(frozen=True, slots=True)
class Tensor:
    """A declared or inferred tensor: element subs (low_d + i_d) is stored at position i.

    low is 0 but where the lowest write of an output is not: `O(i + 2)` begins at 2. Integral
    scalars used in bounds are symbols of the sizes as well. is_updated: the def's first statement
    on this return is `op=` without `!`, so a caller's buffer is its initial value. default: what a
    parameter of rank 0 is where a call leaves it out.
    """

    name: str
    dtype: DType
    shape: tuple[Size, ...]
    low: tuple[Size, ...]
    role: Literal["param", "return", "temp"]
    is_updated: bool = False
    default: int | float | None = field(default=None, kw_only=True, compare=False, repr=False)
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition among sizes and scalars that each call has to check: size >= 0 or size == 0."""

    size: Size
    relation: Literal[">=0", "==0"]
    message: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CheckedDef:
    """A definition ready to run.

    sizes: symbols in the order in which parameters bring them; each is the extent of some
    parameter dimension that is that symbol alone, or an integral rank-0 parameter used in bounds
    (then it stands in scalars too), or comes by generic (then it is bound and not here).
    """

    name: str
    sizes: tuple[str, ...]
    scalars: tuple[str, ...]
    params: tuple[Tensor, ...]
    returns: tuple[Tensor, ...]
    temps: tuple[Tensor, ...]
    body: tuple[Stmt, ...]
    constraints: tuple[Constraint, ...]
    warnings: tuple[Diagnostic, ...]
    text: str = field(compare=False, repr=False)  # as it was written

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of that name."""
        for t in (*self.params, *self.returns, *self.temps):
            if t.name == name:
                return t
        raise KeyError(name)
