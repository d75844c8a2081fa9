"""Values of a phase under names, constants under none; what a flat number stands for; choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, If, Let, Stmt, Var
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Lets:
    """Gives names to values; constants need none. var: a local variable of the phase."""

    var: Callable[[str], Var]
    stmts: list[Stmt] = field(default_factory=list)

    def let(self, name: str, value: Expr) -> Expr:
        """Return value by name."""
        if b.value_of(value) is not None:
            return value
        v = self.var(name)
        self.stmts.append(Let(v, value))
        return v

    def digits(
        self, number: Expr, counts: Sequence[tuple[str, Expr | int]], rest: Callable[[int], str]
    ) -> list[Expr]:
        """Return the digits of a number, the fastest first, in a system of these counts.

        rest: the name of what is left above digit n.
        """
        out: list[Expr] = []
        extents = [b.value_of(b.expr(count)) for _, count in counts]
        for n, (name, count) in enumerate(counts):
            if extents[n] == 1:
                out.append(b.c64(0))
            elif all(later == 1 for later in extents[n + 1 :]):
                out.append(self.let(name, number))
            else:
                out.append(self.let(name, b.mod(number, count)))
                number = self.let(rest(n), b.div(number, count))
        return out


def pick(v: Expr, options: Sequence[tuple[int, Stmt]]) -> Stmt:
    """Return the choice among ascending values as a balanced tree of comparisons."""
    if len(options) == 1:
        return options[0][1]
    half = len(options) // 2
    low, high = pick(v, options[:half]), pick(v, options[half:])
    return If(b.compare("<=", v, options[half - 1][0]), low, high)
