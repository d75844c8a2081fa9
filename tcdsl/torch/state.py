"""Tuned configs in the state dict of a layer: a tensor, so that files of tensors take it.

A text or a dict would break files of tensors; a tensor of bytes also stays what it is when a module
is cast to half types. It is read as a stranger's (`autotune/store/shipped.py`): what is damaged is
left out with a warning, what was made for another machine serves nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from tcdsl.calls.process.caller import warn
from tcdsl.kernel import Kernel

if TYPE_CHECKING:
    from tcdsl.autotune.store.shipped import ShippedConfig

_EXTRA = "_extra_state"  # torch's name for what a module saves besides parameters and buffers


class Keeper(torch.nn.Module):
    """A module with the tuned configs of its kernel `tc` in its state dict, if it has some."""

    tc: Kernel

    def keep(self, rows: Iterable[ShippedConfig]) -> None:
        """Take over tuned configs, to use and to save them with the parameters."""
        from tcdsl.autotune.store.shipped import Shipped  # on use: it needs SQLite

        old = self.tc.session.settings.configs
        every = {r.key.digest: r for r in (*(old.rows if old else ()), *rows)}
        if every:
            self.tc = self.tc.with_configs(Shipped(every.values()))

    def get_extra_state(self) -> torch.Tensor:
        """Return the tuned configs as JSON, whose bytes are a tensor: files of tensors take it."""
        configs = self.tc.session.settings.configs
        text = configs.to_json() if configs else ""
        return torch.tensor([*text.encode()], dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        """Take over the tuned configs of a state dict; what is none is left out, with a warning."""
        from tcdsl.autotune.store.shipped import Shipped  # on use: it needs SQLite

        try:
            text = _bytes_in(state).decode()
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


_MOST_BYTES = 1 << 26  # a hundred thousand configs


def _bytes_in(state: Any) -> bytes:
    """Return the bytes of an extra state; a copy of a state dict in another type has them too.

    Raises
    ------
    ValueError
        If it has none, or its storage holds fewer: PyTorch would read past the end of it.
    """
    if not isinstance(state, torch.Tensor) or state.is_meta or state.ndim != 1:
        raise ValueError("expected a tensor of bytes")
    if state.layout != torch.strided or state.is_quantized or state.is_complex():
        raise ValueError("expected a tensor of bytes")
    if state.numel() > _MOST_BYTES:
        raise ValueError(f"expected at most {_MOST_BYTES} bytes")
    last = state.storage_offset() + (state.numel() - 1) * state.stride(0)
    if state.numel() and state.untyped_storage().nbytes() < (last + 1) * state.element_size():
        raise ValueError(f"its storage does not hold {state.numel()} elements")
    return bytes(state.to("cpu", torch.uint8).tolist())
