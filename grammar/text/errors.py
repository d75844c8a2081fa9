"""Diagnostics with a place, their text, and the exceptions that carry them.

Every exception of tcdsl is a `TCError` and also the built-in a Python user would catch. The codes
of the diagnostics are listed in LANGUAGE.md, with their cures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NoReturn

from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.source import Span

MAX_SHOWN = 10  # diagnostics in one exception's text


@dataclass(frozen=True, slots=True)
class Note:
    """An additional remark of a diagnostic; with a span it shows its own excerpt."""

    message: str
    span: Span | None = None
    label: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as data, the span as `Span.as_dict` gives it."""
        span = None if self.span is None else self.span.as_dict()
        return {"message": self.message, "label": self.label, "span": span}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault or warning: code, message, the place and its label, other places, the cure."""

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()
    severity: Literal["error", "warning"] = "error"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as data, spans as `Span.as_dict` gives them."""
        return {
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            "label": self.label,
            "span": None if self.span is None else self.span.as_dict(),
            "notes": [note.as_dict() for note in self.notes],
        }


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


class NumberError(TCError, OverflowError, ValueError):
    """A number is none of the values of its parameter's type, or of what it sets."""


class AllocationError(TCError, MemoryError):
    """There is no memory for an output or a temporary."""


class BoundsError(TCError, IndexError):
    """A subscript read from data is outside its tensor."""


class FileError(TCError, OSError):
    """A file of definitions cannot be read."""


class ScheduleError(TCError, ValueError):
    """A schedule does not fit the nest or the group."""


class CompileError(TCError, RuntimeError):
    """The compiler is missing or refused a kernel; the message holds its log."""


class DeviceError(TCError, RuntimeError):
    """A device is missing or failed."""


class NoDeviceError(DeviceError, AssertionError):
    """There is no device at all, or what it needs is not installed."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A device has no memory left."""


class InternalError(AssertionError):
    """A broken promise of tcdsl itself; please report it."""


_CLASS_OF_HUNDRED: dict[str, type[TCError]] = {
    "TC0": TCSyntaxError,
    "TC1": TCTypeError,
    "TC2": RangeError,
    "TC3": TCTypeError,
    "TC4": ScheduleError,
    "TC5": CompileError,
}


def raise_all(diagnostics: Sequence[Diagnostic]) -> None:
    """Raise the errors among diagnostics as one exception; do nothing if there is none.

    The class follows from the code of the first error in the text: TC0xx `TCSyntaxError`, TC1xx
    and TC3xx `TCTypeError`, TC2xx `RangeError`, TC4xx `ScheduleError`, TC5xx `CompileError`.

    Parameters
    ----------
    diagnostics : sequence of Diagnostic
        In any order; equal ones count once. Warnings are passed over.

    Raises
    ------
    TCError
        Of the class above. Its text shows the first ten errors in the order of the text, its
        `diagnostics` holds all of them in that order.
    """
    errors = sorted(dict.fromkeys(d for d in diagnostics if d.severity == "error"), key=_place)
    if not errors:
        return
    shown = [render(error) for error in errors[:MAX_SHOWN]]
    if more := len(errors) - len(shown):
        shown.append(f"... and {more} more {'error' if more == 1 else 'errors'}")
    raise _CLASS_OF_HUNDRED[errors[0].code[:3]]("\n\n".join(shown), tuple(errors))


def raise_one(diagnostic: Diagnostic) -> NoReturn:
    """Raise one error; like `raise_all`, for the places that cannot go on."""
    assert diagnostic.severity == "error"
    raise _CLASS_OF_HUNDRED[diagnostic.code[:3]](render(diagnostic), (diagnostic,))


def _place(diagnostic: Diagnostic) -> tuple[str, int]:
    span = diagnostic.span
    return ("", -1) if span is None else (span.source.name, span.start)


def render(diagnostic: Diagnostic, *, color: bool = False) -> str:
    """Return the text of a diagnostic: place, code, message, excerpt, notes.

    Parameters
    ----------
    diagnostic : Diagnostic
        What to show.
    color : bool, default False
        Whether to add ANSI colours, for a terminal.

    Returns
    -------
    str
        Lines without a newline at the end.

    Examples
    --------
    >>> from tcdsl.grammar.text.source import Source
    >>> text = Source("def f(float(N) A) -> (B) { B(i) = A(j) }", "f.tc")
    >>> place = Span(36, 37, text)
    >>> print(render(Diagnostic("TC104", "'=' does not reduce", place, "not an index of B(i)")))
    f.tc:1:37: error[TC104]: '=' does not reduce
      |
    1 | def f(float(N) A) -> (B) { B(i) = A(j) }
      |                                     ^ not an index of B(i)
    """
    from tcdsl.grammar.text.excerpt import excerpt, paint_ansi, paint_plain  # on use: faults only

    paint = paint_ansi if color else paint_plain
    span = diagnostic.span
    where = ""
    if span is not None:
        line, column = span.source.line_col(span.start)
        where = f"{span.source.name}:{line}:{column}: "
    kind = paint(diagnostic.severity, f"{diagnostic.severity}[{diagnostic.code}]")
    lines = [f"{where}{kind}: {diagnostic.message}"]
    if span is not None:
        lines += excerpt(span, "^", diagnostic.label, diagnostic.severity, paint)
    for note in diagnostic.notes:
        lines.append(f"  {paint('note', 'note')}: {note.message}")
        if note.span is not None:
            lines += excerpt(note.span, "-", note.label, "note", paint)
    return "\n".join(lines)


def count(number: int, noun: str, plural: str = "") -> str:
    """Return "1 index", "2 dimensions"."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
