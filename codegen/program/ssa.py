"""A checked definition to a `Program`: every statement makes a new version of its target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.dtypes import identity, numpy_dtype
from tcdsl.codegen.program.expressions import (
    all_from_lowest,
    map_typed,
    reads_from_lowest,
    reads_of,
    walk_typed,
    with_bounds,
)
from tcdsl.codegen.program.factors import Factor, split
from tcdsl.codegen.program.guards import Guards, stands_alone
from tcdsl.codegen.program.invariant import hoisted
from tcdsl.codegen.program.masked import unmasked
from tcdsl.codegen.program.program import Buffer, Program, Statement, TurnLoop
from tcdsl.codegen.program.scatters import COMBINING, becomes_contraction, gathers, shuffled
from tcdsl.codegen.program.subscripts import (
    MOST_PIECES,
    Span,
    Tile,
    are_joined,
    box_of,
    counts_all,
    injective_in,
    is_tiling,
    tile_of,
)
from tcdsl.codegen.program.temporaries import name_of, new_buffer, new_statement
from tcdsl.codegen.program.unparse import statement_text
from tcdsl.grammar.proofs.ranges import Interval
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.text.nodes import AssignOp, starts_anew
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64, DType
from tcdsl.grammar.types.typed import CheckedDef, Expr, Range, Tensor


@on_own_stack
def program_of(checked: CheckedDef) -> Program:
    """Return the SSA form of a checked definition."""
    builder = _Builder(checked)
    builder.block(checked.body)
    current = builder.current
    return Program(
        name=checked.name,
        text=checked.text,
        sizes=checked.sizes,
        scalars=tuple(t.name for t in checked.params if not t.shape),
        inputs=tuple(t.name for t in checked.params),
        outputs=tuple(current[t.name] for t in checked.returns),
        buffers=tuple(builder.buffers),
        statements=tuple(builder.statements),
        constraints=checked.constraints,
        loops=tuple(builder.loops),
    )


class _Builder:
    """Versions and statements in the making; current is the version a name means now."""

    def __init__(self, checked: CheckedDef) -> None:
        self.tensors = {t.name: t for t in (*checked.params, *checked.returns, *checked.temps)}
        self.buffers: list[Buffer] = []
        self.statements: list[Statement] = []
        self.loops: list[TurnLoop] = []
        self.current: dict[str, str] = {}
        self.versions = dict.fromkeys(self.tensors, 0)
        self.sizes = checked.sizes
        self.constraints = checked.constraints
        self.turns: dict[str, Interval] = {}  # of the loops around the statement
        for t in checked.params:
            self.version(t.name, None)
        for t in checked.returns:
            if t.is_updated:  # what the caller's buffer holds
                self.version(t.name, None)

    def version(self, tensor: str, home: str | None) -> str:
        """Add the next version of a tensor, in the memory of another or in its own."""
        t, number = self.tensors[tensor], self.versions[tensor]
        name = f"{tensor}.{number}" if number else tensor
        self.versions[tensor] += 1
        self.buffers.append(
            Buffer(name, tensor, t.dtype, t.shape, t.low, t.role, name if home is None else home)
        )
        self.current[tensor] = name
        return name

    def block(self, body: Sequence[typed.Stmt]) -> None:
        """Add statements and loops in order."""
        todo = [*body]
        while todo:
            match todo[0]:
                case typed.Statement() as s:
                    gathered = self.gathered(self.padded(s))
                    products = [x for one in gathered for x in self.hoisted(one)]
                    todo[:1] = [x for one in products for x in self.unmasked(one)]
                    if s.target not in self.current and self.is_tiled(todo):
                        self.version(s.target, None)  # of which nothing stays
                    first_piece, *todo = todo
                    assert isinstance(first_piece, typed.Statement)
                    self.statement(first_piece)
                case typed.Loop(var, low, high, inner):
                    del todo[0]
                    self.begin(inner)
                    at, first = len(self.loops), len(self.statements)
                    self.loops.append(TurnLoop(var, low, high, first, first))
                    self.turns[var] = Interval(low, high - 1)
                    self.block(inner)
                    del self.turns[var]
                    self.loops[at] = TurnLoop(var, low, high, first, len(self.statements))
                case other:
                    assert_never(other)

    def begin(self, body: Sequence[typed.Stmt]) -> None:
        """Give what a loop is the first to write its initial contents before it.

        A turn may write a part of it, and there may be no turn.
        """
        for s in typed.statements(body):
            if s.target not in self.current:
                self.fill(s)

    def fill(self, s: typed.Statement) -> None:
        """Give the target of a statement its initial contents."""
        shape = self.tensors[s.target].shape
        names = [fresh(f"i{d}", {*self.tensors, *self.sizes}) for d in range(len(shape))]
        ranges = tuple(
            Range(n, Size.const(0), extent, "output")
            for n, extent in zip(names, shape, strict=True)
        )
        at = tuple(typed.IndexValue(n, INT64) for n in names)
        self.append(s.target, None, at, "=", self.identity(s), ranges, covers=True)

    def gathered(self, s: typed.Statement) -> list[typed.Statement]:
        """Return a scatter as gathers, where that is possible, else as it is."""
        restarts = s.op.endswith("!") and s.target in self.current  # only what points fall into
        if s.op == "=" or s.op.startswith("arg") or restarts:
            return [s]
        if s.is_ragged or any(r.tensor == s.target for e in s.exprs for r in reads_of(e)):
            return [s]
        nothing = typed.Lit(identity_of(s.op, s.value.dtype), s.value.dtype)
        target = self.tensors[s.target]
        taken = {*self.tensors, *self.sizes}
        moved = shuffled(s, target, self.turns, fresh(f"{s.target}_apart", taken))
        if moved is not None:
            *found, temp = moved
            self.tensors[temp.name] = temp
            self.versions[temp.name] = 0
            return found
        return gathers(s, target, self.bounds, self.turns, nothing) or [s]

    def padded(self, s: typed.Statement) -> typed.Statement:
        """Return a sum of products whose conditions are the bounds of reads as one of paddings.

        (h + k > 0 && h + k <= H ? X(h + k - 1) : 0) * W(k)   ->   pad(X(h + k - 1), 0) * W(k)
        """
        if s.op not in ("+=", "+=!") or s.is_ragged:
            return s
        if not any(isinstance(x, typed.Select) for x in walk_typed(s.value)):
            return s
        guards = Guards(s.ranges, self.bounds, self.turns, exactly=True)
        found = replace(s, value=guards.selected(guards.moved(s.value)))
        return found if becomes_contraction(found) and not becomes_contraction(s) else s

    def hoisted(self, s: typed.Statement) -> list[typed.Statement]:
        """Return a sum of products with what its terms share behind it, if it has tiles then."""
        taken = {*self.tensors, *self.sizes}
        target = self.tensors[s.target]
        found = hoisted(
            s, target, self.bounds, self.turns, lambda name: fresh(name, taken), self.constraints
        )
        if found is None or not becomes_contraction(found[0]):
            return [s]
        total, behind, temp = found
        self.tensors[temp.name] = temp
        self.versions[temp.name] = 0
        return [total, behind]

    def unmasked(self, s: typed.Statement) -> list[typed.Statement]:
        """Return a sum of products under a condition as the sum and the condition."""
        target, taken = self.tensors[s.target], {*self.tensors, *self.sizes}
        found = unmasked(s, target, self.bounds, self.turns, lambda name: fresh(name, taken))
        if found is None or not becomes_contraction(found[0]):
            return [s]
        total, masked, temp = found
        self.tensors[temp.name] = temp
        self.versions[temp.name] = 0
        return [total, masked]

    def bounds(self, name: str) -> list[tuple[Size, Size]]:
        """Return the first element of each dimension of a tensor, and the one behind the last."""
        t = self.tensors[name]
        return [(low, low + extent) for low, extent in zip(t.low, t.shape, strict=True)]

    def extents(self, name: str) -> list[tuple[Size, Size]]:
        """Return `bounds` of a version, whose elements are counted from the first."""
        return [(Size.const(0), extent) for extent in self.buffer(name).shape]

    def is_tiled(self, body: Sequence[typed.Stmt]) -> bool:
        """Whether statements that a body begins with write each element of a tensor anew."""
        first = body[0]
        assert isinstance(first, typed.Statement)
        tensor = self.tensors[first.target]
        tiles: list[Tile | None] = []
        boxes: list[tuple[Span, ...] | None] = []
        for s in body[:MOST_PIECES]:
            if not isinstance(s, typed.Statement) or s.target != first.target:
                break
            reads = any(r.tensor == s.target for e in (s.value, *s.subs) for r in reads_of(e))
            if reads or not starts_anew(s.op):
                break
            subs = all_from_lowest(s.subs, tensor.low)
            outputs = [r for r in s.ranges if r.kind == "output"]
            is_whole = not tiles and counts_all(subs, outputs, tensor.shape)
            if is_whole and not any(s.subs_checked):
                return not covers_box(subs, s.ranges, tensor.shape)
            tiles.append(tile_of(subs, outputs, tensor.shape))
            boxes.append(box_of(subs, outputs))
            if len(tiles) > 1 and (is_tiling(tiles) or are_joined(boxes, tensor.shape)):
                return True
        return False

    def identity(self, s: typed.Statement) -> Expr:
        """Return what the elements that a statement writes start from, as a value of its target."""
        dtype = self.tensors[s.target].dtype
        held = dtype.computed
        value: Expr = typed.Lit(identity_of(s.op, held), held)
        return typed.Cast(value, dtype) if dtype.is_half else value

    def append(
        self,
        tensor: str,
        base: str | None,
        subs: tuple[Expr, ...],
        op: AssignOp,
        value: Expr,
        ranges: tuple[Range, ...],
        *,
        covers: bool,
    ) -> None:
        """Add a statement that the text does not have."""
        old = self.current.get(tensor)
        target = self.version(tensor, None if old is None else self.buffer(old).home)
        text = statement_text(typed.Statement(tensor, subs, op, value, ranges))
        checked = (False,) * len(subs)
        self.statements.append(
            Statement(target, base, subs, op, value, ranges, covers, checked, text)
        )

    def statement(self, s: typed.Statement) -> None:
        tensor = self.tensors[s.target]
        old = self.current.get(s.target)
        subs = all_from_lowest([*map(self.renamed, s.subs)], tensor.low)
        value = self.renamed(s.value)
        ranges = with_bounds(s.ranges, self.renamed)
        covers = covers_box(subs, s.ranges, tensor.shape) and not any(s.subs_checked)
        from_data = any(reads_of(e) for e in subs)  # then '!' is for the whole box
        restarts = s.op.endswith("!") and old is not None and not covers and not from_data
        op = s.op
        base = None if op.endswith("!") or (op == "=" and covers) else old
        ends = [e for r in ranges for e in r.bounds or ()]
        if (
            base is None
            and not covers
            and any(r.tensor == old for e in (value, *ends) for r in reads_of(e))
        ):
            copied = self.from_copy(s.target)
            value, ranges = copied(value), with_bounds(ranges, copied)
        outputs = tuple(r for r in s.ranges if r.kind == "output")
        is_told = len(injective_in(subs, outputs)) == len(outputs)
        if old is None and not covers and is_told and becomes_contraction(s):
            self.fill(s)  # the form for a contraction writes only its points
            old = base = self.current[s.target]
        elif restarts:
            if op in COMBINING and not is_told:  # points may meet
                self.append(s.target, old, subs, "=", self.identity(s), outputs, covers=False)
                op = COMBINING[op]
            old = base = self.current[s.target]
        home = None if old is None else self.buffer(old).home
        target = self.version(s.target, home)
        made = Statement(
            target=target,
            base=base,
            subs=subs,
            op=op,
            value=value,
            ranges=ranges,
            covers=covers,
            subs_checked=s.subs_checked or (False,) * len(subs),
            text=statement_text(s),
        )
        names = {*self.tensors, *self.sizes, *(x.var for x in self.loops)}
        names.update(r.name for r in s.ranges)

        def unused(name: str) -> str:
            names.add(new := fresh(name, names))
            return new

        split_up = split(
            made,
            unused,
            lambda factor: self.from_factor(factor, s.target),
            lambda f: stands_alone(
                f.value, f.ranges, made, self.extents, self.turns, self.constraints
            ),
        )
        self.statements.append(split_up or made)

    def from_factor(self, factor: Factor, tensor: str) -> Expr:
        """Add the temporary of a factor, and return its read where the product has it."""
        name, dtype = name_of(tensor, "factor", self.buffers), factor.value.dtype
        self.buffers.append(new_buffer(name, tensor, dtype, [r.extent for r in factor.ranges]))
        self.statements.append(new_statement(name, factor.subs, "=", factor.value, factor.ranges))
        return typed.Read(name, factor.at, dtype, (False,) * len(factor.at))

    def from_copy(self, tensor: str) -> Callable[[Expr], Expr]:
        """Return how an expression reads the version before from a copy.

        The text forbids reading elements that the same statement writes before (but the very
        one), so a statement may work in place; except where it initialises elements that it does
        not write and reads what they were.
        """
        old, t = self.current[tensor], self.tensors[tensor]
        dtype = t.dtype.computed
        copy = name_of(tensor, "copy", self.buffers)
        self.buffers.append(new_buffer(copy, tensor, dtype, t.shape))
        taken = {*self.tensors, *self.sizes}
        names = [fresh(f"c{d}", taken) for d in range(len(t.shape))]
        at = tuple(typed.IndexValue(n, INT64) for n in names)
        read: Expr = typed.Read(old, at, t.dtype, (False,) * len(at))
        self.statements.append(
            Statement(
                target=copy,
                base=None,
                subs=at,
                op="=",
                value=typed.Cast(read, dtype) if t.dtype.is_half else read,
                ranges=tuple(
                    Range(n, Size.const(0), extent, "output")
                    for n, extent in zip(names, t.shape, strict=True)
                ),
                covers=True,
                subs_checked=(False,) * len(at),
                text=f"{copy} = {tensor}",
            )
        )

        def one(x: Expr) -> Expr:
            if not isinstance(x, typed.Read) or x.tensor != old:
                return x
            return replace(x, tensor=copy, dtype=dtype)

        return lambda e: map_typed(e, one)

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        return next(x for x in self.buffers if x.name == name)

    def renamed(self, e: Expr) -> Expr:
        """Return e with versions for names and subscripts from the box's lowest element."""
        return reads_from_lowest(e, self.tensors, self.current.__getitem__)


def identity_of(op: AssignOp, dtype: DType) -> int | float:
    """Return the identity of an operator, 0 for `=`, as a value of a type."""
    value = identity(op.rstrip("!"), numpy_dtype(dtype))
    return float(value) if dtype.is_float else int(value)


def writes_all(s: typed.Statement, target: Tensor) -> bool:
    """Whether a statement writes every element of its target."""
    return covers_box(all_from_lowest(s.subs, target.low), s.ranges, target.shape)


def covers_box(subs: tuple[Expr, ...], ranges: tuple[Range, ...], shape: tuple[Size, ...]) -> bool:
    """Whether subs, one variable each, run over the whole box."""
    spans = {r.name: r for r in ranges}
    used: set[str] = set()
    for e, extent in zip(subs, shape, strict=True):
        a = affine_of(e)
        if a is None or len(a.terms) != 1 or a.terms[0][1] != 1 or a.terms[0][0] in used:
            return False
        name = a.terms[0][0]
        used.add(name)
        span = spans[name]
        if span.bounds is not None:
            return False
        if span.low + a.const != Size.const(0) or span.high + a.const != extent:
            return False
    return True
