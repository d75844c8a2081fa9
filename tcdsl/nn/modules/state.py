"""States of modules: parameters and buffers by their paths, given out and taken over."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any, NamedTuple

from tcdsl.core import Size, Tensor
from tcdsl.nn.modules.hooks import HookTables
from tcdsl.nn.parameter import Parameter

__all__ = ["IncompatibleKeys", "Stated"]

_EXTRA = "_extra_state"  # PyTorch's name in a state dict


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict(strict=False)` did not find, and did not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class Stated(HookTables):
    """A module's state, and what is done with it."""

    _version: int
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _unsaved_buffers: set[str]
    _modules: dict[str, Any]

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> collections.OrderedDict[str, Any]:
        """Return parameters and buffers by their paths; their memory is shared.

        Parameters
        ----------
        destination : mapping, optional
            Filled and returned in place of a new one.
        prefix : str
            Before each name.
        keep_vars : bool
            Keep the tensors themselves, not detached ones.
        *args
            The three by position, as programs of before had them.
        """
        if args:
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination", destination)
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        if destination is None:
            destination = collections.OrderedDict()
            destination._metadata = collections.OrderedDict()
        metadata = getattr(destination, "_metadata", None)
        local = {"version": self._version}
        if metadata is not None:
            metadata[prefix[:-1]] = local
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for number, hook in tuple(self._state_dict_hooks.items()):
            changed = hook(self, destination, prefix, local)
            if changed is not None and number not in self._changing:
                raise RuntimeError("state_dict post-hook must return None")
            destination = destination if changed is None else changed
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put the state of this module, not of those below it, into a mapping."""
        for name, value in self._own_state().items():
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Stated.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _own_state(self) -> dict[str, Any]:
        buffers = {n: b for n, b in self._buffers.items() if n not in self._unsaved_buffers}
        return {**self._parameters, **buffers}

    def get_extra_state(self) -> Any:
        """Return what `state_dict` has of this module beside its tensors: a subclass says it."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: it defines no such method")

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` gave."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: it defines no such method")

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Copy the state of this module, not of those below it; note what does not fit."""
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(self, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys,
                 error_msgs)  # fmt: skip
        assigns = bool(metadata.get("assign_to_params_buffers", False))
        own = {name: value for name, value in self._own_state().items() if value is not None}
        for name, value in own.items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
                continue
            given = state_dict[key]
            if not hasattr(given, "shape"):
                error_msgs.append(
                    f'While copying the parameter named "{key}", expected torch.Tensor or '
                    f"Tensor-like object from checkpoint but received {type(given)}"
                )
            elif tuple(given.shape) != tuple(value.shape) and not _is_old_number(value, given):
                error_msgs.append(
                    f"size mismatch for {key}: copying a param with shape {Size(given.shape)!r} "
                    f"from checkpoint, the shape in current model is {Size(value.shape)!r}."
                )
            else:
                taken = as_tensor(given).reshape(value.shape)
                if assigns:
                    setattr(self, name, _in_place_of(value, taken))
                else:
                    value.data.copy_(taken)
        known = {*own}
        if type(self).set_extra_state is not Stated.set_extra_state:
            known.add(_EXTRA)
            if prefix + _EXTRA in state_dict:
                self.set_extra_state(state_dict[prefix + _EXTRA])
            else:
                missing_keys.append(prefix + _EXTRA)
        unexpected_keys += [
            key
            for key in state_dict
            if key.startswith(prefix) and not self._is_known(key[len(prefix) :], known)
        ]

    def _is_known(self, name: str, own: set[str]) -> bool:
        """Whether a name is one of this module's own, or below one of its children."""
        child, dot, _ = name.partition(".")
        return child in self._modules if dot else name in own

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copy parameters and buffers from a mapping of paths to tensors.

        Parameters
        ----------
        state_dict : mapping of str to Tensor
            One of PyTorch's will do as well.
        strict : bool
            Whether it must have exactly this module's names.
        assign : bool
            Take its tensors themselves, with their types and places, in place of copies.

        Returns
        -------
        (missing_keys, unexpected_keys) : lists of str

        Raises
        ------
        RuntimeError
            If shapes differ or, while strict, names do; what fits has been copied.
        """
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None) or {}
        state = collections.OrderedDict(state_dict)  # hooks change it

        def load(module: Stated, prefix: str) -> None:
            local = metadata.get(prefix[:-1], {})
            if assign:
                local = {**local, "assign_to_params_buffers": True}
            module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    load(child, f"{prefix}{name}.")
            for hook in tuple(module._load_state_dict_post_hooks.values()):
                if hook(module, IncompatibleKeys(missing, unexpected)) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, "")
        if strict and unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        if strict and missing:
            errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            what = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{what}"
            )
        return IncompatibleKeys(missing, unexpected)


def _is_old_number(value: Tensor, given: Any) -> bool:
    """Whether one number was kept as a row of one, as PyTorch did before 0.4."""
    return not value.dim() and tuple(given.shape) == (1,)


def _in_place_of(value: Tensor, given: Tensor) -> Tensor:
    """Return a given tensor as what it takes the place of is: a parameter, or not."""
    if isinstance(value, Parameter) and not isinstance(given, Parameter):
        return Parameter(given, requires_grad=value.requires_grad)
    if isinstance(given, Parameter):
        given.requires_grad_(value.requires_grad)
    return given


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def as_tensor(value: Any) -> Tensor:
    """Return a tensor for one of this library or of another."""
    if isinstance(value, Tensor):
        return value
    from tcdsl import library  # late: only arrays of others need to be made tensors

    made: Tensor = (
        library.from_dlpack(value) if hasattr(value, "__dlpack__") else library.tensor(value)
    )
    return made
