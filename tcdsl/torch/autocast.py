"""Arguments under torch.autocast: cast to what the text declares, by torch's own `.to`.

A float32 kernel between layers that autocast runs in bfloat16 gets bfloat16. What a text declares
is what it computes in, so its arguments are cast to that; where a type variable leaves it open, a
policy says which type it is. Casts stand before the call, so autograd, torch.compile and transforms
see them; nothing of a kernel itself is subject to autocast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import torch

from tcdsl.calls.arguments import Arguments
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.heads import type_variables
from tcdsl.grammar.types.dtypes import BY_NAME, DType
from tcdsl.text.names import generic_values

Policy = Literal["promote", "lower", "float32"] | None

_ELIGIBLE = (torch.float32, torch.float16, torch.bfloat16)  # as torch's own: float64 stays


def check_policy(policy: object, definitions: Sequence[nodes.Def]) -> None:
    """Refuse what is no policy, and one that has nothing to decide.

    Raises
    ------
    TCTypeError
    """
    known = get_args(get_args(Policy)[0])
    if policy is not None and policy not in known:
        raise TCTypeError(
            f"autocast is {policy!r:.40}; expected {', '.join(map(repr, known))} or None"
        )
    if policy in ("lower", "float32") and not any(map(type_variables, definitions)):
        name = definitions[-1].name
        raise TCTypeError(
            f"autocast='{policy}': the text declares all types, so arguments are cast to those\n"
            f"  leave it away, or let calls decide: def {name}<T>(T(...) ...)"
        )


def is_active(place: str) -> bool:
    """Whether autocast is on for a type of device."""
    return torch.amp.is_autocast_available(place) and torch.is_autocast_enabled(place)


def cast(definition: nodes.Def, given: Arguments, policy: Policy, place: str) -> tuple[Any, ...]:
    """Return the values of a call's arguments under autocast.

    Tensors of float32, float16 and bfloat16 get the type that the text declares for them; those
    whose type is a variable get that of the policy. All others stay; numbers every call converts.

    Parameters
    ----------
    definition : nodes.Def
    given : Arguments
    policy : "promote", "lower" or "float32"
        A type variable becomes the widest type among its arguments, autocast's type, or float32,
        if no keyword says it.
    place : str
        The type of device.
    """
    fixed = generic_values(definition, given.generics)
    known = {n: v.name for n, v in fixed.items() if isinstance(v, DType)}
    return cast_to(declared(definition), known, given.values, policy, place)


def declared(definition: nodes.Def) -> tuple[str, ...]:
    """Return the type of each parameter as the text declares it, "" of numbers."""
    return tuple(p.type.name if p.type and p.type.dims else "" for p in definition.params)


def cast_to(
    names: Sequence[str],
    known: Mapping[str, str],
    values: Sequence[Any],
    policy: Policy,
    place: str,
) -> tuple[Any, ...]:
    """Return values cast as `cast` does; in words that Dynamo knows.

    names: the types that are declared. known: the types of variables that keywords give.
    """
    types = {n: _type(n, known, names, values, policy, place) for n in names}
    return tuple(
        v if types[n] is None or not _is_eligible(v) else v.to(types[n])
        for v, n in zip(values, names, strict=True)
    )


_TYPES = {n: getattr(torch, t.name) if t.is_float else None for n, t in BY_NAME.items()}


def _type(
    name: str,
    known: Mapping[str, str],
    names: Sequence[str],
    values: Sequence[Any],
    policy: Policy,
    place: str,
) -> torch.dtype | None:
    """Return the type of what a type or a variable of the text declares; None leaves it."""
    fixed = known.get(name, name)
    if fixed in _TYPES:
        return _TYPES[fixed]
    arrays = [v for v, n in zip(values, names, strict=True) if n == name]
    found = [v.dtype for v in arrays if isinstance(v, torch.Tensor)]
    if not found or any(t not in _ELIGIBLE for t in found):
        return None
    if policy == "lower":
        return torch.get_autocast_dtype(place)
    if policy == "float32":
        return torch.float32
    widest = found[0]
    for t in found[1:]:
        widest = torch.promote_types(widest, t)
    return widest


def _is_eligible(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _ELIGIBLE
