"""Gradients that are an adjoint as it is: found in the text of a derived gradient, never computed.

The gradient of a sum by its terms is the adjoint of the sum. Its text copies it; the way back hands
it on instead. Where it is the adjoint many times over, as of a total, a view of that is handed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcdsl.calls.bindings.parsed import parsed
from tcdsl.codegen.gradient.derivatives import GRADIENT
from tcdsl.grammar.text import nodes

if TYPE_CHECKING:
    from tcdsl.codegen.gradient.derivatives import Gradient


def passed_on(made: Gradient) -> tuple[str, ...]:
    """Return the parameters whose gradient is the adjoint of the only output, element by element.

    Examples
    --------
    >>> from tcdsl.codegen.gradient.vjp import gradient
    >>> from tcdsl.grammar.check.definition import check
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) - B(i) }"
    >>> passed_on(gradient(check(parse(text))))
    ('A',)
    """
    adjoints = [given.name for given in made.given if given.output]
    if len(adjoints) != 1:
        return ()
    definition = parsed(made.text, GRADIENT).defs[-1]
    types = {p.name: p.type for p in (*definition.params, *definition.returns)}
    found = []
    for name, result in zip(made.wrt, definition.returns, strict=True):
        writes = [s for s in definition.body if result.name in _written(s)]
        is_alike = types[adjoints[0]] == types[result.name]
        if is_alike and len(writes) == 1 and _is_copy(writes[0], adjoints[0]):
            found.append(name)
    return tuple(found)


def spread_over(made: Gradient) -> tuple[int, ...] | None:
    """Return the dimensions along which the only gradient repeats the adjoint of the only output.

    None where it does anything else. Dimensions of one element that a reduction has left are none
    of them: the adjoint has these too.

    Examples
    --------
    >>> from tcdsl.codegen.gradient.vjp import gradient
    >>> from tcdsl.grammar.check.definition import check
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def f(float(N, M) A) -> (S) { S(n) +=! A(n, m) }"
    >>> spread_over(gradient(check(parse(text))))
    (1,)
    """
    adjoints = [given.name for given in made.given if given.output]
    definition = parsed(made.text, GRADIENT).defs[-1]
    if len(adjoints) != 1 or len(made.wrt) != 1 or len(definition.body) != 1:
        return None
    types = {p.name: p.type for p in (*definition.params, *definition.returns)}
    adjoint, result = types[adjoints[0]], types[definition.returns[0].name]
    (statement,) = definition.body
    if not isinstance(statement, nodes.Comprehension) or statement.op not in ("=", "+=!"):
        return None
    subs, read = statement.target.subs, _subscripts(statement.value, adjoints[0])
    if adjoint is None or result is None or adjoint.name != result.name or statement.clauses:
        return None
    if not subs or read is None or len({*subs}) != len(subs):
        return None
    if not all(isinstance(sub, nodes.Name) for sub in subs):
        return None
    extents = [*zip(read, adjoint.dims or (), strict=True)]
    whole = [*zip(subs, result.dims or (), strict=True)]
    if len(read) == len(subs):
        one = nodes.IntLit(0), nodes.IntLit(1)
        alike = all(r in (w, one) for r, w in zip(extents, whole, strict=True))
        return () if alike and read != subs else None
    missing, left = [], extents
    for d, dimension in enumerate(whole):
        if left and left[0] == dimension:
            del left[0]
        else:
            missing.append(d)
    return None if left else tuple(missing)


def _subscripts(value: nodes.Expr, tensor: str) -> tuple[nodes.Node, ...] | None:
    """Return where an expression reads a tensor, if it is no more than that."""
    match value:
        case nodes.Apply(name=name, args=args) if name == tensor:
            return args
        case nodes.Name(name=name) if name == tensor:
            return ()
    return None


def _written(statement: nodes.Stmt) -> tuple[str, ...]:
    match statement:
        case nodes.Comprehension(target=target):
            return (target.name,)
        case nodes.MultiCall(targets=targets):
            return tuple(t.name for t in targets)
        case nodes.ForLoop(body=body):
            return tuple(name for s in body for name in _written(s))


def _is_copy(statement: nodes.Stmt, adjoint: str) -> bool:
    """Whether a statement is ``X(i, j) = adjoint(i, j)``, whole."""
    if not isinstance(statement, nodes.Comprehension) or statement.op not in ("=", "+=!"):
        return False
    subs = statement.target.subs
    ranges = [c for c in statement.clauses if not isinstance(c, nodes.Exists)]
    match statement.value:
        case nodes.Apply(name=name, args=args) if subs is not None:
            plain = all(isinstance(a, nodes.Name) for a in args) and len(set(args)) == len(args)
            return name == adjoint and args == subs and plain and not ranges
        case nodes.Name(name=name):
            return name == adjoint and not subs and not ranges
    return False
