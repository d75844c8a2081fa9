"""The dot method: few rows or columns, both factors contiguous along k, vectors run along k.

    acc[r][v] += a[r][k .. k + lanes] * b[v][k .. k + lanes]

Nothing else is packed: a panel would be used by too few rows to pay for its making.
A kernel has a fixed number of rows and takes columns in groups, what is left in halves of these. It
leaves plain sums in the output; an epilogue is a register tile of depth 0 on top of them.

Few columns that are not contiguous along k, as of `A(m, k) * B(k, n)`, are turned around first: the
panels of `pack.py`, one column wide. As a register tile they would fill a part of a vector. The
fewer lines, of either factor, are the rows of a kernel and stay nearby; the others are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tcdsl.codegen.forms.base.scalars import narrow, widen
from tcdsl.codegen.forms.contraction.register_tile import ROW_GROUP, intrinsic
from tcdsl.codegen.loops.build import (
    add,
    assign,
    block,
    c64,
    ceil_div,
    compare,
    do,
    i64,
    load,
    loop,
    max64,
    mod,
    mul,
    offset,
    pointer,
    select,
    sub,
    when,
)
from tcdsl.codegen.loops.loopir import (
    Array,
    Assign,
    Bin,
    Elem,
    Expr,
    Function,
    Let,
    Mask,
    Scalar,
    Stmt,
    Unroll,
    Var,
    Vector,
)
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import DType

CHUNK = 8  # columns between two changes of rows: their part of b stays in the first level


def most_rows(registers: int) -> int:
    """Return the rows of the largest dot kernel."""
    return 4 if registers >= 32 else 3


def dot_rows(machine: Machine, m: Expr) -> Expr:
    """Return the rows that go together: all of them if they are few, else in even parts.

    Lines of a power of two apart share one set of the first level: 3 rows and 8 columns fit.
    """
    most = most_rows(machine.registers)
    parts = ceil_div(m, max64(ceil_div(m, 3), 1))
    return select(compare("<=", m, most), max64(m, 1), parts)


def columns_of(registers: int, rows: int, occur: Collection[int] | None = None) -> tuple[int, ...]:
    """Return how many columns go together: enough sums to hide the latency of an FMA, then halves.

    occur: the numbers of columns that a kernel is called with, if they are known.
    """
    most = {1: 8, 2: 8, 3: 8, 4: 4}[rows] if registers >= 32 else {1: 8, 2: 4, 3: 4}[rows]
    groups = [most >> i for i in range(most.bit_length())]
    if occur is None:
        return tuple(groups)
    return tuple(c for c in groups if any(n % (2 * c) >= c or (c == most <= n) for n in occur))


@dataclass(frozen=True, slots=True)
class Dot:
    """A dot kernel: its rows, columns that go together, and the types in memory.

    columns: the groups that occur, each half of one before it. resumes: sums are added to what c
    holds.
    """

    rows: int
    columns: tuple[int, ...]
    vector: Vector
    a: DType
    b: DType
    c: DType
    resumes: bool


def dot_params(d: Dot) -> tuple[Var, ...]:
    """Return the parameters; a and b are contiguous along k."""
    return (
        pointer("a", d.a, const=True, restrict=True),
        i64("a_row"),
        pointer("b", d.b, const=True, restrict=True),
        i64("b_row"),
        pointer("c", d.c, restrict=True),
        i64("c_row"),
        i64("c_column"),
        i64("depth"),
        i64("columns"),
    )


def dot_kernel(name: str, d: Dot) -> Function:
    """Return the function that leaves rows x columns sums in c."""
    j, depth, columns = i64("j"), i64("depth"), i64("columns")

    def below(group: int) -> Expr:
        """Return the columns that groups of so many, and larger ones, take."""
        return columns if group == 1 else sub(columns, mod(columns, group))

    groups: list[Stmt] = []
    start: Expr = c64(0)
    for group in d.columns:
        groups.append(loop(j, start, below(group), _sums(d, group), step=group))
        start = below(group)
    whole = Let(i64("whole"), sub(depth, mod(depth, d.vector.lanes)))
    body = block(whole, groups)
    return Function(name, dot_params(d), body, "micro")


def _sums(d: Dot, count: int) -> Stmt:
    """Return the sums of all rows with count columns from j on."""
    k, r, v = i64("k"), i64("r"), i64("v")
    depth, whole = i64("depth"), i64("whole")
    place = load(
        pointer("c", d.c),
        add(mul(r, i64("c_row")), mul(add(i64("j"), v), i64("c_column"))),
    )
    total: Expr = intrinsic("tc_sum", d.vector, _acc(d, r, v), type=Scalar(d.vector.dtype))
    if d.resumes:
        total = Bin("+", widen(place, d.c), total, Scalar(d.vector.dtype))
    store = assign(place, narrow(total, d.c))
    a_lines = _Lines("a", d.a, d.rows, i64("a_row"))
    b_lines = _Lines("b", d.b, count, i64("b_row"))
    moving = (*a_lines.pointers(), *b_lines.pointers())
    tail = Var("tail", Mask(d.vector.dtype, d.vector.lanes))

    def last(left: Expr) -> list[Stmt]:
        mask = Let(tail, intrinsic("tc_tail", d.vector, left, type=tail.type))
        return [mask, _step(d, a_lines, b_lines, masked=True)]

    def along(stop: Expr, step: Stmt | list[Stmt]) -> Stmt:
        forward = [assign(p, offset(p, d.vector.lanes)) for p in moving]
        return loop(k, 0, stop, step, forward, step=d.vector.lanes, mark=Unroll(1))

    walk = [
        along(whole, _step(d, a_lines, b_lines, masked=False)),
        when(compare("<", whole, depth), last(sub(depth, whole))),
    ]
    return block(
        Array("acc", d.vector, (d.rows, count), zero=True),
        a_lines.start(c64(0)),
        b_lines.start(i64("j")),
        walk,
        loop(r, 0, d.rows, loop(v, 0, count, store, mark=Unroll()), mark=Unroll()),
    )


def _acc(d: Dot, r: Expr, v: Expr) -> Elem:
    return Elem("acc", (r, v), d.vector)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of an operand that a kernel walks side by side, a pointer for each group of them."""

    name: str
    stored: DType
    count: int
    stride: Expr

    def pointers(self) -> list[Var]:
        """Return the moving pointers."""
        groups = range(0, self.count, ROW_GROUP)
        return [pointer(f"{self.name}{g}", self.stored, const=True) for g in groups]

    def start(self, first: Expr) -> list[Stmt]:
        """Declare the pointers at the beginning of the lines from first on."""
        base = pointer(self.name, self.stored, const=True)
        return [
            Let(p, offset(base, mul(add(first, g * ROW_GROUP), self.stride)), mutable=True)
            for g, p in enumerate(self.pointers())
        ]

    def each(self, line: Var, body: Callable[[Expr], Sequence[Stmt]]) -> list[Stmt]:
        """Return body(address) for every line, in a loop for each pointer."""
        return [
            loop(
                line,
                low := g * ROW_GROUP,
                min(low + ROW_GROUP, self.count),
                body(offset(p, mul(sub(line, low), self.stride))),
                mark=Unroll(),
            )
            for g, p in enumerate(self.pointers())
        ]


def _step(d: Dot, a_lines: _Lines, b_lines: _Lines, *, masked: bool) -> Stmt:
    """Return the products of a vector of k: rows into registers, then column after column."""
    r, v, q = i64("r"), i64("v"), i64("q")
    column = Var("column", d.vector)

    def fetch(at: Expr, stored: DType) -> Expr:
        if not masked:
            return intrinsic("tc_load", d.vector, at, type=d.vector, stored=stored)
        tail = Var("tail", Mask(d.vector.dtype, d.vector.lanes))
        return intrinsic("tc_loadm", d.vector, at, tail, type=d.vector, stored=stored)

    def row(line: Expr) -> Elem:
        return Elem("row", (line,), d.vector)

    product = Bin("*", row(q), column, d.vector)
    return block(
        Array("row", d.vector, (d.rows,)),
        a_lines.each(r, lambda at: [assign(row(r), fetch(at, d.a)), do("tc_pin", row(r))]),
        b_lines.each(
            v,
            lambda at: [
                Let(column, fetch(at, d.b), mutable=True),
                do("tc_pin", column),
                loop(q, 0, d.rows, Assign(_acc(d, q, v), product, "+="), mark=Unroll()),
            ],
        ),
    )
