"""Which statements run under common tiles.

Two steps. Pointwise producers go into their consumers (`inline`). Then statements that follow each
other are gathered: a reduction with the pointwise statement on its result, a contraction with the
zero padding that it reads, statements that write the pieces of one tensor (`padding`), and
statements that share kept indices (`sharing`): softmax, layernorm, several results from one pass.
Whether a form takes a group as a whole is not known here; `arrange.py` cuts those that
none takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile

from tcdsl.codegen.program.decided import Sizes
from tcdsl.codegen.program.group import Group, Partition
from tcdsl.codegen.program.inline import inline, is_contraction
from tcdsl.codegen.program.padding import are_pieces_apart, has_padding, is_padding, pieces
from tcdsl.codegen.program.program import Program, Statement, carried
from tcdsl.codegen.program.sharing import has_epilogue, kept_indices, outsider, seed_of
from tcdsl.codegen.program.slices import in_one_pass

_LONGEST = 24  # groups that are joined: each length is tried, and costs its square


@lru_cache(maxsize=64)
def partitions(program: Program, *, chains: Sizes | None = None) -> tuple[Partition, ...]:
    """Return the partitions worth trying, the default first; no two are equal.

    Their names, which configs have, from most to least that is fused:

    - crossed: as chained, and rows with the folds across them are one group
    - chained: as fused, and a product, rows of what it leaves and a product of these are one group
    - fused: all that `gather` joins
    - copies: as fused, but contractions read a padded copy of what they pad
    - epilogues: what shares rows stays apart, contractions have their paddings and epilogues
    - inlined: pointwise producers are in their consumers, nothing else is joined
    - separate: each statement is alone

    chains: the sizes at which products with rows between them may be one group, and rows with folds
    across them; None: no form takes such groups.
    """
    inlined, _ = _fused(program)
    found = [
        *_most_fused(program, chains),
        Partition("copies", tuple(gather(program, inlined, rows=True, paddings=False))),
        Partition("epilogues", tuple(gather(program, inlined, rows=False))),
        Partition("inlined", inlined),
        Partition("separate", tuple(separate(program))),
    ]
    out: dict[tuple[Group, ...], Partition] = {}
    for partition in found:
        out.setdefault(partition.groups, partition)
    return tuple(out.values())


@lru_cache(maxsize=64)
def default_partition(program: Program, *, chains: Sizes | None = None) -> Partition:
    """Return the first of `partitions`; the others, which few ask for, are not made."""
    return next(_most_fused(program, chains))


def _most_fused(program: Program, chains: Sizes | None) -> Iterator[Partition]:
    _, fused = _fused(program)
    if chains is not None:
        chained = joined(program, fused, chains)
        both = crossed(program, chained, chains)
        if len(both) < len(chained):
            yield Partition("crossed", tuple(both))
        if len(chained) < len(fused):
            yield Partition("chained", tuple(chained))
    yield Partition("fused", fused)


@lru_cache(maxsize=64)
def _fused(program: Program) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """Return groups with pointwise producers in their consumers, and these gathered."""
    inlined = inline(program, separate(program))
    return tuple(inlined), tuple(gather(program, inlined, rows=True))


def joined(program: Program, groups: Sequence[Group], sizes: Sizes) -> list[Group]:
    """Join three groups where they are a chain: a product, rows, a product of what they leave."""
    out: list[Group] = []
    wanted = uses(program, groups)
    left = list(groups)
    while left:
        run = left[:3]
        wanted.subtract(n for g in run for n in g.wanted())
        if len(run) == 3 and _is_chain(program, run, wanted, sizes):
            out.append(fused_group(program, run, wanted))
        else:
            wanted.update(n for g in run[1:] for n in g.wanted())
            del run[1:]
            out += run
        left = left[len(run) :]
    return out


def _is_chain(
    program: Program, run: Sequence[Group], wanted: Mapping[str, int], sizes: Sizes
) -> bool:
    """Whether groups, of one turn, are a chain as one; wanted: see `fused_group`."""
    if not is_contraction(run[0].statements[0]) or not _undisturbed(program, run):
        return False
    if not program.is_one_stretch(g.members for g in run):
        return False
    from tcdsl.codegen.forms.chain.find import chain_of  # on use: mostly nothing begins like one

    return chain_of(program, fused_group(program, run, wanted), sizes) is not None


def crossed(program: Program, groups: Sequence[Group], sizes: Sizes) -> list[Group]:
    """Join two groups where the second folds across the rows that the first goes along.

    What the first leaves for the second stays in memory.
    """
    out: list[Group] = []
    for g in groups:
        if out and _is_crossing(program, out[-1], g, sizes):
            before = out.pop()
            members = tuple(sorted(before.members + g.members))
            statements, local = before.statements + g.statements, before.local + g.local
            g = Group(members, statements, local, before.origins + g.origins)
        out.append(g)
    return out


def _is_crossing(program: Program, along: Group, across: Group, sizes: Sizes) -> bool:
    """Whether two groups, of one turn, are rows and long folds across them."""
    if len(along.statements) < 2 or not all(s.reductions for s in across.statements):
        return False
    run = along, across
    if not _undisturbed(program, run) or not program.is_one_stretch(g.members for g in run):
        return False
    from tcdsl.codegen.forms.rows.crossing import is_crossing, is_long  # on use: it is rare

    parts = along.statements, across.statements
    return is_crossing(*parts) and is_long(across.statements, sizes)


def separate(program: Program) -> list[Group]:
    """Return a group for each statement."""
    return [Group((i,), (s,), (), ((i,),)) for i, s in enumerate(program.statements)]


def gather(
    program: Program, groups: Sequence[Group], *, rows: bool, paddings: bool = True
) -> list[Group]:
    """Gather neighbours: each group takes as many of the following ones as is legal.

    Groups in between that cannot join may have to wait, if what joins has nothing to do with them:

        C(n, d) +=! X(n, d, p)          the rows of n
        B(d) +=! C(n, d)                waits
        M(n) +=! C(n, d)                the rows of n

    Parameters
    ----------
    rows, paddings
        Whether statements are gathered that share rows, and paddings with the contractions that
        read them; else these read a copy.
    """
    out: list[Group] = []
    wanted = uses(program, groups)
    left = list(groups)
    while left:
        near = left[:_LONGEST]
        run = _run(program, near, rows, paddings)
        if rows and len(run) < len(near):
            run = _longer(program, near, run, paddings)
        wanted.subtract(n for g in run for n in g.wanted())  # by later ones, from here on
        out.append(fused_group(program, run, wanted))
        left = _without(left, run)
    return out


def _run(program: Program, near: Sequence[Group], rows: bool, paddings: bool) -> list[Group]:
    """Return the longest run that groups begin with and that may be one group."""
    count, written, wanted = 1, set[str](), set[str]()
    first = near[0].statements
    in_turn = _is_in_turn(program, near[0])
    begins_pieces = paddings and (is_contraction(first[-1]) or is_padding(first[0]))
    begins_pieces |= rows and first[-1].op.endswith("!") and not first[-1].covers
    for n, g in enumerate(near, 1):
        written.update(s.target for s in g.statements)
        wanted |= g.wanted() - written
        may_go_on = begins_pieces or in_turn or (rows and _shares_reads(near[:n]))
        if not may_go_on and _overwrites(program, written, wanted):
            break  # as any longer run does
        if n > 1 and can_join(program, near[:n], rows, paddings):
            count = n
    return list(near[:count])


def _without(groups: Sequence[Group], run: Sequence[Group]) -> list[Group]:
    taken = {g.members for g in run}
    return [g for g in groups if g.members not in taken]


def _longer(
    program: Program, near: Sequence[Group], run: list[Group], paddings: bool
) -> list[Group]:
    """Return a run and what may join it from further behind, if fewer groups are left so."""
    longer = _overtaking(program, near, len(run))
    if longer is None:
        return run

    def groups_left(taken: list[Group]) -> int:
        rest, count = _without(near, taken), 0
        while rest:
            rest, count = _without(rest, _run(program, rest, True, paddings)), count + 1
        return count

    return longer if groups_left(longer) < groups_left(run) else run


def _overtaking(program: Program, near: Sequence[Group], count: int) -> list[Group] | None:
    """Return the first groups and later ones that share their rows and may pass what does not.

    None where there are no further ones.
    """
    if any(len(g.statements) > 1 for g in near):
        return None
    seed = near[seed_of([g.statements[0] for g in near[:count]])]
    here = program.stretch(near[0].members[0])
    run = list(takewhile(lambda g: program.stretch(g.members[0]) == here, near))
    waiting: list[Group] = []
    while (out := outsider([g.statements[0] for g in run], run.index(seed))) is not None:
        if out < count:
            return None
        waiting.append(run.pop(out))
        waiting.sort(key=near.index)
        for g in run[count:]:  # in order: what follows one that waits may follow another
            if any(_depend(program, w, g) for w in waiting if near.index(w) < near.index(g)):
                run.remove(g)
                waiting.append(g)
    return run if len(run) > count and can_join(program, run) else None


def _depend(program: Program, first: Group, then: Group) -> bool:
    """Whether one of two groups touches memory that the other writes: their order counts."""
    a, b = _memory(program, first), _memory(program, then)
    return not (a[1].isdisjoint(b[0] | b[1]) and b[1].isdisjoint(a[0]))


def _memory(program: Program, g: Group) -> tuple[frozenset[str], frozenset[str]]:
    """Return the memory that a group reads or goes on from, and that it writes."""
    read = frozenset(program.buffer(n).home for n in g.wanted())
    return read, frozenset(program.buffer(s.target).home for s in g.statements)


def can_join(
    program: Program, run: Sequence[Group], rows: bool = True, paddings: bool = True
) -> bool:
    """Whether groups that follow each other may be one."""
    statements = [s for g in run for s in g.statements]
    if not program.is_one_stretch(g.members for g in run):
        return False
    is_padded = paddings and has_padding(statements)
    last = program.buffer(statements[-1].target)
    if (
        (is_padded and len(statements) == 2)
        or (paddings and pieces(statements, last.shape))
        or (rows and are_pieces_apart(statements, last.shape))
    ):
        reads = {r.tensor for s in statements for r in s.reads()}
        return all(program.buffer(name).home != last.home for name in reads)
    if not _undisturbed(program, run):
        return rows and _on_slices(program, run) is not None
    if has_epilogue(statements[1:] if is_padded else statements):
        return True
    return rows and (kept_indices(statements) is not None or _on_slices(program, run) is not None)


def _on_slices(program: Program, run: Sequence[Group]) -> tuple[Statement, ...] | None:
    """Return statements as one pass over their points, None if they are none.

    Outside of turns, which a phase more costs little, only where they share what they read.
    """
    if not (_is_in_turn(program, run[0]) or _shares_reads(run)):
        return None
    return in_one_pass(program, [s for g in run for s in g.statements])


def _shares_reads(run: Sequence[Group]) -> bool:
    """Whether each group but the first reads what one before it reads or makes."""
    known: set[str] = set()
    for k, g in enumerate(run):
        reads = {r.tensor for s in g.statements for r in s.reads() if r.subs}
        if k and known.isdisjoint(reads):
            return False
        known |= reads.union(s.target for s in g.statements)
    return True


def _is_in_turn(program: Program, g: Group) -> bool:
    return any(x.first <= g.members[0] < x.last for x in program.loops)


def uses(program: Program, later: Sequence[Group]) -> Counter[str]:
    """Return how many groups, turns or callers read a version after what comes before later."""
    found = Counter(n for g in later for n in g.wanted())
    found.update((*program.outputs, *carried(program)))
    return found


def fused_group(program: Program, run: Sequence[Group], wanted: Mapping[str, int]) -> Group:
    """Return groups as one; wanted: how many read a version after it."""
    if len(run) == 1:
        return run[0]
    members = tuple(sorted({m for g in run for m in g.members}))
    statements = tuple(s for g in run for s in g.statements)
    parts: set[str | None] = set()  # of which statements of the group leave elements as they are
    if not all(s.covers for s in statements):
        statements = _on_slices(program, run) or statements
        parts = {s.base for s in statements if not s.covers}
        parts |= {s.target for s in statements if not s.covers}
    local = tuple(s.target for s in statements if not wanted[s.target] and s.target not in parts)
    return Group(members, statements, local, tuple(o for g in run for o in g.origins))


def _undisturbed(program: Program, run: Sequence[Group]) -> bool:
    """Whether groups write no memory that another tile still reads the old contents of."""
    made = {s.target for g in run for s in g.statements}
    outside = {n for g in run for n in g.wanted() if n not in made}
    return not _overwrites(program, made, outside)


def _overwrites(program: Program, made: Iterable[str], read: Iterable[str]) -> bool:
    """Whether a version that is made lies in the memory of one that is read."""
    homes = {program.buffer(n).home for n in made}
    return any(program.buffer(n).home in homes for n in read)
