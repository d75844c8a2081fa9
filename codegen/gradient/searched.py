"""Places of extremes that the forward pass finds beside these and keeps.

O(y, x) max=! I(y + i, x + j)              one pass over the image finds both;
O_found(y, x) argmax=! I(y + i, x + j)     the way back reads the place,
O_place(y, x) = int32(O_found(y, x))       and searches nothing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tcdsl.codegen.gradient.backward import Backward
from tcdsl.codegen.gradient.lines import Line, Loop, Part, map_line
from tcdsl.codegen.gradient.versions import Version, Versions, VersionStep
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import INT32, INT64
from tcdsl.grammar.types.typed import Expr


def searched_forwards(
    versions: Versions, lines: Sequence[Part], back: Backward
) -> tuple[Versions, list[Part]]:
    """Return versions with searches beside their extremes, and the way back without these.

    A place is kept as the result of any other reduction: a number for each element that is found,
    in place of what was searched. Those that turns of a loop find stay in the loop that goes back.
    """
    whole = {id(n) for n in versions.nodes}
    behind: dict[int, list[VersionStep]] = {}
    narrow: set[str] = set()
    left: list[Part] = []
    for part in lines:
        step = None if isinstance(part, Loop) else back.searches.get(part.target)
        if isinstance(part, Loop) or step is None or id(step) not in whole:
            left.append(part)
        else:
            behind[id(step)] = _steps(part, back)
            narrow |= {part.target} if len(behind[id(step)]) > 1 else set()
    more = [s for found in behind.values() for s in found]
    searched = replace(
        versions,
        nodes=tuple(x for n in versions.nodes for x in (n, *behind.get(id(n), ()))),
        values=versions.values | {s.target: back.values[s.target] for s in more},
        taken=versions.taken | {s.target for s in more},
    )

    def read(e: Expr) -> Expr:
        is_narrow = isinstance(e, typed.Read) and e.tensor in narrow
        return replace(e, dtype=INT32) if is_narrow else e

    return searched, [p if isinstance(p, Loop) else map_line(p, read, lambda n: n) for p in left]


def _steps(line: Line, back: Backward) -> list[VersionStep]:
    """Return a search as steps: places of 32 bits are of as many lanes as what is searched."""
    name = line.target
    step = VersionStep(name, None, line.subs, line.op, line.value, line.ranges, covers=True)
    if not _is_narrow(line):
        return [step]
    found = back.fresh(f"{name}_found")
    shape = back.values[name].shape
    back.values[found] = Version(found, found, INT64, shape)
    back.values[name] = Version(name, name, INT32, shape)
    back.compared.add(name)  # kept, though it is pointwise
    value = typed.Cast(typed.Read(found, line.subs, INT64), INT32)
    outputs = tuple(r for r in line.ranges if r.kind == "output")
    stored = VersionStep(name, None, line.subs, "=", value, outputs, covers=True)
    return [replace(step, target=found), stored]


def _is_narrow(line: Line) -> bool:
    """Whether places are those of float32 or smaller, and 32 bits hold them."""
    if not line.op.startswith("arg") or line.value.dtype.computed.bits > 32:
        return False
    reductions = [r for r in line.ranges if r.kind == "reduction"]
    if len(reductions) == 1:
        return not reductions[0].is_guess  # as a number an index is an int32
    points = prod((r.extent for r in reductions), start=Size.const(1)).constant
    return points is not None and points <= 2**31
