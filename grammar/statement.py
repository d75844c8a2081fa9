"""One comprehension: its target, its ranges, its value, and what it may read of its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tcdsl.grammar import nodes as n
from tcdsl.grammar import typed as t
from tcdsl.grammar.builtins import is_reserved
from tcdsl.grammar.dtypes import BOOL, FLOAT32, INT32, DType, promote
from tcdsl.grammar.errors import Diagnostic, Note
from tcdsl.grammar.expressions import (
    INT32_MAX,
    Access,
    Context,
    Typer,
    Value,
    coerce,
    convert,
    declared_here,
    integral,
    not_yet_dots,
)
from tcdsl.grammar.ranges import ANY, Bound, Interval, Prover, interval, is_exact, solve
from tcdsl.grammar.scope import (
    Box,
    FaultError,
    Frame,
    SilentError,
    StatementScope,
    Tensor,
    is_update,
    near,
)
from tcdsl.grammar.session import Session
from tcdsl.grammar.sizes import FloorDiv, Modulo, Size, is_nonnegative, maximum
from tcdsl.grammar.source import Span

INITIALISING: dict[n.AssignOp, n.AssignOp] = {
    "+=": "+=!",
    "*=": "*=!",
    "min=": "min=!",
    "max=": "max=!",
}


@dataclass(slots=True)
class Comprehension:
    """A comprehension at work."""

    session: Session
    frame: Frame
    node: n.Comprehension
    target: Tensor
    scope: StatementScope
    typer: Typer
    domain: dict[str, Interval]  # solved ranges, inclusive
    op: n.AssignOp = "="
    subs: tuple[t.Expr, ...] = ()
    forms: tuple[Size, ...] = ()

    # ---- the left side

    def left(self) -> None:
        """Type the subscripts of the target; their new names are output indices."""
        nodes = self.node.target.subs or ()
        self.typer.new_kind = "output"
        subs = []
        for sub in nodes:
            if isinstance(sub, n.Dots):
                raise not_yet_dots(sub.span)
            subs.append(self.typer.integer(sub, Context(), f"a subscript of '{self.target.name}'"))
        self.typer.new_kind = "reduction"
        self.subs = tuple(subs)
        self.forms = tuple(self.typer.forms.of(s) for s in subs)
        rank = self.target.rank
        if rank is not None and rank != len(subs):
            count = len(subs)
            raise FaultError(
                "TC113",
                f"'{self.target.name}' is written with {count} "
                f"{'index' if count == 1 else 'indices'}, but has {rank} "
                f"{'dimension' if rank == 1 else 'dimensions'}",
                self.node.target.span,
                "",
                declared_here(self.target),
            )
        self._one_to_one(nodes)

    def _one_to_one(self, nodes: Sequence[n.Sub]) -> None:
        """Refuse what needs a scatter: subscripts that do not determine the indices."""
        outputs = {x.name for x in self.scope.indices.values()}
        for form, sub in zip(self.forms, nodes, strict=True):
            if any(name.startswith("?") for name in form.symbols()):
                raise FaultError(
                    "TC192",
                    "a subscript read from data on the left (scatter) is not available yet",
                    sub.span,
                )
            for atom in (a for m, _ in form.terms for a in m):
                if isinstance(atom, FloorDiv | Modulo) and outputs & set(Size.atom(atom).symbols()):
                    raise FaultError(
                        "TC193", "'/' and '%' on the left are not available yet", sub.span
                    )
        free = set(outputs)
        while free:
            alone = {
                names[0]
                for form in self.forms
                if len(names := [s for s in form.symbols() if s in free]) == 1
                and is_exact(form, {names[0]: ANY})
            }
            if not alone:
                at = self.node.target.span
                raise FaultError(
                    "TC192",
                    "a left side that is not one-to-one in its indices is not available yet",
                    at,
                )
            free -= alone

    # ---- ranges

    def clauses(self) -> tuple[list[tuple[n.RangeClause, Size, Size]], list[Access]]:
        """Return the given ranges, and the accesses that are not evaluated."""
        given = []
        seen: dict[str, n.RangeClause] = {}
        exists_from = len(self.typer.accesses)
        for clause in self.node.clauses:
            if isinstance(clause, n.Exists):
                self.typer.value(clause.value, Context())
        exists = self.typer.accesses[exists_from:]
        del self.typer.accesses[exists_from:]
        for clause in self.node.clauses:
            if not isinstance(clause, n.RangeClause):
                continue
            if clause.name in seen:
                raise FaultError(
                    "TC203",
                    f"'{clause.name}' has two ranges",
                    clause.span,
                    "",
                    Note("the first is here", seen[clause.name].span),
                    Note("write one range: max of the lower bounds, min of the upper"),
                )
            seen[clause.name] = clause
            self._where_index(clause)
            low, high = (self._bound(e, clause.name) for e in (clause.low, clause.high))
            given.append((clause, low, high))
        return given, exists

    def _where_index(self, clause: n.RangeClause) -> None:
        name = clause.name
        role = "a name of 'where'" if name in self.scope.lets else self.frame.role(name)
        if role is not None:
            raise FaultError("TC118", f"'{name}' is {role}, so it has no range", clause.span)
        if name not in self.scope.indices:
            self.typer.value(n.Name(name, span=clause.span), Context(is_subscript=True))

    def _bound(self, node: n.Expr, name: str) -> Size:
        accesses = len(self.typer.accesses)
        at = Context(is_subscript=True, new_indices=False)
        value = self.typer.value(node, at)
        for access in self.typer.accesses[accesses:]:
            if access.tensor.host is None:
                raise FaultError(
                    "TC205",
                    f"a bound of '{name}' reads the tensor '{access.node.name}'",
                    access.node.span,
                    "",
                    Note("bounds may use sizes, integers and integral scalar parameters"),
                )
        del self.typer.accesses[accesses:]
        form = self.typer.forms.of(integral(value, node, f"a bound of '{name}'"))
        if any(s.startswith("?") for s in form.symbols()):
            raise FaultError("TC209", f"a bound of '{name}' is not understood", node.span)
        return form

    def solve(
        self, given: list[tuple[n.RangeClause, Size, Size]], exists: list[Access]
    ) -> tuple[t.Range, ...]:
        """Find the range of every index."""
        by_name = {c.name: (low, high) for c, low, high in given}
        self.domain = {
            x.name: Interval(by_name[k][0], by_name[k][1] - 1)
            for k, x in self.scope.indices.items()
            if k in by_name
        }
        unknowns = self.typer.forms.unknowns
        bounds = [b for a in (*self.typer.accesses, *exists) for b in _bounds_of(a)]
        own = self._target_bounds()
        plain = [b for b in bounds if not b.guarded]
        for conditions in (plain, bounds, [*bounds, *own]):
            free = [x.name for x in self.scope.indices.values() if x.name not in self.domain]
            if free:
                self.domain |= solve(free, conditions, self.domain | unknowns)
        for key, index in self.scope.indices.items():
            if index.name not in self.domain:
                self._unsolved(key, index.name, index.span, bounds)
        ranges = []
        for kind in ("output", "reduction"):
            for key, index in self.scope.indices.items():
                if index.kind != kind:
                    continue
                at = self.domain[index.name]
                assert at.low is not None
                assert at.high is not None
                ranges.append(t.Range(index.name, at.low, at.high + 1, index.kind))
                extent = at.high + 1 - at.low
                message = f"the range of '{key}' would have {extent} values"
                if not self.session.demand(extent, message, index.span):
                    clause = next((c for c, _, _ in given if c.name == key), None)
                    raise FaultError(
                        "TC206",
                        f"the range of '{key}' is empty for all sizes",
                        clause.span if clause else index.span,
                        f"{at.low} to {at.high + 1}, so {extent} values",
                    )
        return tuple(ranges)

    def _target_bounds(self) -> list[Bound]:
        """Return what a known box of the target says of the indices on the left."""
        if self.target.dims is None and self.target.box is None:
            return []
        pairs = zip(self.forms, self.target.bounds(), strict=True)
        return [Bound(form, low, high) for form, (low, high) in pairs]

    def _unsolved(self, key: str, name: str, span: Span | None, bounds: list[Bound]) -> None:
        about = [b for b in bounds if name in b.form.symbols()]
        hint = near(key, self.frame.names())
        if not about:
            raise FaultError(
                "TC201",
                f"nothing gives the index '{key}' a range",
                span,
                "",
                Note(f"give it one: where {key} in 0:N"),
                hint,
            )
        conditions = "; ".join(dict.fromkeys(map(str, about)))
        raise FaultError(
            "TC202",
            f"the range of '{key}' does not follow from its subscripts",
            span,
            "",
            Note(f"derived: {conditions}"),
            Note(f"give it one: where {key} in 0:N"),
            hint,
        )

    # ---- accesses

    def judge(self, access: Access) -> tuple[bool, ...]:
        """Return which subscripts need a check at run time; demand what calls can check."""
        prover = self.prover()
        guarded, facts = access.context.guarded, access.context.facts
        checked = []
        for d, (form, (low, high)) in enumerate(
            zip(access.forms, access.tensor.bounds(), strict=True)
        ):
            sides = [form - low, high - 1 - form]
            open_sides = [s for s in sides if not prover.holds(s, facts)]
            if open_sides and not guarded and self._is_exact(form):
                self._demand_inside(access, d, open_sides, prover)
                open_sides = []
            checked.append(bool(open_sides))
        if access.tensor is self.target:
            self._own_read(access, prover)
        return tuple(checked)

    def prover(self) -> Prover:
        """Return what is known at the points of the statement."""
        extents = []
        for index in self.scope.indices.values():
            at = self.domain[index.name]
            assert at.low is not None
            assert at.high is not None
            extents.append(at.high - at.low)
        return Prover(self.domain | self.typer.forms.unknowns, extents)

    def _is_exact(self, form: Size) -> bool:
        """Whether some point of the statement takes the bounds of a subscript."""
        from_data = any(s.startswith("?") for s in form.symbols())
        return not from_data and is_exact(form, self.domain)

    def _demand_inside(self, access: Access, d: int, sides: list[Size], prover: Prover) -> None:
        node = access.node.args[d] if access.node.args else access.node
        text = node.span.text if node.span is not None else str(access.forms[d])
        low, high = access.tensor.bounds()[d]
        for side in sides:
            worst = interval(side, prover.domain).low
            if worst is None:  # an unknown without bounds: is_exact has refused it
                raise AssertionError(side)
            at = interval(access.forms[d], prover.domain)
            message = (
                f"'{text}' runs from {at.low} to {at.high}, but dimension {d} of "
                f"'{access.node.name}' holds {low} to {high - 1}"
            )
            if not self.session.demand(self.if_not_empty(worst), message, node.span):
                raise FaultError("TC207", message, node.span, "", declared_here(access.tensor))

    def if_not_empty(self, size: Size) -> Size:
        """Return a size that is >= 0 where this one is or the statement has no point."""
        empty = []
        for index in self.scope.indices.values():
            at = self.domain[index.name]
            assert at.low is not None
            assert at.high is not None
            if not is_nonnegative(at.high - at.low):
                empty.append(at.low - at.high - 1)
        return maximum(size, *empty)

    def _own_read(self, access: Access, prover: Prover) -> None:
        """Refuse a read of the target at elements that the statement writes."""
        has_reduction = any(x.kind == "reduction" for x in self.scope.indices.values())
        if access.forms == self.forms and not has_reduction:
            return
        for mine, its in zip(self.forms, access.forms, strict=True):
            a, b = interval(mine, prover.domain), interval(its, prover.domain)
            for x, y in ((a, b), (b, a)):
                if x.low is None or y.high is None:
                    continue
                if is_nonnegative(x.low - y.high - 1, prover.given):
                    return
        name = self.target.name
        if access.forms == self.forms:
            what = "in a reduction, which may not read its own target"
        else:
            what = "at elements it may write"
        raise FaultError(
            "TC126",
            f"the statement reads '{name}' {what}",
            access.node.span,
            "",
            Note("it writes here", self.node.target.span),
            Note("write the result under a second name"),
        )

    # ---- the value

    def check(self) -> t.Statement:
        """Return the checked statement."""
        self.left()
        self._right()
        given, exists = self.clauses()
        self._reducing()
        ranges = self.solve(given, exists)
        # Once more, now that the ranges are known.
        self.typer = replace(self.typer, judge=self.judge, accesses=[], wide=[], nodes=0)
        value = self._right()
        self._values_fit()
        expr = self._store(value)
        checked = self._write_box()
        return t.Statement(
            self.target.name,
            self.subs,
            self.op,
            expr,
            ranges,
            checked,
            span=self.node.span,
        )

    def _right(self) -> Value:
        return self.typer.value(self.node.value, Context())

    def _reducing(self) -> None:
        """Refuse a reduction index under '='."""
        if self.node.op != "=":
            return
        for key, index in self.scope.indices.items():
            if index.kind == "reduction":
                left = self.node.target
                where = left.span.text if left.span is not None else left.name
                raise FaultError(
                    "TC104",
                    f"index '{key}' is summed over, but '=' does not reduce",
                    index.span,
                    f"not an index of {where}",
                    Note(
                        f"write '+=!' to sum from zero, or '+=' to add to {left.name}",
                        self.node.op_span,
                    ),
                    near(key, (*self.frame.names(), *_outputs(self.scope))),
                )

    def _values_fit(self) -> None:
        """Demand that sizes and indices used as int32 values fit."""
        for size, span in self.typer.wide:
            high = interval(size, self.domain).high
            text = span.text if span is not None else str(size)
            message = (
                f"'{text}' does not fit int32 where it is used as a value: write int64({text})"
            )
            if high is not None:
                self.session.demand(-high + INT32_MAX, message, span)

    def _store(self, value: Value) -> t.Expr:
        """Return the value as the target takes it; the first statement gives the type."""
        target, op = self.target, self.node.op
        type_ = FLOAT32 if value.literal else value.type
        if op != "=" and type_ == BOOL:
            type_ = INT32
        if target.type is None:
            target.type = type_
        elif not _fits(target.type, type_, value.literal):
            kind = "a float" if value.literal else str(type_)
            raise FaultError(
                "TC303",
                f"'{target.name}' is {target.type}, but the right side is {kind}",
                self.node.value.span,
                "",
                Note(f"convert it: {target.type}(...)"),
                declared_here(target),
            )
        if is_update(op) and target.first_op is None:
            op = self._not_initialised(op)
        if target.first_op is None:
            target.first_op = op
        self.op = op
        expr = coerce(value, target.type)
        if target.type.is_half and target.role == "return" and op == "=":
            expr = convert(expr, target.type)
        return expr

    def _not_initialised(self, op: n.AssignOp) -> n.AssignOp:
        """Warn of a reduction onto what no statement has written; return the operator meant."""
        name, place = self.node.target.name, self.node.op_span or self.node.span
        if self.target.role == "temp" and name not in self.frame.results:
            raise FaultError(
                "TC119",
                f"'{op}' reads the temporary '{name}' before it is written",
                place,
                "",
                Note(f"write '{op}!' to start from the identity of the reduction"),
                near(name, (k for k in self.frame.tensors if k != name)),
            )
        self.session.report(
            Diagnostic(
                "TC150",
                f"'{op}' starts from the contents of '{name}', from the identity of the "
                "reduction if the caller gives no buffer",
                place,
                f"did you mean '{op}!'?",
                severity="warning",
            )
        )
        # A caller in the language gives no buffer.
        return op if self.frame.is_entry else INITIALISING[op]

    def _write_box(self) -> tuple[bool, ...]:
        """Grow the box of the target, or demand that the writes are inside."""
        prover = self.prover()
        lows, highs, plain = [], [], []
        for form, sub in zip(self.forms, self.subs, strict=True):
            at = interval(form, self.domain)
            assert at.low is not None
            assert at.high is not None
            lows.append(at.low)
            highs.append(at.high + 1)
            plain.append(isinstance(sub, t.IndexValue))
        if self.target.dims is None:
            if self.target.box is None:
                self.target.box = Box(lows, highs, plain)
            else:
                self.target.box.add(lows, highs, plain)
            return (False,) * len(self.subs)
        for d, (form, extent) in enumerate(zip(self.forms, self.target.dims, strict=True)):
            for side in (form, extent - 1 - form):
                if prover.holds(side):
                    continue
                message = (
                    f"dimension {d} of '{self.target.name}' is written from {lows[d]} to "
                    f"{highs[d] - 1}, but has {extent} elements"
                )
                worst = interval(side, self.domain).low
                assert worst is not None
                at_sub = (self.node.target.subs or ())[d].span
                if not self.session.demand(self.if_not_empty(worst), message, at_sub):
                    raise FaultError("TC208", message, at_sub, "", declared_here(self.target))
        return (False,) * len(self.subs)


def _bounds_of(access: Access) -> list[Bound]:
    pairs = zip(access.forms, access.tensor.bounds(), strict=True)
    return [Bound(form, low, high, access.context.guarded) for form, (low, high) in pairs]


def _outputs(scope: StatementScope) -> list[str]:
    return [k for k, x in scope.indices.items() if x.kind == "output"]


def _fits(target: DType, value: DType, literal: bool) -> bool:
    if literal:
        return target.is_float
    return target == value or (target != BOOL and promote(target, value) == target)


def check_comprehension(session: Session, frame: Frame, node: n.Comprehension) -> t.Statement:
    """Return the checked statement; its target is added to the frame.

    Raises
    ------
    FaultError, SilentError
        If it is wrong; the target is then poisoned, so that its readers stay silent.
    """
    target = target_of(session, frame, node.target)
    scope = StatementScope()
    typer = Typer(frame, scope, session.defs, lambda name: session.index_name(frame, name))
    work = Comprehension(session, frame, node, target, scope, typer, {})
    try:
        if node.op in ("argmin=!", "argmax=!"):
            raise FaultError(
                "TC195", f"'{node.op}' is not available yet", node.op_span or node.span
            )
        _lets(frame, scope, node)
        if node.equivalent is not None:
            _warn_equivalent(session, node.equivalent)
        if target.is_poisoned:
            raise SilentError
        return work.check()
    except (FaultError, SilentError):
        target.is_poisoned = True
        raise


def target_of(session: Session, frame: Frame, node: n.Target) -> Tensor:
    """Return the tensor that a statement writes, a new temporary if nothing has its name."""
    name, span = node.name, node.name_span or node.span
    tensor = frame.tensors.get(name)
    if tensor is not None:
        if tensor.role == "param" or name in frame.inputs:
            raise FaultError(
                "TC109",
                f"'{name}' is a parameter and cannot be written",
                span,
                "",
                declared_here(tensor),
                Note("write the result under another name"),
            )
        return tensor
    declare(session, frame, name, span)
    typed_name = name if frame.is_entry else session.fresh(f"{frame.definition.name}_{name}")
    tensor = Tensor(typed_name, "temp", span)
    frame.tensors[name] = tensor
    session.tensors.append(tensor)
    return tensor


def declare(session: Session, frame: Frame, name: str, span: Span | None) -> None:
    """Refuse a name that has a role already or is reserved."""
    if is_reserved(name):
        raise FaultError(
            "TC105",
            f"'{name}' is a builtin function and cannot be the name of anything else",
            span,
            "",
            Note("choose another name"),
        )
    role = frame.role(name)
    if role is None and name in session.defs:
        role = "a definition"
    if role is not None:
        place = frame.where.get(name)
        raise FaultError(
            "TC101",
            f"'{name}' is already {role}",
            span,
            "",
            Note("declared here", place) if place is not None else None,
            Note("choose another name"),
        )


def _lets(frame: Frame, scope: StatementScope, node: n.Comprehension) -> None:
    for clause in node.clauses:
        if not isinstance(clause, n.Let):
            continue
        role = "a name of 'where'" if clause.name in scope.lets else frame.role(clause.name)
        if role is not None:
            raise FaultError(
                "TC101",
                f"'{clause.name}' is already {role}",
                clause.span,
                "",
                Note("choose another name"),
            )
        scope.lets[clause.name] = clause


def _warn_equivalent(session: Session, node: n.Equivalent) -> None:
    session.report(
        Diagnostic(
            "TC151",
            "'<=>' is a remark of the original language and has no effect",
            node.span,
            severity="warning",
        )
    )
