"""Calls that are still to come: the forms of their operands, and what serves them built aside.

The builder (`bindings/builder.py`) makes for them what their first call would; that finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tcdsl.calls.bindings.aside import CALL, Aside, packed, unpacked
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.call import KernelCall
from tcdsl.calls.dispatch import Dispatch
from tcdsl.grammar.text.dataclass import dataclass

_MOST_DEFINITIONS = 256  # that the builder knows


@dataclass(frozen=True, slots=True)
class ArrayToCome:
    """An array of which only the form is known.

    strides : tuple of int
        In bytes; None for C order.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    def array(self) -> np.ndarray[Any, Any]:
        """Return an array of this form, of which no element may be read."""
        strides = self.strides
        if strides is None:
            strides, step = (), self.dtype.itemsize
            for n in reversed(self.shape):
                strides, step = (step, *strides), step * max(n, 1)
        one = np.empty(1, self.dtype)
        return np.lib.stride_tricks.as_strided(one, self.shape, strides, writeable=False)


@dataclass(frozen=True, slots=True)
class CallToCome:
    """A call of which only the form is known.

    operands : tuple of pairs
        Per parameter an `ArrayToCome` and None; or a number, and that as an array.
    """

    generics: Mapping[str, Any]
    operands: tuple[tuple[Any, Any], ...]

    @property
    def kind(self) -> object:
        """What it shares with all calls that bind a definition alike, and with some others."""
        each = tuple(
            (o.dtype, tuple(n == 1 for n in o.shape)) if isinstance(o, ArrayToCome) else type(o)
            for o, _ in self.operands
        )
        return each, tuple(self.generics.items())

    def of(self, dispatch: Dispatch) -> KernelCall:
        """Return the call, of arrays that are none."""
        arrays, values = [], []
        for value, array in self.operands:
            is_array = isinstance(value, ArrayToCome)
            arrays.append(value.array() if is_array else array)
            values.append(arrays[-1] if is_array else value)
        variant, sizes = dispatch.session.bind(dispatch.definition, arrays, self.generics)
        return KernelCall.of(variant, sizes, values, arrays)


class Begun:
    """Calls of a definition before they come: which have the first sizes, what is built aside.

    Ways back come in reverse. So the first sizes are told, of each kind of calls those of the call
    that goes forward first, in a process that compiles as in one that finds all: what serves the
    other sizes hangs on them.
    """

    def __init__(self) -> None:
        self._by_form: dict[object, Aside] = {}
        self._first: dict[object, tuple[object, CallToCome]] = {}  # by kind, with its form
        self._told: set[object] = set()  # kinds

    def __bool__(self) -> bool:
        return bool(self._by_form) or len(self._told) < len(self._first)

    def expect(self, form: object, call: CallToCome) -> None:
        """Let a call have the first sizes of its kind, unless one is expected before it."""
        self._first.setdefault(call.kind, (form, call))

    def begin(self, dispatch: Dispatch, form: object, call: CallToCome) -> None:
        """Have what serves a call, which was expected, built aside, once."""
        if form in self._by_form:
            return
        _, first = self._first[call.kind]
        task = packed((packed(dispatch.session), dispatch.name, call, first))
        self._by_form[form] = Aside(task, dispatch.name, CALL)

    def wait(self, dispatch: Dispatch, form: object) -> None:
        """Wait for what serves a call, if it was begun."""
        for kind, (of_first, first) in [*self._first.items()]:
            if kind not in self._told:
                self._told.add(kind)
                if of_first != form:  # else it is about to come
                    _expect(first.of(dispatch))
        one = self._by_form.pop(form, None)
        if one is not None:
            one.wait()


def _expect(first: KernelCall) -> None:
    first.variant.expect(first.sizes, first.spec.layouts)


@lru_cache(maxsize=_MOST_DEFINITIONS)
def _dispatch(session: bytes, name: str) -> Dispatch:
    """Return the same for all forms of calls: which executable serves one hangs on the others."""
    text: Session = unpacked(session)
    return Dispatch(text, text.definition(name), lambda variant: None)


def build(task: bytes) -> None:
    """Build what a task says: the builder's part of `begin`."""
    session, name, to_come, first = unpacked(task)
    dispatch = _dispatch(session, name)
    _expect(first.of(dispatch))  # whose task the caller may have taken
    call = to_come.of(dispatch)
    variant, text = call.variant, dispatch.session
    layouts, tuned = call.spec.layouts, text.tuned(variant)
    variant.compile_ahead(call.sizes, layouts, tuned, text.advised(variant), call.view)
