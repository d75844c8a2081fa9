"""`define` for PyTorch: text in, kernels on tensors out."""

from __future__ import annotations

from typing import Any

import tcdsl
from tcdsl.definitions import Definitions
from tcdsl.torch.kernel import Kernel


def define(*args: Any, **keywords: Any) -> Kernel | Definitions:
    """Parse a text and return its kernels; see `tcdsl.define`, whose parameters it takes."""
    made = tcdsl.define(*args, **keywords)
    if isinstance(made, Definitions):
        return Definitions({k.name: Kernel(k.session, k.definition) for k in made})
    return Kernel(made.session, made.definition)
