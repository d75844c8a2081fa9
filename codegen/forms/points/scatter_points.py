"""What a scatter does at a point: its indices by their roles, rows looked up, columns written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.outputs import injective_in, innermost
from tcdsl.codegen.forms.base.phase import nested, parallel_mark, reduction_mark
from tcdsl.codegen.forms.base.scalars import combine, narrow
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Assign, Expr, If, Let, Load, Return, Serial, Stmt
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import indices_of, reads_of
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Range

NARROW = 5  # columns: fewer may have copies


@dataclass(frozen=True, slots=True)
class Scatter:
    """A statement whose points meet, and the roles of its indices.

    Points that differ in meeting indices may write one element. Of the indices in which the write
    is injective, slabs choose rows as well (`dI(n, P(n, i))`: each n is a scatter of its own),
    columns do not; but where points that meet are nearer in memory (`dX(n, I(i))`) there are no
    columns, through all of which a point would walk. keys are the dimensions of the target whose
    subscripts tell the row, the widest first. own[d] is the slab or column that alone, and wholly,
    is the subscript of dimension d; None for keys. It is empty if there is a dimension of another
    kind.
    """

    statement: Statement
    meeting: tuple[Range, ...]
    slabs: tuple[Range, ...]
    columns: tuple[Range, ...]
    keys: tuple[int, ...]
    own: tuple[Range | None, ...]


def scatter_of(ctx: Context) -> Scatter | None:
    """Return the scatter that a group's statement is, None if data chooses no element."""
    s, ops = ctx.group.statements[0], ctx.operands
    buffer = ops.buffer(s.target)
    is_rounded = buffer.dtype.kind == "bool" or ops.memory_dtype(s.target).is_half
    if s.is_arg or (is_rounded and s.op != "="):
        return None
    if any(ops.buffer(r.tensor).home == buffer.home for r in s.reads()):
        return None
    if any(ctx.program.depends(x) for r in s.ranges for x in (r.low, r.high)):
        return None
    apart = injective_in(s)
    meeting = tuple(r for r in s.outputs if r.name not in apart)
    names = {r.name for r in meeting}
    keys = [d for d, e in enumerate(s.subs) if indices_of(e) & names]
    if not any(reads_of(s.subs[d]) for d in keys):
        return None
    chosen = {name for d in keys for name in indices_of(s.subs[d])}
    inner = innermost(ops, s)
    if inner in names and ctx.at_least(_width(s, apart - chosen), NARROW):
        chosen |= apart
    columns = sorted(
        (r for r in s.outputs if r.name in apart and r.name not in chosen),
        key=lambda r: r.name == inner,
    )
    by_name = {r.name: r for r in s.outputs}
    own: list[Range | None] = []
    for d, e in enumerate(s.subs):
        a = None if d in keys else affine_of(e)
        own.append(by_name.get(a.plain or "") if a is not None else None)
    whole = all(
        d in keys or (r is not None and r.low == Size.const(0) and r.extent == buffer.shape[d])
        for d, r in enumerate(own)
    )
    found = [r for r in own if r is not None]
    whole = whole and len(set(found)) == len(found)
    return Scatter(
        s,
        meeting,
        tuple(r for r in s.outputs if r.name in apart and r.name in chosen),
        tuple(columns),
        tuple(sorted(keys, key=lambda d: -ctx.extent(buffer.shape[d]))),
        tuple(own) if whole else (),
    )


def _width(s: Statement, columns: Collection[str]) -> Size:
    """Return how many elements a point has in columns."""
    return prod((r.extent for r in s.outputs if r.name in columns), start=Size.const(1))


Place = Callable[[Sequence[Expr]], Load]  # the element at subscripts


class ScatterPoints:
    """The text of points, whose indices are declared around it: rows looked up, columns combined.

    Parameters
    ----------
    is_flat
        Whether rows `(e / W, e % W)` of neighbouring dimensions that lie as one may be found as
        row e, without the division; of the two dimensions the first then has subscript 0.
    """

    def __init__(self, ctx: Context, scatter: Scatter, *, is_flat: bool) -> None:
        self.ctx, self.scatter, self.ops = ctx, scatter, ctx.operands
        self._index = {r.name: b.i64(safe_name(r.name)) for r in scatter.statement.ranges}
        self._flat = _flat_pairs(ctx, scatter) if is_flat else {}

    def rows(self) -> tuple[dict[int, Expr], list[Stmt]]:
        """Return the subscripts of the keys, each a variable that is checked, and what runs before.

        Data is read here and nowhere else: whoever needs a row later keeps it.
        """
        s = self.scatter.statement
        values = Values(self.ops, self._index, prefix="row")
        found: dict[int, Expr] = {}
        for d in sorted(self.scatter.keys):
            if d in self._flat:
                whole = values.introduce(values.subscript(self._flat[d]))
                if s.subs_checked[d] or s.subs_checked[d + 1]:
                    values.stmts.append(self._check_flat(d, whole))
                found |= {d: b.c64(0), d + 1: whole}
            elif d not in found:
                e = values.subscript(s.subs[d])
                is_checked = s.subs_checked[d]
                found[d] = values.inside(s.target, d, e) if is_checked else values.introduce(e)
        return found, values.take()

    def _check_flat(self, d: int, whole: Expr) -> Stmt:
        """Return the check of a row e that stands for `(e / W, e % W)`: the first is outside."""
        ops, target = self.ops, self.scatter.statement.target
        height, width = ops.extent(target, d), ops.extent(target, d + 1)
        position = ops.position(target)
        quotient = b.call("tc_div_i64", whole, width, type=I64)
        fault = b.call(
            "tc_fault",
            b.ARGS,
            -1 if position is None else position,
            d,
            quotient,
            height,
            type=b.INT,
        )
        outside = b.any_of(b.compare("<", whole, 0), b.compare(">=", whole, b.mul(height, width)))
        return If(outside, Return(fault))

    def update(self, rows: Mapping[int, Expr], place: Place) -> Stmt:
        """Return the loops over columns that combine a point's values with its elements."""
        s, ops = self.scatter.statement, self.ops
        values = Values(ops, self._index)
        subs = []
        for d, e in enumerate(s.subs):
            if d in rows:
                subs.append(rows[d])
            else:
                at = values.subscript(e)
                subs.append(values.inside(s.target, d, at) if s.subs_checked[d] else at)
        element = place(subs)
        locate = values.take()
        value = values.value_of(s)
        if s.op == "=":  # the last of the points that meet stays
            kept = Assign(element, narrow(value, ops.memory_dtype(s.target)))
            body = b.block(locate, values.take(), kept)
            return nested(self.ctx, self.scatter.columns, body, parallel_mark(body))
        acc = b.var(ops.local("acc"), ops.memory_dtype(s.target))
        step = b.block(values.take(), Assign(acc, combine(s.op, acc, value)))
        body = b.block(
            locate,
            Let(acc, element, mutable=True),
            nested(self.ctx, s.reductions, step, reduction_mark(s, acc)),
            Assign(element, acc),
        )
        return nested(self.ctx, self.scatter.columns, body, parallel_mark(body))

    def in_order(self, ranges: Sequence[Range], place: Place) -> Stmt:
        """Return all points of ranges, each looked up and combined."""
        rows, first = self.rows()
        return nested(self.ctx, ranges, b.block(first, self.update(rows, place)), Serial())


def _flat_pairs(ctx: Context, scatter: Scatter) -> dict[int, typed.Expr]:
    """Return e by dimension d where dimensions d and d + 1 have subscripts e / W and e % W.

    W is the extent of dimension d + 1, and both lie in memory as one.
    """
    s = scatter.statement
    layout, shape = ctx.operands.layout(s.target), ctx.operands.buffer(s.target).shape
    found: dict[int, typed.Expr] = {}
    for d in range(len(s.subs) - 1):
        match s.subs[d], s.subs[d + 1]:
            case typed.Binary("/", e, w), typed.Binary("%", other, v) if e == other and w == v:
                a = affine_of(w)
                is_whole = a is not None and not a.terms and a.const == shape[d + 1]
                if d in scatter.keys and is_whole and (layout.contiguous or layout.joined[d]):
                    found[d] = e
    return found
