"""What the output indices of a statement say of memory: which one walks it, which tell elements."""

from __future__ import annotations

from collections.abc import Mapping

from tcdsl.codegen.lower.operands import Operands
from tcdsl.codegen.program import Affine, Statement, affine_of, indices_of


def innermost(operands: Operands, s: Statement) -> str | None:
    """Return the output index that walks memory in unit steps in most accesses, stores twice.

    A later index wins a tie: it is the one that the text runs through fastest. None if there is
    no output index.
    """
    accesses = [(s.target, s.subs, 2), *((r.tensor, r.subs, 1) for r in s.reads())]

    def unit_steps(name: str) -> int:
        return sum(
            weight
            for tensor, subs, weight in accesses
            for d, e in enumerate(subs)
            if d == operands.layout(tensor).unit
            and name in indices_of(e)
            and (a := affine_of(e)) is not None
            and a.coefficient(name) == 1
        )

    best = max(reversed(s.outputs), key=lambda r: unit_steps(r.name), default=None)
    return None if best is None else best.name


def told(s: Statement) -> frozenset[str]:
    """Return output indices whose values the written element tells.

    Points that differ in one of them write different elements: `O(i + j, j)` tells `j` by its
    second subscript and then `i`; `O(2 * h + r)` with r in 0:2 both; `H(I(b), d)` tells `d` only.
    """
    extents = {r.name: r.extent.constant for r in s.outputs}
    free = set(extents)
    forms = [affine_of(e) for e in s.subs]
    while True:
        found = {n for a in forms if a is not None for n in _digits(a, free, extents)}
        if not found:
            return frozenset(r.name for r in s.outputs) - free
        free -= found


def _digits(a: Affine, free: set[str], extents: Mapping[str, int | None]) -> list[str]:
    """Return the free indices of a form if they are the digits of a number, else nothing."""
    terms = sorted(((abs(c), name) for name, c in a.terms if name in free))
    reach = 0  # the largest that the digits so far make
    for k, (factor, name) in enumerate(terms):
        extent = extents[name]
        if factor <= reach or (extent is None and k + 1 < len(terms)):
            return []
        reach += factor * ((extent or 1) - 1)
    return [name for _, name in terms]


def all_told(s: Statement) -> bool:
    """Whether different output points write different elements."""
    return len(told(s)) == len(s.outputs)
