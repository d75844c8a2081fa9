"""Sizes of a text that a layer knows before it is called."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.errors import ShapeError, count
from tcdsl.grammar.text.format import expr_pieces
from tcdsl.grammar.text.heads import dims_of, has_any_rank

Shape = int | str | Sequence[int | str]


class Sizes:
    """Sizes by name, each with where it comes from.

    Parameters
    ----------
    definition : nodes.Def
    given : mapping of str to int
        What the caller says.
    generics : mapping
        Generics that have a value.

    Raises
    ------
    ShapeError
        If the definition has no such size.
    """

    def __init__(
        self, definition: nodes.Def, given: Mapping[str, int], generics: Mapping[str, Any]
    ) -> None:
        self.values: dict[str, int] = {}
        self._name = definition.name
        self._origins: dict[str, str] = {}
        dims = [d for p in definition.params for d in dims_of(p)]
        named = {d.name for d in dims if isinstance(d, nodes.Name)}
        for name, value in given.items():
            if name not in named:
                has = ", ".join(sorted(named)) or "none"
                raise ShapeError(f"{self._name} has no size '{name}'; it has {has}")
            self._set(name, self._extent(name, value), "comes from sizes")
        defaults = {g.name: g.default for g in definition.generics if g.default is not None}
        for name, value in {**defaults, **generics}.items():
            if name in named:
                self._set(name, self._extent(name, value), "is a generic")

    def learn(self, param: nodes.Param, shape: Shape) -> None:
        """Take what the shape of an argument says; it may name sizes.

        Raises
        ------
        ShapeError
            If it does not fit the text, or what is known.
        """
        extents = _listed(shape)
        what = f"{self._name}: {param.name} of shape ({', '.join(map(str, extents))})"
        declared = f"\n  declared {declaration(param)}"
        dims = dims_of(param)
        if has_any_rank(param):
            at = next(i for i, d in enumerate(dims) if isinstance(d, nodes.Dots))
            rest = len(extents) - (len(dims) - 1)
            if rest < 0:
                raise ShapeError(f"{what} has too few dimensions{declared}")
            dims = (*dims[:at], *(dims[at],) * rest, *dims[at + 1 :])
        if len(extents) != len(dims):
            raise ShapeError(f"{what}: expected {count(len(dims), 'dimension')}{declared}")
        for dim, extent in zip(dims, extents, strict=True):
            if isinstance(extent, str):
                if not isinstance(dim, nodes.Name) or dim.name != extent:
                    raise ShapeError(f"{what}: '{extent}' is not what the text has there{declared}")
            elif isinstance(dim, nodes.Name):
                self._set(dim.name, self._extent(dim.name, extent), f"comes from {param.name}")
            elif isinstance(dim, nodes.IntLit) and dim.value != self._extent(param.name, extent):
                raise ShapeError(f"{what}: the text has {dim.value} where it is {extent}{declared}")

    def shape(self, param: nodes.Param, given: Shape | None) -> tuple[int, ...]:
        """Return the shape of an argument: what was given, else what the text has.

        Raises
        ------
        ShapeError
            If a size is not known.
        """
        dims: Sequence[object] = dims_of(param) if given is None else _listed(given)
        return tuple(self._value(param, dim) for dim in dims)

    def _value(self, param: nodes.Param, dim: object) -> int:
        match dim:
            case nodes.IntLit(value):
                return value
            case nodes.Name(name) | str(name):
                what = f"the size {name}"
                if name in self.values:
                    return self.values[name]
            case nodes.Dots():
                what = "the rank"
            case _:
                return self._extent(param.name, dim)
        raise ShapeError(
            f"{self._name}: {what} of the parameter {param.name} is not known\n"
            f"  declared {declaration(param)}; give its shape, "
            f'parameters={{"{param.name}": (...)}}, or sizes={{...}}'
        )

    def _extent(self, what: str, value: object) -> int:
        try:
            extent = -1 if isinstance(value, bool | str) else operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            extent = -1
        if extent < 0:
            raise ShapeError(f"{self._name}: expected a size for {what}, got {value!r:.40}")
        return extent

    def _set(self, name: str, value: int, origin: str) -> None:
        known = self.values.setdefault(name, value)
        if known != value:
            raise ShapeError(
                f"{self._name}: {name} = {value} {origin}, but {name} = {known} "
                f"{self._origins[name]}"
            )
        self._origins.setdefault(name, origin)


def declaration(param: nodes.Param) -> str:
    """Return a parameter as the text has it: `float(N, M) W`."""
    dims = ", ".join("".join(expr_pieces(d)) for d in dims_of(param))
    kind = param.type.name if param.type is not None else ""
    return f"{kind}({dims}) {param.name}" if dims else f"{kind} {param.name}"


def _listed(shape: Shape) -> tuple[int | str, ...]:
    return (shape,) if isinstance(shape, int | str) else tuple(shape)
