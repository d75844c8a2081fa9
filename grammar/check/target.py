"""The left side: which tensor it is, its subscripts, the box that it writes.

`=` needs a left side that is one-to-one: each index alone in a subscript, the digits of one
(`R * h + r` with r in 0:R, R >= 1), or `/` and `%` of one number. What combines (`+=`, `max=`, ..)
may meet, and what is assigned through data: of the points that write one element the last one wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from tcdsl.grammar.check.access import Context
from tcdsl.grammar.check.comprehension import Comprehension
from tcdsl.grammar.check.scope import Box, Frame, Tensor
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.check.wording import declared_here
from tcdsl.grammar.proofs.ranges import ANY, Prover, interval, is_exact, over_turns
from tcdsl.grammar.proofs.signs import is_nonnegative
from tcdsl.grammar.proofs.sizes import Modulo, Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Note, count
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t

_MAX_DIGITS = 4  # indices that make one subscript together: R * h + r


def target_of(state: CheckState, frame: Frame, node: n.Target) -> Tensor:
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
    declare(state, frame, name, span)
    typed_name = name if frame.is_entry else state.fresh(f"{frame.definition.name}_{name}")
    tensor = Tensor(typed_name, "temp", span, whole=state.foreseen.get(name))
    frame.tensors[name] = tensor
    state.tensors.append(tensor)
    return tensor


def declare(state: CheckState, frame: Frame, name: str, span: Span | None) -> None:
    """Refuse a name that has a role already."""
    role = frame.role(name)
    if role is None and name in state.defs:
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
    work.typer.names.new_kind = "output"
    work.subs = subs = typed_subscripts(work)
    work.typer.names.new_kind = "reduction"
    work.symbolic_subs = tuple(work.typer.symbolic.of(s) for s in subs)
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


def typed_subscripts(work: Comprehension) -> tuple[t.Expr, ...]:
    """Return the subscripts of the target, their reads judged where ranges are known."""
    subs = []
    for sub in work.node.target.subs or ():
        assert not isinstance(sub, n.Dots), "'...' is replaced before the check"
        subs.append(work.typer.integer(sub, Context(), f"a subscript of '{work.name}'"))
    return tuple(subs)


def want_one_to_one(work: Comprehension) -> None:
    """Refuse an assignment in which two points may write one element; what combines may meet."""
    if work.node.op not in ("=", "argmin=!", "argmax=!"):
        return
    known = _with_quotients(work.symbolic_subs)
    free = {x.name for x in work.scope.indices.values() if x.kind == "output"}
    while free:
        told = {name for value in known for name in _told(work, value, free)}
        if not told:
            if work.node.op == "=" and any(any(t.tensors_read(sub)) for sub in work.subs):
                work.meets = True
                return
            left = work.node.target
            raise FaultError(
                "TC192",
                f"two points may write one element of '{work.name}', and '{work.node.op}' does "
                "not combine them",
                left.span,
                "not one-to-one in its indices",
                Note("write '+=', '*=', 'min=' or 'max=', with '!' to start anew"),
            )
        free -= told


def _told(work: Comprehension, value: Size, free: set[str]) -> tuple[str, ...]:
    """Return those of the free indices in a symbolic value whose values it tells.

    One alone; or the digits of a number: `R * h + r` with r in 0:R.
    """
    names = tuple(s for s in value.symbols() if s in free)
    factors = {name: factor_of(value, name) for name in names}
    if not names or any(f is None for f in factors.values()):
        return ()
    if len(names) == 1:
        return names if (factors[names[0]] or Size()).constant not in (None, 0) else ()
    for order in permutations(names) if len(names) <= _MAX_DIGITS else ():
        reach = Size()  # the largest that the digits so far make
        for name in order:
            factor, at = factors[name], work.domain[name]
            assert factor is not None
            assert at.low is not None
            assert at.high is not None
            if not is_nonnegative(factor - reach - 1, work.extents()):
                break
            reach += factor * (at.high - at.low)
        else:
            return names
    return ()


def factor_of(value: Size, name: str) -> Size | None:
    """Return c of c * name + what does not depend on name; None where it is not so."""
    symbol = Size.symbol(name, signed=True)
    (atom,) = symbol.terms[0][0]
    factor, rest = Size(), Size()
    for monomial, coefficient in value.terms:
        if monomial.count(atom) == 1:
            left = list(monomial)
            left.remove(atom)
            factor += Size(((tuple(left), coefficient),))
        else:
            rest += Size(((monomial, coefficient),))
    return None if name in (*factor.symbols(), *rest.symbols()) else factor


def _with_quotients(values: Sequence[Size]) -> list[Size]:
    """Return values, and e wherever both e / d and e % d are among them."""
    known = list(values)
    for _ in values:
        for value in tuple(known):
            match value.terms:
                case (((Modulo(e, d),), 1),) if e not in known and e // d in known:
                    known.append(e)
    return known


def write_box(work: Comprehension) -> tuple[bool, ...]:
    """Grow the box of the target, or see to it that the writes are inside.

    Returns which subscripts need a check at run time.
    """
    if work.target.dims is None:
        return _grow(work)
    prover = work.prover(of_elements=True)
    checked = []
    for d, (value, extent) in enumerate(zip(work.symbolic_subs, work.target.dims, strict=True)):
        facts = work.facts(value, of_elements=True)
        open_sides = [x for x in (value, extent - 1 - value) if not prover.holds(x, facts)]
        is_sure = [_demand_inside(work, d, side, prover) for side in open_sides]  # all of them
        checked.append(not all(is_sure))
    return tuple(checked)


def _grow(work: Comprehension) -> tuple[bool, ...]:
    """Grow the box; a subscript from data that may be anything has to be inside of what there is.

    Returns which subscripts need a check at run time.
    """
    # what is read from data may be anything: only what the text makes of it bounds a result
    domain = work.domain | dict.fromkeys(work.typer.symbolic.unknowns, ANY)
    lows, highs, plain, checked = [], [], [], []
    known = work.target.box
    for d, (value, sub) in enumerate(zip(work.symbolic_subs, work.subs, strict=True)):
        at = over_turns(interval(value, domain), work.state.turns)
        is_open = at.low is None or at.high is None
        checked.append(is_open)
        if is_open and known is not None and any(t.tensors_read(sub)):
            lows.append(known.low[d])
            highs.append(known.high[d])
            plain.append(known.plain[d])
            continue
        if at.low is None or at.high is None:
            at_sub = (work.node.target.subs or ())[d].span
            raise FaultError(
                "TC193",
                f"nothing bounds dimension {d} of '{work.name}', which this subscript writes",
                at_sub,
                "",
                _undeclared(work) if work.target.role == "return" else _unbounded(at_sub),
            )
        lows.append(at.low)
        highs.append(at.high + 1)
        plain.append(isinstance(sub, t.IndexValue))
    if work.target.box is None:
        work.target.box = Box(lows, highs, plain)
    else:
        work.target.box.add(lows, highs, plain)
    return tuple(checked)


def _undeclared(work: Comprehension) -> Note:
    """Return the cure of a return of which nothing bounds a dimension: to say its extent."""
    taken = {*work.frame.names(), *work.scope.indices}
    size = next(k for k in (f"D{n}" for n in range(len(taken) + 1)) if k not in taken)
    dims = []
    for value in work.symbolic_subs:
        high = interval(value, work.domain).high
        from_data = any(s.startswith("?") for s in value.symbols())
        dims.append(size if from_data or high is None else str(high + 1))
    written = f"{work.target.type}({', '.join(dims)}) {work.name}"
    return Note(f"declare it, -> ({written}), where {size} is a size or a generic")


def _unbounded(span: Span | None) -> Note:
    text = span.text if span is not None else "I(i)"
    return Note(f"bound the subscript: clamp({text}, 0, N - 1), for N elements")


def _demand_inside(work: Comprehension, d: int, side: Size, prover: Prover) -> bool:
    """Make calls check side >= 0; False where only the kernel can, point by point."""
    value = work.symbolic_subs[d]
    at, worst = prover.interval(value), prover.interval(side).low
    from_data = any(name.startswith("?") for name in value.symbols())
    if from_data or at.low is None or at.high is None or worst is None or work.is_ragged(value):
        return False
    if not is_exact(value, work.domain | work.state.turns):
        return False
    assert work.target.dims is not None
    message = (
        f"dimension {d} of '{work.name}' is written from {at.low} to {at.high}, "
        f"but has {work.target.dims[d]} elements"
    )
    at_sub = (work.node.target.subs or ())[d].span
    if not work.demand(worst, message, at_sub, of_elements=True):
        raise FaultError("TC208", message, at_sub, "", declared_here(work.target))
    return True
