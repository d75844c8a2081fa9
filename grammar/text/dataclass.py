"""Dataclasses whose methods are compiled at their first use.

``dataclasses.dataclass`` compiles six functions for a class, which takes half a millisecond: of the
two hundred classes of a first call many never have an instance, and most are never compared, hashed
or shown. Here the standard library still finds fields, defaults and slots; what it would compile
then is compiled when somebody asks for it. All else is as there, but that an object is equal to
itself without a look at its fields, as tuples of them are.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from reprlib import recursive_repr
from threading import RLock
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

Fields = tuple[dataclasses.Field[Any], ...]
Method = Callable[..., Any]
Class = type[Any]


def _dataclass(
    cls: Class | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True
) -> Any:
    """Return a class with the methods that `dataclasses.dataclass` gives it.

    Parameters
    ----------
    cls : type, optional
        Its annotations are the fields; without it a decorator is returned.
    frozen, slots, eq : bool
        As there.
    """
    if cls is None:
        return lambda cls: _with_methods(cls, frozen, slots, eq)
    return _with_methods(cls, frozen, slots, eq)


def _with_methods(given: Class, frozen: bool, slots: bool, eq: bool) -> Class:
    params = "__dataclass_params__"
    bases = [p for b in given.__mro__[1:] if (p := getattr(b, params, None)) is not None]
    is_refused = any(base.frozen != frozen for base in bases)  # by the standard library's words
    types = given.__annotations__
    given.__annotations__ = {name: _without_text(t) for name, t in types.items()}
    with _as_if_not_frozen([] if is_refused else bases):  # it compiles two methods for frozen ones
        cls: Class = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=slots, frozen=frozen and is_refused
        )(given)
    cls.__dataclass_params__.frozen = frozen
    cls.__annotations__ = types
    fields = dataclasses.fields(cls)
    for f in fields:
        f.type = types.get(f.name, f.type)
    names = tuple(f.name for f in fields)
    own = set(cls.__dict__)
    if cls.__dict__.get("__hash__", ()) is None and "__eq__" in own:  # the interpreter's None
        own.remove("__hash__")
    methods: dict[str, Any] = {
        "__init__": _OnUse(_init, cls, fields, frozen, slots),
        "__repr__": _OnUse(_repr, fields),
    }
    if eq:
        methods["__eq__"] = _OnUse(_eq, fields)
        methods["__hash__"] = _OnUse(_hash, fields) if frozen else None
    if frozen:
        methods |= _refusing(cls, names)
    if frozen and slots:
        methods |= _state(names)
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, _of(cls, name, method))
    return cls


def _without_text(t: Any) -> Any:
    """Return a type as a field has it meanwhile: texts are searched for words, three times each."""
    is_plain = isinstance(t, str) and not any(word in t for word in _WORDS)
    return object if is_plain else t


_WORDS = ("ClassVar", "InitVar", "KW_ONLY")  # of what is no field


@contextmanager
def _as_if_not_frozen(bases: Sequence[Any]) -> Iterator[None]:
    """Let classes of which one is derived not be frozen meanwhile, by what they say of themselves.

    All of ours are made by turns, so that no other is derived from them now.
    """
    with _turn:
        was = [base.frozen for base in bases]
        for base in bases:
            base.frozen = False
        try:
            yield
        finally:
            for base, frozen in zip(bases, was, strict=True):
                base.frozen = frozen


_turn = RLock()


class _OnUse:
    """A method that is made when it is asked for, and stands in this one's place from then on.

    Of two threads that ask at once the later one's stays; both are the same.
    """

    def __init__(self, make: Callable[..., Method], *given: Any) -> None:
        self._make, self._given = make, given
        self.owner: Class = object
        self.name = ""

    def __get__(self, instance: object, cls: Class) -> Any:
        method = _of(self.owner, self.name, self._make(*self._given))
        setattr(self.owner, self.name, method)
        return method.__get__(instance, cls)


def _of(cls: Class, name: str, method: Any) -> Any:
    """Return a method that knows its class and name."""
    if isinstance(method, _OnUse):
        method.owner, method.name = cls, name
    elif method is not None:
        method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
        method.__module__ = cls.__module__
    return method


# ---- methods that are compiled


class _Factory:
    """Stands in a signature for a default that is made for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init(cls: Class, fields: Fields, frozen: bool, slots: bool) -> Method:
    missing, post = dataclasses.MISSING, "__post_init__"
    known: dict[str, Any] = {"_missing": _FACTORY}
    given, by_name, lines = ["self"], list[str](), list[str]()
    defaults, defaults_by_name = list[Any](), dict[str, Any]()
    for n, f in enumerate(fields):
        name = value = f"f{n}"
        has_default = True
        if f.default is not missing:
            default = f.default
        elif f.default_factory is not missing:
            default = _FACTORY
            known[f"_make_{n}"] = f.default_factory
            value = f"_make_{n}()"
            if f.init:
                value += f" if {name} is _missing else {name}"
        else:
            has_default = False
        if f.init and f.kw_only:
            by_name.append(name)
            if has_default:
                defaults_by_name[f.name] = default
        elif f.init:
            given.append(name)
            if has_default:
                defaults.append(default)
        elif not has_default:
            continue  # __post_init__ sets it
        elif f.default is not missing:
            known[f"_default_{n}"], value = f.default, f"_default_{n}"
        if slots:
            known[f"_set_{n}"] = getattr(cls, f.name).__set__
            lines.append(f"_set_{n}(self, {value})")
        elif frozen:
            known["_set"] = object.__setattr__
            known[f"_name_{n}"] = f.name
            lines.append(f"_set(self, _name_{n}, {value})")
        else:
            lines.append(f"self.{name} = {value}")
    if hasattr(cls, post):
        lines.append(f"self.{post}()")
    if by_name:
        given += ["*", *by_name]
    names = [f.name for f in fields]
    method = _made(given, lines or ["pass"], names, known, defaults, defaults_by_name)
    method.__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
    return method


def _eq(fields: Fields) -> Method:
    names = [f.name for f in fields if f.compare]
    mine, theirs = (_tuple(x, len(names)) for x in ("self", "other"))
    lines = (
        "if self is other: return True",
        f"if self.__class__ is other.__class__: return {mine} == {theirs}",
        "return NotImplemented",
    )
    return _made(["self", "other"], lines, names)


def _hash(fields: Fields) -> Method:
    names = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
    return _made(["self"], [f"return hash({_tuple('self', len(names))})"], names)


def _repr(fields: Fields) -> Method:
    shown = ", ".join(f"{f.name}={{self.f{n}!r}}" for n, f in enumerate(fields) if f.repr)
    text = f'return f"{{self.__class__.__qualname__}}({shown})"'
    return recursive_repr()(_made(["self"], [text], [f.name for f in fields]))


def _tuple(of: str, count: int) -> str:
    return "(" + "".join(f"{of}.f{n}, " for n in range(count)) + ")"


def _made(
    parameters: Sequence[str],
    lines: Sequence[str],
    names: Sequence[str],
    known: dict[str, Any] | None = None,
    defaults: Sequence[Any] = (),
    defaults_by_name: dict[str, Any] | None = None,
) -> Method:
    """Return a function of a text in which fields are called f0, f1, ...

    Most classes of as many fields share their texts, which take a third of a millisecond each to be
    compiled; then a function has the code of one with the names of its fields in it.
    """
    code = _code(f"def method({', '.join(parameters)}):\n  " + "\n  ".join(lines))
    own = {f"f{n}": name for n, name in enumerate(names)}
    code = code.replace(
        co_varnames=tuple([own.get(x, x) for x in code.co_varnames]),
        co_names=tuple([own.get(x, x) for x in code.co_names]),
    )
    names_outside = {"__builtins__": builtins, **(known or {})}  # as of any module, say debuggers
    method = FunctionType(code, names_outside, "method", tuple(defaults))
    method.__kwdefaults__ = defaults_by_name or None
    return method


@cache
def _code(text: str) -> CodeType:
    module = compile(text, "<methods of a dataclass>", "exec")  # no values are in it
    return next(x for x in module.co_consts if isinstance(x, CodeType))


# ---- methods that are not


def _refusing(cls: Class, names: Sequence[str]) -> dict[str, Method]:
    def set_(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": set_, "__delattr__": delete}


def _state(names: Sequence[str]) -> dict[str, Method]:
    def get(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def set_(self: Any, state: Sequence[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": get, "__setstate__": set_}


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass
