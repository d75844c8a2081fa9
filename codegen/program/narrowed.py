"""Paddings of halves as halves, where the product that reads them is made of words.

    P(c, y) = inside ? float32(I(c, y - 1)) : 0        ->   P(c, y) = float16(inside ? .. : 0)
    O(f, h) +=! P(c, h + k) * float32(K(f, c, k))           O(f, h) +=! float32(P(c, h + k)) * ..

Each element is one of the image, so nothing is lost; words hold factors of one type, as they lie.
Not where few outputs share an element: their rows leave most of a tile empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from tcdsl.codegen.program.expressions import indices_of, map_typed, reads_of
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.codegen.program.widened import padded_halves
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32, DType
from tcdsl.grammar.types.typed import Expr

_FEW = 8  # outputs


def narrowed(
    program: Program, sizes: Mapping[str, int], has_words: Callable[[DType], bool]
) -> Program:
    """Return a program whose paddings of halves are halves where words are made of them.

    sizes : representative ones.
    has_words : whether products of a type have instructions for several steps at once.
    """
    found: dict[str, DType] = {}
    for s in program.statements:
        dtype = _half(program, s, sizes)
        if dtype is not None and has_words(dtype):
            found[s.target] = dtype
    if not found:
        return program

    def one(e: Expr) -> Expr:
        if isinstance(e, typed.Read) and e.tensor in found:
            return typed.Cast(replace(e, dtype=found[e.tensor]), FLOAT32)
        return e

    def rewritten(s: Statement) -> Statement:
        if s.target in found:
            return replace(s, value=typed.Cast(s.value, found[s.target]))
        return replace(s, value=map_typed(s.value, one))

    buffers = (
        replace(x, dtype=found[x.name], is_packed=True) if x.name in found else x
        for x in program.buffers
    )
    return replace(
        program,
        buffers=tuple(buffers),
        statements=tuple(rewritten(s) for s in program.statements),
    )


def _half(program: Program, s: Statement, sizes: Mapping[str, int]) -> DType | None:
    """Return the type of what a statement is the padding of, if sums of such products read it."""
    of = padded_halves(s)
    if of is None or program.buffer(s.target).role != "temp":
        return None
    dtype = program.buffer(of).dtype
    if not dtype.is_half or program.buffer(of).role == "temp":
        return None
    readers = [x for x in program.statements if any(r.tensor == s.target for r in x.reads())]

    def is_product(x: Statement) -> bool:
        reads = reads_of(x.value)
        others = [b for r in reads if (b := program.buffer(r.tensor)).name != s.target]
        if not is_contraction(x) or any(b.role == "temp" or b.dtype != dtype for b in others):
            return False
        used = {n for r in reads if r.tensor == s.target for e in r.subs for n in indices_of(e)}
        return prod(r.extent.evaluate(sizes) for r in x.outputs if r.name not in used) >= _FEW

    return dtype if readers and all(map(is_product, readers)) else None
