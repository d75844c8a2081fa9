"""Loops with less in them: a sum that nothing in the loop reads is formed behind it, in one piece.

    for t in 0:T {                                    for t in 0:T {
      a(b, n) +=! d_H(t, b, n) * ...           ->       a(t, b, n) = d_H(t, b, n) * ...
      d_W(n, k) += a(b, n) * X(t, b, k)               }
    }                                                 d_W(n, k) +=! a(t, b, n) * X(t, b, k)

One product of T * B terms in place of T products of B. What a turn makes anew, and the sum reads,
is stored for all turns: a leading axis. Known to compilers as loop distribution.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.lines import Line, Loop, Part, placed, spread, walk
from tcdsl.codegen.gradient.order import Placed, misses
from tcdsl.codegen.gradient.versions import Version
from tcdsl.codegen.program.expressions import indices_of, map_operands, walk_typed
from tcdsl.codegen.program.ssa import covers_box
from tcdsl.grammar.proofs.ranges import Interval, over_turns
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.nodes import starts_anew
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr, Range


def distributed(
    parts: Sequence[Part],
    values: dict[str, Version],
    wanted: Collection[str],
    around: Sequence[Loop] = (),
) -> list[Part]:
    """Return parts whose loops that go back keep only what other turns need.

    Parameters
    ----------
    values
        All tensors by name; those that get an axis of turns are changed.
    wanted
        Tensors that are read outside of the parts.
    around
        The loops around the parts, outer ones first.
    """
    out: list[Part] = []
    for at, part in enumerate(parts):
        if not isinstance(part, Loop) or part.of is None:
            out.append(part)
            continue
        others = [*parts[:at], *parts[at + 1 :]]
        read = {r.tensor for x in walk(others) for r in x.reads()} | {
            x.target for x in walk(others)
        }
        outside = {*wanted, *read}
        body = distributed(part.body, values, outside, (*around, part))
        out += _Distribution(replace(part, body=tuple(body)), values, outside, around).result()
    return out


class _Distribution:
    """One loop; outside: what the rest of the definition reads or writes."""

    def __init__(
        self,
        loop: Loop,
        values: dict[str, Version],
        outside: Collection[str],
        around: Sequence[Loop],
    ) -> None:
        self.loop = loop
        self.values = values
        self.outside = outside
        self.around = {x.var: Interval(x.low, x.high - 1) for x in around}
        self.here = typed.Loop(loop.var, loop.low, loop.high, ())
        self.placed = [*placed(loop.body, (self.here,))]
        self.writes: dict[str, list[Placed]] = {}
        for line, p in self.placed:
            self.writes.setdefault(line.target, []).append(p)
        self.read = {r.tensor for line in walk(loop.body) for r in line.reads()}
        self.private = {name for name in self.writes if self._is_private(name)}

    def result(self) -> list[Part]:
        """Return the loop and what now stands behind it."""
        found = [(line, self._private_of(line, p)) for line, p in self.placed]
        movable = [(line, names) for line, names in found if names is not None]
        spreading = {n for line, names in movable if _reduces(line, self.loop.var) for n in names}
        moved = [line for line, names in movable if names <= spreading]
        left = [p for p in self.loop.body if not any(p is m for m in moved)]
        behind: list[Part] = [*moved]
        turn = typed.SizeValue(Size.symbol(self.loop.var, signed=True) - self.loop.low, INT64)
        for name in sorted(spreading):
            left, behind = spread(left, name, turn), spread(behind, name, turn)
            v = self.values[name]
            self.values[name] = replace(v, shape=(self._turns(), *v.shape))
        summed = [self._over_turns(line) for line in behind if isinstance(line, Line)]
        return [*([replace(self.loop, body=tuple(left))] if left else []), *summed]

    def _turns(self) -> Size:
        """Return how many turns there are at most."""
        turns = self.loop.high - self.loop.low
        most = over_turns(Interval(turns, turns), self.around).high
        return turns if most is None else most

    # ---- which lines

    def _is_private(self, name: str) -> bool:
        """Whether each turn makes a tensor anew, and nothing but the turn reads it."""
        if name in self.outside:
            return False
        first = next(
            x
            for x in self.loop.body
            if any(y.target == name or name in _read_by(y) for y in walk((x,)))
        )
        if not isinstance(first, Line) or first.target != name or name in _read_by(first):
            return False
        shape = self.values[name].shape
        return starts_anew(first.op) and covers_box(first.subs, first.ranges, shape)

    def _private_of(self, line: Line, p: Placed) -> frozenset[str] | None:
        """Return what needs an axis of turns if a line moves behind the loop; None: it cannot."""
        is_sum = len(p.loops) == 1 and all(w.statement.op == "+=" for w in self.writes[line.target])
        if not is_sum or line.target in self.read | self.private:
            return None
        if not _is_affine(line, self.loop.var):
            return None
        private = set()
        for r in line.reads():
            writes = self.writes.get(r.tensor, [])
            if r.tensor not in self.private:
                if not all(self._is_done(w, p, r) for w in writes):
                    return None
            elif any(w.at > p.at for w in writes):
                return None
            else:
                private.add(r.tensor)
        return frozenset(private)

    def _is_done(self, w: Placed, p: Placed, read: typed.Read) -> bool:
        """Whether a write never touches, after a line, what that reads."""
        if w.at >= p.at and not misses(w, p, read, 1, None):
            return False
        return misses(w, p, read, 1, self.here, is_back=True)

    # ---- the line for all turns

    def _over_turns(self, line: Line) -> Line:
        var = self.loop.var
        subs = tuple(_indexed(e, var) for e in line.subs)
        value = _indexed(line.value, var)
        is_output = any(var in indices_of(e) for e in subs)
        new = Range(var, self.loop.low, self.loop.high, "output" if is_output else "reduction")
        names = [n for e in subs for n in sorted(indices_of(e))]
        before = names[: names.index(var)] if is_output else names
        ranges = [*line.ranges]
        at = sum(r.name in before for r in ranges)
        ranges.insert(at, new)
        return Line(line.target, subs, line.op, value, tuple(ranges))


def _read_by(line: Line) -> set[str]:
    return {r.tensor for r in line.reads()}


def _reduces(line: Line, var: str) -> bool:
    """Whether several points, or turns, meet in an element: then one pass saves the most."""
    if not any(_has_turn(e, var) for e in line.subs):
        return True
    told = {n for e in line.subs for n in indices_of(e)}
    return any(r.name not in told for r in line.ranges)


def _sizes(e: Expr) -> Iterator[Size]:
    """Yield the sizes in an expression."""
    yield from (x.size for x in walk_typed(e) if isinstance(x, typed.SizeValue))


def _has_turn(e: Expr, var: str) -> bool:
    return any(var in s.symbols() for s in _sizes(e))


def _is_affine(line: Line, var: str) -> bool:
    """Whether a turn stands in a line only where an index may."""
    if line.is_ragged or any(var in s.symbols() for r in line.ranges for s in (r.low, r.high)):
        return False
    return all(
        _split(s, var) is not None
        for e in (*line.subs, line.value)
        for s in _sizes(e)
        if var in s.symbols()
    )


def _split(size: Size, var: str) -> tuple[int, Size] | None:
    """Return (c, rest) of c * var + rest."""
    symbol = Size.symbol(var, signed=True)
    (monomial, _) = symbol.terms[0]
    c = next((k for m, k in size.terms if m == monomial), 0)
    rest = size - symbol * c
    return None if var in rest.symbols() else (c, rest)


def _indexed(e: Expr, var: str) -> Expr:
    """Return an expression with an index in place of a turn."""
    if not isinstance(e, typed.SizeValue) or var not in e.size.symbols():
        return map_operands(e, lambda x: _indexed(x, var))
    found = _split(e.size, var)
    assert found is not None
    c, rest = found
    out: Expr = typed.IndexValue(var, e.dtype)
    if c != 1:
        out = typed.Binary("*", typed.Lit(c, e.dtype), out, e.dtype)
    if rest == Size():
        return out
    return typed.Binary("+", out, replace(e, size=rest), e.dtype)
