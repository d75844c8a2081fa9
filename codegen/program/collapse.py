"""Pointwise programs free of rank: the same program over another number of dimensions.

    O(i, j) = A(i, j) + B(j)    ->    O(i0) = A(i0) + B(i0)

Where each element of the results depends on one element of each operand, at plain indices, it does
not matter how many dimensions there are, nor in which order: calls may join, sort and drop them
(`collapse.py` of the operands), and hand over strides, 0 where an operand is repeated. So all ranks
and layouts share the executables of one such program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import map_typed, walk_typed
from tcdsl.codegen.program.pointwise import Places, Pointwise, size_names, unused
from tcdsl.codegen.program.program import Buffer, Program, Statement
from tcdsl.codegen.program.unparse import expr_text
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr, Range

_ZERO = Size.const(0)
_CHEAP = ("min", "max", "abs", "fabs")


@on_own_stack
def pointwise_of(program: Program) -> Pointwise | None:
    """Return how a program collapses, None where it is not pointwise at plain indices."""
    found = _places_of(program)
    if found is None:
        return None
    rank = len(program.buffer(program.outputs[0]).shape)
    places = tuple(map(found.get, program.inputs)) + (tuple(range(rank)),) * len(program.outputs)
    key = hashlib.sha256(repr(at_rank(program, 1)).encode()).hexdigest()[:32]
    return Pointwise(key, places, _costly(program))


@on_own_stack
def at_rank(program: Program, rank: int) -> Program:
    """Return a program that `pointwise_of` takes over this many dimensions.

    Every operand that has dimensions has all of them: repeated ones have stride 0.
    """
    taken = {*program.scalars, *(b.tensor for b in program.buffers)}
    sizes = size_names(taken, rank)
    names = unused("i", taken, rank)
    shape, zeros = tuple(map(Size.symbol, sizes)), (_ZERO,) * rank
    subs = tuple(typed.IndexValue(n, INT64) for n in names)
    ranges = tuple(Range(n, _ZERO, s, "output") for n, s in zip(names, shape, strict=True))
    by_value = {b.name for b in program.buffers if b.role == "param" and not b.shape}
    buffers = tuple(
        b if b.name in by_value else Buffer(b.name, b.tensor, b.dtype, shape, zeros, b.role, b.home)
        for b in program.buffers
    )

    def moved(x: Expr) -> Expr:
        if not isinstance(x, typed.Read) or x.tensor in by_value:
            return x
        return typed.Read(x.tensor, subs, x.dtype, (False,) * rank)

    statements = []
    for s in program.statements:
        value = map_typed(s.value, moved)
        line = f"{s.target}({', '.join(names)}) {s.op} {expr_text(value)}"
        checked = (False,) * rank
        statements.append(
            Statement(s.target, s.base, subs, s.op, value, ranges, True, checked, line)
        )
    dims = f"({', '.join(sizes)})"
    params = (program.buffer(n) for n in program.inputs)
    heads = (f"{b.dtype.name}{'' if b.name in by_value else dims} {b.tensor}" for b in params)
    returns = ", ".join(program.buffer(n).tensor for n in program.outputs)
    lines = [f"def {program.name}({', '.join(heads)}) -> ({returns}) {{"]
    lines += [f"  {s.text}" for s in statements]
    return Program(
        name=program.name,
        text="\n".join([*lines, "}"]),
        sizes=sizes,
        scalars=program.scalars,
        inputs=program.inputs,
        outputs=program.outputs,
        buffers=buffers,
        statements=tuple(statements),
        constraints=(),
    )


def _places_of(program: Program) -> Mapping[str, Places] | None:
    """Return the places of the parameters that are read; None where the program is another one."""
    if program.loops or not program.statements or {*program.sizes} & {*program.scalars}:
        return None
    box = program.buffer(program.statements[0].target).shape
    found: dict[str, Places] = {}
    for s in program.statements:
        at = _positions(s, box)
        if at is None or program.buffer(s.target).shape != box or not s.covers:
            return None
        todo = [s.value]
        while todo:
            x = todo.pop()
            match x:
                case typed.IndexValue() | typed.SizeValue():
                    return None  # a value that hangs on the place
                case typed.Read(tensor, subs):
                    places = _places(subs, at)
                    buffer = program.buffer(tensor)
                    is_param = buffer.role == "param"
                    if places is None or any(x.checked):
                        return None
                    if not is_param and places != tuple(range(len(box))):
                        return None
                    if is_param and found.setdefault(tensor, places) != places:
                        return None  # as in A(i, j) + A(j, i)
                case _:
                    todo += _operands(x)
    return found


def _operands(e: Expr) -> tuple[Expr, ...]:
    match e:
        case typed.Unary(operand=a) | typed.Cast(operand=a):
            return (a,)
        case typed.Binary(lhs=a, rhs=b):
            return (a, b)
        case typed.Select(cond=c, then=a, other=b):
            return (c, a, b)
        case typed.Builtin(args=args):
            return args
        case _:
            return ()


def _positions(s: Statement, box: tuple[Size, ...]) -> Mapping[str, int] | None:
    """Return where each index stands on the left; None if that is not its whole box."""
    plain = [a.plain if (a := affine_of(e)) is not None else None for e in s.subs]
    at = {name: d for d, name in enumerate(plain) if name is not None}
    ranges = {r.name: r for r in s.ranges}
    is_whole = (
        len(at) == len(box) == len(s.subs)
        and {*at} == {*ranges}
        and all(r.kind == "output" and r.low == _ZERO for r in s.ranges)
        and all(ranges[n].extent == box[d] for n, d in at.items())
    )
    return at if is_whole and not any(s.subs_checked) else None


def _places(subs: tuple[Expr, ...], at: Mapping[str, int]) -> Places | None:
    """Return which index each subscript is, None for a 0; None if one is anything else."""
    places: list[int | None] = []
    for e in subs:
        a = affine_of(e)
        if a is None:
            return None
        if a.plain is not None:
            places.append(at[a.plain])
        elif not a.terms and a.const == _ZERO:
            places.append(None)
        else:
            return None
    walked = [p for p in places if p is not None]
    return tuple(places) if len({*walked}) == len(walked) else None


def _costly(program: Program) -> tuple[tuple[int, ...], ...]:
    """Return the smallest sets of parameters that functions and quotients are made of.

    What depends on the earlier contents of a result is repeated nowhere, and is left out.
    """
    number = {n: i for i, n in enumerate(program.inputs) if program.buffer(n).shape}
    made: dict[str, frozenset[int] | None] = {}  # None: of what a result held

    def of(e: Expr) -> frozenset[int] | None:
        total: set[int] = set()
        for x in walk_typed(e):
            if not isinstance(x, typed.Read):
                continue
            if x.tensor in number:
                total.add(number[x.tensor])
            elif program.buffer(x.tensor).role != "param":
                inner = made.get(x.tensor)
                if inner is None:
                    return None
                total |= inner
        return frozenset(total)

    found: set[frozenset[int]] = set()
    for s in program.statements:
        for x in walk_typed(s.value):
            match x:
                case typed.Builtin(name=name) if name not in _CHEAP:
                    pass
                case typed.Binary(op="/" | "%"):
                    pass
                case _:
                    continue
            if needed := of(x):
                found.add(needed)
        made[s.target] = None if s.base is not None else of(s.value)
    least = (x for x in found if not any(y < x for y in found))
    return tuple(sorted(tuple(sorted(x)) for x in least))
