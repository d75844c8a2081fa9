"""Hooks of modules: functions that see, and may replace, what goes into and comes out of a call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tcdsl.autograd.hooks import RemovableHandle
from tcdsl.core import is_grad_enabled
from tcdsl.nn.modules.backward_hooks import BackwardHooks

__all__ = [
    "EVERY",
    "Hooked",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Hook = Callable[..., Any]
Table = dict[int, Hook]
_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_STATE = (
    "_state_dict_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class HookTables:
    """Hooks by kind, each under its number.

    Attributes
    ----------
    _with_kwargs, _always_called : dict of int to True
        The numbers of forward hooks that take keyword arguments, or are called after errors too.
    _changing : dict of int to True
        The numbers of hooks of `state_dict` whose result takes its place.
    """

    _forward_pre_hooks: Table
    _forward_hooks: Table
    _backward_hooks: Table
    _backward_pre_hooks: Table
    _state_dict_pre_hooks: Table
    _state_dict_hooks: Table
    _load_state_dict_pre_hooks: Table
    _load_state_dict_post_hooks: Table
    _with_kwargs: dict[int, bool]
    _always_called: dict[int, bool]
    _changing: dict[int, bool]

    @staticmethod
    def _no_hooks() -> dict[str, Any]:
        """Return the tables of a module without hooks."""
        marks = ("_with_kwargs", "_always_called", "_changing")
        return {name: {} for name in (*_TABLES, *_OF_STATE, *marks)}

    def _take_hook(
        self,
        table: Table,
        hook: Hook,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Take a hook in, behind the others or before them."""
        handle = RemovableHandle(table, self._with_kwargs, self._always_called, self._changing)
        others = dict(table)
        table[handle.id] = hook
        if prepend:
            for number in others:
                table[number] = table.pop(number)
        if with_kwargs:
            self._with_kwargs[handle.id] = True
        if always_call:
            self._always_called[handle.id] = True
        return handle


class _Every(HookTables):
    """Hooks of all modules, called before a module's own."""

    def __init__(self) -> None:
        self.__dict__.update(self._no_hooks())
        self.registered: dict[str, Table] = {"buffer": {}, "module": {}, "parameter": {}}

    def changed(self, kind: str, module: object, name: str, value: Any) -> Any:
        """Return what is registered in place of a value, as hooks on that leave it."""
        for hook in tuple(self.registered[kind].values()):
            found = hook(module, name, value)
            value = value if found is None else found
        return value


EVERY = _Every()


class _Call:
    """One call between hooks: its arguments and its result as the hooks so far leave them."""

    def __init__(self, input: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.input, self.kwargs, self.result = input, kwargs, None
        self.told: set[int] = set()  # hooks behind it that have been called

    def take(self, changed: Any) -> None:
        """Take both kinds of arguments from a hook, if it has returned them."""
        if changed is None:
            return
        if not isinstance(changed, tuple) or len(changed) != 2:
            raise RuntimeError(
                "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                f"{changed}."
            )
        self.input, self.kwargs = changed

    def tell(self, module: object, hook: Hook, number: int, with_kwargs: bool) -> None:
        """Call a hook that comes behind it."""
        self.told.add(number)
        changed = hook(module, self.input, *((self.kwargs,) if with_kwargs else ()), self.result)
        self.result = self.result if changed is None else changed


class Hooked(HookTables):
    """A module's hooks, and its calls between them."""

    forward: Callable[..., Any]

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """Compute `forward` between the hooks."""
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or EVERY._forward_hooks
            or EVERY._forward_pre_hooks
            or EVERY._backward_hooks
            or EVERY._backward_pre_hooks
        ):
            return self.forward(*input, **kwargs)
        call = _Call(input, kwargs)
        try:
            return self._between_hooks(call)
        except Exception:
            self._after_an_error(call)
            raise

    def _between_hooks(self, call: _Call) -> Any:
        for tables in (EVERY, self):
            for number, hook in tuple(tables._forward_pre_hooks.items()):
                if number in tables._with_kwargs:
                    call.take(hook(self, call.input, call.kwargs))
                elif (changed := hook(self, call.input)) is not None:
                    call.input = changed if isinstance(changed, tuple) else (changed,)
        backward = None
        behind = {**EVERY._backward_hooks, **self._backward_hooks}
        before = {**EVERY._backward_pre_hooks, **self._backward_pre_hooks}
        if (behind or before) and is_grad_enabled():
            backward = BackwardHooks(behind, before, self)
            call.input = backward.enter(call.input)
        call.result = self.forward(*call.input, **call.kwargs)
        for tables in (EVERY, self):
            for number, hook in tuple(tables._forward_hooks.items()):
                call.tell(self, hook, number, number in tables._with_kwargs)
        return call.result if backward is None else backward.leave(call.result)

    def _after_an_error(self, call: _Call) -> None:
        """Call the hooks that are always called; errors of theirs are told, the first goes on."""
        for tables in (EVERY, self):
            for number, hook in tuple(tables._forward_hooks.items()):
                if number not in tables._always_called or number in call.told:
                    continue
                try:
                    call.tell(self, hook, number, number in tables._with_kwargs)
                except Exception as error:
                    warnings.warn(
                        "forward hook with ``always_call=True`` raised an exception that was "
                        f"silenced as another error was raised in forward: {error}",
                        stacklevel=3,
                    )

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, input)` before each forward; its result, if any, is the input.

        Parameters
        ----------
        hook : callable
        prepend : bool
            Call it before those that are there.
        with_kwargs : bool
            Call `hook(module, input, kwargs)`, which returns both or None.
        """
        return self._take_hook(self._forward_pre_hooks, hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, input, output)` behind each forward; a result is the output.

        Parameters
        ----------
        hook : callable
        prepend : bool
            Call it before those that are there.
        with_kwargs : bool
            Call `hook(module, input, kwargs, output)`.
        always_call : bool
            Call it after an error too, with None as the output where none has come.
        """
        return self._take_hook(self._forward_hooks, hook, prepend, with_kwargs, always_call)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the input are there.

        What it returns takes the place of grad_input. prepend: before the hooks that are there.
        """
        return self._take_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Do what `register_full_backward_hook` does, under the name of before."""
        return self._take_hook(self._backward_hooks, hook)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the result are there.

        What it returns takes their place. prepend: before the hooks that are there.
        """
        return self._take_hook(self._backward_pre_hooks, hook, prepend)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before this module's part of a `state_dict`."""
        return self._take_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` behind that part."""
        return self._take_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """Do the same under PyTorch's inner name; what this one returns is the state dict."""
        handle = self._take_hook(self._state_dict_hooks, hook)
        self._changing[handle.id] = True
        return handle

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call a hook before this module's part of a state dict is taken over.

        ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)``; what it changes in the state dict is what is loaded.
        """
        return self._take_hook(self._load_state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        """Do the same under PyTorch's inner name; the hook gets no module unless that is said."""
        table = self._load_state_dict_pre_hooks
        return self._take_hook(table, hook if with_module else _WithoutModule(hook))

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)`, whose lists it may change, behind it."""
        return self._take_hook(self._load_state_dict_post_hooks, hook)


class _WithoutModule:
    """A hook that gets all but the module: a class, so that a module with one can be pickled."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def __call__(self, module: object, *args: Any) -> Any:
        return self._hook(*args)


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, input)` before each forward of any module."""
    return EVERY._take_hook(EVERY._forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, input, output)` behind each forward of any module.

    with_kwargs, always_call: as of `Module.register_forward_hook`.
    """
    return EVERY._take_hook(EVERY._forward_hooks, hook, False, with_kwargs, always_call)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` for any module."""
    return EVERY._take_hook(EVERY._backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` for any module."""
    return EVERY._take_hook(EVERY._backward_pre_hooks, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when a buffer is registered; a result takes its place."""
    return EVERY._take_hook(EVERY.registered["buffer"], hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when one is registered; a result takes its place."""
    return EVERY._take_hook(EVERY.registered["module"], hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when one is registered; a result takes its place."""
    return EVERY._take_hook(EVERY.registered["parameter"], hook)
