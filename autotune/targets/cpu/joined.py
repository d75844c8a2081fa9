"""Candidates joined into one unit, micro-kernels that several of them have standing there once.

What a compiler takes for a product goes to its register tiles, and candidates that differ in
blocks have the same ones. Only what is neither inlined nor cloned (`TC_MICRO`) may be one: its
code, and that of who calls it, is what each candidate has alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tcdsl.autotune.worker.emitted import Emitted

_MICRO = re.compile(r"^static TC_MICRO [^\n]*?(?P<name>\w+)\([^\n]*\{\n.*?^\}\n\n?", re.M | re.S)
_OWN = "@"  # in place of a candidate's name


def joined(sources: Sequence[Emitted]) -> str:
    """Return the text of one unit with all candidates, their micro-kernels shared."""
    known: dict[str, str] = {}  # by text without names: the name that the unit has it by
    return "\n".join(_shared(source, known) for source in sources)


def _shared(source: Emitted, known: dict[str, str]) -> str:
    names: dict[str, str] = {}

    def once(found: re.Match[str]) -> str:
        name, text = found["name"], found[0]
        plain = re.sub(rf"\b{name}\b", _OWN, text)
        if source.name in plain:  # it stands on more of its candidate's own
            return text
        first = known.setdefault(plain, name)
        if first == name:
            return text
        names[name] = first
        return ""

    text = _MICRO.sub(once, source.text)
    if not names:
        return text
    return re.sub(rf"\b{source.name}\w*", lambda m: names.get(m[0], m[0]), text)
