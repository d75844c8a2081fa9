"""One comprehension: its steps, its value, what its operator asks for.

A statement is typed twice, first to find its ranges, then to judge its reads by them: no node
waits for something that is filled in later, and no pass patches another's result.

`op=!` starts the elements that the left side writes, so `O(0) +=! ..  O(1) +=! ..` keeps both and
`S(t) +=! ..` in a loop the turns before. Where data decides what is written it starts the whole
box: a histogram of a turn begins at zero everywhere. Positions of `argmax=!` count the dimensions
in the order in which the statement reads them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tcdsl.grammar.check.access import Context
from tcdsl.grammar.check.comprehension import Comprehension
from tcdsl.grammar.check.domain import given_ranges, solve_ranges
from tcdsl.grammar.check.exact import Exact
from tcdsl.grammar.check.expressions import Typer
from tcdsl.grammar.check.inside import judge, margins
from tcdsl.grammar.check.names import Names
from tcdsl.grammar.check.ragged import with_bounds
from tcdsl.grammar.check.scope import (
    Frame,
    SilentError,
    StatementScope,
    is_arg,
    is_update,
    near,
)
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.check.target import (
    declare,
    target_of,
    type_left,
    typed_subscripts,
    want_one_to_one,
    write_box,
)
from tcdsl.grammar.check.unwritten import note_unwritten
from tcdsl.grammar.check.values import Value, coerce, convert
from tcdsl.grammar.check.wide import fits, values_fit
from tcdsl.grammar.check.wording import declared_here
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.foreign import FOREIGN_CONSTANTS
from tcdsl.grammar.text.walk import walk
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.builtins import is_builtin
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32, INT32, INT64, DType, promote

INITIALISING: dict[n.AssignOp, n.AssignOp] = {
    "+=": "+=!",
    "*=": "*=!",
    "min=": "min=!",
    "max=": "max=!",
}


def check_comprehension(state: CheckState, frame: Frame, node: n.Comprehension) -> t.Statement:
    """Return the checked statement; its target is added to the frame.

    Raises
    ------
    FaultError, SilentError
        If it is wrong; the target is then poisoned, so that its readers stay silent.
    """
    target = target_of(state, frame, node.target)
    scope = StatementScope()
    names = Names(frame, scope, state.defs, lambda name: state.index_name(frame, name))
    typer = Typer(names)
    work = Comprehension(state, frame, node, target, scope, typer, {})
    try:
        _lets(state, frame, scope, node)
        if node.equivalent is not None:
            _warn_equivalent(state, node.equivalent)
        if target.is_poisoned:
            raise SilentError
        return _check(work)
    except (FaultError, SilentError):
        target.is_poisoned = True
        raise


def _check(work: Comprehension) -> t.Statement:
    """Return the checked statement."""
    type_left(work)
    _right(work)
    given, exists = given_ranges(work)
    _fits_operator(work)
    ranges = solve_ranges(work, given, exists)
    # Once more, now that the ranges are known.
    work.typer = replace(
        work.typer,
        judge=partial(judge, work),
        margins=partial(margins, work),
        exact=Exact(work.typer.symbolic, partial(fits, work)),
        accesses=[],
        wide=[],
        quotients=[],
        nodes=0,
    )
    work.subs = typed_subscripts(work)
    work.symbolic_subs = tuple(work.typer.symbolic.of(s) for s in work.subs)
    want_one_to_one(work)
    value = _right(work)
    ranges = with_bounds(work, ranges)
    values_fit(work)
    op, expr = _store(work, value)
    checked = write_box(work)
    note_unwritten(work, {clause.node.name for clause in given})
    _warn_quotients(work)
    return t.Statement(
        work.target.name,
        work.subs,
        op,
        expr,
        ranges,
        checked,
        span=work.node.span,
    )


def _right(work: Comprehension) -> Value:
    return work.typer.value(work.node.value, Context())


def _fits_operator(work: Comprehension) -> None:
    """Refuse a reduction index under '=', and an arg reduction over none."""
    reduced = [(k, x) for k, x in work.scope.indices.items() if x.kind == "reduction"]
    if is_arg(work.node.op) and not reduced:
        raise FaultError(
            "TC195",
            f"'{work.node.op}' gives the place of an extreme, but nothing is reduced",
            work.node.op_span or work.node.span,
            "",
            Note("an index that stands only on the right is reduced"),
        )
    if work.node.op != "=":
        return
    for key, index in reduced:
        left = work.node.target
        cure = f"write '+=!' to sum from zero, or '+=' to add to {left.name}"
        if not _may_have_range(work, key):  # a sum could not know where it ends
            cure = f"if '{key}' is a number, declare it as a parameter: float {key}"
            if is_builtin(key):
                cure = f"to call the builtin function, write {key}(..)"
        if key in FOREIGN_CONSTANTS:
            cure = f"there is no word for it: write {FOREIGN_CONSTANTS[key]}"
        where = left.span.text if left.span is not None else left.name
        raise FaultError(
            "TC104",
            f"index '{key}' is summed over, but '=' does not reduce",
            index.span,
            f"not an index of {where}",
            Note(cure, None if key in FOREIGN_CONSTANTS else work.node.op_span),
            near(key, (*work.frame.names(), *_outputs(work.scope))),
        )


def _may_have_range(work: Comprehension, key: str) -> bool:
    """Whether an index stands in a subscript or in `where`: all that gives ranges."""
    accesses = (a for a in walk(work.node.value) if isinstance(a, n.Apply))
    subscripts = [a.args for a in accesses if a.name in work.frame.tensors]
    return any(
        isinstance(node, n.Name | n.RangeClause) and node.name == key
        for node in walk(*subscripts, work.node.clauses)
    )


def _store(work: Comprehension, value: Value) -> tuple[n.AssignOp, t.Expr]:
    """Return the operator and the value as the target takes them; the first gives its type."""
    target, op = work.target, work.node.op
    type_ = FLOAT32 if value.literal else value.type
    if op != "=" and type_ == BOOL and (target.type not in (None, BOOL) or not _is_extreme(op)):
        type_ = INT32
    if is_arg(op):
        return op, _position(work, value, type_)
    if target.type is None:
        target.type = type_
    elif not _fits(target.type, type_, value.literal):
        kind = "a float" if value.literal else str(type_)
        raise FaultError(
            "TC303",
            f"'{work.name}' is {target.type}, but the right side is {kind}",
            work.node.value.span,
            "",
            Note(
                f"convert it: {target.type}(...)"
                + ("" if target.declared else f"; or let the first statement give {type_}")
            ),
            declared_here(target),
        )
    if is_update(op) and target.first_op is None:
        op = _not_initialised(work, op)
    if target.first_op is None:
        target.first_op = op
        target.first_write = work.node.target.span
    if target.type.is_float and value.quotient is not None:
        work.typer.quotients.append(value.quotient)
    expr = coerce(value, target.type)
    if target.type.is_half and target.role == "return" and op == "=":
        expr = convert(expr, target.type)
    return op, expr


def _position(work: Comprehension, value: Value, compared: DType) -> t.Expr:
    """Return what an arg reduction compares; its target holds positions, which are int64."""
    target, node = work.target, work.node
    if target.type not in (None, INT64):
        raise FaultError(
            "TC303",
            f"'{work.name}' is {target.type}, but '{node.op}' gives int64",
            node.op_span or node.span,
            "",
            Note("declare it int64, or leave the type out"),
            declared_here(target),
        )
    target.type = INT64
    if target.first_op is None:
        target.first_op = node.op
        target.first_write = node.target.span
    return coerce(value, compared.computed)


def _not_initialised(work: Comprehension, op: n.AssignOp) -> n.AssignOp:
    """Warn of a reduction onto what no statement has written; return the operator meant."""
    name, place = work.node.target.name, work.node.op_span or work.node.span
    if work.target.role == "temp" and name not in work.frame.results:
        raise FaultError(
            "TC119",
            f"'{op}' reads the temporary '{name}' before it is written",
            place,
            "",
            Note(f"write '{op}!' to start from the identity of the reduction"),
            near(name, (k for k in work.frame.tensors if k != name)),
        )
    work.state.report(
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
    return op if work.frame.is_entry else INITIALISING[op]


def _is_extreme(op: n.AssignOp) -> bool:
    """Whether a reduction gives one of the values: that of bools is a bool."""
    return op.startswith(("min", "max"))


def _outputs(scope: StatementScope) -> list[str]:
    return [k for k, x in scope.indices.items() if x.kind == "output"]


def _fits(target: DType, value: DType, literal: bool) -> bool:
    if literal:
        return target.is_float
    return target == value or (target != BOOL and promote(target, value) == target)


def _lets(state: CheckState, frame: Frame, scope: StatementScope, node: n.Comprehension) -> None:
    for clause in node.clauses:
        if not isinstance(clause, n.Let):
            continue
        declare(state, frame, clause.name, clause.span)
        if clause.name in scope.lets:
            first = Note("the first is here", scope.lets[clause.name].span)
            message = f"'{clause.name}' has two values"
            raise FaultError("TC101", message, clause.span, "", first)
        scope.lets[clause.name] = clause


def _warn_quotients(work: Comprehension) -> None:
    """Warn of quotients of integers that have lost their fraction when they meet a float."""
    for node in dict.fromkeys(work.typer.quotients):
        if node.span is None or node.lhs.span is None:
            continue
        text, lhs = node.span.text, node.lhs.span
        divisor = node.span.source.text[lhs.end : node.span.end].partition("/")[2]
        top = f"{lhs.text}.0" if isinstance(node.lhs, n.IntLit) else f"float({lhs.text})"
        work.state.report(
            Diagnostic(
                "TC153",
                f"'{text}' is a quotient of integers, rounded down before it meets a float",
                node.span,
                "",
                (
                    Note(f"for the fraction write {top} / {divisor.strip()}"),
                    Note(f"to round down and say so, float({text})"),
                ),
                severity="warning",
            )
        )


def _warn_equivalent(state: CheckState, node: n.Equivalent) -> None:
    state.report(
        Diagnostic(
            "TC151",
            "'<=>' is a remark of the original language and has no effect",
            node.span,
            severity="warning",
        )
    )
