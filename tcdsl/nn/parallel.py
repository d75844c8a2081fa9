"""Batches over several devices, of which there is one: the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcdsl.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


def _check(device_ids: Sequence[Any] | None) -> None:
    if device_ids is not None and len(device_ids) > 1:
        raise RuntimeError(
            f"data_parallel: expected one device, got device_ids={list(device_ids)}: a kernel "
            "uses all cores of the host by itself"
        )


class DataParallel(Module):
    """A module whose batches all devices share, and there is one: it is called as it is.

    Parameters
    ----------
    module : Module
    device_ids : sequence, optional
        Not more than one.
    output_device : optional
        Of no effect.
    dim : int
        Of the batch.

    Raises
    ------
    RuntimeError
        If several devices are asked for.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        _check(device_ids)
        self.module = module
        self.dim = dim
        self.device_ids = list(device_ids or [])
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Return `module(*inputs)`, a batch on one device; parameters as of `DataParallel`."""
    _check(device_ids)
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))
