"""A definition as Python's own tools show things: its head, its text, its signature, its doc."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from keyword import iskeyword
from typing import Any

from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.defaults import number_of
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.format import expr_pieces, format_def
from tcdsl.grammar.text.heads import applied, size_names, type_variables
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.text.walk import walk
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.grammar.types.typed import CheckedDef


class Shown(str):
    """A text that `inspect` shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_FROM_ARGUMENTS = Shown("...")  # the default of a generic that arguments tell


class PerKernel:
    """An attribute that is computed of each kernel; the class has another one, or none."""

    def __init__(self, make: Callable[[Any], Any], name: str, on_class: Any = ...) -> None:
        self._make, self._name, self._on_class = make, name, on_class

    def __get__(self, kernel: Any, kind: type) -> Any:
        if kernel is not None:
            return self._make(kernel)
        if self._on_class is ...:
            raise AttributeError(f"type object '{kind.__name__}' has no attribute '{self._name}'")
        return self._on_class


def head(definition: nodes.Def) -> str:
    """Return the definition without its body, on one line.

    Examples
    --------
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def every<S=2, T>(T(N) A, float(B, M) I) -> (B) { B(i) = A(S * i) }"
    >>> print(head(parse(text).defs[0]))
    every<S=2, T>(T(N) A, float32(B, M) I) -> B
    """
    given = [g.name if g.default is None else f"{g.name}={g.default}" for g in definition.generics]
    generics = f"<{', '.join(given)}>" if given else ""
    params, returns = (
        ", ".join(f"{_type(p)} {p.name}{_default(p)}".lstrip() for p in part)
        for part in (definition.params, definition.returns)
    )
    return f"{definition.name}{generics}({params}) -> {returns}"


@on_own_stack
def source(program: nodes.Program, definition: nodes.Def) -> str:
    """Return the text of a definition and of what it calls: as written, where that says the same.

    `define(source, name)` is the same kernel again.
    """
    by_name = {d.name: d for d in program.defs}
    todo, needed = [definition.name], {definition.name}
    while todo:
        for name in _callees(by_name[todo.pop()]):
            if name in by_name and name not in needed:
                needed.add(name)
                todo.append(name)
    return "\n".join(_written(d) for d in program.defs if d.name in needed)


def signature(definition: nodes.Def) -> inspect.Signature:
    """Return what `inspect.signature` gives: parameters by name, generics and out by keyword.

    A parameter whose name is a keyword of Python, and those before it, are shown as positional.
    """
    kind = inspect.Parameter
    params, generics = definition.params, definition.generics
    by_place = max((i for i, p in enumerate(params) if iskeyword(p.name)), default=-1)
    # Python shows no default before a parameter without one.
    last = max((i + 1 for i, p in enumerate(params) if p.default is None), default=0)
    shown = [
        kind(
            p.name,
            kind.POSITIONAL_ONLY if i <= by_place else kind.POSITIONAL_OR_KEYWORD,
            default=number_of(p) if i >= last else kind.empty,
            annotation=Shown(_type(p)),
        )
        for i, p in enumerate(params)
    ]
    types, sizes = type_variables(definition), size_names(definition)
    for generic in generics:
        if iskeyword(generic.name):  # by keyword all the same: f(x, **{"if": 1})
            continue
        default: Any = kind.empty if generic.default is None else generic.default
        if default is kind.empty and generic.name in types | sizes:
            default = _FROM_ARGUMENTS
        annotation = Shown("type" if generic.name in types else "int")
        shown.append(kind(generic.name, kind.KEYWORD_ONLY, default=default, annotation=annotation))
    if "out" not in {p.name for p in shown}:
        shown.append(kind("out", kind.KEYWORD_ONLY, default=None))
    if any(iskeyword(g.name) for g in generics):
        shown.append(kind("generics", kind.VAR_KEYWORD))
    results = ", ".join(f"{_type(r)} {r.name}".lstrip() for r in definition.returns)
    several = len(definition.returns) > 1
    return inspect.Signature(shown, return_annotation=Shown(f"({results})" if several else results))


def doc(
    program: nodes.Program, definition: nodes.Def, checked: Callable[[], CheckedDef | None]
) -> str:
    """Return a docstring in the NumPy style; checked tells types of results, where they are one."""
    returns = {r.name: _type(r) for r in definition.returns}
    try:
        found = checked()
    except TCError:  # said by the call; whoever asks for help gets what there is
        found = None
    for tensor in found.returns if found is not None else ():
        dims = ", ".join(map(str, tensor.shape))
        returns[tensor.name] = f"{tensor.dtype}({dims})" if dims else str(tensor.dtype)
    results = (f"{name} : {kind}".removesuffix(" : ") for name, kind in returns.items())
    return "\n".join(
        [
            *(head(definition), "", "A kernel of tcdsl, made of the text below."),
            *("", "Parameters", "----------", *_told_params(definition)),
            *("", "Returns", "-------", *results),
            *("", "Text", "----", source(program, definition)),
        ]
    )


def html(program: nodes.Program, definition: nodes.Def) -> str:
    """Return what a notebook shows: the head, and the text behind it."""
    from html import escape  # on use: most kernels are not shown in a notebook

    title, text = escape(head(definition)), escape(source(program, definition))
    return f"<details><summary><code>{title}</code></summary><pre>{text}</pre></details>"


def _told_params(definition: nodes.Def) -> Iterator[str]:
    for param in definition.params:
        yield f"{param.name} : {_type(param)}{_default(param).replace(' =', ', default')}"
    types, sizes = type_variables(definition), size_names(definition)
    for generic in definition.generics:
        what = 'type, as "float32"' if generic.name in types else "int"
        told = generic.name in types | sizes
        default = ", by default that of the arguments" if told else ""
        if generic.default is not None:
            default = f", default {generic.default}"
        yield f"{generic.name} : {what}, by keyword{default}"
    several = ", one for each result" if len(definition.returns) > 1 else ""
    yield f"out : what to write into, by keyword{several}, optional"


def _type(param: nodes.Param) -> str:
    """Return the declared type of a parameter or return, "" where none is."""
    if param.type is None:
        return ""
    known = BY_NAME.get(param.type.name)
    name = param.type.name if known is None else known.name
    if param.type.dims is None:
        return name
    return f"{name}({', '.join(''.join(expr_pieces(d)) for d in param.type.dims)})"


def _default(param: nodes.Param) -> str:
    """Return the default of a parameter as its text has it, "" where there is none."""
    return "" if param.default is None else f" = {''.join(expr_pieces(param.default))}"


def _callees(definition: nodes.Def) -> set[str]:
    body = definition.body
    several = {x.callee for x in walk(body) if isinstance(x, nodes.MultiCall)}
    return several | applied(body)


def _written(definition: nodes.Def) -> str:
    """Return the text of a definition as it stands in its source, if it is still that one."""
    span = definition.span
    if span is not None:
        from tcdsl.grammar.text.parser import parse  # on use: calls do without

        text = span.text
        if parse(text).defs == (definition,):
            return text
    return format_def(definition)
