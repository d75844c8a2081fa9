"""Modules and parameters in lists and mappings."""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from tcdsl.core import Tensor
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _at(index: Any, length: int) -> str:
    """Return the name of a member by number; a negative one counts from the end."""
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range")
    return str(number % length)


class Sequential(Module):
    """Modules one behind the other: the result of each is the input of the next.

    Parameters
    ----------
    *args : Module
        Or one mapping of names to modules.

    Examples
    --------
    >>> model = Sequential(Linear(4, 8), ReLU(), Linear(8, 2))
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], Mapping) else None
        for name, module in named or ((str(i), m) for i, m in enumerate(args)):
            self.add_module(name, module)

    def _name(self, index: Any) -> str:
        return list(self._modules)[int(_at(index, len(self)))]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._name(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name(index)]
        for name in names:
            delattr(self, name)
        rest = list(self._modules.values())  # which are numbered anew, as in PyTorch
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(rest))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential(*(module for _ in range(times) for module in self))

    __rmul__ = __mul__

    def append(self, module: Module) -> Self:
        """Add a module behind the others; return self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules behind the others; return self."""
        for module in sequential:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the one of a number; return self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        index = index + n if index < 0 else index
        for at in range(n, index, -1):
            self._modules[str(at)] = self._modules[str(at - 1)]
        self._modules[str(index)] = module
        return self

    def pop(self, key: int) -> Any:
        """Take a module out and return it."""
        module = self[key]
        del self[key]
        return module

    def forward(self, input: Any) -> Any:
        """Compute each module on the result of the one before."""
        for module in self._modules.values():
            input = module(input)
        return input


class _List(Module):
    """Members by number, in one of a module's tables."""

    _table = "_modules"

    def _members(self) -> dict[str, Any]:
        return self.__dict__[self._table]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            made: Any = type(self)
            return made(list(self._members().values())[index])
        return self._members()[_at(index, len(self))]

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, _at(index, len(self)), value)

    def __len__(self) -> int:
        return len(self._members())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members().values())

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Add a member behind the others; return self."""
        self._add(str(len(self)), value)
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add members behind the others; return self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"{self._get_name()}.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in values:
            self.append(value)
        return self

    def _add(self, name: str, value: Any) -> None:
        self.add_module(name, value)


class ModuleList(_List):
    """A list of modules, whose parameters count as this one's.

    Parameters
    ----------
    modules : iterable of Module, optional
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __repr__(self) -> str:
        """Return the modules, those that look alike one behind the other once."""
        texts = [repr(module) for module in self]
        lines, at = [], 0
        for text, same in itertools.groupby(texts):
            end = at + len(list(same)) - 1
            many = f"({at}): " if at == end else f"({at}-{end}): {end - at + 1} x "
            lines.append((many + text).replace("\n", "\n  "))
            at = end + 1
        return (
            "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)" if lines else super().__repr__()
        )

    def __delitem__(self, index: Any) -> None:
        values = list(self)
        del values[index]
        self._modules.clear()
        self.extend(values)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def pop(self, key: int) -> Any:
        """Take a module out and return it."""
        module = self[key]
        del self[key]
        return module

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one of a number."""
        values = list(self)
        values.insert(index, module)
        self._modules.clear()
        self.extend(values)


class ParameterList(_List):
    """A list of parameters, which count as this module's, and of whatever else.

    Parameters
    ----------
    values : iterable, optional
        Tensors become parameters; modules are children; other objects are kept as they are.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_size": len(state["_parameters"])} | state)

    def _members(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in map(str, range(self._size))}

    def __getitem__(self, index: Any) -> Any:
        whole = isinstance(index, slice)
        return super().__getitem__(index) if whole else getattr(self, _at(index, self._size))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def _add(self, name: str, value: Any) -> None:
        setattr(self, name, _as_parameter(value))
        self._size += 1

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: a list computes nothing."""
        raise RuntimeError("ParameterList should not be called.")

    def extra_repr(self) -> str:
        """Return the members, a line each."""
        return "\n".join(f"  ({name}): {_shown(member)}" for name, member in enumerate(self))


class _Dict(Module):
    """Members by name, in one of a module's tables."""

    _table = "_modules"

    def _members(self) -> dict[str, Any]:
        return self.__dict__[self._table]

    def __getitem__(self, name: str) -> Any:
        return self._members()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.add_module(name, value)

    def __delitem__(self, name: str) -> None:
        del self._members()[name]

    def __len__(self) -> int:
        return len(self._members())

    def __iter__(self) -> Iterator[str]:
        return iter(self._members())

    def __contains__(self, name: str) -> bool:
        return name in self._members()

    def clear(self) -> None:
        """Take all members out."""
        self._members().clear()

    def pop(self, name: str) -> Any:
        """Take a member out and return it."""
        return self._members().pop(name)

    def keys(self) -> Any:
        """Return the names."""
        return self._members().keys()

    def items(self) -> Any:
        """Return names and members."""
        return self._members().items()

    def values(self) -> Any:
        """Return the members."""
        return self._members().values()

    def update(self, members: Any) -> None:
        """Take in the members of a mapping, or of an iterable of pairs."""
        for name, value in members.items() if hasattr(members, "items") else members:
            self[name] = value


class ModuleDict(_Dict):
    """Modules by name, whose parameters count as this one's.

    Parameters
    ----------
    modules : mapping or iterable of pairs, optional
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        self.update(modules or ())


class ParameterDict(_Dict):
    """Parameters by name, which count as this module's.

    Parameters
    ----------
    parameters : mapping or iterable of pairs, optional
        Tensors become parameters; a plain mapping's in the order of their names, as PyTorch's.
    """

    _table = "_parameters"

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self.update(parameters or ())

    def __setitem__(self, name: str, value: Any) -> None:
        self.register_parameter(name, _as_parameter(value))

    def update(self, parameters: Any) -> None:
        """Take in parameters, those of a plain mapping in the order of their names."""
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            parameters = sorted(parameters.items())
        super().update(parameters)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parameter, or the default."""
        return self._parameters.get(name, default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a parameter, which is the default if there was none."""
        if name not in self:
            self[name] = default
        return self[name]

    def popitem(self) -> tuple[str, Any]:
        """Take the last parameter out and return its name and it."""
        return self._parameters.popitem()

    def copy(self) -> ParameterDict:
        """Return another one of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Any, default: Any = None) -> ParameterDict:
        """Return one of these names, each with the default."""
        return ParameterDict((name, default) for name in keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))

    def __or__(self, other: ParameterDict) -> ParameterDict:
        return self.copy().__ior__(other)

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        """Return the parameters, a line each."""
        return "\n".join(
            f"  ({name}): {_described(p, p.type())}"
            for name, p in self._parameters.items()
            if p is not None
        )


def _as_parameter(value: Any) -> Any:
    """Return a tensor as a parameter."""
    is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_plain else value


def _shown(member: Any) -> str:
    if not isinstance(member, Tensor):
        return f"Object of type: {type(member).__name__}"
    text = _described(member, member.dtype)
    return f"{text[:-1]} ({member.device})]" if member.device.type == "cuda" else text


def _described(parameter: Any, kind: object) -> str:
    size = "x".join(map(str, parameter.shape))
    return f"Parameter containing: [{kind} of size {size}]"
