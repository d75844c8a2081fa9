"""`{name}` in a text, as the first Python API of tensor comprehensions had it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Real

from tcdsl.grammar.text.errors import Diagnostic, TCTypeError, raise_all
from tcdsl.grammar.text.source import Source, Span

_FIELD = re.compile(r"\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")
# What `str.format` would see, and nothing it could reach: attributes, positions, widths.
_BRACE = re.compile(rf"\{{\{{|\}}\}}|{_FIELD.pattern}|\{{[^{{}}\n]{{0,40}}\}}|[{{}}]")
_CURE = "in a text with '{{', write '{name}' for a constant, '{{' and '}}' for braces"


def fill_constants(text: str, constants: Mapping[str, int | float | str], name: str) -> str:
    """Replace `{name}` in a text by the constant of that name.

    A text that holds ``{{`` was written for `str.format`: ``{{`` and ``}}`` are its braces, and
    every other brace belongs to a field. In any other text only the named fields are replaced, so
    that the braces of a def stay as they are.

    Raises
    ------
    TCSyntaxError
        If a field has no constant or is more than a name; it shows the place in the text.
    TCTypeError
        If a constant is no number and no text.
    """
    source = Source(text, name)
    known = ", ".join(f"'{c}'" for c in constants) or "none"
    values = {c: _text_of(c, value) for c, value in constants.items()}
    faults: list[Diagnostic] = []

    def filled(found: re.Match[str]) -> str:
        if found[1] in values:
            return values[found[1]]
        span = Span(*found.span(), source)
        if found[1] is not None:
            message = f"no constant '{found[1]}'"
            faults.append(Diagnostic("TC090", message, span, f"constants given: {known}"))
        elif found[0] not in ("{{", "}}"):
            message = f"'{found[0]}' is no constant"
            faults.append(Diagnostic("TC090", message, span, _CURE))
        return found[0][0]

    # `-> (O) {x}` cannot be a body, so a braced bare name is always a field
    result = (_BRACE if "{{" in text else _FIELD).sub(filled, text)
    raise_all(faults)
    return result


def _text_of(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TCTypeError(
            f"constant '{name}': expected a number or a text, got a {type(value).__name__}"
        )
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise TCTypeError(f"constant '{name}' is no integer of 64 bits")
    return str(value)
