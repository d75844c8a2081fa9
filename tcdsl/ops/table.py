"""The table of ops: a family is a text beside a module of rows, a row makes an op of a definition.

``ops/README.md`` says how a row is written.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.settings import Settings
from tcdsl.calls.process.places import is_private
from tcdsl.core import Function, Method, Op, Tensor, View
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.format import format_def
from tcdsl.ops.arguments import faced, with_numpys_names
from tcdsl.ops.forms import Forms
from tcdsl.ops.into import TAKING, taking_out
from tcdsl.ops.meaning import Meaning, Slow, Spread, Vjp
from tcdsl.ops.rules import ShapeRule, TypeRule, same
from tcdsl.ops.strides import Layout, strides_of_result
from tcdsl.ops.writing import any_recorded, check_castable

PUBLIC: dict[str, Any] = {}  # functions of the package, by name
METHODS: dict[str, Any] = {}  # of Tensor


class Family:
    """The ops of one text, `NAME.tc` beside the module that makes it.

    Parameters
    ----------
    module : str
        ``__file__`` of the module.
    """

    def __init__(self, module: str) -> None:
        self.path = Path(module).with_suffix(".tc")

    @cached_property
    def session(self) -> Session:
        """The text, parsed at the first use of an op of it."""
        return Session(
            parsed(self.path.read_text("utf-8"), self.path.name), Settings(tune="off", general=True)
        )

    def text(self, name: str) -> str:
        """Return one definition as text."""
        return format_def(self.session.definition(name))

    def row(
        self,
        name: str,
        *,
        text: str | None = None,
        types: TypeRule = same,
        shape: ShapeRule | None = None,
        vjp: Vjp = "derived",
        saves: Sequence[str] = (),
        slow: Slow | None = None,
        into: Slow | None = None,
        spread: Spread | None = None,
        integers: str | None = None,
        bools: str | None = None,
        inplace: bool = False,
        inplace_text: str | None = None,
        keeps_numbers: bool = False,
        layout: Layout = strides_of_result,
        order: Layout | None = None,
        aliases: Sequence[str] = (),
        on: Sequence[str] = ("torch", "Tensor"),
        inplace_on: Sequence[str] | None = None,
    ) -> Op:
        """Return the op of a row, and make it public."""
        meaning = Meaning(
            types, shape, vjp, tuple(saves), slow, spread, integers=integers, bools=bools,
            keeps_numbers=keeps_numbers, layout=layout, order=order,
        )  # fmt: skip
        op = self._made(name, text or name, meaning)
        publish(op, (name, *aliases), on)
        if inplace:
            written = replace(meaning, slow=into or (slow and in_place(slow)), spread=None)
            into = self._made(name, inplace_text or text or name, written, writes=True)
            publish(into, tuple(f"{n}_" for n in (name, *aliases)), inplace_on or on)
            op.__dict__["inplace"] = into
        return op

    def op(
        self,
        text: str,
        *,
        types: TypeRule = same,
        shape: ShapeRule | None = None,
        vjp: Vjp = "derived",
        saves: Sequence[str] = (),
        spread: Spread | None = None,
        integers: str | None = None,
        bools: str | None = None,
        layout: Layout = strides_of_result,
        order: Layout | None = None,
        writes: bool = False,
    ) -> Op:
        """Return the op of a definition that no name stands for: of use to slow paths."""
        meaning = Meaning(
            types, shape, vjp, tuple(saves), spread=spread, integers=integers, bools=bools,
            layout=layout, order=order,
        )  # fmt: skip
        made = self._made(text, text, meaning, writes=writes)
        made.__dict__["__module__"] = f"tcdsl.ops.{self.path.stem}"
        return made

    def _made(self, name: str, text: str, meaning: Meaning, *, writes: bool = False) -> Op:
        shown = f"{name}_" if writes else name
        return Forms(shown, self.session, self.session.definition(text), meaning, writes=writes).op


def in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function `NAME_`, which writes what a function returns into its first operand."""

    def written(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        is_recorded = any_recorded((input, *args, *kwargs.values()))
        before = input.clone() if is_recorded else input  # which the gradient may read
        made = function(before, *args, **kwargs)
        check_castable(made.dtype, input.dtype)
        result: Tensor = input.copy_(made)
        return result

    written.__name__ = f"{function.__name__}_"
    return written


def publish(
    function: Callable[..., Any], names: Sequence[str], on: Sequence[str] = ("torch", "Tensor")
) -> None:
    """Make an op or a function public: of the package, as a method of Tensor, or both.

    What the package has binds to no object, as PyTorch's builtins: classes of users keep it.
    """
    if isinstance(function, FunctionType | Function):
        function = with_numpys_names(function)
    method = Method(function) if isinstance(function, Op | View | Function) else function
    is_plain = isinstance(function, FunctionType) and {*on} == {"torch", "Tensor"}
    free = faced(function) if is_plain else function
    if "torch" in on and names[0] in TAKING:
        free = _taking_out(names[0], free)
    for name in names:
        if "torch" in on:
            PUBLIC[name] = free
        if "Tensor" in on:
            METHODS[name] = function
            setattr(Tensor, name, method)
    if "torch" in on:
        found_at(free, "tcdsl", names[0])
    if (free is not function or "torch" not in on) and PUBLIC.get(names[0]) is not function:
        found_at(function, "tcdsl", f"Tensor.{names[0]}")


def _taking_out(name: str, function: Any) -> Any:
    """Let a function take ``out``, and an op whose calls by name are a function's."""
    if not isinstance(function, Op):
        return taking_out(name, function)
    if function.named is not None:
        function.named = taking_out(name, function.named)
    return function


def found_at(function: Any, module: str, name: str) -> None:
    """Say where an op, or a function that was made, is found: there pickles look for it."""
    if isinstance(function, FunctionType):
        if "<" in function.__qualname__ or is_private(function):
            function.__module__, function.__qualname__ = module, name
        return
    known = function.__dict__ if isinstance(function, Function | Op | View) else None
    if known is not None and (isinstance(function, Function) or "__qualname__" not in known):
        known.update(__module__=module, __qualname__=name)


def _name_of(op: Any) -> str:
    """Return what a pickle of an op holds, as of a function; copies are the op itself."""
    return str(op.__dict__.get("__qualname__", op.__dict__["__name__"]))


def _name_of_method(method: Method) -> str:
    name = _name_of(method)
    return name if name.startswith("Tensor.") else f"Tensor.{name}"


copyreg.pickle(Function, _name_of)
copyreg.pickle(Method, _name_of_method)
copyreg.pickle(Op, _name_of)
copyreg.pickle(View, _name_of)


def op_of_text(
    text: str,
    name: str | None = None,
    *,
    types: TypeRule = same,
    shape: ShapeRule | None = None,
    vjp: Vjp = "derived",
    saves: Sequence[str] = (),
    writes: bool = False,
    order: Layout | None = None,
    node: str | None = None,
) -> Op:
    """Return the op of a text that was made for a call; the same for the same.

    Parameters
    ----------
    text : str
        One or several definitions.
    name : str, optional
        Which of them the op is; the first by default. ``vjp`` may name another one.
    types, shape, vjp, saves, order
        Of a row.
    writes : bool
        Whether it writes its first operand.
    node : str, optional
        What recorded calls are called.
    """
    return _op_of_text(text, name, types, shape, vjp, tuple(saves), writes, order, node)


@lru_cache(maxsize=4096)
def _op_of_text(
    text: str,
    name: str | None,
    types: TypeRule,
    shape: ShapeRule | None,
    vjp: Vjp,
    saves: tuple[str, ...],
    writes: bool,
    order: Layout | None,
    node: str | None,
) -> Op:
    session = Session(parsed(text, "<generated>"), Settings(tune="off", general=True))
    definition: nodes.Def = session.program.defs[0] if name is None else session.definition(name)
    meaning = Meaning(types, shape, vjp, saves, order=order)
    return Forms(definition.name, session, definition, meaning, writes=writes, node=node).op


def operators(named: Mapping[str, Any]) -> None:
    """Let operators of the language on Tensors be these: ``{"__add__": add}``."""
    from tcdsl.core import operator

    for name, op in named.items():
        operator(name, op)
