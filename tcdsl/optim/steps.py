"""The kernels that optimizers step by: one a parameter, all of a step in it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

__all__ = ["step_of"]


@functools.cache
def step_of(name: str) -> Any:
    """Return the kernel of a definition of `steps.tc`; the others are not looked at."""
    from tcdsl.definitions import define  # late: a program may only load an optimizer's state

    return define(Path(__file__).with_suffix(".tc"), name=name, tune="off")  # as ops: no database
