"""Hooks of optimizers, and the words that PyTorch's constructors share: once for all of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tcdsl.autograd.hooks import RemovableHandle

__all__ = [
    "Hooked",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "says",
]

Hook = Callable[..., Any]
Table = dict[int, Hook]
_USUAL = {
    "foreach": None,
    "maximize": False,
    "capturable": False,
    "differentiable": False,
    "fused": None,
}
_KINDS = ("step_pre", "step_post", "state_pre", "state_post", "load_pre", "load_post")
_before_all: Table = {}
_behind_all: Table = {}


def says(*words: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a constructor keywords that PyTorch's has; they become settings of its groups.

    `maximize` turns gradients round; `foreach`, `fused` and `capturable` say how PyTorch computes
    a step, which is one kernel here; `differentiable` is refused unless False.
    """

    def decorated(init: Callable[..., None]) -> Callable[..., None]:
        told = inspect.signature(init)
        more = [
            inspect.Parameter(word, inspect.Parameter.KEYWORD_ONLY, default=_USUAL[word])
            for word in words
        ]

        @functools.wraps(init)
        def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
            given = {word: kwargs.pop(word, _USUAL[word]) for word in words}
            if given.get("fused") and given.get("foreach"):
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
            if given.get("differentiable"):
                raise NotImplementedError(
                    f"{type(self).__name__}: differentiable=True: steps are kernels that write in "
                    "place, and are not recorded"
                )
            self._words = given | self.__dict__.get("_words", {})  # a class before its base
            init(self, *args, **kwargs)

        wrapped.__signature__ = told.replace(  # type: ignore[attr-defined]
            parameters=[*told.parameters.values(), *more]
        )
        return wrapped

    return decorated


def _taken(table: Table, hook: Hook, prepend: bool = False) -> RemovableHandle:
    """Take a hook in, behind the others or before them."""
    handle = RemovableHandle(table)
    others = dict(table)
    table[handle.id] = hook
    if prepend:
        for number in others:
            table[number] = table.pop(number)
    return handle


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of any optimizer."""
    return _taken(_before_all, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` behind each step of any optimizer."""
    return _taken(_behind_all, hook)


def _between_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step that calls the hooks; one within another, of a base class, calls none."""

    @functools.wraps(step)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        hooks = self._hooks
        self._opt_called = True  # which schedules look at
        if self._in_step or not (
            hooks["step_pre"] or hooks["step_post"] or _before_all or _behind_all
        ):
            return step(self, *args, **kwargs)
        self._in_step = True
        try:
            given: tuple[Any, ...] = self, *args  # hooks get the optimizer among the arguments too
            for hook in (*_before_all.values(), *hooks["step_pre"].values()):
                changed = hook(self, given, kwargs)
                if changed is None:
                    continue
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got "
                        f"{changed}."
                    )
                given, kwargs = changed
            result = step(*given, **kwargs)
            for hook in (*hooks["step_post"].values(), *_behind_all.values()):
                hook(self, given, kwargs)
        finally:
            self._in_step = False
        return result

    return wrapped


class Hooked:
    """An optimizer's hooks."""

    _hooks: dict[str, Table]
    _in_step: bool
    _opt_called = False

    def __init_subclass__(cls, **named: Any) -> None:
        """Let the hooks be called by the step that a class defines."""
        super().__init_subclass__(**named)
        if "step" in cls.__dict__:
            cls.step = _between_hooks(cls.__dict__["step"])  # type: ignore[attr-defined]

    def _no_hooks(self) -> None:
        self._hooks = {kind: {} for kind in _KINDS}
        self._in_step = False

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; both may be returned changed."""
        return _taken(self._hooks["step_pre"], hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` behind each step."""
        return _taken(self._hooks["step_post"], hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before a state dict is made."""
        return _taken(self._hooks["state_pre"], hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` with what is made; a result takes its place."""
        return _taken(self._hooks["state_post"], hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before one is loaded; a result takes its place."""
        return _taken(self._hooks["load_pre"], hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` behind it."""
        return _taken(self._hooks["load_post"], hook, prepend)
