"""Statements in order, and calls: a callee is checked in a frame of its own, inside the caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from tcdsl.grammar.check.arguments import arguments_of, bind, bind_callee, infer_types
from tcdsl.grammar.check.call import Call, call_of, inlined
from tcdsl.grammar.check.declare import declare_generics
from tcdsl.grammar.check.leftovers import report_leftovers
from tcdsl.grammar.check.loop import check_loop
from tcdsl.grammar.check.results import hand_back, result_of, want_distinct
from tcdsl.grammar.check.scope import FatalError, Frame, SilentError, Tensor
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.check.statement import check_comprehension
from tcdsl.grammar.check.target import target_of
from tcdsl.grammar.check.wording import given
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Note, count
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.text.walk import targets_of
from tcdsl.grammar.types import typed as t

MAX_STATEMENTS = 5_000  # of a definition whose calls are inlined


def check_body(state: CheckState, frame: Frame, body: Iterable[n.Stmt]) -> tuple[t.Stmt, ...]:
    """Return the checked statements, calls inlined; what is wrong goes to the state."""
    done: list[t.Stmt] = []
    body = tuple(body)
    frame.later = set(targets_of(body)) - set(frame.tensors)

    def is_call(name: str) -> bool:
        return name in state.defs and frame.role(name) is None

    for node in body:
        state.statements += 1
        frame.later -= set(targets_of((node,)))
        if state.statements > MAX_STATEMENTS:
            raise too_large(node.span)
        try:
            match node:
                case n.Comprehension(value=n.Apply(name) as apply) if is_call(name):
                    done += _single(state, frame, node, apply)
                case n.Comprehension():
                    done.append(check_comprehension(state, frame, node))
                case n.MultiCall(targets, callee, args):
                    done += _inline(state, frame, node.span, callee, targets, args)
                    for target in targets:
                        frame.tensors[target.name].is_read = True  # not all need be wanted
                case n.ForLoop():
                    done.append(check_loop(state, frame, node, check_body))
                case _:
                    assert_never(node)
        except FatalError:
            raise
        except FaultError as fault:
            state.report(fault.diagnostic)
        except SilentError:
            continue
    return tuple(done)


def too_large(span: Span | None) -> FatalError:
    """Return the fault of a definition that calls multiply."""
    label = f"more than {MAX_STATEMENTS} statements after inlining"
    return FatalError("TC130", "calls make the definition too large", span, label)


def _single(state: CheckState, frame: Frame, node: n.Comprehension, apply: n.Apply) -> list[t.Stmt]:
    """Check `y = f(x)`."""
    problem = None
    if node.op != "=":
        problem = f"the result of a call is assigned by '=', not by '{node.op}'"
    elif node.target.subs is not None:
        problem = "the target of a call is a bare name"
    elif node.clauses:
        problem = "a call has no 'where'"
    if problem is not None:
        cure = Note(f"'{apply.name}' is a definition: write x = {apply.name}(...), then use x(i)")
        raise FaultError("TC122", problem, node.span, "", cure)
    return _inline(state, frame, node.span, apply.name, (node.target,), apply.args)


def _inline(
    state: CheckState,
    frame: Frame,
    span: Span | None,
    callee: str,
    targets: Sequence[n.Target],
    args: Sequence[n.Arg],
) -> list[t.Stmt]:
    """Check a call; return the statements it becomes."""
    outer = [target_of(state, frame, target) for target in targets]
    try:
        call = call_of(state, frame, span, callee)
        _run(call, targets, outer, args)
    except (FaultError, SilentError):
        for tensor in outer:
            tensor.is_poisoned = True
        raise
    return call.statements


def _run(
    call: Call, targets: Sequence[n.Target], outer: Sequence[Tensor], args: Sequence[n.Arg]
) -> None:
    """Take the arguments, check the body in the callee's frame, hand the results back."""
    state, definition = call.state, call.definition
    positional, values = arguments_of(call, args)
    if len(outer) == len(definition.returns):
        bind_callee(call, positional)
        definition = call.definition
    if len(outer) != len(definition.returns):
        raise FaultError(
            "TC124",
            f"'{call.callee}' gives {count(len(definition.returns), 'result')}, "
            f"but {given(len(outer), count(len(outer), 'name'))}",
            call.span,
            "",
            Note("defined here", definition.name_span),
        )
    want_distinct(targets)
    infer_types(call, positional, values)
    declare_generics(state, call.inner, values)
    passed = [
        bind(call, param, arg) for param, arg in zip(definition.params, positional, strict=True)
    ]
    results = [
        result_of(call, param, tensor, passed)
        for param, tensor in zip(definition.returns, outer, strict=True)
    ]
    if state.statements + inlined(state, call.callee) > MAX_STATEMENTS:
        raise too_large(call.span)  # before the work, not after it
    state.calls.append((call.callee, call.span))
    before = state.error_count
    try:
        call.statements += check_body(state, call.inner, definition.body)
        report_leftovers(state, call.inner)
    finally:
        state.calls.pop()
    if state.error_count > before:
        raise SilentError
    for target, tensor, result in zip(targets, outer, results, strict=True):
        hand_back(call, target, tensor, result)
