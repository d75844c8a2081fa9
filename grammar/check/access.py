"""Where an expression stands, and the reads that are found there: for ranges and bounds."""

from __future__ import annotations

from dataclasses import replace

from tcdsl.grammar.check.scope import Tensor
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed as t
from tcdsl.grammar.types.dtypes import FLOAT32, DType

MAX_FACTS = 32  # of the conditions around one access


@dataclass(frozen=True, slots=True)
class End:
    """An end of a range, in which there are no new indices.

    indices: those that it may depend on. cure: what to do about another one.
    """

    indices: frozenset[str] = frozenset()
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """Where an expression stands.

    hint: the type of float literals beside integers. is_subscript: indices, sizes and literals are
    int64. decides: it is part of a condition. guarded: a condition decides whether it is evaluated,
    facts: sizes that are then >= 0. end: it is an end of a range.
    """

    hint: DType = FLOAT32
    is_subscript: bool = False
    decides: bool = False
    guarded: bool = False
    facts: tuple[Size, ...] = ()
    depth: int = 0
    lets: tuple[str, ...] = ()
    end: End | None = None

    def under(self, facts: tuple[Size, ...]) -> Context:
        """Return the place under a condition that tells these facts."""
        return replace(self, guarded=True, facts=(self.facts + facts)[-MAX_FACTS:])


@dataclass(frozen=True, slots=True)
class Access:
    """A read of an element, for ranges and bounds.

    padded: it stands in `pad`, so it may lie outside; only subscripts that are one bare index bound
    that index.
    """

    tensor: Tensor
    node: n.Apply
    subs: tuple[t.Expr, ...]
    symbolic_subs: tuple[Size, ...]
    context: Context
    padded: bool = False

    def bounds(self) -> list[tuple[Size, Size, Size]]:
        """Return subscripts, as sizes, that have to lie in [low, high), with low and high."""
        return [
            (value, low, high)
            for sub, value, (low, high) in zip(
                self.subs, self.symbolic_subs, self.tensor.bounds(), strict=True
            )
            if not self.padded or isinstance(sub, t.IndexValue)
        ]
