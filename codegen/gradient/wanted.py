"""The parameters that a derivative is by: all that are floats, or those that `wrt` names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tcdsl.grammar.check.scope import near
from tcdsl.grammar.text.errors import Diagnostic, Note, TCTypeError, raise_one
from tcdsl.grammar.types.dtypes import DType
from tcdsl.grammar.types.typed import CheckedDef, Tensor

Wrt = str | Iterable[str]  # one name, or several


def wanted(checked: CheckedDef, names: Wrt | None) -> tuple[Tensor, ...]:
    """Return the parameters that names say, in their order; all that are floats for None.

    Raises
    ------
    TCTypeError
        As `checked_names` does.
    """
    if names is None:
        return tuple(t for t in checked.params if t.dtype.is_float)
    types = {t.name: t.dtype for t in checked.params}
    return tuple(checked.tensor(n) for n in checked_names(checked.name, types, names))


def check_floats(checked: CheckedDef) -> None:
    """Refuse a definition without a float parameter, or without a float return."""
    for noun, part in (("parameter", checked.params), ("return", checked.returns)):
        if not any(t.dtype.is_float for t in part):
            raise_one(
                Diagnostic(
                    "TC140",
                    f"'{checked.name}' has no float {noun}, so it has no gradient",
                    notes=(Note("integers and bool are passed on, they have no derivative"),),
                )
            )


def checked_names(
    name: str, types: Mapping[str, DType | None], names: Wrt, kept: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return names of float parameters, each once, in the order given.

    Parameters
    ----------
    name
        What the definition is called.
    types
        Those of its parameters; None where only a call tells one.
    names
        One name is as good as a list of it.
    kept
        What a gradient takes of the forward pass, which here is no parameter.

    Raises
    ------
    TCTypeError
        If there are no names, or one twice, or one of no parameter, or of one that is no float.
    """
    listed = listed_names(name, names)
    floats = [n for n, dtype in types.items() if dtype is None or dtype.is_float]
    known = f"its float parameters are {', '.join(floats)}" if floats else "it has no float one"
    if not listed:
        raise TCTypeError(
            f"{name}: wrt names no parameter\n  name some, or leave wrt out for all: {known}"
        )
    for at, wrt in enumerate(listed):
        if wrt in kept:
            raise TCTypeError(
                f"{name}: wrt: '{wrt}' is kept of the forward pass, which makes it a function of "
                f"the parameters\n  name those: {known}"
            )
        if wrt not in types:
            hint = near(wrt, floats)
            cure = f"{hint.message} {known}" if hint is not None else known
            raise TCTypeError(f"{name}: wrt: there is no parameter '{wrt}'\n  {cure}")
        dtype = types[wrt]
        if dtype is not None and not dtype.is_float:
            raise TCTypeError(
                f"{name}: wrt: '{wrt}' is {dtype}, which has no derivative\n  leave it out: {known}"
            )
        if wrt in listed[:at]:
            raise TCTypeError(f"{name}: wrt names '{wrt}' twice\n  name it once")
    return listed


def listed_names(name: str, names: Wrt) -> tuple[str, ...]:
    """Return names one by one, whatever they name.

    Raises
    ------
    TCTypeError
        If something else is among them.
    """
    if isinstance(names, str):
        return (names,)
    listed: tuple[object, ...] = tuple(names) if isinstance(names, Iterable) else (names,)
    for wrt in listed:
        if not isinstance(wrt, str):
            raise TCTypeError(
                f"{name}: wrt: expected names of parameters, got {wrt!r:.40}\n"
                '  give them as strings, as in wrt=["x"]'
            )
    return tuple(map(str, listed))
