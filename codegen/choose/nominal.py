"""Sizes that stand for all: what a size-generic executable of the CPU is chosen and costed by.

They follow from the program alone. So the executable is the same in every process, whichever sizes
ask first, and can be found again without a question to them.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from tcdsl.codegen.program.program import Program
from tcdsl.grammar.proofs.sizes import Size

_USUAL, _LEAST = 128, 16  # of a size: whole vectors, more than any form asks for
_MOST_ELEMENTS = 1 << 18  # of a buffer: 1 MB of float32, about what the second level holds
_WINDOW = 3  # of a size that others are shortened by


@lru_cache(maxsize=256)
def nominal_sizes(program: Program) -> tuple[tuple[str, int], ...]:
    """Return usual values of the sizes, at which all ranges of the statements have values.

    Windows are small: of `Y(w) +=! X(w + k) * K(k)` the range of w is `W - KW + 1`.
    """
    extents = (r.extent for s in program.statements for r in s.ranges if r.bounds is None)
    negative = (Size(((factors, 1),)) for e in extents for factors, c in e.terms if c < 0)
    taken = {name for size in negative for name in size.symbols()}
    shapes = [[s for s in b.shape if not program.depends(s)] for b in program.buffers]
    usual = 2 * _USUAL
    while True:
        usual //= 2
        sizes = {n: _WINDOW if n in taken else usual for n in program.sizes}
        elements = (prod(max(1, s.evaluate(sizes)) for s in shape) for shape in shapes)
        if usual <= _LEAST or max(elements, default=0) <= _MOST_ELEMENTS:
            return tuple(sizes.items())
