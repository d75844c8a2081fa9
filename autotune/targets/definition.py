"""A checked definition at exact sizes as a tuning problem: what all targets share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tcdsl.codegen.machine.spec import Spec
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.typed import CheckedDef

if TYPE_CHECKING:
    from tcdsl.autotune.worker.case import Case
    from tcdsl.codegen.program.program import Program

Strides = Sequence[tuple[int, ...] | None]


@dataclass(frozen=True)
class DefinitionProblem:
    """One kernel at one set of sizes, dtypes and layouts, on a target that a subclass knows.

    Parameters
    ----------
    checked : CheckedDef
    spec : Spec
        With exact sizes.
    strides : sequence, optional
        Per operand, parameters then returns, in elements; None, one or all, is C order. They have
        to be of the layout classes of spec.
    given : mapping, optional
        Arguments that trials use as they are: rank-0 parameters such as an epsilon.
    seed : int
        Of the random arguments.
    """

    checked: CheckedDef
    spec: Spec
    strides: Strides | None = None
    given: Mapping[str, Any] | None = None
    seed: int = 0

    @cached_property
    def program(self) -> Program:
        """The SSA form."""
        from tcdsl.codegen.program.ssa import program_of  # on use, as below

        return program_of(self.checked)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The exact sizes."""
        assert self.spec.sizes is not None
        return dict(self.spec.sizes)

    @property
    def name(self) -> str:
        """Name for people, with the sizes."""
        return " ".join([self.checked.name, *(f"{n}={v}" for n, v in self.sizes.items())])

    @property
    def text(self) -> str:
        """TC text."""
        return self.program.text

    def case(self) -> Case:
        """Return inputs and what has to come out.

        Raises
        ------
        UntunedError
            If the results depend on the last bits of all inputs that were tried.
        """
        from tcdsl.autotune.targets.expected import case_of  # on use: who looks up tunes nothing

        return case_of(self)
