"""State that loops overwrite in part, kept in place: of each statement, what it overwrites.

    for t in 0:T {                            for t in 0:T {
      A(t % 3, n) = f(A(t % 3, n))     ->       A_old(t, n) = A(t % 3, n)
    }                                           A(t % 3, n) = f(A_old(t, n))
                                              }

The way back undoes the statements: before the share of one is formed its elements hold again what
they held before it. So every read finds what it found on the way there, whatever rows it reads; and
what is kept grows with what is written, never with the whole state. A statement in place is one
between two versions of the elements that it writes, its *local*: `A_old` before, `A_new` after.
Known from the reverse mode of imperative programs as a tape of overwritten values.

What nothing reads again is neither kept nor restored nor set to 0: a row written twice in a turn
keeps nothing. Elements that data chooses by an index of the statement (`A(I(t, p), n) += ...`, with
reads of `A` that need it) are kept whole in each turn. Of state in place there are no segments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.build import is_number
from tcdsl.codegen.gradient.lines import Line, Loop, Part, map_line, placed, walk
from tcdsl.codegen.gradient.order import Placed, misses
from tcdsl.codegen.gradient.tidy import only, reading, without_dead
from tcdsl.codegen.gradient.versions import Version, Versions
from tcdsl.codegen.program.expressions import substitute_indices
from tcdsl.grammar.text.nodes import starts_anew
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.typed import Expr


def without_needless(
    parts: Sequence[Part],
    in_place: Collection[str],
    adjoints: Collection[str],
    wanted: Collection[str],
) -> list[Part]:
    """Return a way back that restores, or sets to 0, only elements which something reads later on.

    Parameters
    ----------
    in_place
        The tensors that lines restore; no other line writes them.
    adjoints
        Their adjoints.
    wanted
        Tensors that are read outside of the parts.
    """
    out = without_dead(parts, wanted)
    while True:
        needless = _needless(out, {*in_place}, {*adjoints} - {*wanted})
        if not needless:
            return _without_local(out, in_place)
        out = without_dead(_without(out, needless), wanted)


def restored_apart(
    parts: Sequence[Part], versions: Versions, values: dict[str, Version], taken: set[str]
) -> list[Part]:
    """Return parts that restore copies of tensors, which themselves are given."""
    out = [*parts]
    targets = {line.target for line in walk(out)}
    for name in sorted(targets & versions.in_place):
        v, new = values[name], f"{name}_now"
        while new in taken:
            new += "_"
        taken.add(new)
        values[new] = replace(v, name=new)
        at = versions.at(name)
        copy = Line(new, at, "=", typed.Read(name, at, v.dtype), versions.box(name))
        out = [copy, *_renamed(out, name, new)]
    return out


# ---- which elements are read again


def _needless(parts: Sequence[Part], restored: set[str], cleared: set[str]) -> list[Line]:
    """Return lines that restore or clear what nothing reads after them."""
    lines = [*placed(parts)]
    return [
        line
        for line, w in lines
        if (line.target in restored or (line.target in cleared and _is_zero(line)))
        and all(_is_out_of_reach(w, p, r) for x, p in lines for r in _reads(x, line.target))
    ]


def _is_zero(line: Line) -> bool:
    return line.op == "=" and is_number(line.value, 0)


def _reads(line: Line, name: str) -> Iterator[typed.Read]:
    """Yield what a line reads of a tensor; one that adds to it reads that too."""
    yield from (r for r in line.reads() if r.tensor == name)
    if line.target == name and not starts_anew(line.op):
        yield typed.Read(name, line.subs, line.value.dtype)


def _is_out_of_reach(w: Placed, p: Placed, read: typed.Read) -> bool:
    """Whether a read never sees what a line of the way back wrote before it.

    Loops that go back begin with their last turn: what is read later is read in an earlier one.
    """
    common = sum(x is y for x, y in zip(w.loops, p.loops, strict=False))
    if p.at > w.at and not misses(w, p, read, common, None):
        return False
    return all(misses(w, p, read, k + 1, w.loops[k]) for k in range(common))


def _without(parts: Sequence[Part], lines: Sequence[Line]) -> list[Part]:
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Loop):
            out.append(replace(part, body=tuple(_without(part.body, lines))))
        elif not any(part is line for line in lines):
            out.append(part)
    return out


def _without_local(parts: Sequence[Part], in_place: Collection[str]) -> list[Part]:
    """Return parts that read a tensor which nothing restores, and no copies of what it holds."""
    lines = [*walk(parts)]
    targets = [line.target for line in lines]
    copies: dict[str, typed.Read] = {}
    names: dict[str, tuple[str, ...]] = {}
    for line in lines:
        value = line.value
        if not isinstance(value, typed.Read) or value.tensor not in in_place or line.op != "=":
            continue
        indices = tuple(e.name for e in line.subs if isinstance(e, typed.IndexValue))
        is_local = len({*indices}) == len(line.subs) and indices == tuple(
            r.name for r in line.ranges
        )
        if is_local and value.tensor not in targets and targets.count(line.target) == 1:
            copies[line.target], names[line.target] = value, indices

    def one(e: Expr) -> Expr:
        if not isinstance(e, typed.Read) or e.tensor not in copies:
            return e
        by = dict(zip(names[e.tensor], e.subs, strict=True))
        held = copies[e.tensor]
        return replace(held, subs=tuple(substitute_indices(x, by, address=True) for x in held.subs))

    return only(_mapped(parts, one), {*targets} - copies.keys())


def _mapped(parts: Sequence[Part], f: Callable[[Expr], Expr]) -> list[Part]:
    return [
        replace(x, body=tuple(_mapped(x.body, f)))
        if isinstance(x, Loop)
        else map_line(x, f, lambda s: s)
        for x in parts
    ]


def _renamed(parts: Sequence[Part], name: str, new: str) -> list[Part]:
    """Return parts with another tensor in place of one, on both sides."""
    out: list[Part] = []
    for part in reading(parts, name, new):
        if isinstance(part, Loop):
            out.append(replace(part, body=tuple(_retargeted(part.body, name, new))))
        else:
            out += _retargeted((part,), name, new)
    return out


def _retargeted(parts: Sequence[Part], name: str, new: str) -> list[Part]:
    return [
        replace(x, body=tuple(_retargeted(x.body, name, new)))
        if isinstance(x, Loop)
        else replace(x, target=new)
        if x.target == name
        else x
        for x in parts
    ]
