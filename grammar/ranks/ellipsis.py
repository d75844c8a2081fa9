"""`...`: a definition of any rank becomes one of fixed ranks, a text without `...`.

    def add(float(...) A, float(...) B) -> (C) { C(...) = A(...) + B(...) }

called with shapes (4, 3) and (4, 1) is

    def add(float(D0, D1) A, float(D0, 1) B) -> (C) { C(i0, i1) = A(i0, i1) + B(i0, 0) }

which is checked, compiled and tuned like any other. All shapes of the same ranks in which the same
dimensions are repeated share it.

So checks, forms, the tuner's keys and kept texts know nothing of `...`. Refused: ranks as
values of the check; strides of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tcdsl.grammar.ranks.broadcast import Alignment, fits
from tcdsl.grammar.ranks.dims import Dims, dots_in
from tcdsl.grammar.ranks.respell import Writer
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Note, ShapeError, count, raise_one
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.heads import dims_of, fixed_dims, has_any_rank, shapes_of_rank
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.text.walk import walk

Shape = Sequence[int]


def has_dots(definition: n.Def) -> bool:
    """Whether a definition has `...` anywhere."""
    return any(isinstance(x, n.Dots) for x in walk(definition))


@on_own_stack
def bind_ranks(program: n.Program, name: str, shapes: Sequence[Shape]) -> n.Def:
    """Return a definition with the ranks of its arguments, without `...`.

    Parameters
    ----------
    program : nodes.Program
        The text.
    name : str
        The definition.
    shapes : sequence of sequence of int
        Of the arguments. Of the extents only counts whether they are 1: `...` repeats dimensions of
        extent 1 beside longer ones. Such a dimension is the literal 1, and its subscript 0.

    Returns
    -------
    nodes.Def
        The definition itself if it has no `...`.

    Raises
    ------
    ShapeError
        If a rank is less than the dimensions that the parameter names.
    TCTypeError
        If `...` has no meaning with these ranks.

    Examples
    --------
    >>> from tcdsl.grammar.text.format import format_def
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def total(float(...) X) -> (s) { s +=! X(...) }"
    >>> print(format_def(bind_ranks(parse(text), "total", [(3, 5)])))
    def total(float(D0, D1) X) -> (s) {
      s +=! X(i0, i1)
    }
    """
    defs = {d.name: d for d in reversed(program.defs)}
    definition = defs[name]
    if not has_dots(definition):
        return definition
    try:
        for param, shape in zip(definition.params, shapes, strict=True):
            _want_rank(definition, param, shape)
        return with_ranks(definition, defs, shapes)
    except FaultError as fault:
        raise_one(fault.diagnostic)


def with_ranks(
    definition: n.Def, defs: Mapping[str, n.Def], shapes: Sequence[Shape] | None
) -> n.Def:
    """Return a definition without `...`; shapes may be None where its parameters have ranks.

    Raises
    ------
    FaultError
        If `...` has no meaning with these ranks.
    """
    if shapes is None:
        _want_ranks(definition)
        shapes = shapes_of_rank(definition, 0)
    alignment = Alignment(definition, defs)
    given = zip(definition.params, shapes, strict=True)
    try:
        alignment.run([_dims(alignment, param, shape) for param, shape in given])
        return Writer(alignment, defs).definition()
    except FaultError as fault:
        diagnostic, ranks = fault.diagnostic, _ranks(definition, shapes)
        if ranks and diagnostic.code in ("TC103", "TC113", "TC197"):
            fault.diagnostic = replace(diagnostic, notes=(*diagnostic.notes, Note(ranks)))
        raise


def _want_rank(definition: n.Def, param: n.Param, shape: Shape) -> None:
    """Refuse an argument with less dimensions than its parameter names."""
    if not has_any_rank(param) or fits(param, len(shape)):
        return
    assert param.type is not None
    least = count(len(fixed_dims(param)), "dimension")
    names = ", ".join(p.name for p in definition.params)
    declared = param.type.span.text if param.type.span is not None else param.type.name
    raise ShapeError(
        f"{definition.name}({names}): expected {param.name} with at least {least}, "
        f"got shape {tuple(shape)}\n  declared {declared}"
    )


def _want_ranks(definition: n.Def) -> None:
    for param in definition.params:
        if (dots := dots_in(dims_of(param), f"the type of '{param.name}'")) is not None:
            raise FaultError(
                "TC190",
                f"the rank of '{param.name}' is not known",
                dots.span,
                "any rank",
                Note("it comes from the arguments of a call"),
            )


def _ranks(definition: n.Def, shapes: Sequence[Shape]) -> str:
    """Return the ranks of the arguments in words."""
    told = []
    for param, shape in zip(definition.params, shapes, strict=True):
        if has_any_rank(param):
            told.append(f"'{param.name}' has {count(len(shape), 'dimension')}")
    return "where " + " and ".join(told) if told else ""


def _dims(alignment: Alignment, param: n.Param, shape: Shape) -> Dims:
    """Return the dimensions of a parameter; extents that its type names are taken for long."""
    is_open = has_any_rank(param)
    made = alignment.declared(param, len(shape) if is_open else len(dims_of(param)))
    if is_open:
        for dim, extent in zip(made, shape, strict=True):
            dim.group.is_free = dim.declared is None
            dim.group.is_one = dim.declared is None and extent == 1
    return made
