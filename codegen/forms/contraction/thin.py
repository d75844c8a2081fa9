"""The analytic schedule of few rows: whether they stream, how many together, how far.

Formulas over loop-nest expressions, as in `schedule.py`.
"""

from __future__ import annotations

from tcdsl.codegen.forms.contraction.blocking import Extents
from tcdsl.codegen.forms.contraction.schedule import PASS
from tcdsl.codegen.forms.contraction.stream import most_rows, vectors_of
from tcdsl.codegen.loops.build import (
    add,
    all_of,
    any_of,
    c64,
    ceil_div,
    compare,
    div,
    expr,
    max64,
    min64,
    mul,
    select,
)
from tcdsl.codegen.loops.loopir import TRUTH, Const, Expr
from tcdsl.codegen.machine.cpu import Machine

LARGE = 4  # second levels that b has to fill: pages of a smaller one stay nearby
MANY = 64  # rows beyond which copies of panels are cheap beside them
MANY_NEAR = 47  # where vectors of panels come as fast from the second level as from the first
LONG = 16  # vectors in a row of b that is worth reading from end to end
FEW = 4  # rows whose elements of a stay in the first level where they lie
FAR = 8  # second levels: a larger b comes from memory
BUSY = 10  # sums that hide the latency of each other's additions, and of reading their rows
APART = 8  # the weight of a stretch's two ends, in rows of 8 points


def takes_streams(x: Extents, machine: Machine) -> Expr:
    """Return whether the stream method is the best one: 0 or 1."""
    if not x.streams:
        return c64(0)
    few = compare("<=", x.m, MANY_NEAR if machine.l2_keeps_up else MANY)
    long = compare(">=", x.n, LONG * x.lanes)
    large = compare(">", mul(x.outer, x.n, x.k, x.bytes), LARGE * machine.l2_bytes)
    return select(all_of(few, long, large), c64(1), c64(0))


def stream_cost(x: Extents, machine: Machine) -> Expr:
    """Return the half cycles of the stream method: bound by FMA units, or by loads of b."""
    groups = ceil_div(x.m, most_rows(machine.registers))
    step = max64(div(mul(x.m, 2), machine.fma_per_cycle), mul(groups, 3))
    return mul(ceil_div(x.n, x.lanes), x.k, add(step, 1))


def stream_rows(x: Extents, machine: Machine) -> Expr:
    """Return the rows that go together, in even parts.

    Of few registers parts have two vectors for each row where one would keep less than `BUSY` sums
    at work: 8 rows take 0.7 to 0.8 of the time (4096x4096, 1 thread, Zen 3, loaded), 13 to 18 rows
    0.83 to 0.95, 26 rows 0.95.
    """
    rows = _even_part(x.m, most_rows(machine.registers))
    if not machine.has_few_registers:
        return rows
    halves = _even_part(x.m, _rows_beside(machine.registers, 2))
    return select(compare("<", rows, BUSY), halves, rows)


def _even_part(rows: Expr, most: int) -> Expr:
    """Return the rows of an even part, at most so many."""
    return max64(ceil_div(rows, max64(ceil_div(rows, most), 1)), 1)


def _rows_beside(registers: int, vectors: int) -> int:
    """Return how many rows go together with so many vectors for each."""
    return max(r for r in range(1, most_rows(registers) + 1) if vectors_of(registers, r) >= vectors)


def stream_vectors(machine: Machine, rows: Expr) -> Expr:
    """Return how many vectors of columns go together."""
    out = expr(1)
    for vectors in (2, 4):
        most = _rows_beside(machine.registers, vectors)
        out = select(compare("<=", rows, most), c64(vectors), out)
    return out


def strip_depth(x: Extents, machine: Machine, rows: Expr) -> Expr:
    """Return how many rows of b are read together.

    From memory few: their lines share sets of the first level where they lie a power of two apart.
    From nearby as many as make the ways of the sums cheap. Of few registers two vectors go
    together, of which each row has two lines where b begins anywhere: 16 rows of a, 4096x4096, take
    14.1 ms by strips of 16, 11.8 by 8; 8 rows 7.4 by 8, 6.8 by 4 (1 thread, Zen 3, loaded).
    """
    far = compare(">", mul(x.n, x.k, x.bytes), FAR * machine.l2_bytes)
    deep = 8 if machine.has_few_registers else 16
    few = select(compare("<=", rows, FEW), c64(deep // 2), c64(deep))
    return min64(select(far, few, c64(64)), max64(x.k, 1))


def stream_pass(strip: Expr) -> Expr:
    """Return the depth for which a is packed at once, whole strips."""
    return mul(strip, max64(div(PASS, strip), 1))


def stream_packs_a(x: Extents) -> Expr:
    """Return whether to pack a: 0 or 1. Lines of many rows would push each other out."""
    stays = any_of(compare("<=", x.m, FEW), Const(not x.a_k_unit, TRUTH))
    return select(all_of(Const(not x.packs_a, TRUTH), stays), c64(0), c64(1))


def stream_stretches(x: Extents, machine: Machine) -> Expr:
    """Return the fewest tasks along n whose sums stay near."""
    most = div(machine.l2_bytes // (4 * x.bytes), max64(x.m, 1))
    return max64(ceil_div(x.n, max64(most, 4 * x.lanes)), 1)
