"""What the code of a fault means: its row in LANGUAGE.md, which lies beside this package."""

from __future__ import annotations

import re
from importlib.resources import files

from tcdsl.grammar.text.dataclass import dataclass

_ROW = re.compile(r"^\| (TC\d{3}) \| (.*?) \| (.*?) \| (?:`([^`]*)` )?\|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A kind of fault, its cure, and a text or a statement that has it, if it is short."""

    code: str
    fault: str
    cure: str
    example: str


def reference() -> str:
    """Return the language reference, LANGUAGE.md."""
    return files("tcdsl.grammar").joinpath("LANGUAGE.md").read_text(encoding="utf-8")


def explanations() -> dict[str, Explanation]:
    """Return what each code means.

    Examples
    --------
    >>> explanations()["TC302"].cure
    '`x != 0`'
    """
    rows = (Explanation(*row) for row in _ROW.findall(reference().replace("\\|", "|")))
    return {row.code: row for row in rows}
