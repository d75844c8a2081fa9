"""A file of definitions, read."""

from __future__ import annotations

import os
from os import PathLike

from tcdsl.grammar.text.errors import Diagnostic, FileError, TCSyntaxError, raise_one
from tcdsl.grammar.text.source import MAX_TEXT_BYTES


def read_text(path: str | PathLike[str]) -> str:
    """Return the text of a file in UTF-8, with or without the mark that some editors write.

    Raises
    ------
    FileError
        If it cannot be read; an `OSError` too.
    TCSyntaxError
        If it is not UTF-8 or too long.
    """
    name = os.fsdecode(path)
    try:
        with open(name, "rb") as file:
            data = file.read(MAX_TEXT_BYTES + 4)  # the mark, and a byte too many
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise FileError(f"the text {name} cannot be read: {why}") from error
    if len(data) > MAX_TEXT_BYTES + 3:
        message = f"the text {name} is too long; the most is {MAX_TEXT_BYTES} bytes"
        raise_one(Diagnostic("TC016", message))
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise TCSyntaxError(
            f"the text {name} is not UTF-8: {error.reason} at byte {error.start}\n"
            "  save it as UTF-8, or pass what it holds, path.read_text(encoding=...)"
        ) from None
