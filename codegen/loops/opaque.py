"""Conditions that keep accesses inside are nothing the C compiler can work out beforehand.

    const tc_i64 i_zero = tc_opaque_i64(0);
    for (i = 0; i < 40; i++) O[i] = i + i_zero + 2 < 39 ? A[i] : 0.5f;

gcc 12.2 forgets what a mask is for once it is a constant: a loop of few vectors is unrolled wholly,
and the masked load becomes `vblendps $31, 128(%rdi), ...`, which reads the whole vector and so what
lies behind the array. It is right as long as the mask is made when the code runs. Each loop has a
zero of its own: where a branch tells one (`y + y_zero == 0`), nothing follows for the lanes of the
loop inside. Addresses keep the plain variable, and so do conditions that hold something else that
is known only then, unless another condition may tell it (`N == 39 && i < N`): so size-generic
kernels, and taps of a window around run-time rows, have no zeros in them.

Masked stores are never widened, scalar loads never moved before their condition; for masks of 64
bytes, and for `vmaskmov`, there is no such instruction.

Time with it over time without (1 thread, gcc 12.2, AVX-512, 10 % quantile of 150 rounds in turn):
3x3 depthwise and pools of 14, 15 and 56 1.00; stencils with a guard 1.00 to 1.01; causal rows 1.01;
padded stencils of 30x30 0.88, of 512x512 0.42; rows of three padded taps 0.37 to 0.80, since gcc
peeled the first turn of those loops, after which they were no vectors.

Refused: `-fno-tree-vectorize` and the like, for which all loops pay; an opaque truth beside the
condition: gcc unswitches the loop, and the mask is a constant again; opaque variables in every
condition, with which taps of windows took 1.2 to 1.4 times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.knowable import FUNCTION, Known, is_opaque
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Bin,
    Block,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Offset,
    Select,
    Stmt,
    Unit,
    Var,
    spine,
)
from tcdsl.codegen.loops.walk import (
    all_exprs,
    children,
    map_children,
    own_exprs,
    sub_stmts,
    variables,
    walk_expr,
    walk_stmt,
)

_LOGIC = ("&&", "||")


def opaque(unit: Unit) -> Unit:
    """Return a unit for the CPU in which no mask of an access is known before it runs."""
    return replace(unit, functions=tuple(map(_function, unit.functions)))


def exposed(f: Function) -> frozenset[str]:
    """Return the loop variables along which a C compiler may know a mask of an access.

    Parameters of functions that may be inlined are like them: a caller may pass constants.
    """
    conditions = [*_conditions(f.body)]
    if not conditions:
        return frozenset()
    known, deciding = Known(f), _deciding(f.body, conditions)
    choices = _choices(f.body, conditions, deciding)
    atoms = {a for cond in (*conditions, *choices) for a in known.atoms(cond)}
    made_of = [known.sources(a) for a in atoms]
    found = set()
    for v in frozenset[str]().union(*(x.loops for x in made_of)):
        # what a branch may tell, of which all lanes of v are on one side
        told = {u for x in made_of if v not in x.loops | x.far for u in x.unknown}
        if any(v in x.loops and x.unknown <= told for x in made_of):
            found.add(v)
    return frozenset(found) & deciding  # there without a zero


def _function(f: Function) -> Function:
    names = sorted(exposed(f))
    if not names:
        return f
    taken = {p.name for p in f.params}.union(*map(variables, all_exprs(f.body)))
    taken |= {s.var.name for s in walk_stmt(f.body) if isinstance(s, Let | For)}
    zeros: dict[str, Var] = {}
    for name in names:
        zero = f"{name}_zero"
        while zero in taken:
            zero += "_"
        taken.add(zero)
        zeros[name] = b.i64(zero)
    lets = [Let(z, b.call(FUNCTION, 0, type=I64)) for z in zeros.values()]
    deciding = _deciding(f.body, [*_conditions(f.body)])
    body = _Hiding(zeros, deciding, _reaching(f.body)).stmt(f.body)
    return replace(f, body=b.block(lets, body))


# ---- what decides


def _conditions(body: Stmt) -> Iterator[Expr]:
    """Yield the conditions under which memory is read or written."""
    reaching = _reaching(body)
    for s in walk_stmt(body):
        if isinstance(s, If) and id(s) in reaching:
            yield s.cond
        for e in own_exprs(s):
            within = set[int]()  # the left parts of chains whose left part was given
            for x in walk_expr(e):
                if isinstance(x, Select):
                    if _reads(x.then) or _reads(x.other):
                        yield x.cond
                elif isinstance(x, Bin) and x.op in _LOGIC:
                    if id(x) not in within and not _reads(x.rhs):
                        continue
                    if id(x) not in within:
                        yield x.lhs
                    within.add(id(x.lhs))


def _deciding(body: Stmt, conditions: Sequence[Expr]) -> frozenset[str]:
    """Return the variables that conditions of accesses depend on, through others as well.

    conditions: as `_conditions` gives them. Not those in addresses of what is read: what lies in
    memory is not known.
    """
    zeros = {s.var.name for s in walk_stmt(body) if isinstance(s, Let) and is_opaque(s.value)}
    names = {n for cond in conditions for n in _outside_addresses(cond, zeros)}
    while True:
        before = len(names)
        for s in walk_stmt(body):
            match s:
                case Let(var, value) if var.name in names:
                    names |= _outside_addresses(value, zeros)
                case Assign(Var(name), value) if name in names:
                    names |= _outside_addresses(value, zeros)
                case If(cond) if _assigns(s, names):
                    names |= _outside_addresses(cond, zeros)
                case _:
                    pass
        if len(names) == before:
            return frozenset(names)


def _choices(body: Stmt, conditions: Sequence[Expr], deciding: Set[str]) -> Iterator[Expr]:
    """Yield the conditions of choices of which conditions of accesses are made."""
    made_of = [*conditions]
    for s in walk_stmt(body):
        match s:
            case Let(Var(name), value) | Assign(Var(name), value) if name in deciding:
                made_of.append(value)
            case _:
                pass
    for e in made_of:
        for x in walk_expr(e):
            if isinstance(x, Select):
                yield x.cond


def _reads(e: Expr) -> bool:
    return any(isinstance(x, Load) for x in walk_expr(e))


def _reaching(body: Stmt) -> set[int]:
    """Return the identities of choices under whose condition memory is read or written."""
    found: set[int] = set()

    def has_load(s: Stmt) -> bool:
        is_inside = [has_load(t) for t in sub_stmts(s)]  # all of them: each is asked once
        if any(is_inside) and isinstance(s, If):
            found.add(id(s))
        return any(is_inside) or any(map(_reads, own_exprs(s)))

    has_load(body)
    return found


def _assigns(s: If, names: Set[str]) -> bool:
    return any(
        isinstance(t, Assign) and isinstance(t.place, Var) and t.place.name in names
        for part in sub_stmts(s)
        for t in walk_stmt(part)
    )


def _is_address(e: Expr) -> bool:
    return isinstance(e, Load | Offset)


def _outside_addresses(e: Expr, zeros: Set[str]) -> set[str]:
    found: set[str] = set()
    todo = [e]
    while todo:
        x = todo.pop()
        if isinstance(x, Var):
            found.add(x.name)
        elif isinstance(x, Bin) and isinstance(x.rhs, Var) and x.rhs.name in zeros:
            pass  # hidden already
        elif not _is_address(x):
            todo += children(x)
    return found


# ---- the rewrite


class _Hiding:
    """Adds zeros to variables in conditions, and in what these are made of."""

    def __init__(
        self, zeros: Mapping[str, Var], deciding: frozenset[str], reaching: Set[int]
    ) -> None:
        self.zeros = zeros
        self.deciding = deciding
        self.reaching = reaching

    def stmt(self, s: Stmt) -> Stmt:
        """Return a statement that does the same."""
        match s:
            case Let(var, value):
                is_part = var.name in self.deciding
                return replace(s, value=self.hidden(value) if is_part else self.expr(value))
            case Assign(place, value):
                is_part = isinstance(place, Var) and place.name in self.deciding
                return replace(s, value=self.hidden(value) if is_part else self.expr(value))
            case If(cond, then, other):
                is_part = id(s) in self.reaching or _assigns(s, self.deciding)
                cond = self.hidden(cond) if is_part else self.expr(cond)
                return If(cond, self.stmt(then), None if other is None else self.stmt(other))
            case For(body=body):
                return replace(s, body=self.stmt(body))
            case Block(stmts):
                return Block(tuple(map(self.stmt, stmts)))
            case _:
                return s

    def expr(self, e: Expr) -> Expr:
        """Return e with conditions of reads in it hidden."""
        first, chain = spine(e)
        decides = [link.op in ("&&", "||") and _reads(link.rhs) for link in chain]
        is_part = any(decides)
        if is_part:
            done = self.hidden(first)
        elif isinstance(first, Select) and (_reads(first.then) or _reads(first.other)):
            cond, then, other = (
                self.hidden(first.cond),
                self.expr(first.then),
                self.expr(first.other),
            )
            done = Select(cond, then, other, first.type)
        else:
            done = map_children(first, self.expr)
        for k, link in enumerate(chain):
            rhs = self.hidden(link.rhs) if any(decides[k + 1 :]) else self.expr(link.rhs)
            done = Bin(link.op, done, rhs, link.type)
        return done

    def hidden(self, e: Expr) -> Expr:
        """Return e with zeros added to its variables."""
        first, chain = spine(e)
        if isinstance(first, Var) and first.name in self.zeros:
            done: Expr = Bin("+", first, self.zeros[first.name], I64)
        else:
            done = map_children(first, self.expr if _is_address(first) else self.hidden)
        for link in chain:
            done = Bin(link.op, done, self.hidden(link.rhs), link.type)
        return done
