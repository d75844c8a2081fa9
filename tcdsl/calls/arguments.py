"""What a caller wrote, told apart: parameters, outputs, generics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tcdsl.calls.bindings.origin import cure_for_missing
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.defaults import number_of
from tcdsl.grammar.text.errors import TCTypeError, count

if TYPE_CHECKING:
    from tcdsl.codegen.gradient.derivatives import Gradient

# Settings that a reader may look for at a call, by where they are given
_OF_GRADIENTS = ("wrt", "checkpoint", "memory_limit", "copy")
_OF_DEFINE = ("check", "deterministic", "threads", "tune")


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a caller wrote: a value per parameter, outputs or None, generics by name."""

    values: tuple[Any, ...]
    outputs: tuple[Any, ...] | None
    generics: Mapping[str, Any]


def tell_apart(
    definition: nodes.Def,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    origin: Gradient | None = None,
) -> Arguments:
    """Return parameters, outputs and generics of a call; origin is what it is the gradient of.

    Raises
    ------
    TCTypeError
        If an argument is missing, too many, given twice or unknown.
    """
    if len(args) == len(definition.params) and (
        not keywords or keywords.keys() <= {g.name for g in definition.generics}
    ):
        return Arguments(tuple(args), None, keywords)  # as most calls are
    params = [p.name for p in definition.params]
    signature = f"{definition.name}({', '.join(params)})"
    if len(args) > len(params):
        raise TCTypeError(
            f"{signature} takes {count(len(params), 'argument')}, got {len(args)}\n"
            "  outputs are given as out=..."
        )
    known = {g.name for g in definition.generics}
    values = dict(zip(params, args, strict=False))
    generics, outputs = {}, None
    for name, value in keywords.items():
        # a parameter or a generic of that name that has no value yet comes first
        if name in ("out", "outputs") and (name in values or name not in {*params, *known}):
            if value is None:
                continue
            if outputs is not None:
                raise TCTypeError(f"{signature}: 'out' and 'outputs' mean the same, give one")
            outputs = _one_per_return(signature, definition, value)
        elif name in known:
            generics[name] = value
        elif name in values:
            raise TCTypeError(f"{signature}: '{name}' is given twice")
        elif name in params:
            values[name] = value
        else:
            cure = ""
            if name in _OF_GRADIENTS:
                cure = f"\n  set it before the call: {definition.name}.with_grad({name}=...)(...)"
            elif name in _OF_DEFINE:
                cure = f"\n  it is set where the text is defined: tcdsl.define(text, {name}=...)"
            elif meant := get_close_matches(name, [*params, *known], 1):
                cure = f"; did you mean '{meant[0]}'?"
            elif known:
                cure = f"\n  its generics are {', '.join(g.name for g in definition.generics)}"
            raise TCTypeError(f"{signature} has no parameter '{name}'{cure}")
    given = count(len(values), "argument was", "arguments were")
    for param in definition.params:
        if param.default is not None and param.name not in values:
            values[param.name] = number_of(param)
    missing = ", ".join(f"'{p}'" for p in params if p not in values)
    if missing:
        cure = cure_for_missing(origin, params) if origin is not None else ""
        raise TCTypeError(f"{signature} misses {missing}: {given} given{cure}")
    return Arguments(tuple(values[p] for p in params), outputs, generics)


def _one_per_return(signature: str, definition: nodes.Def, value: Any) -> tuple[Any, ...]:
    returns = len(definition.returns)
    outputs = tuple(value) if isinstance(value, tuple | list) else (value,)
    if len(outputs) != returns:
        raise TCTypeError(
            f"{signature} has {count(returns, 'return')}, got {count(len(outputs), 'output')}"
        )
    return outputs
