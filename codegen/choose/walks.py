"""Units that only walk: what computes on elements in them are functions that they import."""

from __future__ import annotations

from tcdsl.codegen.loops.loopir import Call, Expr, Load, Mask, Pointer, Unit, Vector
from tcdsl.codegen.loops.walk import all_exprs


def only_walks(unit: Unit) -> bool:
    """Whether a unit has integers, addresses and calls of what it imports, and nothing else.

    So are products of any sizes, but those whose epilogue is their own.
    """
    imported = {f.name for f in unit.functions if f.linkage == "import"}
    own = [f for f in unit.functions if f.linkage != "import"]
    known = imported | {f.name for f in own}
    return bool(imported) and not any(_computes(e, known) for f in own for e in all_exprs(f.body))


def _computes(e: Expr, known: set[str]) -> bool:
    """Whether an expression is one of elements, or a call that may read or write some."""
    if isinstance(e, Load) or isinstance(e.type, Vector | Mask):
        return True
    if not isinstance(e, Call) or e.function in known:
        return False
    return any(isinstance(x.type, Pointer) for x in e.args)
