"""Which statements run under common tiles.

Two steps. Pointwise producers go into their consumers (`inline`). Then statements that follow each
other are gathered: a reduction with the pointwise statement on its result, a contraction with the
zero padding that it reads, contractions that write the pieces of one tensor (`padding`), and
statements that share kept indices (`sharing`): softmax, layernorm, several results from one pass.
Whether a lowering takes a group as a whole is not known here; the compiler cuts those that none
takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tcdsl.codegen.program.group import Group, Partition
from tcdsl.codegen.program.inline import inline
from tcdsl.codegen.program.padding import has_padding, pieces
from tcdsl.codegen.program.program import Program, carried
from tcdsl.codegen.program.sharing import has_epilogue, kept_indices

_LONGEST = 24  # groups that are joined: each length is tried, and costs its square


@lru_cache(maxsize=64)
def partitions(program: Program) -> tuple[Partition, ...]:
    """Return the partitions worth trying, the default first; no two are equal."""
    written = separate(program)
    inlined = inline(program, written)
    found = {
        "fused": gather(program, inlined, rows=True),
        "copies": gather(program, inlined, rows=True, paddings=False),
        "epilogues": gather(program, inlined, rows=False),
        "inlined": inlined,
        "separate": written,
    }
    out: dict[tuple[Group, ...], str] = {}
    for name, groups in found.items():
        out.setdefault(tuple(groups), name)
    return tuple(Partition(name, groups) for groups, name in out.items())


def separate(program: Program) -> list[Group]:
    """Return a group for each statement."""
    return [Group((i,), (s,), (), ((i,),)) for i, s in enumerate(program.statements)]


def gather(
    program: Program, groups: Sequence[Group], *, rows: bool, paddings: bool = True
) -> list[Group]:
    """Gather neighbours: each group takes as many of the following ones as is legal.

    Parameters
    ----------
    rows, paddings
        Whether statements are gathered that share rows, and paddings with the contractions that
        read them; else these read a copy.
    """
    out: list[Group] = []
    wanted = uses(program, groups)
    start = 0
    while start < len(groups):
        near = groups[start : start + _LONGEST]
        lengths = range(1, len(near) + 1)
        count = max(n for n in lengths if n == 1 or can_join(program, near[:n], rows, paddings))
        wanted.subtract(n for g in near[:count] for n in g.wanted())  # by later ones, from here on
        out.append(join(near[:count], wanted))
        start += count
    return out


def can_join(
    program: Program, run: Sequence[Group], rows: bool = True, paddings: bool = True
) -> bool:
    """Whether groups that follow each other may be one."""
    statements = [s for g in run for s in g.statements]
    if len({program.segment(m) for g in run for m in g.members}) > 1:
        return False
    is_padded = paddings and has_padding(statements)
    last = program.buffer(statements[-1].target)
    if (is_padded and len(statements) == 2) or (paddings and pieces(statements, last.shape)):
        reads = {r.tensor for s in statements for r in s.reads()}
        return all(program.buffer(name).home != last.home for name in reads)
    if not _undisturbed(program, run):
        return False
    if has_epilogue(statements[1:] if is_padded else statements):
        return True
    return rows and kept_indices(statements) is not None


def uses(program: Program, later: Sequence[Group]) -> Counter[str]:
    """Return how many groups, turns or callers read a version after what comes before later."""
    found = Counter(n for g in later for n in g.wanted())
    found.update((*program.outputs, *carried(program)))
    return found


def join(run: Sequence[Group], wanted: Mapping[str, int]) -> Group:
    """Return groups as one; wanted: how many read a version after it."""
    if len(run) == 1:
        return run[0]
    members = tuple(sorted({m for g in run for m in g.members}))
    statements = tuple(s for g in run for s in g.statements)
    local = tuple(s.target for s in statements if not wanted[s.target])
    return Group(members, statements, local, tuple(o for g in run for o in g.origins))


def _undisturbed(program: Program, run: Sequence[Group]) -> bool:
    """Whether groups write no memory that another tile still reads the old contents of."""
    made = {s.target for g in run for s in g.statements}
    written = {program.buffer(n).home for n in made}
    outside = {n for g in run for n in g.wanted() if n not in made}
    return not any(program.buffer(n).home in written for n in outside)
