"""What `torch.version` says of the build: none of CUDA or ROCm was linked in."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["cuda", "debug", "git_version", "hip", "xpu"]

debug = False
cuda: str | None = None  # kernels are compiled by what a machine has, whatever its version
hip: str | None = None
xpu: str | None = None
git_version = "Unknown"


def __getattr__(name: str) -> Any:
    if name == "__version__":  # of the PyTorch that scripts are run as
        return vars(sys.modules["torch"])["__version__"]
    raise AttributeError(f"module 'torch.version' has no attribute '{name}'")
