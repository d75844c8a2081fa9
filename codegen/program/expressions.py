"""Walks over typed expressions: what is in them, and the same with other parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, INT64
from tcdsl.grammar.types.typed import Expr


def map_operands(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Return e with f applied to its direct operands; e itself where f leaves them alone."""
    before = operands_of(e)
    after = tuple(map(f, before))
    if all(x is y for x, y in zip(before, after, strict=True)):
        return e
    match e:
        case typed.Read():
            return replace(e, subs=after)
        case typed.Unary() | typed.Cast():
            return replace(e, operand=after[0])
        case typed.Binary():
            return replace(e, lhs=after[0], rhs=after[1])
        case typed.Select():
            return replace(e, cond=after[0], then=after[1], other=after[2])
        case typed.Builtin():
            return replace(e, args=after)
        case _:
            raise AssertionError(f"{type(e).__name__} has no operands")


def from_lowest(sub: Expr, low: Size) -> Expr:
    """Return a subscript that counts from the lowest element of a box."""
    if low == Size.const(0):
        return sub
    return typed.Binary("-", sub, typed.SizeValue(low, INT64), INT64)


def all_from_lowest(subs: Sequence[Expr], low: Sequence[Size]) -> tuple[Expr, ...]:
    """Return the subscripts of an element, counted from the lowest element of a box."""
    return tuple(from_lowest(e, x) for e, x in zip(subs, low, strict=True))


def reads_from_lowest(
    e: Expr, tensors: Mapping[str, typed.Tensor], version: Callable[[str], str]
) -> Expr:
    """Return e with versions for names of tensors and subscripts from their lowest elements."""

    def one(x: Expr) -> Expr:
        if not isinstance(x, typed.Read):
            return x
        subs = all_from_lowest(x.subs, tensors[x.tensor].low)
        return replace(x, tensor=version(x.tensor), subs=subs)

    return map_typed(e, one)


def map_typed(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rebuild e bottom-up, passing each node through f; what f leaves alone is the same object."""
    first, chain = typed.spine(e)
    before: Expr = first
    done = f(map_operands(first, lambda x: map_typed(x, f)))
    for link in chain:
        rhs = map_typed(link.rhs, f)
        is_same = done is before and rhs is link.rhs
        before, done = link, f(link if is_same else replace(link, lhs=done, rhs=rhs))
    return done


# By type, as passes ask for them at every node: a `match` goes through all types in turn.
_OPERANDS: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    **dict.fromkeys((typed.Lit, typed.IndexValue, typed.SizeValue), lambda e: ()),
    typed.Read: attrgetter("subs"),
    typed.Builtin: attrgetter("args"),
    **dict.fromkeys((typed.Unary, typed.Cast), lambda e: (e.operand,)),
    typed.Binary: attrgetter("lhs", "rhs"),
    typed.Select: attrgetter("cond", "then", "other"),
}


def operands_of(e: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of an expression, subscripts among them."""
    return _OPERANDS[type(e)](e)


def with_bounds(
    ranges: Sequence[typed.Range], f: Callable[[Expr], Expr]
) -> tuple[typed.Range, ...]:
    """Return ranges with f applied to the bounds of those that have some."""
    return tuple(
        r if r.bounds is None else replace(r, bounds=(f(r.bounds[0]), f(r.bounds[1])))
        for r in ranges
    )


def walk_typed(e: Expr) -> Iterator[Expr]:
    """Yield e and everything in it, parents first."""
    todo = [e]
    while todo:
        x = todo.pop()
        yield x
        todo += reversed(operands_of(x))


def reads_of(e: Expr) -> tuple[typed.Read, ...]:
    """Return the reads in e, in order."""
    return tuple(x for x in walk_typed(e) if isinstance(x, typed.Read))


def indices_of(e: Expr) -> frozenset[str]:
    """Return the index variables in e."""
    return frozenset(x.name for x in walk_typed(e) if isinstance(x, typed.IndexValue))


def conjuncts(cond: Expr) -> Iterator[Expr]:
    """Yield the conditions that have to hold together."""
    match cond:
        case typed.Binary("&&", lhs, rhs):
            yield from conjuncts(lhs)
            yield from conjuncts(rhs)
        case _:
            yield cond


def conjunction(conditions: Sequence[Expr]) -> Expr:
    """Return the condition that all of these hold, at least one."""
    out, *others = conditions
    for x in others:
        out = typed.Binary("&&", out, x, BOOL)
    return out


def substitute_indices(e: Expr, by: Mapping[str, Expr], *, address: bool = False) -> Expr:
    """Return e with expressions in place of index variables.

    As a number an index keeps the type it had; in an address (address=True, and in subscripts)
    arithmetic is exact whatever the types are.
    """
    match e:
        case typed.IndexValue(name, dtype) if name in by:
            new = by[name]
            if address or new.dtype == dtype:
                return new
            is_index = isinstance(new, typed.IndexValue)
            return replace(new, dtype=dtype) if is_index else typed.Cast(new, dtype)
        case typed.Read():
            return map_operands(e, lambda x: substitute_indices(x, by, address=True))
        case typed.Binary("+" | "-" | "*" | "/" | "%") | typed.Unary("-"):
            return map_operands(e, lambda x: substitute_indices(x, by, address=address))
        case _:
            return map_operands(e, lambda x: substitute_indices(x, by))
