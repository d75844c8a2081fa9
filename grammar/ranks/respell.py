"""A definition whose dimensions are lined up, written anew without `...`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from tcdsl.grammar.ranks.broadcast import Alignment
from tcdsl.grammar.ranks.dims import ONE, Dim, Dims, Tensors, around, columns, covered, dots_in
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.walk import names_of, walk
from tcdsl.grammar.types.builtins import PAD, RAND, is_builtin


class Writer:
    """Writes a definition anew once its dimensions are lined up."""

    def __init__(self, alignment: Alignment, defs: Mapping[str, n.Def]) -> None:
        self._alignment = alignment
        self._old = alignment.definition
        taken = set[str]().union(*map(names_of, (*defs.values(), self._old)))
        self._size, self._index = (_free(letter, taken) for letter in ("D", "i"))
        self._defs = defs

    @property
    def _tensors(self) -> Tensors:
        return self._alignment.tensors

    def definition(self) -> n.Def:
        """Return the definition without `...`."""
        self._name_sizes()
        return replace(
            self._old,
            params=tuple(map(self._param, self._old.params)),
            returns=tuple(map(self._param, self._old.returns)),
            body=tuple(map(self._statement, self._old.body)),
            span=None,  # the text is another
        )

    def _name_sizes(self) -> None:
        """Name the extents that come with the arguments, in the order of the parameters."""
        given = 0
        for param in self._old.params:
            for dim in self._tensors[param.name] or ():
                group = dim.group
                if not group.is_broadcast and group.size is None and dim.declared is None:
                    group.size = n.Name(f"{self._size}{given}")
                    given += 1

    def _param(self, param: n.Param) -> n.Param:
        ref = param.type
        dots = dots_in(ref.dims, f"the type of '{param.name}'") if ref is not None else None
        if ref is None or dots is None:
            return param
        before, after = around(ref.dims or (), dots)
        dims = self._tensors.get(param.name)
        if dims is None:  # a return that nothing writes
            return replace(param, type=replace(ref, dims=(*before, *after)))
        middle = [self._extent(dim, dots) for dim in dims[len(before) : len(dims) - len(after)]]
        return replace(param, type=replace(ref, dims=(*before, *middle, *after) or None))

    def _extent(self, dim: Dim, dots: n.Dots) -> n.Expr:
        """Return an extent as the type of a parameter or return may have it."""
        extent = dim.extent
        if isinstance(extent, n.Extent):
            raise FaultError(
                "TC190",
                f"the extent of dimension {dim.place} of '{dim.tensor}' has no name",
                dots.span,
                "does not come from '...' of a parameter",
                Note("declare it beside '...', as in float(..., N), or leave the type out"),
            )
        return replace(extent, span=dots.span)

    # ---- statements

    def _statement(self, node: n.Stmt) -> n.Stmt:
        match node:
            case n.ForLoop(body=body):
                return replace(node, body=tuple(map(self._statement, body)))
            case n.Comprehension(value=n.Apply(name)) if self._is_call(name):
                return node
            case n.Comprehension() if any(isinstance(x, n.Dots) for x in walk(node)):
                return self._comprehension(node)
            case n.Comprehension() | n.MultiCall():
                return node
            case _:
                assert_never(node)

    def _is_call(self, name: str) -> bool:
        return name in self._defs and name not in self._tensors

    def _comprehension(self, node: n.Comprehension) -> n.Comprehension:
        target = node.target
        found = self._alignment.rows(node)
        rows = [row for _, _, row in found]
        dots = dots_in(target.subs, f"the subscripts of '{target.name}'")
        dims = self._tensors.get(target.name)
        if dots is not None and dims is not None:
            rows.append(covered(dims, target.subs or (), dots, target.name))
        table = columns(rows)
        names = tuple(f"{self._index}{place}" for place in range(len(table)))
        if dots is None and node.op in ("argmin=!", "argmax=!"):
            _want_order(node, rows, table)
        stands = bool(rows) or dots is not None
        lines = _Lines(self._tensors, names, table, stands=stands)
        clauses = tuple(lines.clause(c) for c in node.clauses)
        return replace(
            node,
            target=replace(target, subs=lines.subs(target.name, target.subs)),
            value=lines.expr(node.value),
            clauses=(*clauses, *_ranges(node, names, table)),
        )


def _counted(position: n.Expr, extent: n.Expr, at: n.Expr) -> n.Expr:
    """Return position * extent + at."""
    if position == n.IntLit(0):
        return at
    product = n.Binary("*", position, extent, span=at.span)
    return n.Binary("+", product, at, span=at.span)


def _free(letter: str, taken: set[str]) -> str:
    """Return what no name of the text begins with if a number follows: D, DD, DDD."""
    start = letter
    while any(x.startswith(start) and x[len(start) :].isdigit() for x in taken):
        start += letter
    return start


def _is_one(dim: Dim) -> bool:
    return dim.extent == ONE


def _ranges(
    node: n.Comprehension, names: Sequence[str], table: Sequence[Sequence[Dim]]
) -> Iterator[n.RangeClause]:
    """Yield ranges of indices whose columns have extents of several names.

    They have to be equal; a range up to the greatest makes a call see to it.
    """
    for name, column in zip(names, table, strict=True):
        extents: dict[n.Expr, Dim] = {}
        for dim in column:
            if not _is_one(dim):
                extents.setdefault(dim.extent, dim)
        if len(extents) < 2:
            continue
        numbers = [(e.value, dim) for e, dim in extents.items() if isinstance(e, n.IntLit)]
        if len(numbers) > 1:
            (some, one), (more, other) = numbers[:2]
            raise FaultError(
                "TC197",
                f"'{one.tensor}' and '{other.tensor}' do not fit each other: dimension "
                f"{one.place} of '{one.tensor}' is {some}, dimension {other.place} of "
                f"'{other.tensor}' is {more}",
                node.span,
            )
        high, *others = extents
        for extent in others:
            high = n.MinMax("max", high, extent, span=node.span)
        yield n.RangeClause(name, n.IntLit(0), high, span=node.span)


def _want_order(
    node: n.Comprehension, rows: Sequence[Dims], table: Sequence[Sequence[Dim]]
) -> None:
    """Refuse an arg reduction whose position would count the dimensions in another order."""
    order: list[int] = []
    for row in rows:
        skipped = len(table) - len(row)
        for place, dim in enumerate(row, skipped):
            is_repeated = _is_one(dim) and not all(map(_is_one, table[place]))
            if not is_repeated and place not in order:
                order.append(place)
    if order != sorted(order):
        raise FaultError(
            "TC197",
            f"'{node.op}' counts positions in the dimensions of what is read first, which has "
            "fewer than what follows",
            node.op_span or node.span,
            "",
            Note("read the tensor with all dimensions first"),
        )


class _Lines:
    """The expressions of one statement, `...` replaced by the indices of its columns."""

    def __init__(
        self,
        tensors: Tensors,
        names: Sequence[str],
        table: Sequence[Sequence[Dim]],
        *,
        stands: bool,
    ) -> None:
        self._tensors = tensors
        self._names = names
        self._table = table
        self._stands = stands  # for the dimensions of some tensor, perhaps none
        self._are_ones = [all(map(_is_one, column)) for column in table]

    def subs(self, name: str, subs: Sequence[n.Sub] | None) -> tuple[n.Expr, ...] | None:
        """Return subscripts of a tensor; None where it has none."""
        dots = dots_in(subs, f"the subscripts of '{name}'")
        written = tuple(s if isinstance(s, n.Dots) else self.expr(s) for s in subs or ())
        if dots is None:
            return tuple(s for s in written if not isinstance(s, n.Dots)) if subs else None
        before, after = around(written, dots)
        dims = self._tensors.get(name)
        row = () if dims is None else covered(dims, written, dots, name)
        skipped = len(self._names) - len(row)
        middle = [
            n.IntLit(0, span=dots.span)
            if _is_one(dim) and not self._are_ones[place]
            else n.Name(self._names[place], span=dots.span)
            for place, dim in enumerate(row, skipped)
        ]
        kept = (*before, *middle, *after)
        return tuple(s for s in kept if not isinstance(s, n.Dots)) or None

    def clause(self, clause: n.Clause) -> n.Clause:
        """Return a clause without `...`."""
        match clause:
            case n.RangeClause():
                return replace(clause, low=self.expr(clause.low), high=self.expr(clause.high))
            case n.Let() | n.Exists():
                return replace(clause, value=self.expr(clause.value))

    def expr(self, node: n.Expr) -> n.Expr:
        """Return an expression without `...`."""
        match node:
            case n.Apply(name, (seed, n.Dots() as dots, *rest)) if (
                name == RAND and name not in self._tensors
            ):
                return replace(node, args=(self._argument(seed), self._position(dots, rest)))
            case n.Apply(name) if any(isinstance(a, n.Dots) for a in node.args):
                return self._access(node)
            case n.Apply(name, (n.Apply() as inner, *rest)) if (
                name == PAD and name not in self._tensors
            ):
                args = (self._applied(inner), *(self._argument(a) for a in rest))
                return replace(node, args=args)
            case n.Apply():
                return replace(node, args=tuple(map(self._argument, node.args)))
            case n.Cast() | n.Unary():
                return replace(node, operand=self.expr(node.operand))
            case n.MinMax():
                return replace(node, lhs=self.expr(node.lhs), rhs=self.expr(node.rhs))
            case n.Ternary(cond, then, other):
                cond, then, other = map(self.expr, (cond, then, other))
                return replace(node, cond=cond, then=then, other=other)
            case n.Binary():
                first, chain = n.spine(node)
                value = self.expr(first)
                for link in chain:
                    value = replace(link, lhs=value, rhs=self.expr(link.rhs))
                return value
            case _:
                return node

    def _position(self, dots: n.Dots, rest: Sequence[n.Arg]) -> n.Expr:
        """Return the row-major position of the point in `...`.

        Of `rand(s, ..., n, i)`, which a batch with numbers of its own for each element is made of,
        it is that * n + i.
        """
        if not self._stands or len(rest) not in (0, 2):
            raise FaultError(
                "TC190",
                "'...' of 'rand' stands for no dimensions"
                if not rest
                else "'...' of 'rand' is the last argument",
                dots.span,
                "",
                Note("it counts the points of '...' of a tensor in the same statement"),
            )
        position: n.Expr = n.IntLit(0, span=dots.span)
        for place, (name, column) in enumerate(zip(self._names, self._table, strict=True)):
            if self._are_ones[place]:
                continue
            extent = next(dim.extent for dim in column if not _is_one(dim))
            at = n.Name(name, span=dots.span)
            position = _counted(position, replace(extent, span=dots.span), at)
        if rest:
            size, index = map(self._argument, rest)
            assert not isinstance(size, n.Dots | n.Keyword)
            assert not isinstance(index, n.Dots | n.Keyword)
            position = _counted(position, size, index)
        return position

    def _argument(self, arg: n.Arg) -> n.Arg:
        match arg:
            case n.Dots():
                return arg
            case n.Keyword():
                return replace(arg, value=self.expr(arg.value))
            case _:
                return self.expr(arg)

    def _access(self, node: n.Apply) -> n.Expr:
        """Return an access; one of a tensor of rank 0 is its name."""
        access = self._applied(node)
        if access.args or node.name not in self._tensors:
            return access
        return n.Name(node.name, span=node.span)

    def _applied(self, node: n.Apply) -> n.Apply:
        if node.name not in self._tensors and is_builtin(node.name):
            dots = dots_in(node.args, f"the arguments of '{node.name}'")
            if dots is not None:
                raise FaultError(
                    "TC190",
                    f"'{node.name}' is a function, so '...' is no argument of it",
                    dots.span,
                    "stands for dimensions of a tensor",
                )
        args: list[n.Sub] = []
        for arg in node.args:
            if isinstance(arg, n.Keyword):
                return node  # refused by the check
            args.append(arg)
        return replace(node, args=self.subs(node.name, args) or ())
