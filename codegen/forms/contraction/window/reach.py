"""Where a register tile of a convolution finds its operands, and its way to the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen.forms.contraction.finish import FinishAccess
from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.problem import Operand
from tcdsl.codegen.forms.contraction.window.base import Nest
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Call, Eval, Expr, Stmt
from tcdsl.grammar.proofs.sizes import Size

Point = Mapping[str, Expr]  # values of outer indices


def place_of(nest: Nest, x: Operand, point: Point) -> Expr:
    """Return the position of an operand's element at a point, other indices 0."""
    steps = (b.mul(v, nest.size(x.stride(name))) for name, v in point.items())
    return b.add(nest.size(x.offset), *steps)


def digits(where: Lets, number: Expr, counts: Sequence[tuple[str, Expr]]) -> list[Expr]:
    """Return a number as digits, the first of which counts fastest, each under its name."""
    return where.digits(number, counts, lambda n: f"above_{n}{counts[n][0]}")


def row_of(nest: Nest, x: Operand) -> Size:
    """Return the stride of an operand along the rows of what is stored."""
    return x.stride(nest.problem.m[0].name)


def reach(nest: Nest, name: str, x: Operand, along: bool, place: tuple[Expr, Expr]) -> Expr:
    """Return the address of an element, m and n being place."""
    row = b.mul(place[0], nest.size(row_of(nest, x)))
    step = nest.size(x.stride(nest.problem.n[0].name)) if along else b.c64(0)
    return b.offset(nest.origin(name, x), b.add(row, b.mul(place[1], step)))


def stores(
    nest: Nest, rows: Expr, columns: Expr, pixel: Expr, first: Expr, apart: Expr | None = None
) -> Stmt:
    """Return the way of a tile to the output, a block of vectors at a time.

    apart: of how many pixels the sums of a vector are; None: of those of the tile.
    """
    q, r = nest.var("column"), nest.var("row")
    turned, lanes = nest.is_turned, nest.lanes
    wide, tall = b.value_of(columns), b.value_of(rows)
    is_even = wide is not None and wide % lanes == 0
    left = b.c64(lanes) if is_even else b.min64(lanes, b.sub(columns, q))
    if turned:
        several = tall is None or tall > lanes
        width = b.min64(lanes, b.sub(rows, r)) if several else rows
        place = b.add(first, q), b.add(pixel, r)
        lines = left
    else:
        place = b.add(pixel, r), b.add(first, q)
        lines, width = rows, left
    sums = b.offset(nest.pointer("sums"), b.add(b.mul(q, apart or rows), b.mul(r, lanes)))
    p = nest.problem
    args: list[Expr] = [sums, reach(nest, "c_at", p.c, True, place), nest.size(row_of(nest, p.c))]
    if nest.store.step is None:
        args.append(nest.size(p.c.stride(p.n[0].name)))
    args += [lines, width]
    for x in nest.finish.accesses:
        args += _access(nest, x, place)
    args += [nest.uniform(v) for v, _ in nest.finish.uniforms]
    call = Eval(Call(nest.name("store"), tuple(args), None))
    inner = b.loop(r, 0, rows if turned else 1, call, step=lanes)
    return b.loop(q, 0, columns, inner, step=lanes)


def _access(nest: Nest, x: FinishAccess, place: tuple[Expr, Expr]) -> list[Expr]:
    at = reach(nest, f"{x.param}_at", x.operand, x.along, place)
    return [at, nest.size(row_of(nest, x.operand))] if x.row else [at]
