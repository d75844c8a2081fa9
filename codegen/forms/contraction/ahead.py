"""What micro-kernels fetch before it is needed: operands that lie in memory, not in a cache.

Rows of a that run along k are as many streams as a tile has rows, each a line or a few long, and
rows of the output are written for the first time: no hardware foresees either. Times over those
without (1 thread of a Zen 4): 65536x100 by 100x48 0.61, 16384x128 by 128x512 0.8, 1024^3 0.99;
23592960 sums of 24 terms 0.88.
"""

from __future__ import annotations

from tcdsl.codegen.forms.contraction.blocking import Blocking, Extents
from tcdsl.codegen.forms.contraction.panel import Panel
from tcdsl.codegen.forms.contraction.register_tile import FAR, PAST
from tcdsl.codegen.forms.contraction.schedule import is_far
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, TRUTH, Bin, Const, Expr
from tcdsl.codegen.machine.cpu import Machine

FORESEEN = 2048  # bytes of a row that hardware takes for a stream soon enough


def fetches_rows(x: Extents, machine: Machine, depth: Expr) -> Expr:
    """Return whether rows of a that stay where they lie are fetched ahead, depth steps a pass.

    From memory; where a prefetch delays FMAs hardware fetches long rows itself, at less cost.
    """
    far = is_far(x, machine, x.a_outer, x.m, x.k)
    if not machine.shares_ports:
        return far
    return b.all_of(far, b.compare("<", b.mul(depth, x.bytes), FORESEEN))


def goes_past(panel: Panel, machine: Machine) -> Expr:
    """Return whether no cache holds the output, so that its lines are stored past them."""
    x = panel.extents()
    if panel.waits or panel.has_pass or panel.is_tiled:  # whose sums are read again
        return Const(False, TRUTH)
    return b.compare(">=", b.mul(x.outer, x.m, x.n, x.bytes), machine.own_l3_bytes)


def with_distance(panel: Panel, machine: Machine, flags: Expr, *, may_pass: bool) -> Expr:
    """Return a flag word that says too how far away the output is.

    may_pass: nothing of the same phase reads it.
    """
    x = panel.extents()
    far = b.select(is_far(x, machine, x.outer, x.m, x.n), b.c64(FAR), b.c64(0))
    if may_pass:
        far = b.select(goes_past(panel, machine), b.c64(FAR | PAST), far)
    return flags if panel.waits else with_bits(flags, far)  # sums that wait lie in the workspace


def with_bits(flags: Expr, bits: Expr) -> Expr:
    """Return a flag word with more bits."""
    known = b.value_of(bits), b.value_of(flags)
    if known[0] == 0:
        return flags
    if known[0] is not None and known[1] is not None:
        return b.c64(known[0] | known[1])
    return Bin("|", flags, bits, I64)


def ahead(panel: Panel, g: Blocking, machine: Machine) -> tuple[Expr, Expr, Expr]:
    """Return how far ahead a micro-kernel fetches a and b, and the distance of a's rows; or 0.

    The rows of the next tile where a comes from memory, the next panel of a b that stays where it
    lies though its rows are far apart.
    """
    p, x = panel.problem, panel.extents()
    none: Expr = b.c64(0)
    row, b_ahead = panel.stride(p.a, p.m), none
    if x.packs_a or row is None or not x.a_k_unit:
        row = none
    else:
        stays = b.compare("==", g.pack_a, 0)
        row = b.select(b.all_of(stays, fetches_rows(x, machine, g.kc)), row, none)
    if p.natural and not x.packs_b:
        b_ahead = b.select(b.compare("==", g.pack_b, 0), b.mul(g.nv, panel.lanes), none)
    return b.mul(g.mr, row), row, b_ahead


def next_b(panel: Panel, machine: Machine) -> Expr | None:
    """Return how far behind a matrix b the next one lies, of a batch that comes from memory; or 0.

    None where it is the same, or most of it is, a window further, or its panels lie side by side.
    Short rows of small matrices are more than hardware foresees: 8192 of 32x16 took 1.1 of the
    time.
    """
    p, x = panel.problem, panel.extents()
    last = p.outer[-1].name
    if p.natural or not p.b.uses(last) or p.b.shares_dim(last, p.k):
        return None
    matrices = panel.extent(tuple(i for i in p.outer if p.b.uses(i.name)))
    apart = panel.size(p.b.stride(last))
    return b.select(is_far(x, machine, matrices, x.n, x.k), apart, b.c64(0))
