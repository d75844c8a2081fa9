"""Pointwise producers into their consumers, so that they cost no pass over memory.

    T(i) = f(A(i))            O(i) = g(f(A(i)), B(i))
    O(i) = g(T(i), B(i))  ->

Halide: compute_inline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import (
    indices_of,
    map_typed,
    reads_of,
    substitute_indices,
    walk_typed,
)
from tcdsl.codegen.program.group import Group
from tcdsl.codegen.program.program import Program, Statement, carried
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64

_CHEAP_NODES = 4  # an expression so small is computed again rather than stored
_LARGEST_VALUE = 200  # nodes; beyond, an expression is not made larger


def inline(
    program: Program, groups: Sequence[Group], allow: Callable[[Group], bool] = lambda _: True
) -> list[Group]:
    """Put groups of one pointwise statement into those that read them, where it is legal and pays.

    allow refuses producers: the choice of a partition among the legal ones.
    """
    left = list(groups)
    for g in groups:
        at = next(i for i, h in enumerate(left) if h.members[-1] == g.members[-1])
        producer = left[at]
        s = producer.statements[0]
        readers = [i for i, h in enumerate(left) if s.target in h.wanted()]
        consumers = [left[i].statements[0] for i in readers]
        if not readers or not allow(g) or not _inlinable(program, s, consumers):
            continue
        is_one = program.is_one_stretch(left[i].members for i in (at, *readers))
        if not is_one or s.target in carried(program):
            continue
        if not all(_reads_live(program, left, at, i) for i in readers):
            continue
        for i in readers:
            members = tuple(sorted({*producer.members, *left[i].members}))
            merged = with_value(left[i].statements[0], s)
            left[i] = Group(members, (merged,), (), (members,))
        del left[at]
    return left


def _inlinable(program: Program, s: Statement, consumers: Sequence[Statement]) -> bool:
    """Whether a statement is a function of its indices that costs no more inside its readers."""
    buffer = program.buffer(s.target)
    if s.op != "=" or not s.covers or s.along or s.target in program.outputs:
        return False
    if any(c.base == s.target for c in consumers) or any(any(r.checked) for r in s.reads()):
        return False
    if buffer.role == "return" and buffer.dtype.is_half:  # storing would round it
        return False
    nodes = 0 if _is_view(s) else _size(s.value)
    reads = [(c, r) for c in consumers for r in c.reads() if r.tensor == s.target]
    distinct = len({(c.target, r.subs) for c, r in reads})
    ends = (e for c in consumers for r in c.ranges for e in r.bounds or ())
    if any(r.tensor == s.target for e in ends for r in reads_of(e)):
        return False  # what bounds a range is read once for it
    for c, r in reads:
        if any(r.checked) or c.is_arg:
            return False
        if any(x.tensor == s.target for e in c.subs for x in reads_of(e)):
            return False
        # a point of the consumer that differs only in other indices would compute it again
        again = {x.name for x in c.ranges} - {n for e in r.subs for n in indices_of(e)}
        if (again or distinct > 1) and nodes > _CHEAP_NODES:
            return False
        if is_product(c.value) and c.reductions and nodes > 1:
            return False  # a contraction wants plain operands
        if _size(c.value) + nodes > _LARGEST_VALUE:
            return False
    return True


def _is_view(s: Statement) -> bool:
    """Whether a statement is a read of elements that lie as it has them: each index, and a number.

    A padding of which no element is outside is one.
    """
    if not isinstance(s.value, typed.Read) or len(s.value.subs) != len(s.subs):
        return False
    if s.value.dtype != s.value.dtype.computed:
        return False
    places = [(affine_of(at), affine_of(to)) for at, to in zip(s.value.subs, s.subs, strict=True)]
    return all(a is not None and t is not None and a.terms == t.terms for a, t in places)


def _size(e: typed.Expr) -> int:
    return sum(1 for _ in walk_typed(e))


def _reads_live(program: Program, groups: Sequence[Group], producer: int, reader: int) -> bool:
    """Whether what a producer reads is still there when its reader runs."""
    homes = {program.buffer(n).home for n in groups[producer].wanted()}
    between = groups[producer + 1 : reader]
    if any(program.buffer(s.target).home in homes for g in between for s in g.statements):
        return False
    consumer = groups[reader].statements[0]
    home = program.buffer(consumer.target).home
    if home not in homes:
        return True
    if consumer.base is None and not consumer.covers:
        return False  # the reader fills the box before its points read
    # the reader works in place: each point may read no other element of what it overwrites
    merged = with_value(consumer, groups[producer].statements[0])
    return not consumer.reductions and all(
        r.subs == consumer.subs for r in merged.reads() if program.buffer(r.tensor).home == home
    )


def with_value(consumer: Statement, producer: Statement) -> Statement:
    """Return the consumer with the producer's right side in place of reads of its target."""

    def one(e: typed.Expr) -> typed.Expr:
        if not isinstance(e, typed.Read) or e.tensor != producer.target:
            return e
        by = dict(_solved(sub, at) for sub, at in zip(producer.subs, e.subs, strict=True))
        return substitute_indices(producer.value, by)

    return replace(consumer, value=map_typed(consumer.value, one))


def _solved(sub: typed.Expr, at: typed.Expr) -> tuple[str, typed.Expr]:
    """Return the index and its value for which a covering subscript is at: index = at - const."""
    a = affine_of(sub)
    assert a is not None, "a covering subscript is an index and a constant"
    ((name, _),) = a.terms
    if a.const == Size.const(0):
        return name, at
    return name, typed.Binary("-", at, typed.SizeValue(a.const, INT64), INT64)


def is_product(e: typed.Expr) -> bool:
    """Whether e is a product of plain reads (through casts)."""
    match e:
        case typed.Binary("*", lhs, rhs):
            return is_product(lhs) and is_product(rhs)
        case typed.Cast(operand):
            return is_product(operand)
        case typed.Read(_, subs):
            return bool(subs)
        case _:
            return False


def is_contraction(s: Statement) -> bool:
    """Whether s is a sum of products in which two operands are used again for other outputs."""
    if s.op not in ("+=", "+=!") or not s.reductions or not is_product(s.value):
        return False
    outputs = {r.name for r in s.outputs}
    used = [{n for e in r.subs for n in indices_of(e)} for r in reads_of(s.value)]
    return sum(bool(outputs - indices) for indices in used) >= 2
