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

    def counted(
        self, task: Var, counts: Sequence[tuple[str, Expr]]
    ) -> tuple[list[Expr], list[Stmt], Stmt | None]:
        """Return the digits of a phase's task, what precedes its tasks, and what ends each.

        Where counts are known they are `digits`. Else they are counted up from task to task: three
        divisions took a tenth of the time of 8192 products of 16x32 by 32x16.
        """
        extents = [b.value_of(count) for _, count in counts]
        used = [n for n, extent in enumerate(extents) if extent != 1]
        if all(extents[n] is not None for n in used[:-1]):
            return self.digits(task, counts, lambda n: f"rest_{n}"), [], None
        out: list[Expr] = [b.c64(0)] * len(counts)
        first, step = Lets(self.var), b.block()
        rest: Expr = b.BEGIN
        for n in used:
            name, count = counts[n]
            out[n] = digit = self.var(name)
            value = rest if n == used[-1] else b.mod(rest, count)
            first.stmts.append(Let(digit, value, mutable=True))
            if n != used[-1]:
                rest = first.let(f"rest_{n}", b.div(rest, count))
        for n in reversed(used):
            name, count = counts[n]
            digit = self.var(name)
            carry = b.when(b.compare("==", digit, count), b.assign(digit, 0), step)
            step = b.block(b.assign(digit, b.add(digit, 1)), None if n == used[-1] else carry)
        return out, first.stmts, step


def pick(v: Expr, options: Sequence[tuple[int, Stmt]]) -> Stmt:
    """Return the choice among ascending values as a balanced tree of comparisons."""
    if len(options) == 1:
        return options[0][1]
    half = len(options) // 2
    low, high = pick(v, options[:half]), pick(v, options[half:])
    return If(b.compare("<=", v, options[half - 1][0]), low, high)
