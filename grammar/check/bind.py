"""A call's side of a definition: types of type variables, sizes from shapes, what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tcdsl.grammar.proofs.sizes import LARGEST_EXTENT, Size, Symbol
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.grammar.text.heads import type_variables
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import DType

Shape = tuple[int, ...]
Origins = dict[str, "tuple[t.Tensor, Shape] | None"]  # of sizes: a parameter; None: a scalar


class Head(Protocol):
    """What of a checked definition `bind` looks at."""

    @property
    def name(self) -> str:
        """The definition's."""

    @property
    def sizes(self) -> tuple[str, ...]:
        """As `CheckedDef.sizes`."""

    @property
    def scalars(self) -> tuple[str, ...]:
        """As `CheckedDef.scalars`."""

    @property
    def params(self) -> tuple[t.Tensor, ...]:
        """The parameters."""

    @property
    def constraints(self) -> tuple[t.Constraint, ...]:
        """The conditions."""


def bind_generics(
    definition: n.Def, dtypes: Sequence[DType], given: Mapping[str, int | DType]
) -> dict[str, int | DType]:
    """Return values of the generics for `check`: those given, and types from the arguments.

    Parameters
    ----------
    definition : nodes.Def
        The definition as parsed.
    dtypes : sequence of DType
        Of the arguments, in order.
    given : mapping of str to int or DType
        What the call gives by keyword.

    Raises
    ------
    TCTypeError
        If the number of arguments is wrong, or two of them give one variable different types.

    Examples
    --------
    >>> from tcdsl.grammar.types.dtypes import FLOAT64
    >>> from tcdsl.grammar.text.parser import parse
    >>> add = parse("def add<T>(T(N) A, T(N) B) -> (C) { C(i) = A(i) + B(i) }").defs[0]
    >>> bind_generics(add, [FLOAT64, FLOAT64], {})["T"].name
    'float64'
    """
    _count(definition, len(dtypes))
    variables = type_variables(definition)
    values = dict(given)
    source: dict[str, str] = {}
    for param, dtype in zip(definition.params, dtypes, strict=True):
        if param.type is None or param.type.name not in variables:
            continue
        variable = param.type.name
        known = values.setdefault(variable, dtype)
        if known != dtype:
            origin = f"from {source[variable]}" if variable in source else "given by keyword"
            raise TCTypeError(
                f"{_call(definition)}: expected {param.name} of type {known}, got {dtype}\n"
                f"  {variable} = {known} {origin}; one type variable has one type"
            )
        source.setdefault(variable, param.name)
    return values


def bind(
    checked: Head,
    shapes: Sequence[Shape],
    dtypes: Sequence[DType] | None = None,
    scalars: Mapping[str, int | None] | None = None,
) -> dict[str, int]:
    """Return the value of every size, after checking what the definition asks of a call.

    Parameters
    ----------
    checked : CheckedDef, or its signature
    shapes : sequence of tuple of int
        Of the arguments, in the order of the parameters.
    dtypes : sequence of DType, optional
        Of the arguments; not checked if left out.
    scalars : mapping of str to int, optional
        Values of the rank-0 parameters that `checked.scalars` names; None for one of which each
        element of a batch has its own: what is asked of it is not asked here.

    Returns
    -------
    dict of str to int
        By the symbols of `checked.sizes`, in their order.

    Raises
    ------
    TCTypeError
        If the number or the type of arguments is wrong.
    ShapeError
        If ranks or extents are wrong, or a constraint among sizes does not hold.

    Examples
    --------
    >>> from tcdsl.grammar.check.definition import check
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def mv(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i,k) * x(k) }"
    >>> bind(check(parse(text)), [(3, 4), (4,)])
    {'M': 3, 'K': 4}
    """
    _count(checked, len(shapes))
    if dtypes is not None:
        for param, dtype in zip(checked.params, dtypes, strict=True):
            if dtype != param.dtype:
                name, wanted = param.name, param.dtype
                convert = f"{name}.astype('{wanted}'), in torch {name}.to(torch.{wanted})"
                raise TCTypeError(
                    f"{_call(checked)}: expected {name} of type {wanted}, got {dtype}\n"
                    f"  declared {_declared(param)}" + (f"; pass {convert}" if param.shape else "")
                )
    values: dict[str, int] = {}
    origins: Origins = {}
    for param, shape in zip(checked.params, shapes, strict=True):
        _bind_shape(checked, param, shape, values, origins)
    for name in checked.scalars:
        if scalars is None or name not in scalars:
            raise TCTypeError(
                f"{_call(checked)}: the value of {name} is needed, it is used in a bound"
            )
        if (value := scalars[name]) is not None:
            values[name] = value
            origins[name] = None
    open_names = {name for name in checked.scalars if name not in values}
    for constraint in checked.constraints:
        if not open_names or open_names.isdisjoint(constraint.size.symbols()):
            _check_constraint(checked, constraint, values, origins)
    return {name: values[name] for name in checked.sizes if name not in open_names}


class Extents:
    """Where the sizes of a definition stand in the shapes of its calls, found once for all.

    For calls of the ranks and types that `bind` has let pass before: they ask for a new size only.
    """

    def __init__(self, checked: Head) -> None:
        places: dict[str, int] = {}
        self._same: list[tuple[int, int]] = []  # places that have the same extent
        self._fixed: list[tuple[int, int]] = []  # places and what they have
        dims = [dim for param in checked.params for dim in param.shape]
        for place, dim in enumerate(dims):
            name = _symbol(dim)
            if name is None:
                self._fixed.append((place, dim.constant or 0))
            elif name in places:
                self._same.append((places[name], place))
            else:
                places[name] = place
        self._sizes = [(name, places[name]) for name in checked.sizes]
        self._constraints = [(c.size, c.relation == ">=0") for c in checked.constraints]

    def sizes(self, shapes: Sequence[Shape]) -> dict[str, int] | None:
        """Return what `bind` does; None where it has something to say, or more to ask."""
        extents = [extent for shape in shapes for extent in shape]
        if max(extents, default=0) > LARGEST_EXTENT:
            return None
        for place, wanted in self._fixed:
            if extents[place] != wanted:
                return None
        for one, other in self._same:
            if extents[one] != extents[other]:
                return None
        values = {name: extents[place] for name, place in self._sizes}
        for size, is_bound in self._constraints:
            value = size.evaluate(values)
            if value and (value < 0 or not is_bound):
                return None
        return values


def _bind_shape(
    of: Head, param: t.Tensor, shape: Shape, values: dict[str, int], origins: Origins
) -> None:
    rank = len(param.shape)
    if len(shape) != rank:
        dimensions = "1 dimension" if rank == 1 else f"{rank} dimensions"
        raise ShapeError(
            f"{_call(of)}: expected {param.name} with {dimensions}, got shape {shape}\n"
            f"  declared {_declared(param)}"
        )
    fresh: set[str] = set()
    # what stands for an extent is not asked: the answer would bound it
    for extent in shape:
        if isinstance(extent, int) and extent > LARGEST_EXTENT:
            most = LARGEST_EXTENT.bit_length() - 1
            raise ShapeError(
                f"{_call(of)}: {param.name} has shape {shape}, but a dimension holds at most "
                f"2**{most} elements\n  declared {_declared(param)}"
            )
    for dim, extent in zip(param.shape, shape, strict=True):
        name = _symbol(dim)
        if name is None:
            if dim.constant != extent:
                raise ShapeError(_wrong_shape(of, param, shape, values, origins, fresh))
        elif name not in values:
            values[name] = extent
            fresh.add(name)
            origins[name] = param, shape
        elif values[name] != extent:
            raise ShapeError(_wrong_shape(of, param, shape, values, origins, fresh))


def _wrong_shape(
    of: Head,
    param: t.Tensor,
    shape: Shape,
    values: Mapping[str, int],
    origins: Origins,
    fresh: set[str],
) -> str:
    """Return the message for extents that differ from what earlier ones say."""
    text = ", ".join(map(str, param.shape)) + ("," if len(shape) == 1 else "")
    wrong = [
        name
        for dim, extent in zip(param.shape, shape, strict=True)
        if (name := _symbol(dim)) is not None and name in values and values[name] != extent
    ]
    given = ", ".join(f"{name} = {values[name]}" for name in dict.fromkeys(wrong))
    lines = [
        f"{_call(of)}: expected {param.name} of shape ({text})"
        + (f" with {given}" if given else "")
        + f", got {shape}"
    ]
    lines += [f"  {_origin(name, values, origins)}" for name in dict.fromkeys(wrong)]
    if not wrong:
        lines.append(f"  declared {_declared(param)}")
    return "\n".join(lines)


def _check_constraint(
    of: Head, constraint: t.Constraint, values: Mapping[str, int], origins: Origins
) -> None:
    value = constraint.size.evaluate(values)
    if value >= 0 if constraint.relation == ">=0" else value == 0:
        return
    lines = [f"{_call(of)}: {constraint.message}"]
    lines += [f"  {_origin(name, values, origins)}" for name in constraint.size.symbols()]
    written = str(constraint.size)
    if written in constraint.message and written not in values:
        lines.append(f"  so {written} is {value}")
    if constraint.span is not None:
        source = constraint.span.source
        line, column = source.line_col(constraint.span.start)
        lines.append(f"  asked for by {source.name}:{line}:{column}: {constraint.span.text}")
    raise ShapeError("\n".join(lines))


def _symbol(dim: Size) -> str | None:
    """Return the name of a dimension that is a size, None for a constant."""
    terms = dim.terms
    if len(terms) == 1 and len(terms[0][0]) == 1 and isinstance(terms[0][0][0], Symbol):
        return terms[0][0][0].name  # as nearly all are
    return next(iter(dim.symbols()), None)


def _origin(name: str, values: Mapping[str, int], origins: Origins) -> str:
    """Return where the value of a size comes from."""
    origin = origins[name]
    if origin is None:
        return f"{name} = {values[name]} is the scalar argument"
    param, shape = origin
    declared = _declared(param)
    return f"{name} = {values[name]} comes from {param.name}, shape {shape}, declared {declared}"


def _declared(param: t.Tensor) -> str:
    """Return the type of a parameter as the text has it."""
    if param.span is not None:
        return " ".join(param.span.text.removesuffix(param.name).split())
    dims = ", ".join(map(str, param.shape))
    return f"{param.dtype}({dims})" if dims else str(param.dtype)


def _call(of: Head | n.Def) -> str:
    """Return how messages name a call."""
    return f"{of.name}({', '.join(p.name for p in of.params)})"


def _count(of: Head | n.Def, got: int) -> None:
    expected = len(of.params)
    if expected != got:
        noun = "argument" if expected == 1 else "arguments"
        raise TCTypeError(f"{_call(of)}: expected {expected} {noun}, got {got}")
