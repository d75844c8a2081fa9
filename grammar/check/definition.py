"""The check: a parsed program becomes a checked definition, or its faults are reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tcdsl.grammar.check.call import inlined
from tcdsl.grammar.check.declare import declare_params, declare_returns
from tcdsl.grammar.check.expand import MAX_STATEMENTS, check_body, too_large
from tcdsl.grammar.check.leftovers import report_leftovers
from tcdsl.grammar.check.made import checked_of
from tcdsl.grammar.check.scope import FatalError, Frame, near
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.check.unread import targets, without_unread
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.ranks.ellipsis import has_dots, with_ranks
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Diagnostic, Note, raise_all, raise_one
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.format import format_def
from tcdsl.grammar.text.stack import on_own_stack, stack_for
from tcdsl.grammar.text.walk import declared_names, names_of
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import DType


@on_own_stack
def check(
    program: n.Program,
    name: str | None = None,
    *,
    generics: Mapping[str, int | DType] | None = None,
) -> t.CheckedDef:
    """Check a definition of a program.

    Parameters
    ----------
    program : nodes.Program
        What `parse` gives; a parameter of any rank has to be bound to one, see `bind_ranks`.
    name : str, optional
        The definition; may be left out where there is one only.
    generics : mapping, optional
        Values of generics: integers, and types of type variables.

    Returns
    -------
    typed.CheckedDef
        Names resolved, types explicit, ranges solved, calls inlined.

    Raises
    ------
    TCError
        With up to ten diagnostics.

    Examples
    --------
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def mv(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }"
    >>> [str(extent) for extent in check(parse(text)).returns[0].shape]
    ['M']
    """
    if (known := checked_of(program, generics or {})) is not None and name in (None, known.name):
        return known
    defs, faults = _defs(program)
    raise_all(faults)
    definition = _entry(defs, name)
    if has_dots(definition):
        try:
            definition = with_ranks(definition, defs, None)
        except FaultError as fault:
            raise_one(fault.diagnostic)
    taken = set[str]().union(*map(names_of, (*program.defs, definition)))
    state = CheckState(defs, taken, declared_names(definition))
    frame = Frame(definition)
    state.calls.append((definition.name, definition.name_span))
    try:
        declare_params(state, frame, dict(generics or {}))
        declare_returns(state, frame)
    except FaultError as fault:
        state.report(fault.diagnostic)
    raise_all(state.diagnostics)
    try:
        with stack_for(definition.name):
            body = check_body(state, frame, definition.body)
    except FatalError as fault:
        raise_one(fault.diagnostic)
    report_leftovers(state, frame)
    raise_all(state.diagnostics)
    return _finished(state, frame, body)


def want_bounded(program: n.Program) -> None:
    """Refuse a definition whose calls multiply beyond all bounds, before work is spent on others.

    Raises
    ------
    TCError
        TC130, for the first such definition.
    """
    defs, _ = _defs(program)
    for name, definition in defs.items():
        state = CheckState(defs, set(), declared_names(definition))
        if inlined(state, name) > MAX_STATEMENTS:
            raise_one(too_large(definition.name_span).diagnostic)


def _defs(program: n.Program) -> tuple[dict[str, n.Def], list[Diagnostic]]:
    """Return the definitions by name, and those whose name is taken."""
    defs: dict[str, n.Def] = {}
    faults = []
    for definition in program.defs:
        name, span = definition.name, definition.name_span or definition.span
        if name in defs:
            first = defs[name].name_span or defs[name].span
            note = Note("the first is here", first)
            faults.append(Diagnostic("TC101", f"'{name}' is defined twice", span, "", (note,)))
        else:
            defs[name] = definition
    return defs, faults


def _entry(defs: Mapping[str, n.Def], name: str | None) -> n.Def:
    listed = ", ".join(f"'{d}'" for d in defs)
    if name is None:
        if len(defs) == 1:
            return next(iter(defs.values()))
        message = "the text has several definitions, so the one to check must be named"
        raise_all([Diagnostic("TC120", message, notes=(Note(f"it has {listed}"),))])
    if name not in defs:
        notes = tuple(x for x in (near(str(name), defs), Note(f"the text has {listed}")) if x)
        raise_all([Diagnostic("TC120", f"no definition is called '{name}'", notes=notes)])
    return defs[str(name)]


def _finished(state: CheckState, frame: Frame, body: tuple[t.Stmt, ...]) -> t.CheckedDef:
    params = tuple(x.finished() for x in frame.tensors.values() if x.role == "param")
    returns = tuple(x.finished() for x in frame.tensors.values() if x.role == "return")
    body = without_unread(body, [r.name for r in returns])
    written = {*targets(body)}
    temps = tuple(x.finished() for x in state.tensors if x.role == "temp" and x.name in written)
    constraints = tuple(state.constraints.values())
    used = set(_symbols(body, (*returns, *temps), constraints))
    scalars = tuple(p.name for p in params if not p.shape and p.name in used)
    sizes = tuple(dict.fromkeys(s for p in params for d in p.shape for s in d.symbols()))
    return t.CheckedDef(
        frame.definition.name,
        (*sizes, *scalars),
        scalars,
        params,
        returns,
        temps,
        body,
        constraints,
        tuple(d for d in state.diagnostics if d.severity == "warning"),
        _text(frame.definition),
    )


def _text(definition: n.Def) -> str:
    """Return a definition as it was written; one that a program made, as it would be."""
    return definition.span.text if definition.span is not None else format_def(definition)


def _symbols(
    body: Iterable[t.Stmt], tensors: Iterable[t.Tensor], constraints: Iterable[t.Constraint]
) -> Iterable[str]:
    """Yield the symbols of ranges, boxes and constraints."""
    sizes: list[Size] = [c.size for c in constraints]
    for tensor in tensors:
        sizes += (*tensor.shape, *tensor.low)
    loops: set[str] = set()
    todo = list(body)
    while todo:
        match todo.pop():
            case t.Statement(ranges=ranges):
                for r in ranges:
                    sizes += (r.low, r.high)
            case t.Loop(var, low, high, inner):
                sizes += (low, high)
                loops.add(var)
                todo += inner
    for size in sizes:
        yield from (s for s in size.symbols() if s not in loops)
