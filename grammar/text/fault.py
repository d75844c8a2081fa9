"""A fault of a program on its way to the report: no user ever sees the exception."""

from __future__ import annotations

from tcdsl.grammar.text.errors import Diagnostic, Note
from tcdsl.grammar.text.source import Span


class FaultError(Exception):
    """A diagnostic on its way to the report; the statement it is in is given up."""

    def __init__(
        self, code: str, message: str, span: Span | None, label: str = "", *notes: Note | None
    ) -> None:
        super().__init__(message)
        kept = tuple(x for x in notes if x is not None)
        self.diagnostic = Diagnostic(code, message, span, label, kept)
