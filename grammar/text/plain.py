"""The tree of a text as lists, texts and numbers, which files can hold; what is read is checked.

Nodes stand one after the other, each behind its parts, so that a chain of a thousand terms is no
deeper than any other text, and neither writing nor reading recurses:

    i + 1    [["Name", 0, 1, "i"], ["IntLit", 4, 5, 1, ""], ["Binary", 0, 5, "+", 2, 3]]

A node has its class, its place, then its fields in their order: words and numbers as they are, a
place as its two ends, of parts that may be missing or many how many there are (None: not written).
The body of a definition is a list of its own, of nodes that are made when somebody asks for it: a
library of hundreds of definitions is loaded for the few that a program calls.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.defaults import FLOAT_NAMES
from tcdsl.grammar.text.source import Source, Span
from tcdsl.grammar.text.unread import Unread

_DIGITS = re.compile(r"-?[0-9A-Za-z.+-]*").fullmatch  # of a literal, as they were typed


def _identifier(value: object) -> object:
    if type(value) is str and value.isascii() and value.isidentifier():
        return value
    return _if(False, value)


def _digits(value: object) -> object:
    return _if(isinstance(value, str) and _DIGITS(value), value)


def _integer(value: object) -> object:
    is_int64 = type(value) is int and -(1 << 63) <= value < 1 << 63
    return _if(is_int64, value)


def _integer_or_none(value: object) -> object:
    return None if value is None else _integer(value)


def _number(value: object) -> object:
    if isinstance(value, str) and value.lstrip("-") in FLOAT_NAMES:  # which JSON has not
        number = FLOAT_NAMES[value.lstrip("-")]
        return -number if value[0] == "-" else number
    return _if(isinstance(value, float), value)


def _word(*of: str) -> Callable[[object], object]:
    return lambda value: _if(isinstance(value, str) and value in of, value)


def _if(is_right: object, value: object) -> object:
    if not is_right:
        raise ValueError(f"it is no part of a node: {value!r}"[:80])
    return value


@dataclass(frozen=True, slots=True)
class _Parts:
    """A field that holds a node of these classes; many: a tuple of them. may_be_none: or None."""

    of: Any
    many: bool = False
    may_be_none: bool = False


MOST_NODES = 10_000  # of a tree that is kept: reading a larger one takes no less than parsing
_PLACE = "a place"
_LATER = "a body"
_EXPR = _Parts(n.Expr)
_ARGS = _Parts(n.Arg, many=True)
_BODY = _Parts(n.Stmt, many=True)
_HEADS = _Parts(n.Param, many=True)

# What the fields of each class hold: a place, parts, or what the function lets pass.
_FIELDS: Mapping[type[n.Node], Mapping[str, Any]] = {
    n.IntLit: {"value": _integer, "text": _digits},
    n.FloatLit: {"value": _number, "text": _digits},
    n.Name: {"name": _identifier},
    n.Dots: {},
    n.Keyword: {"name": _identifier, "value": _EXPR},
    n.Apply: {"name": _identifier, "args": _ARGS, "name_span": _PLACE},
    n.Extent: {"name": _identifier, "dim": _integer},
    n.Cast: {"dtype": _identifier, "operand": _EXPR},
    n.MinMax: {"op": _word("min", "max"), "lhs": _EXPR, "rhs": _EXPR},
    n.Unary: {"op": _word("-", "!", "~"), "operand": _EXPR},
    n.Binary: {
        "op": _word(*get_args(n.BinaryOp)),
        "lhs": _EXPR,
        "rhs": _EXPR,
        "op_span": _PLACE,
    },
    n.Ternary: {"cond": _EXPR, "then": _EXPR, "other": _EXPR},
    n.RangeClause: {"name": _identifier, "low": _EXPR, "high": _EXPR},
    n.Let: {"name": _identifier, "value": _EXPR},
    n.Exists: {"value": _EXPR},
    n.Target: {
        "name": _identifier,
        "subs": _Parts(n.Sub, many=True, may_be_none=True),
        "name_span": _PLACE,
    },
    n.Equivalent: {"name": _identifier, "args": _ARGS},
    n.Comprehension: {
        "target": _Parts(n.Target),
        "op": _word(*get_args(n.AssignOp)),
        "value": _EXPR,
        "equivalent": _Parts(n.Equivalent, may_be_none=True),
        "clauses": _Parts(n.Clause, many=True),
        "op_span": _PLACE,
    },
    n.MultiCall: {"targets": _Parts(n.Target, many=True), "callee": _identifier, "args": _ARGS},
    n.ForLoop: {"var": _identifier, "low": _EXPR, "high": _EXPR, "body": _BODY},
    n.Generic: {"name": _identifier, "default": _integer_or_none},
    n.TypeRef: {"name": _identifier, "dims": _Parts(n.Expr | n.Dots, many=True, may_be_none=True)},
    n.Param: {
        "name": _identifier,
        "type": _Parts(n.TypeRef, may_be_none=True),
        "default": _Parts(n.IntLit | n.FloatLit, may_be_none=True),
        "name_span": _PLACE,
    },
    n.Def: {
        "name": _identifier,
        "generics": _Parts(n.Generic, many=True),
        "params": _HEADS,
        "returns": _HEADS,
        "body": _LATER,
        "name_span": _PLACE,
    },
    n.Program: {"defs": _Parts(n.Def, many=True)},
}


class _Shape:
    """Where the fields of a class stand in its list, so that a node is made without a search.

    words, places, later: names and where each stands. parts: those of nodes, the last one first,
    since it was built last, and where it stands how many there are; None where there is one.
    """

    __slots__ = ("cls", "later", "length", "parts", "places", "words")

    def __init__(self, cls: type[n.Node], fields: Mapping[str, Any]) -> None:
        self.cls = cls
        self.words: list[tuple[str, Callable[[object], object], int]] = []
        self.places: list[tuple[str, int]] = [("span", 1)]
        self.later: list[tuple[str, int]] = []
        self.parts: list[tuple[str, _Parts, int | None]] = []
        at = 3
        for name, kind in fields.items():
            if kind is _PLACE:
                self.places.append((name, at))
                at += 2
                continue
            if kind is _LATER:
                self.later.append((name, at))
            elif not isinstance(kind, _Parts):
                self.words.append((name, kind, at))
            elif kind.many or kind.may_be_none:
                self.parts.append((name, kind, at))
            else:
                self.parts.append((name, kind, None))
                continue
            at += 1
        self.parts.reverse()
        self.length = at


_SHAPES = {cls.__name__: _Shape(cls, fields) for cls, fields in _FIELDS.items()}


def plain(program: n.Program) -> list[list[Any]] | None:
    """Return the nodes of a text as it was parsed, each behind its parts.

    None where a node has no place in it, or stands in parentheses that were to be kept; or where
    there are more than `MOST_NODES`.
    """
    bodies: list[tuple[list[Any], tuple[n.Stmt, ...]]] = []
    found = _listed([program], bodies)
    count = 0 if found is None else len(found)
    for into, body in bodies:
        nodes = _listed([*body], [])
        count += 0 if nodes is None else len(nodes)
        if nodes is None or count > MOST_NODES:
            return None
        into += nodes
    return found


def _listed(
    todo: list[n.Node], bodies: list[tuple[list[Any], tuple[n.Stmt, ...]]]
) -> list[list[Any]] | None:
    """Return nodes and their parts but for bodies, for each of which a list waits to be filled."""
    out: list[list[Any]] = []
    while todo:  # from the last node to the first
        node = todo.pop()
        if node.span is None or node.is_grouped:
            return None
        item: list[Any] = [type(node).__name__, node.span.start, node.span.end]
        for name, kind in _FIELDS[type(node)].items():
            value = getattr(node, name)
            if kind is _PLACE:
                if value is None:
                    return None
                item += value.start, value.end
            elif kind is _LATER:
                item.append([])
                bodies.append((item[-1], value))
            elif not isinstance(kind, _Parts):
                is_named = isinstance(value, float) and not math.isfinite(value)
                item.append(repr(value) if is_named else value)
            elif kind.many:
                item.append(None if value is None else len(value))
                todo += value or ()
            elif kind.may_be_none:
                item.append(None if value is None else 1)
                todo += () if value is None else (value,)
            else:
                todo.append(value)
        out.append(item)
    out.reverse()
    return out


def from_plain(value: object, source: Source, instead: Callable[[], n.Program]) -> n.Program:
    """Return the program that `plain` made lists of, of this text.

    Parameters
    ----------
    value : object
    source : Source
    instead : callable
        Gives the program where the list of a body turns out to be anything else.

    Raises
    ------
    ValueError
        If what is no body is anything else.
    """
    match _built(value, source, instead):
        case [n.Program() as program]:
            return program
    raise ValueError("it is no program")


def _built(value: object, source: Source, instead: Callable[[], n.Program] | None) -> list[n.Node]:
    """Return what stands for itself among nodes; instead: None within a body."""
    if not isinstance(value, list):
        raise ValueError("a tree is a list of nodes")
    built: list[n.Node] = []
    try:
        for item in value:
            _build(item, built, source, instead)
    except (TypeError, LookupError) as error:  # of another length, of no class
        raise ValueError(f"it is no node: {error}") from None
    return built


def _build(
    item: list[Any],
    built: list[n.Node],
    source: Source,
    instead: Callable[[], n.Program] | None,
) -> None:
    """Put a node behind those that were built, in the place of its parts."""
    shape = _SHAPES[item[0]]
    if len(item) != shape.length:
        raise ValueError("it is a node of another length")
    found: dict[str, Any] = {}
    for name, at in shape.places:
        found[name] = _place(item, at, source)
    for name, check, at in shape.words:
        found[name] = check(item[at])
    for name, at in shape.later:
        found[name] = _unread(item[at], source, item[1], instead)
    for name, kind, place in shape.parts:
        found[name] = _taken(kind, 1 if place is None else item[place], built)
    built.append(shape.cls(**found))


def _unread(
    value: object, source: Source, start: int, instead: Callable[[], n.Program] | None
) -> Unread:
    """Return the body of the definition that begins at a place, for when it is asked for."""
    if instead is None or not isinstance(value, list):
        raise ValueError("it is no body")
    return Unread(partial(_body, value, source, start, instead))


def _body(
    value: object, source: Source, start: int, instead: Callable[[], n.Program]
) -> tuple[n.Stmt, ...]:
    try:
        built = tuple(_built(value, source, None))
        if all(isinstance(node, n.Stmt) for node in built):
            return built  # type: ignore[return-value]  # statements all of them
    except ValueError:
        pass
    return next(d.body for d in instead().defs if d.span is not None and d.span.start == start)


def _taken(kind: _Parts, count: object, built: list[n.Node]) -> object:
    """Take the parts of a field from those that were built last."""
    if count is None and kind.may_be_none:
        return None
    if type(count) is not int or not 0 <= count <= len(built) or not (kind.many or count == 1):
        raise ValueError("it has not as many parts")
    if not kind.many:
        part = built.pop()
        if not isinstance(part, kind.of):
            raise ValueError(f"a {type(part).__name__} is no such part")
        return part
    at = len(built) - count
    taken = tuple(built[at:])
    del built[at:]
    for part in taken:
        if not isinstance(part, kind.of):
            raise ValueError(f"a {type(part).__name__} is no such part")
    return taken


def _place(item: list[Any], at: int, source: Source) -> Span:
    start, end = item[at], item[at + 1]
    if type(start) is type(end) is int and 0 <= start <= end <= len(source.text):
        return Span(start, end, source)
    raise ValueError("it is no place in the text")
