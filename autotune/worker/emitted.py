"""A candidate as text: what a compiler reads, and when two texts are one candidate."""

from __future__ import annotations

import re

from tcdsl.autotune.store.key import digest_of
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.grammar.text.dataclass import dataclass

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Emitted:
    """What a config means to a compiler.

    Parameters
    ----------
    name : str
        The prefix of all names in text; the same for every candidate where each is compiled alone.
    text : str
    unit : Unit, optional
        Where text is not all there is to it: how a GPU's kernels are started.
    """

    name: str
    text: str
    unit: Unit | None = None

    @property
    def fingerprint(self) -> str:
        """Digest of the text as the compiler sees it: without comments, spacing and its name."""
        plain = " ".join(_COMMENT.sub(" ", self.text).replace(self.name, "@").split())
        return digest_of(plain + self.launches)

    @property
    def launches(self) -> str:
        """What decides a run beside the text: kernels, arguments, grids, memory."""
        return "" if self.unit is None else repr((self.unit.launches, self.unit.workspace))
