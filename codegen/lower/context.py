"""What a lowering is told about the group it lowers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tcdsl.codegen.group import Group
from tcdsl.codegen.loopir import Expr
from tcdsl.codegen.lower.operands import Operands
from tcdsl.codegen.machine import Machine
from tcdsl.codegen.program import Program
from tcdsl.codegen.spec import Spec
from tcdsl.grammar.sizes import Size


@dataclass(frozen=True, slots=True)
class Context:
    """One group under one specialisation.

    sizes are representative values of the symbols, for knobs, defaults and costs (the exact ones
    where the spec is exact). Functions are named `prefix_...`. The group may use
    `plan->param[param_base]` and following, up to `Lowered.params_used`. Its own part of the
    memory that all tasks share (`Lowered.shared_bytes`: packed operands, partial sums) begins at
    byte shared_base of `args->shared`, 64-byte aligned.
    """

    program: Program
    group: Group
    spec: Spec
    machine: Machine
    sizes: Mapping[str, int]
    prefix: str
    param_base: int
    shared_base: Expr
    operands: Operands

    def extent(self, size: Size) -> int:
        """Return the representative value of a size."""
        return size.evaluate(self.sizes)

    def is_exact(self) -> bool:
        """Whether all sizes are constants of the executable."""
        return self.spec.sizes is not None
