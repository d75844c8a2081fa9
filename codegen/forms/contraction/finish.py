"""What happens to a finished register tile on its way out: the fused epilogue.

Scale factors, the version that the sum is added to and the pointwise statements after the
contraction are evaluated on accumulators, a vector at a time. What they read is reached from the
tile's first element: as vectors along the columns (a bias), as one element per row, or by value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.base.scalars import narrow, widen
from tcdsl.codegen.forms.base.vexpr import LaneScope, is_heavy, walk
from tcdsl.codegen.forms.contraction.problem import Operand
from tcdsl.codegen.forms.contraction.register_tile import (
    RegisterTile,
    accumulator,
    intrinsic,
    load_vector,
    store_vector,
)
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Assign,
    Bin,
    Expr,
    Function,
    Let,
    Load,
    Pointer,
    Scalar,
    Simd,
    Stmt,
    Type,
    Var,
    Vector,
)
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import DType

SUM = "sum"  # a name no tensor has inside expressions of a finish: the accumulator


@dataclass(frozen=True, slots=True)
class FinishAccess:
    """What the tile reads or writes: param is its pointer in the micro-kernel.

    row: its stride along the rows is not zero, then `param_row` holds it. along: it runs along
    the columns with stride one, else it is the same for all columns.
    """

    param: str
    operand: Operand
    row: bool
    along: bool
    stored: DType
    is_read: bool

    def params(self) -> Iterator[Var]:
        """Yield pointer and row stride as parameters."""
        yield b.pointer(self.param, self.stored, const=self.is_read, restrict=True)
        if self.row:
            yield b.i64(f"{self.param}_row")

    def at(self, r: Expr) -> Expr:
        """Return the address of row r."""
        p = b.pointer(self.param, self.stored, const=self.is_read, restrict=True)
        return b.offset(p, b.mul(r, b.i64(f"{self.param}_row"))) if self.row else p


@dataclass(frozen=True, slots=True)
class FinishStep:
    """One value of every point: what is known of it later, and where it is stored."""

    version: typed.Read
    value: typed.Expr
    store: FinishAccess | None


@dataclass(frozen=True, slots=True)
class Finish:
    """Steps in order; the last one's value is what the micro-kernel stores at c.

    reads: accesses by the reads they stand for. uniforms: parameters that are the same for all
    points. resumes: the sum is added to what c holds.
    """

    steps: tuple[FinishStep, ...]
    reads: tuple[tuple[typed.Read, FinishAccess], ...]
    uniforms: tuple[tuple[Var, typed.Expr], ...]
    operands: Operands
    resumes: bool
    is_vector: bool  # every step has a vector form; else elements are computed one by one
    overwrites: bool  # c may be read by a step: it must not hold partial sums

    @property
    def is_plain(self) -> bool:
        """Whether sums are stored as they are."""
        return len(self.steps) == 1 and self.steps[0].value == sum_of(self.steps[0].value.dtype)

    @property
    def base(self) -> FinishAccess | None:
        """The operand that is added to sums, along the columns, where that is all that happens."""
        *before, last = self.steps
        sums = {SUM} | {s.version.tensor for s in before if _is_sum(s.value, {SUM})}
        if self.resumes or any(s.store or not _is_sum(s.value, {SUM}) for s in before):
            return None
        match last.value:
            case typed.Binary("+", x, y):
                for one, other in ((x, y), (y, x)):
                    found = next((a for e, a in self.reads if e == other), None)
                    if _is_sum(one, sums) and found is not None and found.along:
                        return found
        return None

    @property
    def is_long(self) -> bool:
        """Whether a register tile goes through its vectors in a loop, laid down: they are many.

        A dozen copies of what is long, one for each accumulator, leave the first level.
        """
        return self.is_vector and any(is_heavy(e) for s in self.steps for e in walk(s.value))

    @property
    def accesses(self) -> tuple[FinishAccess, ...]:
        """What the tile reaches besides c, in the order of parameters."""
        stores = [s.store for s in self.steps if s.store is not None]
        return (*(a for _, a in self.reads), *stores)

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters a micro-kernel takes for it."""
        reached = [p for a in self.accesses for p in a.params()]
        return (*reached, *(v for v, _ in self.uniforms))

    def declared(self, local: Callable[[Var], Var]) -> list[Stmt]:
        """Return the declarations of what is the same for all points, each under a local's name."""
        out: list[Stmt] = []
        for v, e in self.uniforms:
            values = Values(self.operands, {})
            value = values.value(e)
            out += [*values.take(), Let(local(v), value)]
        return out

    def far(self, r: Expr, column: Expr) -> list[Expr]:
        """Return where it reaches memory for a row of a tile, from a column on."""
        return [b.offset(a.at(r), column) for a in self.accesses if a.row and a.along]

    def element(self, r: Expr, x: Var, total: Expr, to: Load, stored: DType) -> Stmt:
        """Return the way of one finished sum into its place, for steps without a vector form."""
        reads = dict(self.reads)
        known: dict[str, Expr] = {SUM: total} | {v.name: v for v, _ in self.uniforms}

        def at(access: FinishAccess) -> Load:
            return b.load(access.at(r), x if access.along else 0)

        def local(e: typed.Read) -> Expr:
            if e.tensor in known and not e.subs:
                return known[e.tensor]
            return widen(at(reads[e]), reads[e].stored)

        stmts: list[Stmt] = []
        values = Values(self.operands, {}, local, prefix="p")
        for i, step in enumerate(self.steps):
            dtype = step.value.dtype.computed
            value = values.value(step.value)
            var = b.var(f"value{i}", dtype)
            stmts += [*values.take(), Let(var, value)]
            known[step.version.tensor] = var
            if step.store is not None:
                stmts.append(b.assign(at(step.store), narrow(var, step.store.stored)))
        stmts.append(b.assign(to, narrow(var, stored)))
        return b.block(stmts)

    def vector(
        self, tile: RegisterTile, r: Expr, v: Expr, masked: bool, held: Var | None = None
    ) -> Sequence[Stmt]:
        """Return the change of acc[r][v] in place, and the stores of further versions.

        held: the variable that has the sums, where they are in no accumulator.
        """
        reads = dict(self.reads)
        uniforms = {var.name: var for var, _ in self.uniforms}
        columns = b.mul(v, tile.lanes)
        stmts: list[Stmt] = []

        def vector_at(access: FinishAccess) -> Expr:
            at = b.offset(access.at(r), columns)
            return load_vector(tile, at, masked=masked, stored=access.stored)

        def local(e: typed.Read) -> Expr | None:
            if e.tensor in uniforms and not e.subs:
                return uniforms[e.tensor]
            access = reads[e]
            return widen(b.load(access.at(r), 0), access.stored)

        def scalar(e: typed.Expr) -> Expr:
            values = Values(self.operands, {}, local)
            out = values.value(e)
            stmts.extend(values.take())
            return out

        def read(e: typed.Read) -> Expr:
            return vector_at(reads[e])

        def index(e: typed.IndexValue) -> Expr:
            raise AssertionError(f"{e.name} has no value in a register tile")

        count = 0

        def fresh(stem: str) -> str:
            nonlocal count
            count += 1
            return f"last_{stem}{count}" if masked else f"{stem}{count}"

        known: dict[typed.Expr, Expr] = {}

        def varies(e: typed.Expr) -> bool:
            return isinstance(e, typed.Read) and (e in known or (e in reads and reads[e].along))

        acc = held or accumulator(tile, r, v)
        scope = LaneScope(tile.lanes, tile.dtype.bits, varies, scalar, read, index, fresh, stmts)
        scope.known = known
        known[sum_of(self.steps[0].value.dtype)] = acc
        for step in self.steps:
            value = scope.name(scope.vector(step.value))
            known[step.version] = value
            if step.store is not None:
                at = b.offset(step.store.at(r), columns)
                stored = step.store.stored
                stmts.append(store_vector(tile, at, value, masked=masked, stored=stored))
        stmts.append(Assign(acc, value))
        return stmts


def finish_pass(
    name: str, finish: Finish, vector: Vector, stored: DType, *, adds: bool
) -> Function:
    """Return the function that finishes a register tile which lies in memory, row after row.

    `from` holds the sums; it may be `to`, whose elements are of type stored. adds: what `to` holds
    is added first.
    """
    tile = RegisterTile(1, 1, vector.lanes, vector.dtype)
    sums, to = b.pointer("sums", vector.dtype, const=True), b.pointer("to", stored)
    r, v, x, whole = b.i64("r"), b.i64("v"), b.i64("x"), b.i64("whole")
    columns = b.i64("columns")

    def at(pointer: Var, column: Expr) -> Expr:
        return b.offset(pointer, b.add(b.mul(r, b.i64(f"{pointer.name}_row")), column))

    def one(v: Expr, masked: bool) -> list[Stmt]:
        held = Var("last" if masked else "held", vector)
        column = b.mul(v, vector.lanes)
        value = load_vector(tile, at(sums, column), masked=masked)
        base = load_vector(tile, at(to, column), masked=masked, stored=stored)
        return [
            Let(held, value, mutable=True),
            *([Assign(held, base, "+=")] if adds else []),
            *finish.vector(tile, r, v, masked, held),
            store_vector(tile, at(to, column), held, masked=masked, stored=stored),
        ]

    if finish.is_vector:
        left = b.sub(columns, b.mul(whole, vector.lanes))
        tail = intrinsic("tc_tail", vector, left, type=tile.mask)
        body = b.block(
            Let(whole, b.sub(b.ceil_div(columns, vector.lanes), 1)),
            Let(Var("tail", tile.mask), tail),
            b.loop(
                r, 0, b.i64("rows"), b.loop(v, 0, whole, one(v, False)), b.block(one(whole, True))
            ),
        )
    else:
        place = b.load(at(to, b.c64(0)), x)
        total: Expr = b.load(at(sums, b.c64(0)), x)
        if adds:
            total = Bin("+", widen(place, stored), total, Scalar(vector.dtype))
        element = finish.element(r, x, total, place, stored)
        body = b.loop(r, 0, b.i64("rows"), b.loop(x, 0, columns, element, mark=Simd()))
    reached = finish.params
    if finish.overwrites:  # what a step reads may be what is written
        reached = tuple(replace(p, type=_unrestricted(p.type)) for p in reached)
    params = (sums, b.i64("sums_row"), to, b.i64("to_row"), b.i64("rows"), columns, *reached)
    return Function(name, params, body, "helper")


def _unrestricted(t: Type) -> Type:
    return replace(t, restrict=False) if isinstance(t, Pointer) else t


def _is_sum(e: typed.Expr, names: Collection[str]) -> bool:
    """Whether an expression is a sum as it is, by these names."""
    return isinstance(e, typed.Read) and not e.subs and e.tensor in names


def sum_of(dtype: DType) -> typed.Read:
    """Return what stands for the accumulator inside expressions of a finish."""
    return typed.Read(SUM, (), dtype)
