"""A comprehension while it is checked: its names, its ranges, what is known at its points."""

from __future__ import annotations

from dataclasses import dataclass

from tcdsl.grammar.check.expressions import Typer
from tcdsl.grammar.check.scope import Frame, StatementScope, Tensor
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.proofs.ranges import Interval, Prover
from tcdsl.grammar.proofs.signs import is_nonnegative, maximum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t


@dataclass(slots=True)
class Comprehension:
    """What the steps of `statement.py` share.

    domain: solved ranges, inclusive on both ends, by the checked name of the index.
    subs, symbolic_subs: the subscripts of the target, typed and as symbolic values.
    """

    state: CheckState
    frame: Frame
    node: n.Comprehension
    target: Tensor
    scope: StatementScope
    typer: Typer
    domain: dict[str, Interval]
    subs: tuple[t.Expr, ...] = ()
    symbolic_subs: tuple[Size, ...] = ()

    @property
    def name(self) -> str:
        """What the text calls the target."""
        return self.node.target.name

    def extents(self) -> tuple[Size, ...]:
        """Return the number of values of each index, less one."""
        lasts = []
        for index in self.scope.indices.values():
            at = self.domain[index.name]
            assert at.low is not None
            assert at.high is not None
            lasts.append(at.high - at.low)
        return tuple(lasts)

    def prover(self) -> Prover:
        """Return what is known at the points of the statement."""
        turns = self.state.turns.values()
        lasts = (x.high - x.low for x in turns if x.low is not None and x.high is not None)
        known = self.domain | self.typer.symbolic.unknowns
        return Prover(known, (*self.extents(), *lasts), self.state.turns)

    def demand(self, size: Size, message: str, span: Span | None) -> bool:
        """Make calls check size >= 0 unless the statement has no point; False: always wrong."""
        if is_nonnegative(-size - 1):
            return False
        empty = [-last - 1 for last in self.extents() if not is_nonnegative(last)]
        return self.state.demand(maximum(size, *empty), message, span)
