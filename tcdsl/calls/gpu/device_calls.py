"""Calls of a definition on arrays in a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.calls.arguments import Arguments
from tcdsl.calls.call import KernelCall
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.gpu.arguments import NUMBERS, DeviceArguments, array_of
from tcdsl.calls.gpu.bound_call import BoundCall
from tcdsl.calls.gpu.copies import copy, fill, new_array
from tcdsl.calls.operands.arguments import Operand
from tcdsl.calls.operands.device_arrays import (
    DeviceArray,
    is_native,
)
from tcdsl.calls.operands.foreign import like, written
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.device.device import Device
from tcdsl.grammar.text.errors import ShapeError, TCTypeError

if TYPE_CHECKING:
    from tcdsl.calls.gpu.raw import RawCall

_MAX_KNOWN = 4096  # forms of operands whose bound calls are kept


class DeviceCalls(DeviceArguments):
    """Calls of one definition on GPUs: on CuPy's current stream, with CuPy's arrays as outputs.

    A call whose arguments look like those of one before (shapes, strides, types, the device; not
    addresses) is a look-up, the allocation of its outputs, one `struct.pack` of addresses and
    numbers, and the start of its kernels: 7 to 8 us on a device that does nothing (`null.py` of the
    tests). Any other is checked as calls on the host are. CUDA graphs are the caller's to make:
    they bake pointers in.

    Arrays of other libraries run on CuPy's stream too, handed over as DLPack says, and not on their
    library's own: streams wait for one another either way, and we load nothing that the caller did
    not.

    A subclass for another library says by `device` on which streams calls run and who makes what
    they return, by `_look` and `_readers` how its arrays are read, by `_results` and `_written`
    what the caller gets.
    """

    def __init__(self, dispatch: Dispatch, on_host: Callable[[Arguments], Any]) -> None:
        super().__init__(dispatch)
        self._on_host = on_host
        self._quick: dict[Hashable, BoundCall] = {}  # by what arguments look like
        self._bound: dict[Hashable, BoundCall] = {}  # by what a checked call is
        self._count, self._is_single = len(dispatch.params), len(dispatch.returns) == 1
        self._lock = Lock()

    def clear(self) -> None:
        """Forget bound calls, so that the next ones choose their executables anew."""
        with self._lock:
            self._quick, self._bound = {}, {}

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call with arguments of which at least one is an array of a device."""
        if len(args) == self._count:
            if not kwargs:
                known, places = self._known(args, True)
                if known is not None:
                    fresh = known(places, args)
                    return fresh[0] if len(fresh) == 1 else self._dispatch.result(fresh)
            elif self._is_single and len(kwargs) == 1 and "out" in kwargs:
                out = kwargs["out"]
                known, places = self._known((*args, out), False)
                if known is not None and known.may_write(places):
                    known.write(places, args)
                    return out
        return self._call(self._dispatch.arguments(args, kwargs))

    def _known(self, values: tuple[Any, ...], is_fresh: bool) -> tuple[BoundCall | None, list[int]]:
        """Return what serves values of which each is a number or an array of a device's library.

        With it come their addresses.
        """
        looks: list[Any] = []
        places = []
        for i, v in enumerate(values):
            read = self._readers.get(type(v))
            if read is not None:
                place = read(v)
                places.append(place[0])
                looks.append(place[1:])
            elif type(v) in NUMBERS:
                places.append(0)
                looks.append((type(v), v) if i in self._in_bounds else type(v))
            else:
                return None, places
        return self._quick.get((tuple(looks), is_fresh)), places

    def _call(self, given: Arguments) -> Any:
        """Call with arguments of any kind."""
        seen = self._seen(given)
        known = self._quick.get(self._look_of(given, seen))
        if known is not None:
            places = [x[0] if type(x) is tuple else 0 for x in seen]
            if given.outputs is None:
                return self._results(known(places, seen), given, seen)
            if known.may_write(places):
                known.write(places, seen)
                return self._written(known.device, given.outputs)
        return self._slowly(given, seen)

    # ---- calls that look like none before

    def call_of(self, given: Arguments) -> KernelCall:
        """Return what a call with arrays of a device means, without making it."""
        given = replace(given, outputs=None)
        seen = self._seen(given)
        names = self._dispatch.params
        arrays = [array_of(x, v, n) for x, v, n in zip(seen, given.values, names, strict=True)]
        device = self._device_of(arrays)
        if device is None:
            raise TCTypeError(f"{self._dispatch.name}: only numbers lie on a GPU in this call")
        with device.active():
            return self._call_of(given, seen, arrays, device)

    def raw(self, given: Arguments) -> RawCall:
        """Return what a call with arrays of a device starts, without starting it."""
        from tcdsl.calls.gpu.raw import RawCall  # on use: most kernels never have one

        seen = self._seen(given)
        dispatch, count = self._dispatch, len(self._dispatch.params)
        arrays = self._arrays(given, seen)
        device = self._device_of(arrays)
        if device is None:
            raise TCTypeError(f"{dispatch.name}: raw kernels need arrays on a GPU, cupy.asarray(x)")
        with device.active():
            call = self._call_of(given, seen[:count], arrays[:count], device)
            if given.outputs is not None:
                outs = call.check_outputs(arrays[count:])
                return RawCall(
                    dispatch,
                    replace(call, outs=call.targets(outs, _refused)),
                    device,
                    given.outputs,
                )
            if call.identities is not None:
                raise TCTypeError(
                    f"{dispatch.name} adds to what its output holds: give it as out=..."
                )
            fresh, targets = _fresh(call, device)
            return RawCall(dispatch, replace(call, outs=targets), device, fresh)

    def _call_of(
        self, given: Arguments, seen: Sequence[Any], arrays: Sequence[Operand], device: Device
    ) -> KernelCall:
        variant, sizes = self._dispatch.session.bind(
            self._dispatch.definition, arrays, given.generics, device.gpu
        )
        params = variant.signature.params
        self._in_bounds = frozenset(
            i for i, t in enumerate(params) if t.name in variant.signature.scalars
        )
        return KernelCall.of(variant, sizes, seen, arrays)

    def _slowly(self, given: Arguments, seen: Sequence[Any]) -> Any:
        count = len(self._dispatch.params)
        arrays = self._arrays(given, seen)
        device = self._device_of(arrays)
        if device is None:  # what lay on a device were numbers
            return self._of_numbers(replace(given, values=tuple(seen[:count])), given)
        with device.active():
            call = self._call_of(given, seen[:count], arrays[:count], device)
            if given.outputs is not None:
                self._write(call, device, arrays[count:], self._look_of(given, seen))
                return self._written(device, given.outputs)
            if call.identities is None:
                bound = self._bind(call, device, self._look_of(given, seen))
                return self._results(bound(_places(call), call.operands), given, seen)
            return self._results(self._filled(call, device), given, seen)

    def _filled(self, call: KernelCall, device: Device) -> tuple[Any, ...]:
        """Run onto new outputs that hold the identities of what adds to them; return these."""
        assert call.identities is not None
        fresh, targets = _fresh(call, device)
        for target, identity in zip(targets, call.identities, strict=True):
            fill(type(self), device, target, identity)
        self._run(replace(call, outs=targets), device)
        return fresh

    def _of_numbers(self, numbers: Arguments, given: Arguments) -> Any:
        """Call on the host, where all that lay on a device were numbers."""
        return self._on_host(numbers)

    def _write(
        self, call: KernelCall, device: Device, given: Sequence[Operand], look: Hashable
    ) -> None:
        """Run into the caller's buffers, by way of fresh ones where an input would be hurt."""
        outs = call.check_outputs(given)

        def copied(out: DeviceArray) -> DeviceArray:
            fresh = new_array(device, out)
            copy(type(self), out, fresh)  # what is not written stays, and `op=` goes on from it
            return fresh

        targets = call.targets(outs, copied)
        is_direct = all(t is out for t, out in zip(targets, outs, strict=True))
        self._run(replace(call, outs=targets), device, look if is_direct else None)
        for out, target in zip(outs, targets, strict=True):
            if target is not out:
                copy(type(self), target, out)

    def _run(self, call: KernelCall, device: Device, look: Hashable = None) -> None:
        self._bind(call, device, look).write(_places(call), call.operands)

    def _bind(self, call: KernelCall, device: Device, look: Hashable) -> BoundCall:
        """Return a call's form bound to its executable; look is what it is found by next time."""
        dispatch = self._dispatch
        candidate = dispatch.candidate(call)
        if candidate is not None:
            return self._made(call, device, candidate.loaded)
        with self._lock:
            key = (device.number, call.key)
            found = self._bound.get(key)
            if found is None:
                self._bound = thinned(self._bound, _MAX_KNOWN)
                found = self._bound[key] = self._made(
                    call, device, dispatch.executable_for(call).loaded
                )
            if look is not None and dispatch.is_settled(call):
                self._quick = thinned(self._quick, _MAX_KNOWN)
                self._quick[look] = found
            return found

    def _made(self, call: KernelCall, device: Device, executable: object) -> BoundCall:
        from tcdsl.codegen.device.launch import LoadedUnit  # on use: not on the CPU

        assert isinstance(executable, LoadedUnit), "a GPU's variant has executables of a GPU"
        check = self._dispatch.session.settings.check
        return BoundCall(call, executable, device, self._dispatch.operand_names, check)

    # ---- results

    def _results(self, outs: tuple[Any, ...], given: Arguments, seen: Sequence[Any]) -> Any:
        """Return outputs in the kind of the first array argument."""
        arrays = (v for v, x in zip(given.values, seen, strict=False) if type(x) is tuple)
        example = next(arrays, None)
        if example is not None and not is_native(example):
            outs = tuple(map(like(example), outs))
        return outs[0] if len(outs) == 1 else self._dispatch.result(outs)

    def _written(self, device: Device, outputs: tuple[Any, ...]) -> Any:
        """Return the caller's buffers, after which their library's stream sees what they hold."""
        for out in outputs:
            written(out)
        foreign = next((o for o in outputs if not is_native(o)), None)
        if foreign is not None and hasattr(foreign, "__dlpack__"):
            with device.active():  # whoever takes an array waits for what was written before
                like(foreign)(device.empty((1,), np.dtype(np.float32)))
        return outputs[0] if len(outputs) == 1 else self._dispatch.result(outputs)


def _places(call: KernelCall) -> list[int]:
    arrays = (*call.operands, *(call.outs or ()))
    return [a.address if isinstance(a, DeviceArray) else 0 for a in arrays]


def _fresh(call: KernelCall, device: Device) -> tuple[tuple[Any, ...], tuple[DeviceArray, ...]]:
    """Return new outputs of the device's library, and the same as arrays that calls write to."""
    fresh = tuple(device.empty(shape, dtype) for dtype, shape in call.return_types)
    return fresh, tuple(DeviceArray(*device.place(a), a) for a in fresh)


def _refused(_: DeviceArray) -> DeviceArray:
    raise ShapeError("an output overlaps an input: raw kernels write where they read; give another")
