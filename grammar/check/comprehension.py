"""A comprehension while it is checked: its names, its ranges, what is known at its points."""

from __future__ import annotations

from dataclasses import field

from tcdsl.grammar.check.expressions import Typer
from tcdsl.grammar.check.scope import Frame, StatementScope, Tensor
from tcdsl.grammar.check.state import CheckState
from tcdsl.grammar.proofs.ranges import Interval, Prover
from tcdsl.grammar.proofs.signs import is_nonnegative, maximum
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.types import typed as t


@dataclass(frozen=True, slots=True)
class Clause:
    """A range that `where` gives, as symbolic values.

    is_ragged: it depends on other indices, whose checked names needs has, or on data.
    """

    node: n.RangeClause
    low: Size
    high: Size
    is_ragged: bool = False
    needs: frozenset[str] = frozenset()


@dataclass(slots=True)
class Comprehension:
    """What the steps of `statement.py` share.

    domain: solved ranges, inclusive on both ends, by the checked name of the index; of a ragged
    one all values that it may have. ragged: those ranges, by that name; unbounded: those of which
    sizes do not say what values they may have.
    subs, symbolic_subs: the subscripts of the target, typed and as symbolic values. meets: it
    assigns through data, so that points may write one element: the last of them wins.
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
    ragged: dict[str, Clause] = field(default_factory=dict)
    unbounded: set[str] = field(default_factory=set)
    meets: bool = False

    @property
    def name(self) -> str:
        """What the text calls the target."""
        return self.node.target.name

    def facts(self, value: Size, *, of_elements: bool = False) -> tuple[Size, ...]:
        """Return sizes that ragged ranges make >= 0 at every point, to judge a subscript by.

        of_elements: at every element that is written, whether anything is reduced into it or not.
        Data may change and says nothing, nor do other ranges of what depends on it: it is checked.
        """
        if not self.unbounded.isdisjoint(value.symbols()):
            return ()
        found: list[Size] = []
        left_out = self._reduced() if of_elements else ()
        for name, clause in self.ragged.items():
            if name in left_out:
                continue
            at = Size.symbol(name, signed=True)
            sides = (at - clause.low, clause.high - 1 - at)
            found += [s for s in sides if not any(x.startswith("?") for x in s.symbols())]
        return tuple(found)

    def is_ragged(self, value: Size) -> bool:
        """Whether an index with a ragged range is in a value: none of its ends need be taken."""
        return not self.ragged.keys().isdisjoint(value.symbols())

    def _reduced(self) -> frozenset[str]:
        return frozenset(x.name for x in self.scope.indices.values() if x.kind == "reduction")

    def extents(self, *, of_elements: bool = False) -> tuple[Size, ...]:
        """Return the number of values of each index that has as many at all points, less one.

        of_elements: of the indices on the left alone. What is written is there to be started, or to
        be added to, where nothing is reduced into it too.
        """
        lasts = []
        left_out = self._reduced() if of_elements else ()
        for index in self.scope.indices.values():
            if index.name in self.ragged or index.name in left_out:
                continue
            at = self.domain[index.name]
            assert at.low is not None
            assert at.high is not None
            lasts.append(at.high - at.low)
        return tuple(lasts)

    def prover(self, *, of_elements: bool = False) -> Prover:
        """Return what is known at the points of the statement, or at the elements it writes."""
        turns = self.state.turns.values()
        lasts = (x.high - x.low for x in turns if x.low is not None and x.high is not None)
        known = self.domain | self.typer.symbolic.unknowns
        extents = self.extents(of_elements=of_elements)
        return Prover(known, (*extents, *lasts), self.state.turns)

    def demand(
        self, size: Size, message: str, span: Span | None, *, of_elements: bool = False
    ) -> bool:
        """Make calls check size >= 0 unless the statement has no point; False: always wrong.

        of_elements: unless it writes no element.
        """
        if is_nonnegative(-size - 1):
            return False
        extents = self.extents(of_elements=of_elements)
        empty = [-last - 1 for last in extents if not is_nonnegative(last)]
        return self.state.demand(maximum(size, *empty), message, span)
