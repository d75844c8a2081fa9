"""What a call would give, without arrays, without compiling or running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.sizes import check_sizes
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.operands.abstract import AbstractArray, abstract_of
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.defaults import number_of
from tcdsl.grammar.text.errors import TCTypeError, count
from tcdsl.text.names import generic_values


def outputs(
    session: Session,
    definition: nodes.Def,
    given: Sequence[Any],
    generics: Mapping[str, Any],
    least: Callable[..., Any] = min,
    most: Callable[..., Any] = max,
) -> tuple[AbstractArray, ...]:
    """Return the forms of the results; see `Kernel.infer`."""
    forms = _forms(definition, given, generics)
    variant, sizes = session.bind(definition, forms, generics)
    return tuple(
        AbstractArray(tuple(n.over(sizes, least, most) for n in t.shape), t.dtype)
        for t in variant.signature.returns
    )


def at(
    session: Session, definition: nodes.Def, args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Variant, dict[str, int]]:
    """Return a definition bound to what a person names, and the sizes that brings.

    Parameters
    ----------
    args : arrays, shapes and numbers
        One per parameter; none where sizes are named.
    named : mapping
        Sizes (without args) and generics.

    Raises
    ------
    TCError
        If something is missing, unknown, or does not fit.
    """
    known = {g.name for g in definition.generics}
    generics = {n: v for n, v in named.items() if n in known}
    sizes = {n: v for n, v in named.items() if n not in known}
    if args:
        if sizes:
            raise TCTypeError(
                f"{definition.name}: give arrays and shapes, or sizes by keyword; got "
                f"'{next(iter(sizes))}' beside arguments"
            )
        return session.bind(definition, _forms(definition, args, generics), generics)
    shapes = session.ranks.shapes_named(definition, sizes)
    variant = session.variant(definition, generics, None, shapes)
    return variant, check_sizes(variant.signature, sizes)


def _forms(
    definition: nodes.Def, given: Sequence[Any], generics: Mapping[str, Any]
) -> list[AbstractArray]:
    params = definition.params
    rest = params[len(given) :]
    if all(p.default is not None for p in rest):
        given = [*given, *map(number_of, rest)]
    if len(given) != len(params):
        call = f"{definition.name}({', '.join(p.name for p in params)})"
        raise TCTypeError(f"{call} takes {count(len(params), 'argument')}, got {len(given)}")
    values = generic_values(definition, generics)
    return [abstract_of(v, p, values) for v, p in zip(given, params, strict=True)]
