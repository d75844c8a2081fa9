"""Integers as a GPU likes them: int32 where that is proved to be enough, wrapping where it is not.

Loop nests compute indices in int64, and their integers wrap. A GPU multiplies 64-bit integers in
several steps, and overflow of signed integers is undefined in CUDA C++. So, by intervals:

    const tc_i64 n = point % 10;     ->  const tc_i32 n = point % 10;
    A[b * 128 + m]      (64 bits)    ->  A[b * 128 + m]      (32 bits)
    acc += x;           (tc_i32)     ->  acc = tc_wrap_add_i32(acc, x);

What an address comes from does not wrap: the memory exists (`addresses.py`). Variables that are
assigned, local arrays, and parameters of functions have the interval of all they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, assert_never

from tcdsl.codegen.loops.loopir import (
    I64,
    Argument,
    Array,
    Assign,
    Block,
    Call,
    Comment,
    Elem,
    Eval,
    Field,
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Scalar,
    Stmt,
    Table,
    Type,
    Unit,
    Var,
)
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.machine.spec import SMALL, Spec
from tcdsl.codegen.narrow import spans
from tcdsl.codegen.narrow.addresses import Pointers, Role, roles
from tcdsl.codegen.narrow.counts import FAR, Counts
from tcdsl.codegen.narrow.expressions import LIMITS, Exprs, wrapping
from tcdsl.codegen.narrow.facts import (
    I32,
    Fact,
    GridFacts,
    Narrowed,
    SpanStore,
    limit_of,
    parameter_type,
    to_type,
)
from tcdsl.codegen.narrow.spans import LONG, WORD, Span
from tcdsl.codegen.program.program import Program

_EXTENT = (0, 1 << 40)  # of any size: more elements than a device has bytes
_MAX_BLOCKS = (1 << 31) - 1  # of a grid


def narrow(unit: Unit, program: Program, spec: Spec, temps: int) -> Unit:
    """Return a unit for a GPU whose integers are int32 where that is proved to be enough.

    Parameters
    ----------
    unit
        Of kernels, their launches and the functions they call.
    program, spec
        What it was lowered from: bounds of sizes, strides and scalars.
    temps
        How many of the first blocks of the workspace are temporaries: `Spec.is_small` speaks of
        these, not of what kernels keep between them.
    """
    return _Narrowing(unit, program, spec, temps).run()


class _Narrowing:
    """What is known of a unit as a whole."""

    def __init__(self, unit: Unit, program: Program, spec: Spec, temps: int) -> None:
        self.unit, self.program, self.spec, self.temps = unit, program, spec, temps
        self.functions = {f.name: f for f in unit.functions}
        self.tables = tuple(_table(t) for t in unit.tables)
        self.counts = Counts(program, is_small=spec.is_small)
        self.extents = {safe_name(n): self._size(n) for n in program.sizes}
        self.store = SpanStore()

    def run(self) -> Unit:
        """Rewrite, callers before callees, until no interval grows."""
        while True:
            functions = [self._function(f) for f in reversed(self.unit.functions)]
            if not self.store.advance():
                return replace(self.unit, functions=tuple(functions[::-1]), tables=self.tables)

    def _size(self, name: str) -> Span:
        if name in self.program.scalars:  # an index may run to it, but it is any number
            if self.spec.is_small:
                return -SMALL, SMALL
            return self._scalar(self.program.scalars.index(name))
        return (0, SMALL) if self.spec.is_small else _EXTENT

    def _scalar(self, index: int) -> Span:
        name = self.program.scalars[index]
        dtype = next(x.dtype for x in self.program.buffers if x.name == name)
        return limit_of(Scalar(dtype.computed)) or LONG

    def _argument(self, a: Argument) -> Span | None:
        match a.kind:
            case "size":
                return self._size(self.program.sizes[a.index])
            case "stride" | "turn":  # a turn is an index: it lies in a tensor
                return (-SMALL, SMALL) if self.spec.is_small else FAR
            case "scalar":
                return self._scalar(a.index)
            case _:
                return None

    def _is_near(self, a: Argument) -> bool:
        known = a.kind == "data" or (a.kind == "workspace" and a.index < self.temps)
        return known and self.spec.is_small

    def _function(self, f: Function) -> Function:
        launches = [x for x in self.unit.launches if x.function == f.name]
        arguments = list(zip(*(x.arguments for x in launches), strict=True))
        near = [
            p.name
            for p, given in zip(f.params, arguments, strict=False)
            if all(map(self._is_near, given))
        ]
        facts: dict[str, Fact] = {
            t.name: Fact(t.type, _span_of(t)) for t in self.tables if isinstance(t.type, Scalar)
        }
        params = []
        for i, p in enumerate(f.params):
            if f.linkage == "kernel":
                fact = self._parameter(p, arguments[i] if arguments else ())
            else:
                limit = limit_of(p.type)
                span = self.store.of((f.name, p.name), limit) if limit else None
                fact = Fact(parameter_type(self.store, f, p), span)
            facts[p.name] = fact
            params.append(Var(p.name, fact.type))
        pointers = Pointers(f, near)
        start = self._start(f)
        exprs = Exprs(f, start, pointers, self.counts, self.store, self.functions)
        exprs.facts = facts
        body = _Body(exprs, roles(f, pointers)).stmt(f.body)
        return replace(f, params=tuple(params), body=body)

    def _parameter(self, p: Var, given: tuple[Argument, ...]) -> Fact:
        found = [s for a in given if (s := self._argument(a)) is not None]
        span = found[0] if found else limit_of(p.type)
        for s in found[1:]:
            span = spans.join(span or s, s)
        fits = p.type == I64 and span is not None and spans.lies_in(span, WORD)
        return Fact(I32 if fits else p.type, span)

    def _start(self, f: Function) -> GridFacts:
        """Return the grid of a kernel; for a function that of any."""
        launches = [x for x in self.unit.launches if x.function == f.name or f.linkage != "kernel"]
        threads = max((x.threads for x in launches), default=f.threads or 1024)
        probe = Exprs(f, GridFacts(1, 1), Pointers(f, ()), self.counts, self.store, {})
        probe.facts = {name: Fact(I64, span) for name, span in self.extents.items()}
        blocks = [probe.value(x.blocks).bounds[1] for x in launches]
        return GridFacts(threads, min(max(blocks, default=_MAX_BLOCKS), _MAX_BLOCKS))


def _span_of(t: Table) -> Span | None:
    values = [v for v in t.values if isinstance(v, int)]
    return (min(values), max(values)) if values else None


def _table(t: Table) -> Table:
    span = _span_of(t)
    fits = t.type == I64 and span is not None and spans.lies_in(span, WORD)
    return replace(t, type=I32) if fits else t


class _Body:
    """Rewrites the statements of one function."""

    def __init__(self, exprs: Exprs, roles: Mapping[str, Role]) -> None:
        self.exprs = exprs
        self.roles = roles

    def stmt(self, s: Stmt) -> Stmt:
        """Return a statement that does the same."""
        value = self.exprs.value
        match s:
            case Let():
                return self._let(s)
            case Array(name, type, zero=zero):
                if zero and limit_of(type):
                    self._give(name, type, (0, 0))
                found, span = self._assigned(name, type)
                self.exprs.facts[name] = Fact(found, span, fixed=False)
                return replace(s, type=found)
            case Assign():
                return self._assign(s)
            case For():
                return self._for(s)
            case If(cond, then, other):
                test = value(cond).expr
                with self.exprs.scope(cond):
                    then = self.stmt(then)
                with self.exprs.scope(cond, holds=False):
                    other = None if other is None else self.stmt(other)
                if other is None and _leaves(then):
                    self.exprs.assume(cond, holds=False)
                return If(test, then, other)
            case Block(stmts):
                return Block(tuple(map(self.stmt, stmts)))
            case Eval(call):
                done = value(call).expr
                return replace(s, call=done)  # type: ignore[arg-type]  # a call stays one
            case Return(result):
                kind = self.exprs.f.result
                return s if result is None or kind is None else Return(to_type(value(result), kind))
            case Comment():
                return s
            case _:
                assert_never(s)

    # ---- declarations and assignments

    def _let(self, s: Let) -> Let:
        name = s.var.name
        v = self.exprs.value(s.value, self.roles.get(name, Role.VALUE))
        if not s.mutable or v.span is None:
            t = v.expr.type if s.var.type == I64 else s.var.type
            assert t is not None
            self.exprs.facts[name] = Fact(t, v.span, fixed=not s.mutable)
            return Let(Var(name, t), v.expr, s.mutable)
        self._give(name, s.var.type, v.span)
        t, span = self._assigned(name, s.var.type)
        self.exprs.facts[name] = Fact(t, span, fixed=False)
        return Let(Var(name, t), to_type(v, t), mutable=True)

    def _assign(self, s: Assign) -> Assign:
        place, role = s.place, Role.VALUE
        if isinstance(place, Var | Elem):
            role = self.roles.get(_name(place) or "", Role.VALUE)
        v = self.exprs.value(s.value, role)
        new = self._place(place)
        old = new.expr
        assert isinstance(old, Var | Elem | Load | Field)
        if v.span is None or old.type is None:
            return Assign(old, v.expr, s.op)
        if s.op in ("=", "|=", "&="):
            every = limit_of(old.type) or LONG
            self._give(_name(place), place.type, v.span if s.op == "=" else every)
            return Assign(old, to_type(v, old.type), s.op)
        op: Literal["+", "*"] = "+" if s.op == "+=" else "*"
        span = self.exprs.combined(op, new, v, role)
        self._give(_name(place), place.type, span or limit_of(place.type) or LONG)
        if span is None and isinstance(old.type, Scalar):
            combined = wrapping(op, old, to_type(v, old.type))
            if isinstance(combined, Call):
                return Assign(old, combined)
        return Assign(old, to_type(v, old.type), s.op)

    def _place(self, place: Var | Elem | Load | Field) -> Narrowed:
        """Return the rewritten place, as it is declared."""
        v = self.exprs.value(place)
        return Narrowed(v.wide, v.span) if v.wide is not None else v

    def _give(self, name: str | None, t: Type | None, span: Span) -> None:
        """Note that a variable or an element of an array gets a value."""
        if name is None or (limit := limit_of(t)) is None:
            return
        if t == I64:
            limit = LIMITS[self.roles.get(name, Role.VALUE)]
        self.exprs.store.give(self.exprs.key(name), span, limit)

    def _assigned(self, name: str, t: Type) -> tuple[Type, Span | None]:
        """Return the type and the interval of what is assigned somewhere."""
        if (limit := limit_of(t)) is None:
            return t, None
        span = self.exprs.store.of(self.exprs.key(name), (0, 0))
        return (I32 if t == I64 and spans.lies_in(span, WORD) else t), spans.clip(span, limit)

    # ---- loops

    def _for(self, s: For) -> For:
        low, high, step = (self.exprs.value(e) for e in (s.low, s.high, s.step))
        first, last = low.bounds[0], high.bounds[1] - 1
        ends = (first, max(last + step.bounds[1], first, *low.bounds))
        t = s.var.type
        if t == I64 and spans.lies_in(ends, WORD) and high.expr.type == step.expr.type == I32:
            t = I32
        new = Var(s.var.name, t)
        with self.exprs.scope():
            self.exprs.facts[new.name] = Fact(t, (first, max(first, last)))
            body = self.stmt(s.body)
        return replace(
            s,
            var=new,
            low=to_type(low, t),
            high=to_type(high, t),
            step=to_type(step, t),
            body=body,
        )


def _name(place: Var | Elem | Load | Field) -> str | None:
    match place:
        case Var(name) | Elem(array=name):
            return name
        case _:
            return None


def _leaves(s: Stmt) -> bool:
    """Whether a statement always ends the function."""
    match s:
        case Return():
            return True
        case Block(stmts):
            return any(map(_leaves, stmts))
        case If(then=then, other=other):
            return other is not None and _leaves(then) and _leaves(other)
        case _:
            return False
