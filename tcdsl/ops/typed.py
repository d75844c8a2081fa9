"""An op's text and the types of operands: what it computes in, casts and is bound to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.operands.collapse import walked
from tcdsl.core import FORM, Tensor
from tcdsl.core.dtypes import DType
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.ops.arguments import any_rank, wrapped_to
from tcdsl.ops.faults import as_runtime_error
from tcdsl.ops.meaning import Meaning
from tcdsl.ops.rules import computing, not_for
from tcdsl.ops.strides import Laid, laid
from tcdsl.ops.writing import any_recorded, without_repeats

Places = tuple[int | None, ...]


class TypedText:
    """The text of an op whose type variables are bound by what a call computes in.

    Parameters
    ----------
    name : str
        Of the op, for messages.
    session, definition : Session, Def
        The text.
    meaning : Meaning

    Attributes
    ----------
    variables : dict
        The type variable of each parameter that has one.
    standing : int
        Bit by bit, the parameters whose numbers stand for tensors: the way back keeps them.
    """

    def __init__(
        self, name: str, session: Session, definition: nodes.Def, meaning: Meaning
    ) -> None:
        self._name, self._session, self._meaning = name, session, meaning
        self.definition = definition
        self.params = tuple(p.name for p in definition.params)
        self.variables = {
            p.name: p.type.name
            for p in definition.params
            if p.type is not None and p.type.name not in BY_NAME
        }
        names, given = {g.name for g in definition.generics}, self.variables.values()
        self._has_result_type = "R" in names and "R" not in given
        self._has_computing_type = "Wide" in names
        self._any_rank = any_rank(definition)
        self._wrapping = self._any_rank & self.variables.keys()
        standing = frozenset() if meaning.keeps_numbers else self._wrapping
        self.standing = sum(1 << i for i, p in enumerate(self.params) if p in standing)

    def computed(self, values: Sequence[Any]) -> DType:
        """Return the type that the rule gives for the operands whose type is a variable."""
        typed = [v for p, v in zip(self.params, values, strict=True) if p in self.variables]
        if not any(isinstance(v, Tensor) for v in typed):
            typed = list(values)
        return self._meaning.types(typed)

    def all_cast(self, values: Sequence[Any], dtype: DType) -> tuple[Any, ...] | None:
        """Return operands in the type that is computed in; None where none has to be cast."""
        if self._has_result_type:
            return None
        cast = tuple(self._cast(p, v, dtype) for p, v in zip(self.params, values, strict=True))
        return cast if any(a is not b for a, b in zip(cast, values, strict=True)) else None

    def _cast(self, param: str, value: Any, dtype: DType) -> Any:
        if self.variables.get(param) == "Wide" and isinstance(value, Tensor):
            return value.to(computing(dtype))
        if self.variables.get(param) != "T" or not isinstance(value, Tensor):
            return value
        if value.dtype is dtype:
            return value
        if 0 in value.stride() and not any_recorded((value,)):
            # what is repeated tells as little of a layout as before
            return without_repeats(value).to(dtype).expand(value.shape)
        return value.to(dtype)

    def wrapped(self, values: Sequence[Any], dtype: DType) -> tuple[Any, ...] | None:
        """Return operands with integers that their type does not hold wrapped; None if all fit."""
        return wrapped_to(values, dtype, self.params, self.variables, self._wrapping)

    def arrays(self, values: Sequence[Any], dtype: DType) -> list[Any]:
        """Return operands as arrays; numbers are of the type that their parameter has."""
        return [
            v._array() if isinstance(v, Tensor) else self.number(p, v, dtype)
            for p, v in zip(self.params, values, strict=True)
        ]

    def number(self, param: str, value: Any, dtype: DType) -> Any:
        """Return a number as an array of the type that its parameter has."""
        if param in self.variables:
            held = computing(dtype) if self._has_computing_type else dtype
            with np.errstate(over="ignore"):  # inf, as elements would be
                return np.asarray(value).astype(held.numpy)
        return np.asarray(value)

    def laid(
        self, values: Sequence[Any], places: Sequence[Places | None], shape: tuple[int, ...]
    ) -> list[Laid]:
        """Return how operands lie that are walked with a result of this shape, gradients first.

        A number where a tensor may stand is one of rank 0. What no element is read of tells
        nothing, unless nothing else does.

        Parameters
        ----------
        places : sequence of Places
            Of the parameters, as `Pointwise` has them; more may follow.
        """
        found: list[tuple[bool, bool, Laid]] = []
        for param, value, at in zip(self.params, values, places, strict=False):
            if isinstance(value, Tensor):
                is_read = at is not None or not value.ndim
                found.append((is_read, param.startswith("d_"), _walked(laid(value), at, shape)))
            elif param in self._any_rank:
                found.append((True, False, Laid((), ())))
        if any(is_read and one.shape for is_read, _, one in found):
            found = [one for one in found if one[0]]
        return [one for *_, one in sorted(found, key=lambda one: not one[1])]

    def bind(self, arrays: Sequence[Any], dtype: DType) -> tuple[Variant, dict[str, int]]:
        """Return the definition bound to the types of these operands, and their sizes."""
        try:
            return self._session.bind(self.definition, arrays, self.generics(dtype))
        except TCError as error:
            if error.diagnostics and dtype.category < 2:  # its text has no meaning for them
                raise not_for(self._name, dtype) from None
            as_runtime_error(error)
            raise

    def generics(self, dtype: DType) -> dict[str, Any]:
        """Return the generics of a call: those of the op, and types that no operand tells."""
        result = {"R": BY_NAME[dtype.name]} if self._has_result_type else {}
        if self._has_computing_type and "Wide" not in self.variables.values():
            result["Wide"] = BY_NAME[computing(dtype).name]
        return {**self._meaning.generics, **result}

    def variant(self, values: Sequence[Any], dtype: DType) -> Variant:
        """Return the definition bound to the types of these operands."""
        return self.bind(self.arrays(values, dtype), dtype)[0]

    def unread_as_forms(self, taken: tuple[int, ...]) -> tuple[int, ...]:
        """Return codes in which inputs that this text reads no element of are forms only."""
        read = {name for s in self.definition.body for name in _accessed(s)}
        return tuple(
            FORM + code if code < FORM and p not in read else code
            for p, code in zip(self.params, taken, strict=True)
        )


def _walked(operand: Laid, places: Places | None, shape: tuple[int, ...]) -> Laid:
    """Return an operand whose dimensions are the last ones of a result, as those of others."""
    missing = len(shape) - len(operand.shape)
    if places is None or all(p in (None, missing + d) for d, p in enumerate(places)):
        return operand
    strides = walked(places, operand.strides, len(shape))
    at = dict(zip(places, operand.shape, strict=True))
    return Laid(tuple([at.get(d, 1) for d in range(len(shape))]), strides)


def _accessed(statement: Any) -> set[str]:
    """Return the names whose elements a statement reads; those in `exists` are not read."""
    found: set[str] = set()
    todo: list[Any] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, nodes.Exists):
            continue
        if isinstance(node, nodes.Apply):
            found.add(node.name)
        if isinstance(node, nodes.Name):
            found.add(node.name)
        if isinstance(node, tuple | list):
            todo += node
        elif isinstance(node, nodes.Node):
            todo += [getattr(node, f) for f in node.__dataclass_fields__]
    return found
