"""The kernels that optimizers step by: one a parameter, all of a step in it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

__all__ = ["step_of"]


@functools.cache
def step_of(name: str) -> Any:
    """Return the kernel of a definition of `steps.tc`; read and checked at its first use."""
    from tcdsl.definitions import define_all  # late: a program may only load an optimizer's state

    return getattr(_definitions(define_all), name)


@functools.cache
def _definitions(define_all: Any) -> Any:
    return define_all(Path(__file__).with_suffix(".tc"), tune="off")  # as ops: no database is read
