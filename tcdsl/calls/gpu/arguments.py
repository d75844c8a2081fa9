"""Arguments of calls on a GPU: how they are read, what they look like, where they lie."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tcdsl.calls.arguments import Arguments
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.operands.arguments import Operand, as_array
from tcdsl.calls.operands.device_arrays import (
    NATIVE,
    DeviceArray,
    as_device_array,
    is_on_device,
    native_place,
)
from tcdsl.codegen.device import devices
from tcdsl.codegen.device.device import Device
from tcdsl.grammar.text.errors import TCTypeError

NUMBERS = frozenset((int, float, bool))
_PLACE = 5  # members of a `Place`; behind them stands the array of a foreign library


class DeviceArguments:
    """How arguments of one definition are read.

    As it is seen, an array of a device is its place (behind that, of another library than the
    device's own, the array); any other argument is what it is. The look of arguments is what tells
    forms of calls apart.
    """

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._readers = NATIVE  # of arrays whose place is read quickly
        self._in_bounds: frozenset[int] = frozenset()  # parameters whose values are sizes

    def device(self, number: int) -> Device:
        """Return a GPU with the streams and the memory that calls use."""
        return devices.device(number)

    def _seen(self, given: Arguments) -> list[Any]:
        """Return the places of arrays of devices, and other arguments as they are."""
        dispatch = self._dispatch
        seen = [self._look(v, n) for v, n in zip(given.values, dispatch.params, strict=True)]
        for i, x in enumerate(seen):
            if type(x) is tuple:
                seen[i] = x if x[1] else self._number(x)
            elif type(x) not in NUMBERS:
                a = as_array(x, dispatch.params[i])
                seen[i] = a if a.ndim else a[()]
        if given.outputs is not None:
            outputs = zip(given.outputs, dispatch.returns, strict=True)
            seen += [self._look(v, n, is_output=True) for v, n in outputs]
        return seen

    def _look(self, value: Any, name: str, *, is_output: bool = False) -> Any:
        """Return the place of an array of a device; any other value as it is.

        Behind the place of an array that is not of the device's own library stands the array.
        """
        place = native_place(value)
        if place is not None:
            return place
        if not is_on_device(value):
            return value
        a = as_device_array(value, name, is_output=is_output)
        return a.address, a.shape, a.strides, a.dtype, a.device, a

    def _number(self, place: tuple[Any, ...]) -> Any:
        """Return the number that an array of rank 0 on a device holds; waits for it."""
        device = self.device(place[4])
        number = np.empty((), place[3])
        with device.active():
            device.download(number, place[0], device.stream())
        return number[()]

    def _look_of(self, given: Arguments, seen: Sequence[Any]) -> Hashable:
        """Return what tells forms apart: of arrays all but the address, of numbers the type."""
        looks: list[Any] = []
        for i, x in enumerate(seen):
            if type(x) is tuple:
                is_readonly = len(x) > _PLACE and not x[_PLACE].is_writeable
                looks.append((*x[1:_PLACE], "read-only") if is_readonly else x[1:_PLACE])
            else:
                looks.append((type(x), x) if i in self._in_bounds else type(x))
        generics = given.generics
        if not generics:
            return tuple(looks), given.outputs is None
        if not all(isinstance(v, Hashable) for v in generics.values()):
            return None  # the key of nothing; the checks say what is wrong
        return tuple(looks), given.outputs is None, tuple(sorted(generics.items()))

    def _arrays(self, given: Arguments, seen: Sequence[Any]) -> list[Operand]:
        """Return parameters, and outputs where they are given, as arrays."""
        names = (*self._dispatch.params, *self._dispatch.returns)
        values = (*given.values, *(given.outputs or ()))
        return [array_of(x, v, n) for x, v, n in zip(seen, values, names, strict=False)]

    def _device_of(self, arrays: Sequence[Operand]) -> Device | None:
        """Return the device on which all arrays lie; None where there are but numbers.

        Raises
        ------
        TCTypeError
            If they lie in several places.
        """
        dispatch = self._dispatch
        places = [
            (name, a.device if isinstance(a, DeviceArray) else None)
            for name, a in zip((*dispatch.params, *dispatch.returns), arrays, strict=False)
            if isinstance(a, DeviceArray) or a.ndim
        ]
        on_device = next((number for _, number in places if number is not None), None)
        if on_device is None:
            return None
        first, where = places[0]
        for name, other in places:
            if other != where:
                raise TCTypeError(
                    f"{dispatch.name}: '{first}' lies {_place_text(where)}, '{name}' "
                    f"{_place_text(other)}\n  bring all arrays to one place: "
                    f"cupy.asarray(x), torch's x.to('cuda:{on_device}')"
                )
        return self.device(on_device)


def array_of(seen: Any, value: Any, name: str) -> Operand:
    """Return what was seen of an argument as an array."""
    if type(seen) is not tuple:
        return as_array(seen, name)
    if len(seen) > _PLACE:
        array: DeviceArray = seen[_PLACE]
        return array
    address, shape, strides, dtype, device = seen
    return DeviceArray(address, shape, strides, dtype, device, value)


def _place_text(number: int | None) -> str:
    return "in the host's memory" if number is None else f"on GPU {number}"
