"""Programs along rows free of rank: the same program over rows of other dimensions.

    S(a, b) +=! X(a, k, b)    O(a, k, b) = X(a, k, b) / S(a, b)
      ->  S(i0, i1) +=! X(i0, i1, k0)    O(i0, i1, k0) = X(i0, i1, k0) / S(i0, i1)

Where all statements that fold fold the same dimensions, those of a *row*, and all others run over
the kept dimensions or over those and the row, it does not matter how many there are of either, nor
in which order they lie in memory: calls join, sort and drop them (`collapse_rows.py` of the
operands), and hand over strides. So all ranks share the executables of one such program.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from tcdsl.codegen.program.expressions import map_typed
from tcdsl.codegen.program.pointwise import unused
from tcdsl.codegen.program.program import Buffer, Program, Statement
from tcdsl.codegen.program.row_dims import RowDims, row_dims, size_of
from tcdsl.codegen.program.rowwise import Rowwise, kind_of, row_sizes
from tcdsl.codegen.program.unparse import expr_text
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.nodes import starts_anew
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT64
from tcdsl.grammar.types.typed import Expr, Range

_ZERO, _ONE = Size.const(0), Size.const(1)


@on_own_stack
def rowwise_of(program: Program) -> Rowwise | None:
    """Return how a program along rows collapses, None where it is not one."""
    found = row_dims(program)
    if found is None:
        return None
    key = hashlib.sha256(repr(_moved(program, found, 1, 1)).encode()).hexdigest()[:32]
    return Rowwise(key, found.extents, found.kept, found.places, found.is_ordered)


@on_own_stack
def at_ranks(program: Program, kept: int, row: int) -> Program:
    """Return a program that `rowwise_of` takes over so many kept dimensions and those of a row."""
    found = row_dims(program)
    assert found is not None, "it is not along rows"
    return _moved(program, found, kept, row)


def _moved(program: Program, found: RowDims, kept: int, row: int) -> Program:
    """Return the program over other dimensions; a program without kept ones keeps having none."""
    taken = [*program.scalars, *(b.tensor for b in program.buffers)]
    kept = kept if found.kept else 0
    sizes = row_sizes(taken, kept, row)
    names = (*unused("i", taken, kept), *unused("k", taken, row))
    shape = tuple(map(Size.symbol, sizes))
    values = [typed.IndexValue(x, INT64) for x in names]
    parts = {"whole": slice(None), "kept": slice(0, kept), "row": slice(kept, None)}
    by_home: dict[str, slice] = {}
    by_value = {b.name for b in program.buffers if b.role == "param" and not b.shape}
    for name, places in zip(program.operands, found.places, strict=True):
        if name not in by_value:
            by_home[program.buffer(name).home] = parts[kind_of(places, found.kept)]
    for n, s in enumerate(program.statements):
        has_row = any(found.dims[n, r.name] >= found.kept for r in s.outputs)
        by_home[program.buffer(s.target).home] = parts["whole" if has_row else "kept"]

    def subs_of(name: str) -> tuple[Expr, ...]:
        return tuple(values[by_home[program.buffer(name).home]])

    buffers = []
    for b in program.buffers:
        if b.name in by_value:
            buffers.append(b)
        elif b.home in by_home:
            dims = shape[by_home[b.home]]
            low = (_ZERO,) * len(dims)
            buffers.append(Buffer(b.name, b.tensor, b.dtype, dims, low, b.role, b.home))
    length = _ONE
    for x in shape[kept:]:
        length = length * x

    def moved(e: Expr, n: int) -> Expr:
        """Return an expression at the new indices, values of sizes and indices too."""
        if size_of(e) is not None:
            return typed.SizeValue(length, e.dtype)
        match e:
            case typed.Read(tensor, _, dtype) if tensor not in by_value:
                subs = subs_of(tensor)
                return typed.Read(tensor, subs, dtype, (False,) * len(subs))
            case typed.IndexValue(name, dtype) if found.dims[n, name] == found.kept:
                return typed.IndexValue(names[kept], dtype)  # of the only index of a row
            case _:
                return e

    outputs = tuple(
        Range(x, _ZERO, e, "output") for x, e in zip(names[:kept], shape[:kept], strict=True)
    )
    along: tuple[tuple[str, Size], ...] = tuple(zip(names[kept:], shape[kept:], strict=True))
    statements = []
    for n, s in enumerate(program.statements):
        value = map_typed(s.value, lambda e, n=n: moved(e, n))  # type: ignore[misc]
        subs = subs_of(s.target)
        ranges = outputs
        if s.reductions:
            ranges += tuple(Range(x, _ZERO, e, "reduction") for x, e in along)
        elif len(subs) > kept:
            ranges += tuple(Range(x, _ZERO, e, "output") for x, e in along)
        indices = ", ".join(map(expr_text, subs))
        target = f"{s.target}({indices})" if subs else s.target
        line = f"{target} {s.op} {expr_text(value)}"
        checked = (False,) * len(subs)
        base = None if starts_anew(s.op) or s.op == "=" else s.base
        statements.append(Statement(s.target, base, subs, s.op, value, ranges, True, checked, line))
    heads = []
    for b in (program.buffer(x) for x in program.inputs):
        named = () if b.name in by_value else sizes[by_home[b.home]]
        box = f"({', '.join(named)})" if named else ""
        heads.append(f"{b.dtype.name}{box} {b.tensor}")
    returns = ", ".join(program.buffer(x).tensor for x in program.outputs)
    lines = [f"def {program.name}({', '.join(heads)}) -> ({returns}) {{"]
    lines += [f"  {s.text}" for s in statements]
    return replace(
        program,
        text="\n".join([*lines, "}"]),
        sizes=sizes,
        buffers=tuple(buffers),
        statements=tuple(statements),
        constraints=(),
    )
