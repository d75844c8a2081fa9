"""`{name}` in a text, as the first Python API of tensor comprehensions had it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tcdsl.grammar.errors import Diagnostic, raise_all
from tcdsl.grammar.source import Source, Span

_FIELD = re.compile(r"\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")


def fill_constants(text: str, constants: Mapping[str, int | float | str], name: str) -> str:
    """Replace `{name}` in a text by the constant of that name.

    A text that holds ``{{`` was written for `str.format` and goes through it; in any other text
    only the named fields are replaced, so that the braces of a def stay as they are.

    Raises
    ------
    TCSyntaxError
        If a field has no constant; it shows the place in the text.
    """
    if "{{" in text:
        fields = [m for m in _FIELD.finditer(text) if not _doubled(text, m.start())]
    else:
        # `-> (O) {x}` cannot be a body, so a braced bare name is always a field
        fields = list(_FIELD.finditer(text))
    source = Source(text, name)
    known = ", ".join(f"'{c}'" for c in constants) or "none"
    raise_all(
        [
            Diagnostic(
                "TC090",
                f"no constant '{m[1]}'",
                Span(m.start(), m.end(), source),
                f"constants given: {known}",
            )
            for m in fields
            if m[1] not in constants
        ]
    )
    if "{{" in text:
        return text.format(**constants)
    return _FIELD.sub(lambda m: str(constants[m[1]]), text)


def _doubled(text: str, start: int) -> bool:
    return text[start : start + 2] == "{{" or text[max(0, start - 1) : start] == "{"
