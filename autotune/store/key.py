"""What a tuned config was tuned for. Standard library only: every process start reads it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from tcdsl.autotune.store.untrusted import sizes_in
from tcdsl.codegen.machine.plainjson import loads
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass

_MOST = 1024  # dtypes


def digest_of(text: str) -> str:
    """Return the short content name used in keys: 16 hex digits of SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ProblemKey:
    """One tuning problem; two problems share a config only if all of this is equal.

    text : digest of the definition's structural text, in which names do not matter.
    dtypes, layout : of the operands, parameters then returns; layout with its alignment class.
    sizes : values of the symbolic sizes, in the order of the definition.
    target : "cpu avx512", "cuda sm_90": with the real instruction set.
    compiler, generator : versions; another compiler or another code generator makes other code.
    """

    text: str
    dtypes: tuple[str, ...]
    layout: str
    sizes: tuple[int, ...]
    target: str
    threads: int
    compiler: str
    generator: str

    @cached_property
    def family(self) -> str:
        """Name of the problem with its sizes left open: where a neighbour's config comes from."""
        return digest_of(json.dumps(asdict(self) | {"sizes": None}, sort_keys=True))

    @cached_property
    def digest(self) -> str:
        """Name of the problem."""
        return digest_of(f"{self.family} {self.sizes}")

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: object) -> ProblemKey:
        """Read what `to_json` wrote.

        Raises
        ------
        ValueError
            If it is anything else: the text may come from any file.
        """
        match loads(text):
            case {
                "text": str(text),
                "dtypes": list(dtypes),
                "layout": str(layout),
                "sizes": list(sizes),
                "target": str(target),
                "threads": int(threads),
                "compiler": str(compiler),
                "generator": str(generator),
                **rest,
            } if not rest and len(dtypes) <= _MOST and all(isinstance(d, str) for d in dtypes):
                values = (text, tuple(dtypes), layout, sizes_in(sizes))
                return ProblemKey(*values, target, threads, compiler, generator)
        raise ValueError("it is no key of a problem")
