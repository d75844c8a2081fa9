"""What callers wrote, as the operands of an op: by position, tensors and numbers of Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS, signature, unwrap
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from tcdsl import core
from tcdsl.core import Tensor
from tcdsl.core.dtypes import DType
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.defaults import number_of
from tcdsl.grammar.text.heads import has_any_rank

_NUMBERS = (bool, int, float)
Function = TypeVar("Function", bound=Callable[..., Any])


def is_operand(value: Any) -> bool:
    """Whether a value may be an operand as it is."""
    return isinstance(value, Tensor | int | float | np.generic)


def listed(given: Any) -> Any:
    """Return what says sizes, places or parts as Python's numbers: NumPy's and tensors are so."""
    return given.tolist() if isinstance(given, Tensor | np.generic | np.ndarray) else given


def several(given: Any, count: int = 1) -> tuple[Any, ...]:
    """Return what is one number or several, `listed`, as several: one is each of so many."""
    given = listed(given)
    return (given,) * count if isinstance(given, int) else tuple(given)


def asked_once(function: Function) -> Function:
    """Let a function of settings remember what it was asked, but of lists and tensors.

    Those may hold something else when it is asked again.
    """

    @lru_cache(maxsize=4096, typed=True)
    def known(*given: Any) -> Any:
        if any(isinstance(x, Tensor) for g in given for x in (g if isinstance(g, tuple) else (g,))):
            raise TypeError("a tensor is no key")
        return function(*given)

    @wraps(function)
    def call(*given: Any) -> Any:
        try:
            return known(*given)
        except TypeError:  # nor is a list; one of the function's own comes again
            return function(*given)

    return cast(Function, call)


def listed_as(name: str) -> Callable[[Function], Function]:
    """Let a function of a tensor and sizes, or dimensions, one by one take them by name as a list.

    ``flip(x, 0, 1)``, ``flip(x, (0, 1))`` and ``flip(x, dims=(0, 1))`` are the same.
    """

    def made(function: Function) -> Function:
        @wraps(function)
        def call(input: Tensor, *given: Any, **named: Any) -> Any:
            if name in named:
                if given:
                    raise TypeError(
                        f"{function.__name__}() got multiple values for argument '{name}'"
                    )
                given = (named.pop(name),)
            return function(input, *given, **named)

        return cast(Function, call)

    return made


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's parameters, in the order of its `inspect.signature`.

    Of plain functions the code is asked, in a twentieth of the time: an import asks five hundred.
    """
    asked = function
    while type(asked) is FunctionType and "__signature__" not in asked.__dict__:
        if "__wrapped__" in asked.__dict__:
            asked = asked.__dict__["__wrapped__"]
            continue
        code = asked.__code__
        names, count = code.co_varnames, code.co_argcount
        end = count + code.co_kwonlyargcount
        starred = end + bool(code.co_flags & CO_VARARGS)
        last = starred + bool(code.co_flags & CO_VARKEYWORDS)
        return names[:count] + names[end:starred] + names[count:end] + names[starred:last]
    return tuple(signature(function).parameters)


_NUMPYS = {"axis": "dim", "keepdims": "keepdim"}  # words of NumPy's that PyTorch takes for its own


def with_numpys_names(function: Function) -> Function:
    """Let a function that takes ``dim`` take it as ``axis``, and ``keepdim`` as ``keepdims``."""
    if not {"dim", "keepdim"} & {*parameters_of(function)}:
        return function
    return also_named(_NUMPYS)(function)


def also_named(names: Mapping[str, str]) -> Callable[[Function], Function]:
    """Let a function take arguments under further names, each with that which it has."""

    def made(function: Function) -> Function:
        found = faced(function)
        found.names = {**(found.names or {}), **names}
        return cast(Function, found)

    return made


def refusal(function: Callable[..., Any], value: Any) -> str | None:
    """Return what is wrong with the first argument, no tensor, of a function of the core's."""
    code = getattr(unwrap(function), "__code__", None)
    if code is None or code.co_varnames[:1] not in (("input",), ("self",), ("tensor",)):
        return None
    called = function.__qualname__.rpartition(".")[2].lstrip("_")
    return _no_tensor(called, "input", 0, value)


core.setup("refusal", refusal)


def faced(function: Callable[..., Any]) -> core.Function:
    """Return a function as one of the core's; itself if it is one."""
    if isinstance(function, core.Function):
        return function
    made = core.Function(function)
    known = ("__name__", "__qualname__", "__module__", "__doc__")
    made.__dict__.update({name: getattr(function, name) for name in known})
    return made


def free(function: Function) -> Function:
    """Let a function bind to no object where a class holds it, as PyTorch's builtins."""
    return cast(Function, faced(function))


def as_pytorchs(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments under PyTorch's names where they have NumPy's."""
    return {_NUMPYS.get(name, name): value for name, value in named.items()}


def by_name(
    name: str, definition: nodes.Def, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the operands of a call by position, those that it leaves out by their defaults.

    Raises
    ------
    TypeError
        If there are too many or too few, or some that the text does not have.
    """
    name, params = said(name), tuple(p.name for p in definition.params)
    values = dict(zip(params, args, strict=False))
    if len(args) > len(params):
        raise TypeError(
            f"{name}() takes {len(params)} positional arguments but {len(args)} were given"
        )
    for key, value in kwargs.items():
        if key not in params:
            raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
        if key in values:
            raise TypeError(f"{name}() got multiple values for argument '{key}'")
        values[key] = value
    for p in definition.params:
        if p.name not in values and p.default is not None:
            values[p.name] = number_of(p)
    missing = [p for p in params if p not in values]
    if missing:
        raise TypeError(
            f"{name}() missing {len(missing)} required positional arguments: "
            + ", ".join(f'"{p}"' for p in missing)
        )
    return tuple(values[p] for p in params)


def any_rank(definition: nodes.Def) -> frozenset[str]:
    """Return the parameters that may have any number of dimensions."""
    return frozenset(p.name for p in definition.params if has_any_rank(p))


def wrapped_to(
    values: Sequence[Any],
    dtype: DType,
    params: Sequence[str],
    typed: Collection[str],
    wrapping: Collection[str],
) -> tuple[Any, ...] | None:
    """Return operands with integers that their type does not hold wrapped; None where all fit.

    A number where a tensor may stand is a tensor of one element, whose type is the op's, as in
    PyTorch. Other numbers have to fit; one below 0 may be the complement of one without a sign.

    Parameters
    ----------
    typed, wrapping : collection of str
        Parameters whose type is the op's, and those of them where a tensor may stand.
    """
    if dtype.category != 1:
        return None
    count = 1 << 8 * dtype.itemsize
    lowest = -count // 2 if dtype.is_signed else 0

    def fitting(param: str, value: Any) -> Any:
        if type(value) is not int or param not in typed:
            return value
        is_complement = not dtype.is_signed and -count < value < 0
        if is_complement or param in wrapping:
            return (value - lowest) % count + lowest
        return value

    found = tuple(map(fitting, params, values))
    return found if any(a is not b and a != b for a, b in zip(found, values, strict=True)) else None


_SAID = {"linear_bias": "linear", "add_scaled": "add", "sub_scaled": "sub", "sum_all": "sum"}


def said(name: str) -> str:
    """Return the public name of a function whose text is called so."""
    plain = name.removeprefix("each_").removesuffix("_")
    return _SAID.get(plain, plain) + "_" * name.endswith("_")


def name_private(function: Callable[..., Any], name: str) -> None:
    """Let errors of Python's call a function that nobody knows by the name that it stands for."""
    known = getattr(function, "__qualname__", "")
    if isinstance(function, FunctionType) and (known.startswith("_") or "<" in known):
        function.__qualname__ = name


def no_tensor(name: str, param: str, at: int, value: Any) -> TypeError:
    """Return the error that refuses an operand."""
    return TypeError(_no_tensor(said(name), param, at, value))


def _no_tensor(name: str, param: str, at: int, value: Any) -> str:
    kind = type(value).__name__
    return f"{name}(): argument '{param}' (position {at + 1}) must be Tensor, not {kind}"


def operand(name: str, param: str, at: int, value: Any) -> Any:
    """Return an operand as the core takes it: a Tensor or a Python number.

    Raises
    ------
    TypeError
        If it is neither, nor a number of NumPy's.
    """
    if isinstance(value, Tensor) or type(value) in _NUMBERS:
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, int | float):
        return float(value) if isinstance(value, float) else int(value)
    raise no_tensor(name, param, at, value)
