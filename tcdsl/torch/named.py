"""Modules and inputs as a command line names them: `package.module:Class`, `32,3,224,224`."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.text.instead import instead
from tcdsl.torch.dtypes import torch_type

_INPUT = re.compile(r"\s*([\d,\s]*?)\s*(?::([a-z]\w*)(?::(\d{1,18}))?)?\s*")
_HINT = "write the shape as 32,3,224,224; with a type 8,128:int64, with a bound 8,128:int64:1000"


def module_and_inputs(
    target: str,
    inputs: Sequence[str],
    arguments: Sequence[str],
    device: str,
    dtype: str | None,
    seed: int,
) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """Return a module and random inputs, as `tcdsl autotune` is given them.

    Raises
    ------
    TCTypeError
        If there is no such module, or something cannot be read.
    """
    kind = type_named(dtype, "--dtype") if dtype else None
    given = dict(map(argument, arguments))
    torch.manual_seed(seed)
    module = module_named(target, given)
    return (
        module.to(device=device, dtype=kind),
        [random_input(text, kind or torch.get_default_dtype(), device) for text in inputs],
    )


def module_named(target: str, arguments: Mapping[str, Any]) -> torch.nn.Module:
    """Return the module that `package.module:Name` names.

    Parameters
    ----------
    target : str
        Of a module, or of a class or a function that gives one.
    arguments : mapping
        What the class or the function is called with.

    Raises
    ------
    TCTypeError
        If there is none.
    """
    home, _, path = target.partition(":")
    found: Any = _imported(home)
    for name in path.split("."):
        if not hasattr(found, name):
            known = [n for n in dir(found) if not n.startswith("_")]
            raise TCTypeError(f"'{home}' has no '{name}'{instead(name, known)[:400]}")
        found = getattr(found, name)
    if isinstance(found, torch.nn.Module):
        if arguments:
            raise TCTypeError(f"{target} is a module already: --arg is for a class")
        return found
    if not callable(found):
        raise TCTypeError(
            f"{target} is a {type(found).__name__}; expected a class, a function that gives a "
            "module, or a module"
        )
    try:
        inspect.signature(found).bind(**arguments)
    except TypeError as error:
        raise TCTypeError(
            f"{target}{inspect.signature(found)}: {error}\n  give arguments as --arg KEY=VALUE"
        ) from None
    made = found(**arguments)
    if not isinstance(made, torch.nn.Module):
        raise TCTypeError(f"{target} gives a {type(made).__name__}, expected an nn.Module")
    return made


def _imported(home: str) -> Any:
    """Return a Python module, be it one of the current folder."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as error:
        name = error.name or ""
        if home != name and not home.startswith(f"{name}."):
            raise  # one that the user's code wants
        cure = f"\n  write {home[:-3]}:..." if home.endswith(".py") else ""
        raise TCTypeError(
            f"there is no module '{name}', neither in {here} nor where Python looks{cure}"
        ) from None


def argument(text: str) -> tuple[str, Any]:
    """Return an argument of a constructor: a Python literal, else a text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise TCTypeError(f"--arg: expected KEY=VALUE, got '{text}'")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return name, value


def random_input(text: str, kind: torch.dtype, device: str) -> torch.Tensor:
    """Return a random input: floats are normal, integers from 0 to a bound."""
    match = _INPUT.fullmatch(text)
    if match is None or not text.strip():
        raise TCTypeError(f"--input: cannot read '{text}'\n  {_HINT}")
    extents, type_name, bound = match.groups()
    parts = [p.strip() for p in extents.split(",") if p.strip()]
    if any(len(p) > 18 or not p.isdigit() for p in parts):
        raise TCTypeError(f"--input: cannot read '{text}'\n  {_HINT}")
    shape = [int(p) for p in parts]
    kind = type_named(type_name, "--input") if type_name else kind
    if kind.is_floating_point:
        if bound is not None:
            raise TCTypeError(f"--input: '{text}' has a bound, which is for integers")
        return torch.randn(shape, device=device).to(kind)
    return torch.randint(0, int(bound or 2), shape, device=device).to(kind)


def type_named(name: str, option: str) -> torch.dtype:
    """Return torch's type of a name of the language's; option is whose value it is."""
    if name not in BY_NAME:
        raise TCTypeError(f"{option}: '{name}' is no type{instead(name, BY_NAME)}")
    return torch_type(BY_NAME[name])
