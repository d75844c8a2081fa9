"""Adjoints through reductions that are not sums: `max=`, `min=` and `*=`.

The first point of an extreme gets all of its adjoint; for a NaN it is the first point of all. It is
found by an integer minimum over the points that nothing beats, where the value is rounded once and
so has the same bits in every kernel (a read, a sum, a product); else by an arg reduction. What a
gradient computes again has other bits where a C compiler fuses another product of it with its sum.

What a factor gets is the product of the others (`other_factors`). Refused: products before and
behind each factor, which are right to any order and a loop over n; to read the product that the
forward pass kept: under a condition that read is not hoisted, and the pass takes three times as
long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import prod
from typing import Protocol

from tcdsl.codegen.gradient import build as g
from tcdsl.codegen.gradient.lines import Line, Part
from tcdsl.codegen.gradient.versions import STARTING, Version, VersionStep
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import from_lowest, reads_of
from tcdsl.codegen.program.sharing import slides
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import Diagnostic, Note, raise_one
from tcdsl.grammar.text.nodes import AssignOp
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, FLOAT32, INT32, INT64, DType
from tcdsl.grammar.types.typed import Expr, Range


class GradientStore(Protocol):
    """Who gives names and remembers the tensors that lines make."""

    values: dict[str, Version]
    products: dict[VersionStep, typed.Read]  # of all factors
    compared: set[str]  # versions of which every bit counts
    searches: dict[str, VersionStep]  # places of extremes, and the steps that have these

    def makers(self, name: str) -> Sequence[Expr]:
        """Return what may be computed again where a tensor is read; nothing of one in memory."""
        ...

    def fresh(self, name: str) -> str:
        """Return a name like this one that nothing else has."""
        ...

    def box(self, version: str) -> tuple[Range, ...]:
        """Return indices over the whole of a version."""
        ...

    def at(self, version: str) -> tuple[Expr, ...]:
        """Return the subscripts of `box`."""
        ...


@dataclass(frozen=True, slots=True)
class PartialFactor:
    """Lines to run first, and what reads them.

    at: what a reduction index is where the value is not 0, which there is plain.
    """

    lines: list[Part]
    value: Expr
    at: Mapping[str, Expr] = field(default_factory=dict)
    plain: Expr | None = None


def computed(read: typed.Read) -> Expr:
    """Return a read in the type in which it is computed."""
    return typed.Cast(read, FLOAT32) if read.dtype.is_half else read


def first_extreme(s: VersionStep, seed: Expr, store: GradientStore) -> PartialFactor:
    """Return the seed for the first point that attains an extreme, 0 for the others."""
    zero = g.number(0, seed.dtype)
    here = computed(typed.Read(s.target, s.subs, store.values[s.target].dtype))
    wins: Expr | None = None
    if s.onto is not None:
        before = computed(typed.Read(s.onto, s.subs, store.values[s.onto].dtype))
        wins = typed.Unary("!", has(before, here), BOOL)
        if not _is_exact(before, store):
            store.compared.add(s.onto)
    if s.is_ragged:
        _want_places(s)
    if not is_one_to_one(s):  # the extreme of an element may come from any point
        lines, value = _of_the_first(s, here, seed, wins, store)
        return PartialFactor(lines, value)
    reductions = [r for r in s.ranges if r.kind == "reduction"]
    if not reductions:
        return PartialFactor([], g.choose(wins, seed, zero))
    outputs = [r for r in s.ranges if r.kind == "output"]
    name = store.fresh(f"{s.target}_place")
    at = tuple(from_lowest(g.index(r.name), r.low) for r in outputs)
    store.values[name] = Version(name, name, INT64, tuple(r.extent for r in outputs))
    store.searches[name] = s
    is_kept = store.values[s.target].dtype == s.value.dtype and not s.value.dtype.is_half
    if (
        s.onto is None
        and len(reductions) == 1
        and not reductions[0].is_guess  # as a number it is an int32
        and not slides(reads_of(s.value), s.ranges)  # a window is searched while its extreme is
        and is_kept
        and _is_exact(s.value, store)
    ):
        line, place, first = _first_equal(s, here, name, at, reductions[0])
        store.values[name] = replace(store.values[name], dtype=INT32)
    else:
        op: AssignOp = "argmax=!" if s.op.startswith("max") else "argmin=!"
        line, place = Line(name, at, op, s.value, s.ranges), _position(reductions)
        first = typed.Read(name, at, INT64)
    value = g.choose(g.both(wins, g.compare("==", place, first)), seed, zero)
    if s.is_ragged or len(reductions) > 1 or not _is_reached(reductions[0], outputs):
        return PartialFactor([line], value)
    return PartialFactor([line], value, {reductions[0].name: first}, g.choose(wins, seed, zero))


def _want_places(s: VersionStep) -> None:
    """Refuse an extreme whose points have no known place: no first one is told among equals."""
    is_scatter = any(r.bounds is not None and r.kind == "output" for r in s.ranges)
    reductions = [r for r in s.ranges if r.kind == "reduction"]
    if is_scatter or (len(reductions) > 1 and any(r.is_guess for r in reductions)):
        what = f"the gradient goes through '{s.op}' over a box that only data knows"
        if is_scatter and not any(r.is_guess for r in s.ranges):
            what = f"the gradient goes through '{s.op}' of a scatter over a ragged range"
        note = Note("reduce one index at a time, into a temporary")
        raise_one(Diagnostic("TC143", what, s.value.span, "", (note,)))


def _of_the_first(
    s: VersionStep, here: Expr, seed: Expr, wins: Expr | None, store: GradientStore
) -> tuple[list[Part], Expr]:
    """Return the seed for the first of the points that fall into an element and have its extreme.

    What is not a value in memory may have other bits where it is computed again, and a half has
    been rounded: such values are written down, and their extremes are asked anew.
    """
    lines: list[Part] = []
    value, dtype = s.value, s.value.dtype.computed
    if not _is_exact(value, store) or dtype != store.values[s.target].dtype:
        name = store.fresh(f"{s.target}_values")
        store.values[name] = Version(name, s.target, dtype, tuple(r.extent for r in s.ranges))
        at = tuple(from_lowest(g.index(r.name), r.low) for r in s.ranges)
        lines.append(Line(name, at, "=", g.convert(value, dtype), s.ranges))
        value = typed.Read(name, at, dtype)
        op: AssignOp = "max=" if s.op.startswith("max") else "min="
        lowest = g.number(-math.inf if op == "max=" else math.inf, dtype)
        more, here = _like_target(s, "extreme", dtype, op, value, lowest, store)
        lines += more
    place = _position(s.ranges)
    last = typed.Lit(2**63 - 1, INT64)
    mine = g.choose(has(value, here), place, last)
    more, first = _like_target(s, "place", INT64, "min=", mine, last, store)
    is_first = g.compare("==", place, first)
    return [*lines, *more], g.choose(g.both(wins, is_first), seed, g.number(0, seed.dtype))


def _first_equal(
    s: VersionStep, here: Expr, name: str, at: tuple[Expr, ...], reduction: Range
) -> tuple[Line, Expr, typed.Read]:
    """Return the search for the first point that has the extreme, its index, what is found.

    An integer minimum takes vectors, where an arg reduction takes points one by one. An extreme
    that is NaN has come from a NaN: one is found wherever there are points.
    """
    place, last = typed.IndexValue(reduction.name, INT32), typed.Lit(2**31 - 1, INT32)
    line = Line(name, at, "min=!", g.choose(has(s.value, here), place, last), s.ranges)
    return line, place, typed.Read(name, at, INT32)


def has(value: Expr, extreme: Expr) -> Expr:
    """Return whether a value is the extreme, or the NaN that it then is."""
    is_nan = typed.Builtin("isnan", (value,), BOOL)
    return typed.Binary("||", g.compare("==", value, extreme), is_nan, BOOL)


def _is_exact(e: Expr, store: GradientStore, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a value has the same bits wherever it is computed: one rounding, no fused ones.

    seen: tensors whose values e is a part of.
    """
    match e:
        case typed.Lit():
            return True
        case typed.Read(tensor):
            inside = seen | {tensor}
            return tensor not in seen and all(
                _is_exact(x, store, inside) for x in store.makers(tensor)
            )
        case typed.Cast(operand, dtype) if operand.dtype.computed == dtype:
            return _is_exact(operand, store, seen)
        case typed.Unary("-", operand):
            return _is_exact(operand, store, seen)
        case typed.Binary("+" | "-" | "*", lhs, rhs):
            return _is_stored(lhs, store) and _is_stored(rhs, store)
        case typed.Builtin("max" | "min" | "fmax" | "fmin" | "abs" | "fabs" | "relu", args):
            return all(_is_exact(x, store, seen) for x in args)
        case _:
            return False


def _is_stored(e: Expr, store: GradientStore) -> bool:
    """Whether a factor or term is in memory, so that no product of its own is fused."""
    return isinstance(e, typed.Lit) or (isinstance(e, typed.Read) and not store.makers(e.tensor))


def _is_reached(reduction: Range, outputs: Sequence[Range]) -> bool:
    """Whether there is a point to reduce wherever there is an element to reduce into."""
    extent = reduction.extent
    return (extent.constant or 0) > 0 or any(r.extent == extent for r in outputs)


def product(s: VersionStep, store: GradientStore) -> PartialFactor:
    """Return the product of all factors of each element, 1 where there is none; formed once."""
    known = store.products.get(s)
    if known is not None:
        return PartialFactor([], known)
    dtype = s.value.dtype.computed
    lines, read = _like_target(s, "product", dtype, "*=", s.value, g.number(1, dtype), store)
    store.products[s] = read
    return PartialFactor(lines, read)


def other_factors(s: VersionStep, seed: Expr, store: GradientStore) -> PartialFactor:
    """Return the seed times the product of the other factors, right also where some are 0.

    O(b) *=! X(b, n)   ->   O_zeros(b) +=! X(b, n) == 0 ? 1 + X(b, n) : 0
                            O_others(b) *=! X(b, n) == 0 ? 1 : X(b, n)
                            O_product(b) *=! X(b, n)
                            d_X(b, n) = d_O(b) * (X(b, n) != 0 ? O_product(b) / X(b, n) : ...)

    Of the others of a zero one may be a zero: it is the sum of all zeros without this one, in its
    value as in its derivative, so second derivatives are right. (Third ones by three factors that
    are all 0 are lost.) The product is formed again, not read: within one pass that is cheaper.
    """
    before: Expr | None = None
    if s.onto is not None:
        before = computed(typed.Read(s.onto, s.subs, store.values[s.onto].dtype))
    if all(r.kind == "output" for r in s.ranges) and is_one_to_one(s):
        return PartialFactor([], seed if before is None else g.mul(seed, before))
    lines: list[Part] = []
    dtype = s.value.dtype.computed
    one, zero = g.number(1, dtype), g.number(0, dtype)
    is_zero = g.compare("==", s.value, zero)
    counted = g.choose(is_zero, g.add(one, s.value), zero)
    more, zeros = _like_target(s, "zeros", dtype, "+=", counted, zero, store)
    lines += more
    nonzero = g.choose(is_zero, one, s.value)
    more, others = _like_target(s, "others", dtype, "*=", nonzero, one, store)
    lines += more
    rest: Expr = others if before is None else g.mul(g.convert(before, dtype), others)
    other_zero = g.sub(g.sub(zeros, g.number(2, dtype)), s.value)
    for_zero = g.choose(
        g.compare("==", zeros, one), rest,
        g.choose(g.compare("==", zeros, g.number(2, dtype)), g.mul(other_zero, rest), zero),
    )  # fmt: skip
    every = product(s, store)
    lines += every.lines
    whole = every.value if before is None else g.mul(g.convert(before, dtype), every.value)
    return PartialFactor(lines, g.mul(seed, g.choose(is_zero, for_zero, g.div(whole, s.value))))


def _like_target(
    s: VersionStep,
    kind: str,
    dtype: DType,
    op: AssignOp,
    value: Expr,
    start: Expr,
    store: GradientStore,
) -> tuple[list[Part], typed.Read]:
    """Return lines that reduce into a tensor as large as a step's target, and its read."""
    name = store.fresh(f"{s.target}_{kind}")
    shape = store.values[s.target].shape
    store.values[name] = Version(name, s.target, dtype, shape)
    read = typed.Read(name, s.subs, dtype)
    if s.covers:
        return [Line(name, s.subs, STARTING[op], value, s.ranges)], read
    begin = Line(name, store.at(s.target), "=", start, store.box(s.target))
    return [begin, Line(name, s.subs, op, value, s.ranges)], read


def is_one_to_one(s: VersionStep) -> bool:
    """Whether every element is written for one value of the output indices."""
    found = [a for e in s.subs if (a := affine_of(e)) is not None]
    names = [a.terms[0][0] for a in found if len(a.terms) == 1]
    return {r.name for r in s.ranges if r.kind == "output"} <= set(names)


def _position(ranges: Sequence[Range]) -> Expr:
    """Return what an arg reduction gives for a point: the index, or its row-major place."""
    if len(ranges) == 1:
        place = g.index(ranges[0].name)
        return typed.Cast(place, INT64) if ranges[0].is_guess else place
    points = prod((r.extent for r in ranges), start=Size.const(1)).constant
    at: Expr | None = None
    for r in ranges:
        step = from_lowest(g.index(r.name), r.low)
        if at is not None:
            scaled = typed.Binary("*", at, g.size(r.extent), INT64)
            step = typed.Binary("+", scaled, step, INT64)
        elif points is None or points > 2**31:  # as text an index is an int32
            step = typed.Cast(step, INT64)
        at = step
    assert at is not None
    return at
