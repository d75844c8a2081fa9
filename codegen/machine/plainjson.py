"""JSON from files that anybody may have written: what is too large or too deep is not parsed."""

from __future__ import annotations

import json
from typing import NoReturn

MOST_CHARS = 1 << 16
MOST_BRACKETS = 64  # a text with so many cannot be nested deeper


def loads(text: object, most_chars: int = MOST_CHARS, most_brackets: int = MOST_BRACKETS) -> object:
    """Return the value of a JSON text.

    Raises
    ------
    ValueError
        If it is no text, not JSON (NaN and Infinity are not), too long, or may be nested too deep.
    """
    if not isinstance(text, str) or len(text) > most_chars:
        raise ValueError(f"expected a text of at most {most_chars} characters")
    if text.count("[") + text.count("{") > most_brackets:
        raise ValueError(f"expected at most {most_brackets} brackets")
    try:
        return _DECODER.decode(text)
    except RecursionError:  # where a caller allows that many brackets
        raise ValueError("it is nested too deep") from None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)  # `json.loads` would make one for each text
