"""Which sizes share the choice for a size-generic executable.

The choice is made at sizes that stand for all (`choose/nominal.py`), so that it is the same whoever
calls first. Where none is right for all sizes a form asks whether one, or a product of them, is at
least a number: whether an output is larger than the caches, whether there are rows enough for
all threads. Sizes that have the same answers share the choice and so the executable; a new one
costs these few comparisons.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tcdsl.grammar.proofs.plain import from_plain, plain
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Regime:
    """Sizes by what a choice depends on: (what, number, whether it is at least that)."""

    answers: tuple[tuple[Size, int, bool], ...] = ()

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the choice is that for these sizes."""
        return all((size.evaluate(sizes) >= n) is answer for size, n, answer in self.answers)

    def to_plain(self) -> list[object]:
        """Return it as lists, texts and numbers."""
        return [[plain(size), n, answer] for size, n, answer in self.answers]

    @staticmethod
    def from_plain(value: object, names: Collection[str]) -> Regime:
        """Return what `to_plain` gave, of sizes that have these names; value may be anything.

        Raises
        ------
        ValueError
            If it is not that.
        """
        if not isinstance(value, list):
            raise ValueError("a regime is a list of answers")
        answers = []
        for one in value:
            match one:
                case [terms, int() as n, bool() as answer]:
                    size = from_plain(terms)
                    if not {*size.symbols()} <= {*names}:
                        raise ValueError("it is a size of another definition")
                    answers.append((size, n, answer))
                case _:
                    raise ValueError("an answer is a size, a number and a truth value")
        return Regime(tuple(answers))


class Asked:
    """The sizes of a call, of which a choice may ask only this; what it asked is kept."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._answers: dict[tuple[Size, int], bool] = {}

    def knows(self, size: Size) -> bool:
        """Whether a size follows from those of the call: a turn of a loop is none of them."""
        return all(name in self._sizes for name in size.symbols())

    def at_least(self, size: Size, least: int) -> bool:
        """Whether a size is at least that at this call."""
        answer = size.evaluate(self._sizes) >= least
        if size.constant is None:
            self._answers[size, least] = answer
        return answer

    @property
    def regime(self) -> Regime:
        """The sizes that would have been answered alike."""
        return Regime(tuple((*asked, answer) for asked, answer in self._answers.items()))
