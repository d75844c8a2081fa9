"""What a form is told about the group it makes a nest of."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from typing import Any, Generic, TypeVar

from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.base.regime import Asked
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.group import Group
from tcdsl.codegen.program.program import Program
from tcdsl.grammar.proofs.signs import constants, is_nonnegative, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass

M = TypeVar("M", Machine, Gpu)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupContext(Generic[M]):
    """One group under one specialisation, for one kind of machine.

    sizes are representative values of the symbols, for knobs, defaults and costs (the exact ones
    where the spec is exact). Functions are named `prefix_...`.

    On the CPU the group may use `plan->param[param_base]` and following, up to
    `Lowered.params_used`. Its own part of the memory that all tasks share
    (`Lowered.shared_bytes`: packed operands, partial sums) begins at byte shared_base of
    `args->shared`, 64-byte aligned. On a GPU params do not exist and shared_base is 0: kernels
    get the address of each block of memory by itself.

    asked has the sizes of a call that a size-generic executable is chosen for, where sizes are ones
    that stand for all: the choice asks them by `at_least` only.

    known holds what `once` was asked for. A copy with another prefix or param_base shares it: the
    tuner lowers hundreds of configs of one group.
    """

    program: Program
    group: Group
    spec: Spec
    machine: M
    sizes: Mapping[str, int]
    prefix: str
    param_base: int
    shared_base: Expr
    operands: Operands
    asked: Asked | None = None
    known: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return what make returned when first asked by this name.

        For what follows from program, group, spec, machine and sizes, and not from the names or
        the knobs of one config.
        """
        if name not in self.known:
            self.known[name] = make()
        value: T = self.known[name]
        return value

    def bind(self, size: Size) -> Size:
        """Return a size with those put in that are known."""
        return substitute_symbols(size, constants(self.spec.sizes))

    def knows(self, size: Size) -> bool:
        """Whether a size is chosen for: all are of exact sizes, those too that follow from data."""
        return self.is_exact() or self.bind(size).constant is not None

    def extent(self, size: Size) -> int:
        """Return the representative value of a size."""
        return size.evaluate(self.sizes)

    def at_least(self, size: Size, least: int) -> bool:
        """Whether a size is at least that, where the choice for all sizes depends on it."""
        if self.asked is not None and self.asked.knows(size):
            return self.asked.at_least(size, least)
        return self.extent(size) >= least

    def value_up_to(self, size: Size, most: int) -> int | None:
        """Return the value of a size that the text may count on; None if it is more than most.

        Where sizes are unknown it is asked for by halves, so that it is that of all sizes of the
        regime: few questions, each of which parts regimes and is put to every new size. What counts
        on it has a knob with that value: executables are told apart by configs. So a form asks last
        of all that it asks.
        """
        known = self.bind(size)
        if known.constant is not None:
            return known.constant if known.constant <= most else None
        if self.asked is None or not self.asked.knows(size):
            return None
        if not (is_nonnegative(known) or self.asked.at_least(size, 0)):
            return None
        low, above = 0, most + 1
        if self.asked.at_least(size, above):
            return None
        while above - low > 1:
            middle = (low + above) // 2
            if self.asked.at_least(size, middle):
                low = middle
            else:
                above = middle
        return low

    def is_exact(self) -> bool:
        """Whether all sizes are constants of the executable."""
        return self.spec.is_exact


Context = GroupContext[Machine]
GpuContext = GroupContext[Gpu]
