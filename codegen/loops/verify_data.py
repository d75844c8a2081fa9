"""The law of addresses: what chooses an element was read once, and something asked where it lies.

    const tc_i64 t_0 = tc_once_i64(I + b);
    if ((tc_u64)t_0 >= (tc_u64)N) return tc_fault(..);
    O[b] = A[t_0];

Callers may write their arrays while a kernel runs. So no address depends on a plain load from one:
the compiler may do that twice. And what an address does depend on stands in a condition that
decides whether it is used, or within bounds (`tc_min_i64`, `tc_mod_i64`, `& 7`). Of one or two
bytes no condition need be seen: a table that large holds what they may be, whatever that is.
Unsigned ones that go into an address as they are need not be read once either.

Reads that were copied to a local array count as read once from `tc_settle` on (`stage`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from tcdsl.codegen.loops.checked import Checked
from tcdsl.codegen.loops.loopir import (
    Address,
    Array,
    Assign,
    Bin,
    Block,
    Call,
    Cast,
    Const,
    Elem,
    Eval,
    Expr,
    Field,
    For,
    Function,
    If,
    Let,
    Load,
    Offset,
    Opaque,
    Pointer,
    Return,
    Scalar,
    Select,
    Stmt,
    Unit,
    Var,
)
from tcdsl.codegen.loops.walk import all_exprs, children, own_exprs, walk_expr, walk_stmt
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import InternalError

_BOUNDED = ("tc_min_", "tc_max_", "tc_clamp_", "tc_mod_")
_OWN = ("shared", "workspace")  # fields and parameters whose memory is the call's alone

_Names = frozenset[str]
_NONE: _Names = frozenset()


def verify_addresses(unit: Unit, checked: Checked | None) -> None:
    """Check the law in every function, but in those where it was found to hold.

    Raises
    ------
    InternalError
        If it is broken; the message names the function and the expression.
    """
    functions = {f.name: f for f in unit.functions}
    tables = {t.name for t in unit.tables}
    foreign: dict[str, set[str]] = {f.name: set() for f in unit.functions}  # parameters
    for x in unit.launches:
        params = functions[x.function].params
        given = zip(params, x.arguments, strict=True)
        foreign[x.function] |= {p.name for p, a in given if a.kind == "data"}
    by_table = [v for t in unit.tables for v in t.values if isinstance(v, str)]
    for f in reversed(unit.functions):  # whoever calls a function stands behind it
        private = ({p.name for p in f.params} - foreign[f.name]) | tables
        calls = None if checked is None else checked.handed(f, private)
        if calls is None:
            walk = _Walk(f, private.copy())
            walk.check()
            calls = tuple((c.function, tuple(map(walk.is_foreign, c.args))) for c in walk.calls)
            if checked is not None:
                checked.note_handed(f, private, calls)
        for called, foreign_ones in calls:
            for name in (called,) if called in functions else by_table:
                handed = zip(functions[name].params, foreign_ones, strict=False)
                foreign[name] |= {p.name for p, is_foreign in handed if is_foreign}


def keeps_the_law(f: Function) -> bool:
    """Whether a phase that calls no other function has only addresses that the law allows."""
    try:
        _Walk(f, {p.name for p in f.params}).check()
    except InternalError:
        return False
    return True


@dataclass(slots=True)
class _Facts:
    """What holds where a statement stands.

    chosen: by variable, the reads that it depends on (the names of variables that hold them), where
    there are any. unasked: those of them that no condition was about where it got its value.
    loose: variables that depend on plain loads. asked: reads that a condition here was about.
    """

    chosen: dict[str, _Names] = field(default_factory=dict)
    unasked: dict[str, _Names] = field(default_factory=dict)
    loose: set[str] = field(default_factory=set)
    asked: _Names = _NONE

    @property
    def by_name(self) -> tuple[dict[str, _Names], dict[str, _Names]]:
        """What is noted of reads, by variable."""
        return self.chosen, self.unasked

    def inner(self, asked: _Names = _NONE) -> _Facts:
        """Return the facts of a block inside; what it finds of variables is found for all."""
        return _Facts(self.chosen, self.unasked, self.loose, self.asked | asked)


class _Walk:
    """One function."""

    def __init__(self, f: Function, private: set[str]) -> None:
        self.f = f
        self.private = private
        self.calls: list[Call] = []  # of other functions
        self.reads_once = any(map(_is_once, all_exprs(f.body)))  # few functions do
        self.settled: set[str] = set()  # local arrays that hold copies of what was read

    def check(self) -> None:
        """Walk the function."""
        self.stmt(self.f.body, _Facts())

    # ---- statements

    def stmt(self, s: Stmt, facts: _Facts) -> None:
        """Check a statement and note what it tells of variables."""
        match s:
            case Let(var, value):
                self.addresses(value, facts)
                self.declare(var.name, facts)
                self.give(var, value, facts)
            case Array(name):
                self.declare(name, facts)
            case Assign(place, value):
                self.addresses(place, facts)
                self.addresses(value, facts)
                self.give(place, value, facts)
            case Block(stmts):
                asked = _NONE
                for t in stmts:
                    self.stmt(t, facts.inner(asked))
                    if isinstance(t, If) and t.other is None and _leaves(t.then):
                        asked |= self.reads(t.cond, facts)
            case If(cond, then, other):
                self.addresses(cond, facts)
                asked = self.reads(cond, facts)
                self.stmt(then, facts.inner(asked))
                if other is not None:
                    self.stmt(other, facts.inner(asked))
            case For(var, body=body):
                self.declare(var.name, facts)
                for e in (s.low, s.high, s.step):
                    self.addresses(e, facts)
                    self.give(var, e, facts)
                own = _declared(body)
                before = self.known(facts, own)
                self.stmt(body, facts.inner())
                if self.known(facts, own) != before:  # what a turn assigns, the next one sees
                    self.stmt(body, facts.inner())
            case Eval(Call("tc_settle", (Address(Elem(array=name)),))):
                facts.loose.discard(name)
                self.settled.add(name)
            case Eval(call):
                self.addresses(call, facts)
                self.through(call, facts)
            case _:
                for e in own_exprs(s):
                    self.addresses(e, facts)

    def known(self, facts: _Facts, own: _Names) -> tuple[object, ...]:
        """Return all that is known of names but of a body's own, which each turn declares anew."""
        return (
            *({n: x for n, x in by.items() if x and n not in own} for by in facts.by_name),
            facts.loose - own,
            self.private - own,
            self.settled - own,
        )

    def declare(self, name: str, facts: _Facts) -> None:
        """Forget another variable of that name, which stood in a block beside this one."""
        facts.loose.discard(name)
        facts.chosen.pop(name, None)
        facts.unasked.pop(name, None)
        self.private.discard(name)
        self.settled.discard(name)

    def give(self, place: Expr, value: Expr, facts: _Facts) -> None:
        """Note what a variable, an array or memory of the call's own now depends on."""
        root = _root(place)
        if root is None:
            return
        if isinstance(place.type, Pointer):
            if self.is_private(value):
                self.private.add(root)
            return
        is_read = self.reads_once and any(map(self.is_wide_read, walk_expr(value)))
        read = frozenset({root}) if is_read else _NONE
        for by, found in (
            (facts.chosen, self.reads(value, facts)),
            (facts.unasked, self.unasked(value, facts)),
        ):
            if depends := by.get(root, _NONE) | found | read:
                by[root] = depends
        if self.is_loose(value, facts):
            facts.loose.add(root)

    def through(self, call: Call, facts: _Facts) -> None:
        """Note what a call may have copied into memory that it has the addresses of."""
        if any(isinstance(a.type, Pointer) and not self.is_private(a) for a in call.args):
            for a in call.args:
                root = _root(a)
                if isinstance(a.type, Pointer) and root is not None and self.is_private(a):
                    facts.loose.add(root)

    # ---- expressions

    def addresses(self, e: Expr, facts: _Facts) -> None:
        """Check the addresses in an expression."""
        if isinstance(e, Const | Var):
            return
        match e:
            case Select(cond, then, other):
                self.addresses(cond, facts)
                asked = facts.inner(self.reads(cond, facts))
                self.addresses(then, asked)
                self.addresses(other, asked)
                return
            case Bin("&&" | "||", lhs, rhs):
                self.addresses(lhs, facts)
                self.addresses(rhs, facts.inner(self.reads(lhs, facts)))
                return
            case Load(_, index) | Offset(_, index):
                self.address(index, e, facts)
            case Elem(_, indices):
                for index in indices:
                    self.address(index, e, facts)
            case Call(function=function) if not function.startswith("tc_"):
                self.calls.append(e)
            case _:
                pass
        for x in children(e):
            self.addresses(x, facts)

    def address(self, index: Expr, e: Expr, facts: _Facts) -> None:
        """Check what an address depends on."""
        if self.is_loose(index, facts, is_address=True):
            raise InternalError(f"{self.f.name}: an address depends on a plain load: {e}")
        unasked = self.unasked(index, facts)
        if unasked or self.is_unnamed(index):
            names = ", ".join(sorted(unasked)) or "what was read"
            raise InternalError(f"{self.f.name}: nothing asks where {names} lies: {e}")

    def reads(self, e: Expr, facts: _Facts) -> _Names:
        """Return the reads that an expression depends on."""
        return self._through(e, facts.chosen)

    def unasked(self, e: Expr, facts: _Facts) -> _Names:
        """Return those of them that neither a condition nor the expression holds within bounds."""
        found = self._through(e, facts.unasked) - facts.asked
        if not found:
            return _NONE
        within = _NONE
        for x in walk_expr(e):
            if isinstance(x, Call) and x.function.startswith(_BOUNDED):
                within |= self.reads(x, facts)
            elif isinstance(x, Bin) and (x.op == "%" or _is_masked(x)):
                within |= self.reads(x.lhs, facts)
            elif isinstance(x, Select):  # one of the two, whatever was read
                within |= self.reads(x.cond, facts)
        return found - within

    def _through(self, e: Expr, by: Mapping[str, _Names]) -> _Names:
        found = _NONE
        for x in walk_expr(e) if by else ():
            match x:
                case Var(name) | Elem(array=name):
                    found |= by.get(name, _NONE)
                case Load(pointer=p) if self.is_private(p):
                    found |= by.get(_root(p) or "", _NONE)
                case _:
                    pass
        return found

    def is_loose(self, e: Expr, facts: _Facts, *, is_address: bool = False) -> bool:
        """Whether a value depends on what a compiler may read again."""
        match e:
            case Var(name) | Elem(array=name):
                inside = e.indices if isinstance(e, Elem) else ()
                return name in facts.loose or any(self.is_loose(x, facts) for x in inside)
            case Load(pointer, _, type):
                if self.is_private(pointer):
                    return _root(pointer) in facts.loose
                return not (is_address and _is_byte(type))
            case Call(function=function):
                if function.startswith("tc_once_"):
                    return False
                if any(isinstance(a.type, Pointer) and not self.is_private(a) for a in e.args):
                    return True
            case Bin("+" | "*", lhs, rhs) if is_address:
                return any(self.is_loose(x, facts, is_address=True) for x in (lhs, rhs))
            case Cast(operand, type) if is_address:
                return self.is_loose(operand, facts, is_address=not isinstance(type, Pointer))
            case Field(_, _, Pointer() | Opaque()) | Address():
                return False
            case _:
                pass
        return any(self.is_loose(x, facts) for x in children(e))

    def is_wide_read(self, e: Expr) -> bool:
        """Whether an expression reads once what no table holds all values of."""
        if isinstance(e, Elem):
            is_read = e.array in self.settled
        else:
            is_read = isinstance(e, Call) and e.function.startswith("tc_once_")
        t = e.type
        return is_read and not (
            isinstance(t, Scalar) and not t.dtype.is_float and t.dtype.bits <= 16
        )

    def is_unnamed(self, index: Expr) -> bool:
        """Whether an address holds the read itself, so that no condition can be about the same."""
        return self.reads_once and any(map(self.is_wide_read, _values(index)))

    def is_foreign(self, e: Expr) -> bool:
        """Whether an expression is a pointer to memory that others may write."""
        return isinstance(e.type, Pointer) and not self.is_private(e)

    def is_private(self, pointer: Expr) -> bool:
        """Whether a pointer leads to memory that nobody else writes."""
        match pointer:
            case Address():
                return True
            case Var(name):
                return name in self.private
            case Field(_, text):
                return text.startswith(_OWN)
            case Offset(pointer=p) | Cast(operand=p):
                return self.is_private(p)
            case Call(function=function):
                return function.startswith("tc_shared_")
            case _:
                return False


def _is_masked(e: Bin) -> bool:
    """Whether it keeps the low bits of what it is of, which are no negative number."""
    return e.op == "&" and isinstance(e.rhs, Const) and e.rhs.value >= 0


def _is_once(e: Expr) -> bool:
    """Whether it reads once, or says that what was copied counts as that."""
    return isinstance(e, Call) and e.function.startswith(("tc_once_", "tc_settle"))


def _root(place: Expr) -> str | None:
    """Return the variable or array that an expression is a part of."""
    match place:
        case Var(name) | Elem(array=name):
            return name
        case Load(pointer=p) | Offset(pointer=p) | Cast(operand=p):
            return _root(p)
        case Address(at):
            return _root(at)
        case _:
            return None


def _values(e: Expr) -> Iterator[Expr]:
    """Yield what an expression computes with, down to the loads."""
    yield e
    if not isinstance(e, Load):
        for x in children(e):
            yield from _values(x)


def _is_byte(t: object) -> bool:
    return isinstance(t, Scalar) and t.dtype.kind == "uint" and t.dtype.bits <= 16


def _declared(body: Stmt) -> _Names:
    """Return the names that are declared in a statement."""
    return frozenset(
        s.name if isinstance(s, Array) else s.var.name
        for s in walk_stmt(body)
        if isinstance(s, Let | For | Array)
    )


def _leaves(s: Stmt) -> bool:
    """Whether a statement leaves the function."""
    return isinstance(s, Return) or (
        isinstance(s, Block) and bool(s.stmts) and _leaves(s.stmts[-1])
    )
