"""The stream method: few rows, b read once in the order in which it lies.

    for j in columns:  sums[r][j] += a[r][k .. k + depth] * b[k .. k + depth][j]

A panel of b is a column of short pieces, each in a page of its own where rows are long: memory
then gives a fraction of what it could. Here a few rows of b are read side by side from end to end,
by all rows of a at once, whose sums lie close by, in the workspace. In between the next pieces are
fetched ahead. Halves are widened on the way.
"""

from __future__ import annotations

from tcdsl.codegen.forms.contraction.register_tile import FIRST, ROW_GROUP, intrinsic
from tcdsl.codegen.loops.build import (
    add,
    assign,
    block,
    c64,
    compare,
    do,
    i64,
    load,
    loop,
    mod,
    mul,
    offset,
    pointer,
    sub,
)
from tcdsl.codegen.loops.loopir import (
    Array,
    Assign,
    Bin,
    Elem,
    Eval,
    Expr,
    Function,
    If,
    Let,
    Mask,
    Scalar,
    Stmt,
    Unroll,
    Var,
    Vector,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import DType

AHEAD = 4  # vectors of a row of b that are fetched before they are needed


def most_rows(registers: int) -> int:
    """Return the rows that go together at most."""
    return 16 if registers >= 32 else 12


def vectors_of(registers: int, rows: int) -> int:
    """Return how many vectors of columns go together: four of few rows, else two or one."""
    return next(v for v in (4, 2, 1) if v * rows + v + 1 <= registers)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream kernel: rows of a, vectors of columns that go together, the type of b in memory."""

    rows: int
    vectors: int
    vector: Vector
    b: DType

    @property
    def columns(self) -> int:
        """Columns that go together."""
        return self.vectors * self.vector.lanes


def stream_params(s: Stream) -> tuple[Var, ...]:
    """Return the parameters: sums are read at from, unless these are the first, and go to `to`."""
    dtype = s.vector.dtype
    return (
        pointer("a", dtype, const=True, restrict=True),
        i64("a_row"),
        i64("a_k"),
        pointer("b", s.b, const=True, restrict=True),
        i64("b_k"),
        pointer("held", dtype, const=True),  # may be `to`
        i64("held_row"),
        pointer("to", dtype),
        i64("to_row"),
        i64("depth"),
        i64("flags"),
        i64("columns"),
    )


def stream_kernel(name: str, s: Stream) -> Function:
    """Return the function that adds depth terms to the sums of rows x columns."""
    j, columns, whole = i64("j"), i64("columns"), i64("whole")
    lanes = s.vector.lanes
    tail = Var("tail", Mask(s.vector.dtype, lanes))
    mask = Let(tail, intrinsic("tc_tail", s.vector, sub(columns, j), type=tail.type))
    body = block(
        Let(whole, sub(columns, mod(columns, s.columns))),
        loop(j, 0, whole, _strip(s, s.vectors, masked=False), step=s.columns),
        loop(j, whole, columns, mask, _strip(s, 1, masked=True), step=lanes),
    )
    return Function(name, stream_params(s), body, "micro")


def _strip(s: Stream, vectors: int, *, masked: bool) -> Stmt:
    """Return what is added to the sums of vectors from column j on."""
    k, r, v = i64("k"), i64("r"), i64("v")
    x = Var("x", Scalar(s.vector.dtype))
    b_now = pointer("b0", s.b, const=True)
    rows = [pointer(f"a{g}", s.vector.dtype, const=True) for g in range(0, s.rows, ROW_GROUP)]
    a_row, a_k = i64("a_row"), i64("a_k")
    acc, column = Elem("acc", (r, v), s.vector), Elem("column", (v,), s.vector)
    a = pointer("a", s.vector.dtype, const=True)
    mask = (Var("tail", Mask(s.vector.dtype, s.vector.lanes)),) if masked else ()
    kind = "m" * masked

    def fetch(at: Expr, stored: DType) -> Expr:
        return intrinsic(f"tc_load{kind}", s.vector, at, *mask, type=s.vector, stored=stored)

    def place(name: str, *, const: bool) -> Expr:
        at = add(mul(r, i64(f"{name}_row")), i64("j"), mul(v, s.vector.lanes))
        return offset(pointer(name, s.vector.dtype, const=const), at)

    def each(*body: Stmt) -> Stmt:
        return loop(r, 0, s.rows, loop(v, 0, vectors, *body, mark=Unroll()), mark=Unroll())

    def load_b() -> list[Stmt]:
        at = offset(b_now, mul(v, s.vector.lanes))
        ahead = [] if masked else [do("tc_prefetch", offset(at, AHEAD * s.vector.lanes))]
        # Pinned: folded into several FMAs as a memory operand, the load would run once per row.
        return [assign(column, fetch(at, s.b)), do("tc_pin", column), *ahead]

    def row(g: int) -> Stmt:
        product = Bin("*", column, x, s.vector)
        return loop(
            r,
            g * ROW_GROUP,
            min((g + 1) * ROW_GROUP, s.rows),
            Let(x, load(rows[g], mul(sub(r, g * ROW_GROUP), a_row))),
            loop(v, 0, vectors, Assign(acc, product, "+="), mark=Unroll()),
            mark=Unroll(),
        )

    is_later = compare("==", Bin("&", i64("flags"), c64(FIRST), i64("flags").type), 0)
    held = fetch(place("held", const=True), s.vector.dtype)
    store = intrinsic(f"tc_store{kind}", s.vector, place("to", const=False), *mask, acc)
    return block(
        Array("acc", s.vector, (s.rows, vectors), zero=True),
        If(is_later, each(assign(acc, held))),
        [Let(p, offset(a, mul(g * ROW_GROUP, a_row)), mutable=True) for g, p in enumerate(rows)],
        Let(b_now, offset(pointer("b", s.b, const=True), i64("j")), mutable=True),
        loop(
            k,
            0,
            i64("depth"),
            Array("column", s.vector, (vectors,)),
            loop(v, 0, vectors, load_b(), mark=Unroll()),
            [row(g) for g in range(len(rows))],
            [assign(p, offset(p, a_k)) for p in rows],
            assign(b_now, offset(b_now, i64("b_k"))),
            mark=Unroll(1),
        ),
        each(Eval(store)),
    )
