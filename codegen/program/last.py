"""Assignments through data as gathers: each element looks for the last point that writes it.

    Y(I(p), b) = V(p, b)   ->   last(i, j) = 0
                                last(I(p), b) max= p + 1
                                Y(i, j) = last(i, j) > 0 ? V(last(i, j) - 1, j) : Y(i, j)

The points of the first form that meet have to be gone through in order; here they meet in a maximum
of integers, which is the same in any order, so on a GPU the last one wins as it does elsewhere. And
all that is left can be differentiated: of points that met, the adjoint goes to the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tcdsl.codegen.program.expressions import map_typed, reads_of, substitute_indices
from tcdsl.codegen.program.subscripts import injective_in
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT32, INT64
from tcdsl.grammar.types.typed import CheckedDef, Expr, Range, Statement, Stmt, Tensor


def meets(s: Statement) -> bool:
    """Whether a statement assigns through data, so that points may write one element."""
    if s.op != "=" or not any(map(reads_of, s.subs)):
        return False
    outputs = [r for r in s.ranges if r.kind == "output"]
    return len(injective_in(s.subs, outputs)) < len(outputs)


def with_last_points(checked: CheckedDef) -> CheckedDef:
    """Return a definition in which no points meet that are assigned; mostly itself."""
    if not any(map(meets, typed.statements(checked.body))):
        return checked
    work = _Work(checked)
    body = tuple(work.block(checked.body))
    return replace(checked, body=body, temps=(*checked.temps, *work.made))


class _Work:
    def __init__(self, checked: CheckedDef) -> None:
        self.tensors = {t.name: t for t in (*checked.params, *checked.returns, *checked.temps)}
        self.taken = {*self.tensors, *checked.sizes, checked.name, *_names(checked.body)}
        self.written: set[str] = set()
        self.made: list[Tensor] = []

    def fresh(self, name: str) -> str:
        name = fresh(name, self.taken)
        self.taken.add(name)
        return name

    def block(self, body: Sequence[Stmt]) -> Iterator[Stmt]:
        for s in body:
            if isinstance(s, typed.Loop):
                for inner in typed.statements(s.body):  # a turn reads what the ones before left
                    if meets(inner) and inner.target not in self.written:
                        yield self._fill(self.tensors[inner.target])
                yield replace(s, body=tuple(self.block(s.body)))
            elif meets(s):
                yield from self._gathered(s)
            else:
                self.written.add(s.target)
                yield s

    def _box(self, t: Tensor) -> tuple[Range, ...]:
        names = (self.fresh(f"i{d}") for d in range(len(t.shape)))
        spans = zip(names, t.low, t.shape, strict=True)
        return tuple(Range(n, low, low + extent, "output") for n, low, extent in spans)

    def _fill(self, t: Tensor) -> Statement:
        self.written.add(t.name)
        return _over(t, self._box(t), _stored(_zero(t), t))

    def _gathered(self, s: Statement) -> Iterator[Statement]:
        target = self.tensors[s.target]
        last = replace(target, name=self.fresh(f"{s.target}_last"), dtype=INT64, role="temp")
        self.made.append(last)
        self.tensors[last.name] = last
        outputs = [r for r in s.ranges if r.kind == "output"]
        box = self._box(target)
        yield _over(last, self._box(last), typed.Cast(typed.Lit(0, INT32), INT64))

        plain: dict[str, Expr] = {}  # indices that are subscripts of their own
        for sub, r in zip(s.subs, box, strict=True):
            if isinstance(sub, typed.IndexValue):
                plain.setdefault(sub.name, typed.IndexValue(r.name, INT64))
        told = [r for r in outputs if r.name not in plain]
        place: Expr | None = None
        for r in told:
            # a cast, so that as text too it is int64
            own = _less(typed.Cast(typed.IndexValue(r.name, INT64), INT64), r.low)
            if place is not None:
                scaled = typed.Binary("*", place, typed.SizeValue(r.extent, INT64), INT64)
                own = typed.Binary("+", scaled, own, INT64)
            place = own
        one = typed.Lit(1, INT64)
        mark = typed.Binary("+", place, one, INT64) if place is not None else one
        yield replace(s, target=last.name, op="max=", value=mark, span=None)

        at = tuple(typed.IndexValue(r.name, INT64) for r in box)
        found = typed.Read(last.name, at, INT64, (False,) * len(at))
        rest: Expr = typed.Binary("-", found, one, INT64)
        by: dict[str, Expr] = dict(plain)
        for n, r in enumerate(reversed(told)):
            extent = typed.SizeValue(r.extent, INT64)
            is_first = n == len(told) - 1
            digit = rest if is_first else typed.Binary("%", rest, extent, INT64)
            by[r.name] = _more(digit, r.low)
            rest = typed.Binary("/", rest, extent, INT64)
        value = substitute_indices(_computed(s.value), by)
        value = map_typed(value, lambda e: _checked(e, last.name))
        old = _zero(target)
        if s.target in self.written:
            read = typed.Read(s.target, at, target.dtype, (False,) * len(at))
            old = typed.Cast(read, target.dtype.computed) if target.dtype.is_half else read
        is_written = typed.Binary(">", found, typed.Lit(0, INT64), BOOL)
        chosen = typed.Select(is_written, value, old, value.dtype)
        self.written.add(s.target)
        yield _over(target, box, _stored(chosen, target))


def _names(body: Sequence[Stmt]) -> Iterator[str]:
    for s in body:
        if isinstance(s, typed.Loop):
            yield s.var
            yield from _names(s.body)
        else:
            yield from (r.name for r in s.ranges)


def _over(t: Tensor, box: tuple[Range, ...], value: Expr) -> Statement:
    """Return the statement that assigns all of a tensor."""
    at = tuple(typed.IndexValue(r.name, INT64) for r in box)
    return Statement(t.name, at, "=", value, box, (False,) * len(at))


def _zero(t: Tensor) -> Expr:
    held = t.dtype.computed
    value = False if held == BOOL else 0.0 if held.is_float else 0
    return typed.Lit(value, held)


def _stored(value: Expr, t: Tensor) -> Expr:
    return typed.Cast(value, t.dtype) if t.dtype.is_half else value


def _computed(value: Expr) -> Expr:
    """Return a value before it is rounded to a half."""
    if not value.dtype.is_half:
        return value
    if isinstance(value, typed.Cast) and value.operand.dtype == value.dtype.computed:
        return value.operand
    return typed.Cast(value, value.dtype.computed)


def _less(e: Expr, low: Size) -> Expr:
    return e if low == Size() else typed.Binary("-", e, typed.SizeValue(low, INT64), INT64)


def _more(e: Expr, low: Size) -> Expr:
    return e if low == Size() else typed.Binary("+", e, typed.SizeValue(low, INT64), INT64)


def _checked(e: Expr, last: str) -> Expr:
    """Return a read whose subscripts the last point decides with a check of these."""
    if not isinstance(e, typed.Read):
        return e
    checked = e.checked or (False,) * len(e.subs)
    from_last = (any(r.tensor == last for r in reads_of(sub)) for sub in e.subs)
    return replace(e, checked=tuple(a or b for a, b in zip(checked, from_last, strict=True)))
