"""What tuned configs of a definition are stored under, on any target."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from tcdsl import codegen
from tcdsl.autotune.store.key import ProblemKey, digest_of
from tcdsl.autotune.targets.structural_text import structural_text
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain.records import digest_of_sources
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.typed import CheckedDef

_EVER = 1 << 63


@dataclass(frozen=True, slots=True)
class Structure:
    """What of a definition decides its key: its text without names, and the types of operands.

    text: its digest.
    """

    text: str
    dtypes: tuple[str, ...]

    @staticmethod
    def of(checked: CheckedDef) -> Structure:
        """Return the structure of a definition."""
        dtypes = tuple(t.dtype.name for t in (*checked.params, *checked.returns))
        return Structure(digest_of(structural_text(checked)), dtypes)


def key_for(of: CheckedDef | Structure, spec: Spec, target: str, compiler: str) -> ProblemKey:
    """Return the key of a definition at exact sizes and layouts on a target."""
    assert spec.sizes is not None
    structure = of if isinstance(of, Structure) else Structure.of(of)
    return ProblemKey(
        text=structure.text,
        dtypes=structure.dtypes,
        layout=repr(spec.layouts) + (" deterministic" if spec.is_deterministic else ""),
        sizes=tuple(value for _, value in spec.sizes),
        target=target,
        threads=spec.threads,
        compiler=compiler,
        generator=generator_version(),
    )


@functools.cache
def generator_version() -> str:
    """Return the digest of the files that decide emitted code."""
    root = Path(str(codegen.__file__)).parent
    digest = digest_of_sources([root], before_ns=_EVER)  # known, where none has changed
    if digest is None:  # there is no source in Python, or one changes at the moment
        files = sorted(p for p in root.rglob("*") if p.suffix in (".h", ".cuh") and p.is_file())
        digest = hashlib.sha256(b"\0".join(p.read_bytes() for p in files)).hexdigest()
    return digest[:12]
