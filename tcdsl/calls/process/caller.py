"""Warnings that name the line of whoever calls us, however deep it was met."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar

IS_SILENT = ContextVar("is_silent", default=False)  # whether others say the same warnings


def warn(text: str) -> None:
    """Warn at the first line on the stack that is not ours."""
    if IS_SILENT.get():
        return
    frame, level = sys._getframe(0).f_back, 2
    while frame is not None and _is_ours(frame.f_globals.get("__name__")):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == "tcdsl"
