"""What integer variables of a function are for: addresses only, or values too.

An address lies inside memory that exists, so the arithmetic that leads to it cannot overflow
64 bits, nor 32 where the memory is known to be small. Of a value nothing of the kind is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from tcdsl.codegen.loops.loopir import (
    I64,
    Address,
    Assign,
    Bin,
    Call,
    Cast,
    Elem,
    Expr,
    Function,
    Let,
    Load,
    Offset,
    Pointer,
    Select,
    Stmt,
    Var,
)
from tcdsl.codegen.loops.walk import children, own_exprs, walk_stmt


class Role(IntEnum):
    """What an integer is used for; of several uses the least counts."""

    VALUE = 0
    ADDRESS = 1
    NEAR = 2  # an address in memory of fewer than 2^31 elements


def roles(f: Function, pointers: Pointers) -> dict[str, Role]:
    """Return the role of every int64 variable and local array of a function."""
    return _Uses(f, pointers).roles()


class Pointers:
    """Which pointers of a function lead to small memory.

    Parameters
    ----------
    f
        The function.
    near
        Its parameters that do.
    """

    def __init__(self, f: Function, near: Iterable[str]) -> None:
        self._near = dict.fromkeys(near, True)
        for s in walk_stmt(f.body):
            if isinstance(s, Let) and isinstance(s.var.type, Pointer):
                name = s.var.name  # one of the same name elsewhere counts too
                self._near[name] = self.is_near(s.value) and self._near.get(name, True)

    def role(self, pointer: Expr) -> Role:
        """Return the role of an index of a pointer."""
        return Role.NEAR if self.is_near(pointer) else Role.ADDRESS

    def is_near(self, e: Expr) -> bool:
        """Whether a pointer leads to small memory; shared and local memory always is."""
        if isinstance(e.type, Pointer) and e.type.space != "global":
            return True
        match e:
            case Var(name):
                return self._near.get(name, False)
            case Offset(pointer=p) | Cast(operand=p):
                return self.is_near(p)
            case Select(then=x, other=y):
                return self.is_near(x) and self.is_near(y)
            case Address():
                return True
            case Call(function):
                return function.startswith("tc_shared_")
            case _:
                return False


class _Uses:
    """Where each name is used: in a role, or for what another name is."""

    def __init__(self, f: Function, pointers: Pointers) -> None:
        self._pointers = pointers
        self._uses: dict[str, set[Role | str]] = {}
        for s in walk_stmt(f.body):
            self._stmt(s)

    def roles(self) -> dict[str, Role]:
        read = self._read()
        found = {n: Role.NEAR if n in read else Role.VALUE for n in self._uses}
        changed = True
        while changed:
            changed = False
            for name, uses in self._uses.items():
                of_uses = [found.get(u, Role.VALUE) if isinstance(u, str) else u for u in uses]
                least = min(found[name], *of_uses)
                changed |= least != found[name]
                found[name] = least
        return found

    def _read(self) -> set[str]:
        """Return the names that lead to a use at last: nothing is promised of the others."""
        found: set[str] = set()
        before = -1
        while len(found) != before:
            before = len(found)
            for name, uses in self._uses.items():
                if any(isinstance(u, Role) or u in found for u in uses):
                    found.add(name)
        return found

    def _stmt(self, s: Stmt) -> None:
        match s:
            case Let(var, value) if var.type == I64:
                self._expr(value, var.name)
            case Assign(Var(name) | Elem(array=name) as place, value) if place.type == I64:
                if isinstance(place, Elem):
                    for i in place.indices:
                        self._expr(i, Role.NEAR)
                self._expr(value, name)
            case _:
                for e in own_exprs(s):
                    self._expr(e, Role.VALUE)

    def _expr(self, e: Expr, use: Role | str) -> None:
        match e:
            case Var(name):
                self._uses.setdefault(name, set()).add(use)
            case Elem(array, indices):
                self._uses.setdefault(array, set()).add(use)
                for i in indices:
                    self._expr(i, Role.NEAR)
            case Bin("+" | "-" | "*", x, y) if e.type == I64:
                self._expr(x, use)
                self._expr(y, use)
            case Cast(x) if e.type == x.type == I64:
                self._expr(x, use)
            case Select(cond, x, y) if e.type == I64:
                self._expr(cond, Role.VALUE)
                self._expr(x, use)
                self._expr(y, use)
            case Load(pointer, index):
                self._expr(pointer, Role.VALUE)
                self._expr(index, self._pointers.role(pointer))
            case Offset(pointer, index, bytes=in_bytes):
                self._expr(pointer, Role.VALUE)
                role = self._pointers.role(pointer)
                self._expr(index, Role.ADDRESS if in_bytes else role)
            case _:
                for x in children(e):
                    self._expr(x, Role.VALUE)
