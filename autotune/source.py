"""A candidate as text: what a compiler reads, and when two texts are one candidate."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tcdsl.autotune.key import digest_of

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """What a config means to a compiler.

    Parameters
    ----------
    name : str
        The prefix of all names in text; the same for every candidate where each is compiled alone.
    text : str
    launch : mapping, optional
        What starting it takes beside its code, as JSON: a GPU's kernels do not know their grids.
    """

    name: str
    text: str
    launch: Mapping[str, Any] | None = None

    @property
    def fingerprint(self) -> str:
        """Digest of the text as the compiler sees it: without comments, spacing and its name."""
        plain = " ".join(_COMMENT.sub(" ", self.text).replace(self.name, "@").split())
        if self.launch is None:
            return digest_of(plain)
        return digest_of(plain + json.dumps(self.launch, sort_keys=True))
