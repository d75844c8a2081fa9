"""What products of sizes count: points and elements that exist, so they are no large numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import prod

from tcdsl.codegen.loops.loopir import Bin, Const, Expr, Var
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.machine.spec import SMALL
from tcdsl.codegen.narrow.spans import Span
from tcdsl.codegen.program.program import Program
from tcdsl.grammar.proofs.sizes import Size

FAR = (-(1 << 47), 1 << 47)  # elements, more than any device has bytes


class Counts:
    """The expressions over sizes that are known to count something.

    Parameters
    ----------
    program
        Its results, outputs of statements and reductions are boxes of points.
    is_small
        Whether each of these has fewer than SMALL points, as `Spec.is_small` says.
    """

    def __init__(self, program: Program, *, is_small: bool) -> None:
        self._sizes = {safe_name(n): Size.symbol(n) for n in program.sizes}
        self._free = {safe_name(n) for n in program.scalars}  # any number, not a size
        boxes = [x.shape for x in program.buffers if x.role != "param"]
        for s in program.statements:
            boxes += [tuple(r.extent for r in rs) for rs in (s.outputs, s.reductions)]
        self._small = frozenset(_parts(boxes)) if is_small else frozenset[Size]()
        self._found: dict[Expr, Span | None] = {}

    def bounds(self, e: Expr) -> Span | None:
        """Return the interval of an expression that counts, or multiplies sizes; else None."""
        if e not in self._found:
            self._found[e] = self._bounds(e)
        return self._found[e]

    def _bounds(self, e: Expr) -> Span | None:
        factors = list(self._factors(e))
        known = [f for f in factors if f is not None]
        if len(known) < len(factors):
            return None
        if prod(known, start=Size.const(1)) in self._small:
            return 0, SMALL
        varying = [f for f in known if f.symbols()]
        return FAR if len(varying) == len(known) > 1 else None

    def _factors(self, e: Expr) -> Iterator[Size | None]:
        """Yield the factors of a product; what is divided, rounded up, by what it is at most."""
        match e:
            case Bin("*", x, y):
                yield from self._factors(x)
                yield from self._factors(y)
            case Bin("/", Bin("+", x, Const(int(more))), Const(int(by))) if 0 <= more < by:
                yield self._size(x)
            case _:
                yield self._size(e)

    def _size(self, e: Expr) -> Size | None:
        match e:
            case Const(int(value)):
                return Size.const(value)
            case Var(name):
                return None if name in self._free else self._sizes.get(name)
            case Bin("+" | "-" | "*" as op, x, y):
                a, b = self._size(x), self._size(y)
                if a is None or b is None:
                    return None
                return a + b if op == "+" else a - b if op == "-" else a * b
            case _:
                return None


def _parts(boxes: Iterable[tuple[Size, ...]]) -> Iterator[Size]:
    """Yield the number of points of each box, and of boxes of some of its dimensions."""
    for box in boxes:
        for n in range(1, len(box) + 1):
            for some in combinations(box, n):
                yield prod(some, start=Size.const(1))
