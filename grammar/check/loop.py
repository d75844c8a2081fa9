"""`for t in a:b { ... }`: its bounds, and its body, checked when the boxes of all turns are known.

A read is judged by the box that the statements before it and all of the loop make. So the body of
an outermost loop is gone through twice: once for the boxes, with nothing judged and nothing
reported, and once in earnest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy

from tcdsl.grammar.check.domain import bound
from tcdsl.grammar.check.expressions import Typer
from tcdsl.grammar.check.names import Names
from tcdsl.grammar.check.scope import Frame, StatementScope, Tensor
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.check.target import declare
from tcdsl.grammar.proofs.ranges import Interval
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.types import typed as t

Body = Callable[[CheckState, Frame, Sequence[n.Stmt]], tuple[t.Stmt, ...]]


def check_loop(state: CheckState, frame: Frame, node: n.ForLoop, check_body: Body) -> t.Loop:
    """Return the checked loop.

    Raises
    ------
    FaultError
        If its variable or a bound is wrong; what is wrong inside goes to the state.
    """
    declare(state, frame, node.var, node.span)
    low, high = (_bound(state, frame, node, e) for e in (node.low, node.high))
    var = state.loop_name(frame, node.var)
    is_outermost = not state.turns
    frame.sizes[node.var] = Size.symbol(var, signed=True)
    frame.loops.add(node.var)
    state.turns[var] = Interval(low, high - 1)
    try:
        if is_outermost:
            _find_boxes(state, frame, node, check_body)
        body = check_body(state, frame, node.body)
    finally:
        del state.turns[var], frame.sizes[node.var]
        frame.loops.discard(node.var)
        if is_outermost:
            for tensor in _tensors(state, frame):
                tensor.whole = None
    return t.Loop(var, low, high, body, span=node.span)


def _bound(state: CheckState, frame: Frame, node: n.ForLoop, end: n.Expr) -> Size:
    typer = Typer(Names(frame, StatementScope(), state.defs, lambda name: name))
    return bound(typer, end, node.var, "sizes, integers, integral scalars and variables of loops")


def _find_boxes(state: CheckState, frame: Frame, node: n.ForLoop, check_body: Body) -> None:
    """Give every tensor that the loop writes the box of all its turns, and change nothing else."""
    before = _tensors(state, frame)
    kept = [(x, _state(x)) for x in before]
    with state.trial():
        later = set(frame.later)
        check_body(state, frame, node.body)
        frame.later = later
    made = {k: x for k, x in frame.tensors.items() if x not in before}
    for name in made:
        del frame.tensors[name]
    for tensor, fields in kept:
        whole = deepcopy(tensor.box)
        for field, value in fields.items():
            setattr(tensor, field, value)
        tensor.whole = whole
    state.foreseen = {name: x.box for name, x in made.items() if x.box is not None}


def _tensors(state: CheckState, frame: Frame) -> list[Tensor]:
    found = {id(x): x for x in (*frame.tensors.values(), *state.tensors)}
    return list(found.values())


def _state(tensor: Tensor) -> dict[str, object]:
    """Return what a statement may change of a tensor."""
    fields = ("type", "first_op", "first_write", "is_read", "is_poisoned", "writers", "unwritten")
    return {f: getattr(tensor, f) for f in fields} | {"box": deepcopy(tensor.box)}
