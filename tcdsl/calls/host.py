"""Calls of a definition on arrays in the host's memory, where the launcher does not know them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tcdsl.calls.arguments import Arguments
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.call import KernelCall, Outputs
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.kinds import Kinds, Rule
from tcdsl.calls.operands.arguments import Array, as_array, check_integer
from tcdsl.calls.operands.foreign import has_dlpack, like, written
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.runtime import Entry, Launcher
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.errors import AllocationError
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.text.names import is_lasting

_MAX_ENTRIES = (
    512  # forms whose entries other kinds of arguments may share; the launcher keeps its own
)


class HostCalls:
    """How one definition is called on the host; the launcher runs later calls of each form."""

    def __init__(self, dispatch: Dispatch, launcher: Launcher) -> None:
        self._dispatch = dispatch
        self._launcher = launcher
        self._entries: dict[Any, Entry] = {}
        self._kinds = Kinds(dispatch.session)
        self._lock = Lock()

    def forget(self, variant: Variant) -> None:
        """Let the next calls choose their executables anew."""
        with self._lock:
            variant.forget_choices()
            self._entries.clear()
            self._launcher.clear()

    def __call__(self, given: Arguments) -> Any:
        """Call with arrays in the host's memory, whether or not the launcher knows their form."""
        call, arrays = self.call_of(given)
        result_of = self._dispatch.result
        if given.outputs is None:
            example = _example(given.values, arrays)
            begun = call.initial()
            result = self._run(replace(call, outs=begun) if begun else call, given, example)
            convert = like(example)
            if len(self._dispatch.returns) == 1:
                return convert(result) if isinstance(result, np.ndarray) else result
            if isinstance(result[0], np.ndarray):
                return result_of(tuple(map(convert, result)))
            return result  # the launcher made them in the kind of the example
        outs = call.check_outputs(given.outputs)
        targets = call.targets(outs, lambda out: out.copy(order="C"))
        self._run(replace(call, outs=targets), given)
        for value, out, target in zip(given.outputs, outs, targets, strict=True):
            if target is not out:
                out[...] = target
            written(value)
        return given.outputs[0] if len(outs) == 1 else result_of(given.outputs)

    def call_of(self, given: Arguments) -> tuple[KernelCall, list[Array]]:
        """Return a call with these arguments, and the arguments as arrays."""
        variant, sizes, arrays = self.bound(given)
        return KernelCall.of(variant, sizes, given.values, arrays), arrays

    def bound(self, given: Arguments) -> tuple[Variant, dict[str, int], list[Array]]:
        """Return the variant that takes these arguments, their sizes, and them as arrays."""
        session, definition = self._dispatch.session, self._dispatch.definition
        for v, p in zip(given.values, definition.params, strict=True):
            if isinstance(v, int) and p.type:
                declared = BY_NAME.get(p.type.name)
                if declared is not None and declared.is_integer:
                    check_integer(v, p.name, declared)
        arrays = [as_array(v, n) for v, n in zip(given.values, self._dispatch.params, strict=True)]
        if not any(a.ndim for a in arrays):
            arrays = _as_tensors_of_rank_0(definition, given.values, arrays)
        return *session.bind(definition, arrays, given.generics), arrays

    def _run(self, call: KernelCall, given: Arguments, example: object = None) -> Any:
        """Run a call, and install its form unless it is still being tuned."""
        try:
            return self._launched(call, given, example)
        except AllocationError:
            raise
        except MemoryError:
            raise call.no_memory() from None

    def _launched(self, call: KernelCall, given: Arguments, example: object) -> Any:
        candidate = self._dispatch.candidate(call)
        if candidate is not None:
            return self._launcher.run(call.entry(candidate), call.operands, call.outs, example)
        with self._lock:  # what another thread's tuning makes stale is not installed after it
            entry, rule = self._entry(call)
            if self._dispatch.is_settled(call):
                self._install(entry, call.operands, call.outs, given.generics, rule)
                pairs = zip(
                    (*call.operands, *(call.outs or ())),
                    (*given.values, *(given.outputs or ())),
                    strict=False,  # without outputs given there are none to read
                )
                if any(a is not v for a, v in pairs):
                    self._install_as_given(entry, call, given, rule)
        return self._launcher.run(entry, call.operands, call.outs, example)

    def _install_as_given(
        self, entry: Entry, call: KernelCall, given: Arguments, rule: Rule | None
    ) -> None:
        """Let the launcher take arrays of other libraries itself, where it can read them."""
        outs = call.outs
        if outs is not None and given.outputs is not None:
            pairs = zip(outs, given.outputs, strict=True)
            outs = tuple(v if has_dlpack(v) else o for o, v in pairs)
        with contextlib.suppress(ValueError):  # a copy is what fits the entry, not what was given
            self._install(entry, given.values, outs, given.generics, rule)

    def _install(
        self,
        entry: Entry,
        operands: Outputs,
        outs: Outputs | None,
        generics: Mapping[str, Any],
        rule: Rule | None,
    ) -> None:
        """Let the launcher run calls of this form itself, where generics have these values."""
        if all(map(is_lasting, generics.values())):
            values = tuple(generics.get(g.name) for g in self._dispatch.definition.generics)
            self._launcher.install(entry, operands, outs, values, rule)

    def _entry(self, call: KernelCall) -> tuple[Entry, Rule | None]:
        """Return the entry of a call's form, and how those of others follow, where it is new."""
        key = call.key
        entry = self._entries.get(key)
        if entry is not None:
            return entry, None
        self._entries = thinned(self._entries, _MAX_ENTRIES)
        compiled = self._dispatch.executable_for(call)
        entry = self._entries[key] = call.entry(compiled)
        return entry, self._kinds.rule(call, compiled)


def _example(values: Sequence[Any], arrays: Sequence[Array]) -> Any:
    """Return the argument in whose kind results are: the first array of any rank but 0.

    Where all are of rank 0, the first of another library; 0, a number, where there is none.
    """
    of_rank = (v for v, a in zip(values, arrays, strict=True) if a.ndim)
    foreign = (v for v in values if not isinstance(v, np.ndarray | np.generic) and has_dlpack(v))
    return next(of_rank, next(foreign, 0))


def _as_tensors_of_rank_0(
    definition: nodes.Def, values: Sequence[Any], arrays: Sequence[Array]
) -> list[Array]:
    """Give Python's numbers the type of a tensor that stands for the same type variable.

    Beside arrays with dimensions they take those' types anyhow; here no array has any.
    """
    named = [p.type.name if p.type else "" for p in definition.params]
    kinds = {
        name: array.dtype
        for name, value, array in zip(named, values, arrays, strict=True)
        if not isinstance(value, bool | int | float)
    }

    def typed(name: str, value: Any, array: Array) -> Array:
        kind = kinds.get(name)
        if kind is None or not isinstance(value, bool | int | float):
            return array
        return array if isinstance(value, float) and kind.kind in "biu" else array.astype(kind)

    return [typed(*each) for each in zip(named, values, arrays, strict=True)]
