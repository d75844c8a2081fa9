"""What the schedule of a contraction depends on, and what it chooses."""

from __future__ import annotations

from collections.abc import Iterator

from tcdsl.codegen.loops.loopir import Expr
from tcdsl.grammar.text.dataclass import dataclass

METHODS = ("panel", "dot", "stream")
PANEL, DOT, STREAM = range(3)
AHEAD = 2  # of b: it is packed once for all tasks, before them


@dataclass(frozen=True, slots=True)
class Extents:
    """What the schedule depends on.

    outer: number of independent contractions. a_outer: of different a among them. groups: of those
    that tasks take together. a_row: stride of a's rows, None where they are not linear and a is
    packed. a_k_unit: k is contiguous in a. packs_a, packs_b: packing is a must. keeps_b: b must
    not be packed. near: of a, b and the output, whether the matrices of a group lie inside each
    other: those of a and b are packed together, the output's stored together. whole: the sum is not
    cut into passes, since the output cannot hold partial sums. dots, streams: the dot method, the
    stream method is possible. turns: the dot method turns b around first, which is not contiguous
    along k. shares_b: all threads together may pack b before the tasks. far_rows: a's lines lie
    along the outermost of its rows.
    is_tiled: micro-kernels are products of tiles (`words.py`), of one shape.
    """

    outer: Expr
    a_outer: Expr
    groups: Expr
    m: Expr
    n: Expr
    k: Expr
    a_row: Expr | None
    a_k_unit: bool
    packs_a: bool
    packs_b: bool
    keeps_b: bool
    near: tuple[bool, bool, bool]
    whole: bool
    dots: bool
    streams: bool
    lanes: int
    bytes: int
    turns: bool = False
    shares_b: bool = False
    far_rows: bool = False
    is_tiled: bool = False


@dataclass(frozen=True, slots=True)
class Blocking:
    """The choices of a schedule: constants, or variables of a size-generic phase.

    mr, nv: register tile. kc: depth of a pass. mc, nc: rows and columns of a task. mb: rows of a
    cache block, which stays in the second level while panels of b are walked. mt, nt: tasks along
    m and n. pack_a, pack_b: 0 or 1, of b also AHEAD. method: the panel method; the dot method over
    whole sums, which packs b at most, as columns; the stream method, which packs a at most. strip:
    rows of b that it reads together.
    """

    mr: Expr
    nv: Expr
    pack_a: Expr
    pack_b: Expr
    kc: Expr
    mb: Expr
    mc: Expr
    nc: Expr
    mt: Expr
    nt: Expr
    method: Expr
    strip: Expr

    def fields(self) -> Iterator[tuple[str, Expr]]:
        """Yield names and values, in order."""
        for name in self.__slots__:
            yield name, getattr(self, name)
