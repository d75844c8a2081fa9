"""Numbers that a call may leave out: which defaults a parameter may have, and calls filled up."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import Diagnostic, Note

# What a number may be called that has no digits.
FLOAT_NAMES = {"inf": float("inf"), "nan": float("nan")}

_INTEGER = re.compile(r"(u?)int(8|16|32|64)")
_FLOAT = re.compile(r"b?float(16|32|64)?|double")


def fault_of_default(param: n.Param, *, is_return: bool = False) -> Diagnostic | None:
    """Return what is wrong with the default of a parameter or return, if anything is."""
    default, ref = param.default, param.type
    if default is None:
        return None
    cure: tuple[Note, ...] = ()
    if is_return:
        what, label = f"the return '{param.name}' has a default", "only a parameter has one"
    elif ref is None:
        return None  # a parameter without a type
    elif ref.dims:
        what, label = f"'{param.name}' has dimensions and a default", "only a number has one"
        cure = (Note(f"without dimensions it is a number: {ref.name} {param.name}"),)
    elif (told := _not_held(ref.name, default)) is not None:
        what, label = f"the default of '{param.name}' does not fit {ref.name}", told
    else:
        return None
    return Diagnostic("TC021", what, default.span, label, cure)


def _not_held(dtype: str, default: n.IntLit | n.FloatLit) -> str | None:
    """Return what a type holds, None where it holds a default."""
    is_integer = isinstance(default, n.IntLit)
    if dtype == "bool":
        return None if is_integer and default.value in (0, 1) else "expected 0 or 1"
    known = _INTEGER.fullmatch(dtype)
    if known is None:  # a float, or a type variable
        return None
    bits = int(known[2])
    low, high = (0, 2**bits - 1) if known[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if is_integer and low <= default.value <= high:
        return None
    return f"expected an integer from {low} to {high}"


def number_of(param: n.Param) -> int | float | bool | None:
    """Return the default of a parameter as Python's number, None where it has none."""
    if param.default is None or param.type is None:
        return None
    value = param.default.value
    if param.type.name == "bool":
        return bool(value)
    return float(value) if _FLOAT.fullmatch(param.type.name) else value


def placed(definition: n.Def, args: Sequence[n.Arg]) -> tuple[list[n.Arg | None], list[n.Keyword]]:
    """Return what a call gives to each parameter, and what else it names.

    Parameters
    ----------
    definition : nodes.Def
        What is called.
    args : sequence of nodes.Arg
        As the call has them: by position, then by name.

    Returns
    -------
    list of nodes.Arg or None
        One for each parameter, the default where the call has none, None where there is none; more
        where the call has too many.
    list of nodes.Keyword
        Generics, and names that mean nothing or are given twice.
    """
    found: list[n.Arg | None] = [a for a in args if not isinstance(a, n.Keyword)]
    found += [None] * (len(definition.params) - len(found))
    places = {p.name: at for at, p in enumerate(definition.params)}
    rest = []
    for arg in args:
        if not isinstance(arg, n.Keyword):
            continue
        at = places.get(arg.name)
        if at is None or found[at] is not None:
            rest.append(arg)
        else:
            found[at] = arg.value
    for at, param in enumerate(definition.params):
        if found[at] is None:
            found[at] = param.default
    return found, rest
