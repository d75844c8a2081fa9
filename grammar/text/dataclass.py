"""Dataclasses whose methods are made once they have been used a few times.

``dataclasses.dataclass`` compiles six functions for a class, which takes half a millisecond: of the
two hundred classes of a first call many never have an instance, and most are never compared, hashed
or shown. Here what it would compile then is made when somebody asks for it, most of it of code that
`methods.py` has, and what a few objects ask for is done without; fields, defaults and slots the
standard library still finds, but for plain frozen classes, as nearly all are, of which it takes
twice as long. All else is as there, but that an object is equal to itself without a look at its
fields, as tuples of them are.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from reprlib import recursive_repr
from threading import RLock
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from tcdsl.grammar.text import methods

OFTEN = 5  # uses of a method, from which on it is worth being compiled: most have one or two
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
    cls = _plain(given) if frozen and slots and not is_refused else None
    if cls is None:
        cls = _by_library(given, frozen, slots, [] if is_refused else bases, is_refused)
    fields = dataclasses.fields(cls)
    names = tuple(f.name for f in fields)
    own = set(cls.__dict__)
    if cls.__dict__.get("__hash__", ()) is None and "__eq__" in own:  # the interpreter's None
        own.remove("__hash__")
    methods: dict[str, Any] = {
        "__init__": _OnUse(_set_plainly, fields, _init, cls, fields, frozen, slots),
        "__repr__": _OnUse(None, (), _repr, fields),
    }
    if eq:
        compared = [f for f in fields if f.compare]
        hashed = [f for f in fields if (f.compare if f.hash is None else f.hash)]
        methods["__eq__"] = _OnUse(_equal_plainly, compared, _eq, compared)
        methods["__hash__"] = _OnUse(_hash_plainly, hashed, _hash, hashed) if frozen else None
    if frozen:
        methods |= _refusing(cls, names)
    if frozen and slots:
        methods |= _state(names)
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, _of(cls, name, method))
    return cls


def _by_library(
    given: Class, frozen: bool, slots: bool, bases: Sequence[Any], is_refused: bool
) -> Class:
    """Return a class without methods as the standard library makes it."""
    types = given.__annotations__
    given.__annotations__ = {name: _without_text(t) for name, t in types.items()}
    with _as_if_not_frozen(bases):  # it compiles two methods for frozen ones
        cls: Class = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=slots, frozen=frozen and is_refused
        )(given)
    cls.__dataclass_params__.frozen = frozen
    cls.__annotations__ = types
    for f in dataclasses.fields(cls):
        f.type = types.get(f.name, f.type)
    return cls


@dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)
class _Like:
    """What the standard library says of a class and a field, whatever its version."""

    field: int


def _plain(given: Class) -> Class | None:
    """Return a frozen class with slots, without methods; None where the library has to look at it.

    That is one with what is no field, with a default that it refuses, without a text of its own, or
    of another kind of classes than usual.
    """
    own = dict(vars(given))
    types: dict[str, Any] | None = own.get("__annotations__")
    is_usual = type(given) is type and given.__doc__ is not None and "__slots__" not in own
    if not is_usual or types is None or not all(map(_is_field, types.values())):
        return None
    fields: dict[str, dataclasses.Field[Any]] = {}
    inherited: list[str] = []
    for base in given.__mro__[-2:0:-1]:
        fields |= getattr(base, "__dataclass_fields__", {})
        slots = vars(base).get("__slots__", ())
        inherited += [slots] if isinstance(slots, str) else slots
    for name, t in types.items():
        default = getattr(given, name, dataclasses.MISSING)
        if isinstance(default, MemberDescriptorType):
            default = dataclasses.MISSING
        is_made = isinstance(default, dataclasses.Field)
        field: Any = default if is_made else dataclasses.field(default=default)
        if type(field.default).__hash__ is None:
            return None
        field.name, field.type, field._field_type = name, t, _FIELD
        field.kw_only = field.kw_only is True
        fields[name] = field
        own.pop(name, None)
    if dataclasses.Field in map(type, own.values()):  # one without a type
        return None
    params = copy(_Like.__dataclass_params__)  # type: ignore[attr-defined]  # not in its type
    params.frozen = True
    for name in ("__dict__", "__weakref__"):
        own.pop(name, None)
    own["__qualname__"] = given.__qualname__
    own["__slots__"] = tuple([name for name in fields if name not in inherited])
    own["__dataclass_fields__"], own["__dataclass_params__"] = fields, params
    if "__match_args__" not in own:
        given_first = [f.name for f in fields.values() if f.init and not f.kw_only]
        own["__match_args__"] = tuple(given_first)
    if "__replace__" in vars(_Like):  # since Python 3.13
        own.setdefault("__replace__", vars(_Like)["__replace__"])
    return type(given.__name__, given.__bases__, own)


_FIELD = dataclasses.fields(_Like)[0]._field_type  # type: ignore[attr-defined]  # as above


def _is_field(t: Any) -> bool:
    """Whether a type is that of a field for sure."""
    if not isinstance(t, str):
        return isinstance(t, type)
    return not ("ClassVar" in t or "InitVar" in t or "KW_ONLY" in t)


def _without_text(t: Any) -> Any:
    """Return a type as a field has it meanwhile: texts are searched for words, three times each."""
    return object if isinstance(t, str) and _is_field(t) else t


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
    """A method that is made when it is asked for often, and stands in its place from then on.

    Of two threads that ask at once the later one's stays; both are the same.

    plainly: does the same until then, of this, an object, and what the method is given; None: it is
    made at once. fields: those that it looks at. make, given: what makes the method, and of what.
    """

    def __init__(
        self,
        plainly: Method | None,
        fields: Sequence[dataclasses.Field[Any]],
        make: Callable[..., Method],
        *given: Any,
    ) -> None:
        self._plainly, self.fields = plainly, fields
        self._make, self._given = make, given
        self.owner: Class = object
        self.name = ""
        self._uses = 0

    def __get__(self, instance: object, cls: Class) -> Any:
        self._uses += 1
        if self._plainly is None or self._uses >= OFTEN or not isinstance(instance, self.owner):
            return self.made().__get__(instance, cls)  # asked of a class it is shown
        return partial(self._plainly, self, instance)

    def made(self) -> Method:
        """Return the method, which is there from now on."""
        method: Method = _of(self.owner, self.name, self._make(*self._given))
        setattr(self.owner, self.name, method)
        return method


def _of(cls: Class, name: str, method: Any) -> Any:
    """Return a method that knows its class and name."""
    if isinstance(method, _OnUse):
        method.owner, method.name = cls, name
    elif method is not None:
        method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
        method.__module__ = cls.__module__
    return method


# ---- methods with a code of their own


class _Factory:
    """Stands in a signature for a default that is made for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init(cls: Class, fields: Fields, frozen: bool, slots: bool) -> Method:
    method = _init_known(cls, fields) if slots else None
    if method is None:
        method = _init_of_text(cls, fields, frozen, slots)
    method.__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
    return method


def _init_known(cls: Class, fields: Fields) -> Method | None:
    """Return the method of a class with slots that does nothing but set them to what it is given.

    None for another one: only the texts of these differ in the number of fields alone.
    """
    missing = dataclasses.MISSING
    if len(fields) >= len(methods.INIT) or hasattr(cls, "__post_init__"):
        return None
    if not all(f.init and f.default_factory is missing for f in fields):
        return None
    by_name = [f for f in fields if f.kw_only]
    given = [f for f in fields if not f.kw_only]
    names = [f.name for f in (*given, *by_name)]
    code = methods.INIT[len(fields)].__code__.replace(
        co_argcount=1 + len(given), co_kwonlyargcount=len(by_name)
    )
    return _made(
        code,
        names,
        {f"s{n}": getattr(cls, name).__set__ for n, name in enumerate(names)},
        [f.default for f in given if f.default is not missing],
        {f.name: f.default for f in by_name if f.default is not missing},
    )


def _init_of_text(cls: Class, fields: Fields, frozen: bool, slots: bool) -> Method:
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
    code = _code(given, lines or ["pass"])
    return _made(code, [f.name for f in fields], known, defaults, defaults_by_name)


def _eq(fields: Sequence[Any]) -> Method:
    if len(fields) < len(methods.EQ):
        code = methods.EQ[len(fields)].__code__
    else:
        mine, theirs = (_tuple(x, len(fields)) for x in ("self", "other"))
        lines = (
            "if self is other: return True",
            f"if self.__class__ is other.__class__: return {mine} == {theirs}",
            "return NotImplemented",
        )
        code = _code(["self", "other"], lines)
    return _made(code, [f.name for f in fields])


def _hash(fields: Sequence[Any]) -> Method:
    if len(fields) < len(methods.HASH):
        code = methods.HASH[len(fields)].__code__
    else:
        code = _code(["self"], [f"return hash({_tuple('self', len(fields))})"])
    return _made(code, [f.name for f in fields])


def _tuple(of: str, count: int) -> str:
    return "(" + "".join(f"{of}.f{n}, " for n in range(count)) + ")"


def _made(
    code: CodeType,
    names: Sequence[str],
    known: dict[str, Any] | None = None,
    defaults: Sequence[Any] = (),
    defaults_by_name: dict[str, Any] | None = None,
) -> Method:
    """Return a function of a code in which fields are called f0, f1, ...

    names: of these fields. known: the globals of the code.
    """
    own = {f"f{n}": name for n, name in enumerate(names)}
    code = code.replace(
        co_varnames=tuple([own.get(x, _PARAMETERS.get(x, x)) for x in code.co_varnames]),
        co_names=tuple([own.get(x, x) for x in code.co_names]),
        co_filename=_FILE,
        co_name="method",
    )
    names_outside = {"__builtins__": builtins, **(known or {})}  # as of any module, say debuggers
    method = FunctionType(code, names_outside, "method", tuple(defaults))
    method.__kwdefaults__ = defaults_by_name or None
    return method


_FILE = "<methods of a dataclass>"
_PARAMETERS = {"x": "self", "y": "other"}  # of functions whose code is known


def _code(parameters: Sequence[str], lines: Sequence[str]) -> CodeType:
    """Return the code of a text, which classes with as many fields share with luck."""
    return _compiled(f"def method({', '.join(parameters)}):\n  " + "\n  ".join(lines))


@cache
def _compiled(text: str) -> CodeType:
    module = compile(text, _FILE, "exec")  # no values are in it
    return next(x for x in module.co_consts if isinstance(x, CodeType))


# ---- methods that are not


def _set_plainly(of: _OnUse, instance: Any, /, *args: Any, **named: Any) -> None:
    missing, left, others = dataclasses.MISSING, [*reversed(args)], {**named}
    put = object.__setattr__ if instance.__dataclass_params__.frozen else setattr
    for f in of.fields:
        if f.init and left and not f.kw_only:
            value = left.pop()
        elif f.init and f.name in others:
            value = others.pop(f.name)
        elif f.default is not missing:
            value = f.default
        elif f.default_factory is not missing:
            value = f.default_factory()
        elif f.init:
            of.made()(instance, *args, **named)  # which says what is missing
            return
        else:
            continue  # __post_init__ sets it
        put(instance, f.name, value)
    if left or others:
        of.made()(instance, *args, **named)  # which says what is too much
    elif (post := getattr(instance, "__post_init__", None)) is not None:
        post()


def _equal_plainly(of: _OnUse, instance: Any, other: object) -> Any:
    if instance is other:
        return True
    if instance.__class__ is not other.__class__:
        return NotImplemented
    return _values(of, instance) == _values(of, other)


def _hash_plainly(of: _OnUse, instance: Any) -> int:
    return hash(_values(of, instance))


def _values(of: _OnUse, instance: Any) -> tuple[Any, ...]:
    return tuple([getattr(instance, f.name) for f in of.fields])


def _repr(fields: Fields) -> Method:
    names = [f.name for f in fields if f.repr]

    def shown(self: Any) -> str:
        values = []
        for name in names:  # no comprehension: objects nest deep, and each would take a frame
            values.append(f"{name}={getattr(self, name)!r}")  # noqa: PERF401
        return f"{self.__class__.__qualname__}({', '.join(values)})"

    return recursive_repr()(shown)


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
