"""Diagnostics with a place, and the exceptions that carry them.

Every exception of tcdsl is a `TCError` and also the built-in a Python user would catch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcdsl.grammar.source import Span


@dataclass(frozen=True, slots=True)
class Note:
    """An additional remark of a diagnostic; with a span it shows its own excerpt."""

    message: str
    span: Span | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault or warning: code, message, the place and its label, other places, the cure."""

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()
    severity: Literal["error", "warning"] = "error"


class TCError(Exception):
    """Base of all errors of tcdsl."""

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(message)
        self.diagnostics = diagnostics


class TCSyntaxError(TCError, ValueError):
    """The text is not a program of the language."""


class TCTypeError(TCError, TypeError):
    """A type, a rank or an argument is wrong."""


class RangeError(TCError, ValueError):
    """The range of an index cannot be found or is wrong."""


class ShapeError(TCError, ValueError):
    """An array does not have the shape that the definition asks for."""


class BoundsError(TCError, IndexError):
    """A subscript read from data is outside its tensor."""


class ScheduleError(TCError, ValueError):
    """A schedule does not fit the nest or the group."""


class CompileError(TCError, RuntimeError):
    """The compiler is missing or refused a kernel; the message holds its log."""


class DeviceError(TCError, RuntimeError):
    """A device is missing or failed."""


class InternalError(AssertionError):
    """A broken promise of tcdsl itself; please report it."""
