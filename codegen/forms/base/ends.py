"""Loops over ranges whose bounds depend on the loops around them, or on data.

    const tc_i64 t_0 = tc_once_i64(off + b);
    const tc_i64 t_1 = tc_once_i64(off + b + 1);
    for (tc_i64 l = t_0; l < t_1; l++) ..

Each bound is read once where its loop begins, so what the loop does sees the same number.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Call, Expr, For, Let, Serial, Simd, Stmt
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.loops.walk import all_exprs, variables, walk_expr
from tcdsl.grammar.types.typed import Range


class LoopEnds:
    """The first values and the ends of the loops of a statement.

    Parameters
    ----------
    values
        Lowers the expressions of the statement, which come after its bounds: what a bound reads
        they find read.
    ranges
        In their order; a ragged one stands inside of those that its bounds name.
    """

    def __init__(self, values: Values, ranges: Sequence[Range]) -> None:
        self._values = values
        self._ragged: dict[str, tuple[list[Stmt], Expr, Expr]] = {}
        for r in ranges:
            if r.bounds is not None:
                low, high = map(values.subscript, r.bounds)
                first = values.take()
                if any(isinstance(e, Call) for e in walk_expr(high)):
                    end = b.i64(values.operands.local(f"{r.name}_end"))
                    first.append(Let(end, high))
                    high = end
                self._ragged[r.name] = first, low, high

    def depend_on(self, ranges: Sequence[Range], name: str) -> bool:
        """Whether a bound of one of these ranges reads a variable."""
        for r in ranges:
            first, low, high = self._ragged.get(r.name, ([], None, None))
            exprs = [e for t in first for e in all_exprs(t)]
            exprs += [e for e in (low, high) if e is not None]
            if any(name in variables(e) for e in exprs):
                return True
        return False

    def nested(
        self, ranges: Sequence[Range], body: Stmt, mark: Simd | Serial | None = None
    ) -> Stmt:
        """Return loops over ranges, the first outermost; mark is the innermost one's."""
        size = self._values.operands.size
        inner: Simd | Serial = mark or Serial()
        for r in reversed(ranges):
            first, low, high = self._ragged.get(r.name, ([], None, None))
            low = size(r.low) if low is None else low
            high = size(r.high) if high is None else high
            body = b.block(first, For(b.i64(safe_name(r.name)), low, high, body, mark=inner))
            inner = Serial()
        return body
