"""The text of a layer: its kernel, which of its arguments the layer has, and of which types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from os import PathLike
from typing import Any

from tcdsl.grammar.text.errors import TCTypeError, count
from tcdsl.grammar.text.heads import dims_of
from tcdsl.grammar.text.nodes import Def, Param
from tcdsl.grammar.types.dtypes import BY_NAME, DType
from tcdsl.kernel import Kernel
from tcdsl.layers.library import Texts
from tcdsl.text.instead import instead
from tcdsl.text.names import generic_values


def kernel_of(
    texts: Texts,
    text: str | PathLike[str] | Kernel | None,
    name: str | None,
    settings: Mapping[str, Any],
) -> Kernel:
    """Return the kernel that a layer calls.

    settings: keywords of `define`, None where nothing was said.

    Raises
    ------
    TCError
        If there is no text or it is wrong, has several definitions, or is a kernel to which
        settings come too late.
    """
    if text is None:
        raise TCTypeError(
            "a layer needs a text: TC(text, ...), or a subclass with the text as its attribute"
        )
    given = {k: v for k, v in settings.items() if v is not None}
    if isinstance(text, Kernel):
        if not texts.sees(text):
            raise TCTypeError(
                f"{text.name} is a kernel that autograd does not see\n  make it by {texts.name}"
            )
        if given:
            raise TCTypeError(
                f"{text.name}: {', '.join(given)} belongs to the text, and a kernel was given\n"
                f"  say it where the kernel is defined: {texts.name}(text, ...)"
            )
        if name not in (None, text.name):
            raise TCTypeError(f"the kernel that was given is {text.name}, not '{name}'")
        return text
    found = texts.define(text, name, **given)
    if not isinstance(found, Kernel):
        names = ", ".join(k.name for k in found)
        raise TCTypeError(f"a layer is one definition, the text has {names}: choose one by name=")
    return found


def param(definition: Def, name: str) -> Param:
    """Return an argument of the text by its name."""
    return next(p for p in definition.params if p.name == name)


def check_names(
    definition: Def,
    layer: object,
    made_by: Callable[..., None],
    own: Mapping[str, object],
    buffers: Mapping[str, object],
    fixed: Mapping[str, object],
) -> None:
    """Refuse what the text does not have, and what has two roles or cannot have its role.

    Parameters
    ----------
    layer : Module
        Before it has any of them: what it has now, no argument may be called.
    made_by : callable
        What took the keywords: a slip may be meant for one of its own.
    own, buffers, fixed : mapping by name
        Its parameters, its buffers, and arguments and generics that are the same at each call.

    Raises
    ------
    TCTypeError
    """
    of, params = definition.name, {p.name: p for p in definition.params}
    generics = {g.name for g in definition.generics}
    roles: dict[str, str] = {}
    for role, names in (("parameter", own), ("buffer", buffers), ("fixed number", fixed)):
        for name in names:
            if role == "fixed number" and name in generics:
                continue
            if name not in params:
                left = [p for p in params if p not in roles]
                if role == "fixed number":
                    left += sorted(generics)
                    _refuse_setting(of, name, left, made_by)
                raise TCTypeError(
                    f"{of} has no argument '{name}' that could be a {role}{instead(name, left)}"
                )
            if name in roles:
                raise TCTypeError(f"{of}: '{name}' is given as {roles[name]} and as {role}")
            roles[name] = role
            if role != "fixed number":
                if hasattr(layer, name):
                    raise TCTypeError(
                        f"{of}: '{name}' means something else in a module\n"
                        "  give the argument another name in the text"
                    )
            elif dims_of(params[name]):
                raise TCTypeError(
                    f"{of}: {name} has a shape, so it is no fixed number\n"
                    f'  give its shape to learn it: parameters={{"{name}": (..)}}, '
                    f'or give it as a buffer: buffers={{"{name}": tensor}}'
                )
            elif not _is_number(fixed[name]):
                raise TCTypeError(
                    f"{of}: expected a number for {name}, got {type(fixed[name]).__name__}"
                )


def _refuse_setting(of: str, name: str, known: Sequence[str], made_by: Callable[..., None]) -> None:
    """Refuse a keyword that is a misspelt setting of a layer sooner than a name of the text."""
    settings = list(signature(made_by).parameters)[1:-1]
    meant = get_close_matches(name, settings, 1)
    if meant and not get_close_matches(name, known, 1):
        raise TCTypeError(
            f"{of} has no argument '{name}', nor has TC; did you mean the setting {meant[0]}=?"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or getattr(value, "ndim", None) == 0


def type_of(definition: Def, name: str, generics: Mapping[str, Any]) -> DType | None:
    """Return the type of an argument, None where calls decide; generics are those fixed."""
    declared = param(definition, name).type
    spelt = declared.name if declared is not None else ""
    found = BY_NAME.get(spelt)
    if found is None and spelt in generics:
        value = generic_values(definition, {spelt: generics[spelt]})[spelt]
        found = value if isinstance(value, DType) else None
    return found


def language_type(dtype: object) -> DType:
    """Return the language's type of a library's, which prints its name: ``torch.float32``.

    Raises
    ------
    TCTypeError
        If it has none.
    """
    found = BY_NAME.get(str(dtype).removeprefix("torch."))
    if found is None:
        raise TCTypeError(f"the language has no type {dtype}")
    return found


def check_type(definition: Def, name: str, generics: Mapping[str, Any], dtype: object) -> None:
    """Refuse a type of a parameter or a buffer, a library's, that the text does not take.

    Raises
    ------
    TCTypeError
    """
    wanted = type_of(definition, name, generics)
    if wanted is not None and str(dtype).removeprefix("torch.") != wanted.name:
        raise TCTypeError(
            f"{definition.name}: {name} is {wanted} in the text, so it cannot become {dtype}\n"
            f"  a text for any type names it by a variable: "
            f"def {definition.name}<T>(.. T(..) {name} ..)"
        )


def told_apart(
    of: Kernel,
    inputs: Sequence[str],
    generics: Mapping[str, Any],
    values: Sequence[Any],
    named: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return one value for each input of `forward`, and the keywords that are none.

    Parameters
    ----------
    inputs : sequence of str
        The arguments that the layer has not, in the order of the text.
    generics : mapping
        Those that the layer has.
    values, named
        What `forward` was given.
    defaults : mapping
        What numbers are that it was not given.

    Raises
    ------
    TCTypeError
        If something is missing, unknown, given twice, or the layer's own.
    """
    own = [p for p in of.params if p not in inputs] + [*generics]
    call = f"{of.name}: forward({', '.join(inputs)})"
    has = f"; {', '.join(own)} {'is' if len(own) == 1 else 'are'} the layer's" if own else ""
    if len(values) > len(inputs):
        wanted = count(len(inputs), "argument")
        raise TCTypeError(f"{call} takes {wanted}, got {len(values)}{has}")
    by_name = dict(zip(inputs, values, strict=False))
    rest = {}
    known = {g.name for g in of.definition.generics}
    for key, value in named.items():
        if key in by_name:
            raise TCTypeError(f"{call}: '{key}' is given twice")
        if key in inputs:
            by_name[key] = value
        elif key in own:
            raise TCTypeError(f"{call}: '{key}' is the layer's own, it cannot be given")
        elif key in known or key in ("out", "outputs"):
            rest[key] = value
        else:
            raise TCTypeError(f"{call} has no argument '{key}'{has}")
    by_name = {n: d for n, d in defaults.items() if n in inputs} | by_name
    missing = ", ".join(n for n in inputs if n not in by_name)
    if missing:
        raise TCTypeError(f"{call} misses {missing}{has}")
    return tuple(by_name[n] for n in inputs), rest
