"""The output indices of a statement: which one walks memory, in which its write is injective."""

from __future__ import annotations

from collections import Counter

from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.program import subscripts
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.program import Statement


def innermost(operands: Operands, s: Statement) -> str | None:
    """Return the output index that walks memory in unit steps in most accesses, stores twice.

    A later index wins a tie: it is the one that the text runs through fastest. None if there is
    no output index.
    """
    accesses = [(s.target, s.subs, 2), *((r.tensor, r.subs, 1) for r in s.reads())]
    unit_steps: Counter[str] = Counter()
    for tensor, subs, weight in accesses:
        unit = operands.layout(tensor).unit
        a = None if unit is None or not subs else affine_of(subs[unit])
        for name, coefficient in () if a is None else a.terms:
            unit_steps[name] += weight if coefficient == 1 else 0
    best = max(reversed(s.outputs), key=lambda r: unit_steps[r.name], default=None)
    return None if best is None else best.name


def injective_in(s: Statement) -> frozenset[str]:
    """Return the output indices in which the written element is injective."""
    return subscripts.injective_in(s.subs, s.outputs)


def is_injective(s: Statement) -> bool:
    """Whether different output points write different elements."""
    return len(injective_in(s)) == len(s.outputs)
