"""The left side: which tensor it is, its subscripts, the box that it writes."""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.grammar import nodes as n
from tcdsl.grammar import typed as t
from tcdsl.grammar.builtins import is_reserved
from tcdsl.grammar.comprehension import Comprehension
from tcdsl.grammar.errors import Note
from tcdsl.grammar.expressions import Context
from tcdsl.grammar.ranges import interval
from tcdsl.grammar.scope import (
    Box,
    FaultError,
    Frame,
    Tensor,
)
from tcdsl.grammar.session import Session
from tcdsl.grammar.sizes import FloorDiv, Modulo, Size
from tcdsl.grammar.source import Span
from tcdsl.grammar.wording import count, declared_here, not_yet_dots


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


def type_left(work: Comprehension) -> None:
    """Type the subscripts of the target; their new names are output indices."""
    nodes = work.node.target.subs or ()
    work.typer.names.new_kind = "output"
    subs = []
    for sub in nodes:
        if isinstance(sub, n.Dots):
            raise not_yet_dots(sub.span)
        subs.append(work.typer.integer(sub, Context(), f"a subscript of '{work.name}'"))
    work.typer.names.new_kind = "reduction"
    work.subs = tuple(subs)
    work.forms = tuple(work.typer.forms.of(s) for s in subs)
    rank = work.target.rank
    if rank is not None and rank != len(subs):
        indices = "1 index" if len(subs) == 1 else f"{len(subs)} indices"
        raise FaultError(
            "TC113",
            f"'{work.name}' is written with {indices}, but has {count(rank, 'dimension')}",
            work.node.target.span,
            "",
            declared_here(work.target),
        )
    _one_to_one(work, nodes)


def _one_to_one(work: Comprehension, nodes: Sequence[n.Sub]) -> None:
    """Refuse what needs a scatter: subscripts that do not determine the indices."""
    outputs = {x.name for x in work.scope.indices.values()}
    for form, sub in zip(work.forms, nodes, strict=True):
        if any(name.startswith("?") for name in form.symbols()):
            raise FaultError(
                "TC192",
                "a subscript read from data on the left (scatter) is not available yet",
                sub.span,
            )
        for atom in (a for m, _ in form.terms for a in m):
            if isinstance(atom, FloorDiv | Modulo) and outputs & set(Size.atom(atom).symbols()):
                raise FaultError("TC193", "'/' and '%' on the left are not available yet", sub.span)
    free = set(outputs)
    while free:
        alone = {
            names[0]
            for form in work.forms
            if len(names := [s for s in form.symbols() if s in free]) == 1
            and _is_linear(form, names[0])
        }
        if not alone:
            at = work.node.target.span
            raise FaultError(
                "TC192",
                "a left side that is not one-to-one in its indices is not available yet",
                at,
            )
        free -= alone


def _is_linear(form: Size, name: str) -> bool:
    """Whether form is c * name + what does not depend on name, c a constant."""
    symbol = Size.symbol(name, signed=True)
    coefficient = next((c for m, c in form.terms if m == symbol.terms[0][0]), 0)
    return coefficient != 0 and name not in (form - symbol * coefficient).symbols()


def write_box(work: Comprehension) -> tuple[bool, ...]:
    """Grow the box of the target, or demand that the writes are inside."""
    prover = work.prover()
    lows, highs, plain = [], [], []
    for form, sub in zip(work.forms, work.subs, strict=True):
        at = interval(form, work.domain)
        if at.low is None or at.high is None:
            message = f"the elements of '{work.name}' that are written are not understood"
            raise FaultError("TC192", message, work.node.target.span)
        lows.append(at.low)
        highs.append(at.high + 1)
        plain.append(isinstance(sub, t.IndexValue))
    if work.target.dims is None:
        if work.target.box is None:
            work.target.box = Box(lows, highs, plain)
        else:
            work.target.box.add(lows, highs, plain)
        return (False,) * len(work.subs)
    for d, (form, extent) in enumerate(zip(work.forms, work.target.dims, strict=True)):
        for side in (form, extent - 1 - form):
            if prover.holds(side):
                continue
            message = (
                f"dimension {d} of '{work.name}' is written from {lows[d]} to "
                f"{highs[d] - 1}, but has {extent} elements"
            )
            worst = interval(side, work.domain).low
            assert worst is not None
            at_sub = (work.node.target.subs or ())[d].span
            if not work.demand(worst, message, at_sub):
                raise FaultError("TC208", message, at_sub, "", declared_here(work.target))
    return (False,) * len(work.subs)
