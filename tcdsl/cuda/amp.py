"""Training in halves on GPUs, under the older names of `torch.amp`'s."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from tcdsl import amp
from tcdsl.core import dtypes
from tcdsl.core.dtypes import DType

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

custom_fwd = partial(amp.custom_fwd, device_type="cuda")
custom_bwd = partial(amp.custom_bwd, device_type="cuda")


def _is_old(name: str) -> None:
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):  # noqa: N801  (the name of PyTorch)
    """``torch.amp.autocast("cuda", ...)``."""

    def __init__(
        self, enabled: bool = True, dtype: DType = dtypes.float16, cache_enabled: bool = True
    ) -> None:
        _is_old("autocast")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """``torch.amp.GradScaler("cuda", ...)``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _is_old("GradScaler")
        super().__init__("cuda", *args, **kwargs)
