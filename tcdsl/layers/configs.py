"""Tuned configs in the state dict of a layer: a tensor, so that files of tensors take it.

A text or a dict would break files of tensors; a tensor of bytes also stays what it is when a module
is cast to half types. It is read as a stranger's (`autotune/store/shipped.py`): what is damaged is
left out with a warning, what was made for another machine serves nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from tcdsl.calls.process.caller import warn
from tcdsl.kernel import Kernel
from tcdsl.layers.library import Library, Texts

if TYPE_CHECKING:
    from tcdsl.autotune.store.shipped import ShippedConfig

_EXTRA = "_extra_state"  # PyTorch's name for what a module saves besides parameters and buffers


if TYPE_CHECKING:
    # a module of either library stands behind this class; to a checker it is one that has all
    class _Module:
        training: bool
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]

        def __init__(self) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def register_parameter(self, name: str, param: Any) -> None: ...
        def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None: ...
        def _apply(self, fn: Any, *args: Any, **named: Any) -> Any: ...
        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None: ...
        def _load_from_state_dict(self, *args: Any) -> None: ...
else:
    _Module = object


class Keeper(_Module):
    """A module with the tuned configs of its kernel `tc` in its state dict, if it has some.

    It stands before the Module of its library.
    """

    library: ClassVar[Library]
    texts: ClassVar[Texts]
    tc: Kernel

    def keep(self, rows: Iterable[ShippedConfig]) -> None:
        """Take over tuned configs, to use and to save them with the parameters."""
        from tcdsl.autotune.store.shipped import Shipped  # on use: it needs SQLite

        old = self.tc.session.settings.configs
        every = {r.key.digest: r for r in (*(old.rows if old else ()), *rows)}
        if every:
            self.tc = self.tc.with_configs(Shipped(every.values()))

    def get_extra_state(self) -> Any:
        """Return the tuned configs as JSON, whose bytes are a tensor: files of tensors take it."""
        configs = self.tc.session.settings.configs
        text = configs.to_json() if configs else ""
        return self.library.from_bytes(text.encode())

    def set_extra_state(self, state: Any) -> None:
        """Take over the tuned configs of a state dict; what is none is left out, with a warning."""
        from tcdsl.autotune.store.shipped import Shipped  # on use: it needs SQLite

        try:
            text = self.library.to_bytes(state).decode()
            rows = Shipped.from_json(text).rows if text else ()
        except ValueError as error:
            warn(f"{self.tc.name}: the tuned configs of a state dict are left out: {error!s:.200}")
        else:
            self.keep(rows)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.tc.session.settings.configs:
            del destination[prefix + _EXTRA]

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        lists = missing_keys, unexpected_keys, error_msgs
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *lists)
        if prefix + _EXTRA in missing_keys:  # nothing was tuned there
            missing_keys.remove(prefix + _EXTRA)


MOST_BYTES = 1 << 26  # a hundred thousand configs
