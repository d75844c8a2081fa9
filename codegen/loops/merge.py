"""One copy of what groups of a unit have alike: micro-kernels, packers, tables of numbers.

The contractions of a size-generic unit have the same register tiles, and these are most of what
the compiler works on: a gradient with four of them compiles in the time of one.
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.loops.loopir import Call, Elem, Expr, Function, Table, Unit, Var
from tcdsl.codegen.loops.walk import map_stmt


def merge(unit: Unit) -> Unit:
    """Return the unit with the first of equal functions and tables in place of all.

    Functions that others know by name (phases, plans, kernels) stay. Callees stand before their
    callers, so what calls merged functions is compared after its calls are renamed.
    """
    by: dict[str, str] = {}  # the name of what is left out -> of what stands for it
    tables: dict[tuple[object, ...], Table] = {}
    for t in unit.tables:
        table = tables.setdefault((t.type, t.values), t)
        if table is not t:
            by[t.name] = table.name
    functions: dict[tuple[object, ...], Function] = {}
    for f in unit.functions:
        if by:
            body = map_stmt(f.body, lambda s: s, lambda e: _renamed(e, by))
            f = f if body is f.body else replace(f, body=body)
        is_inner = f.linkage in ("micro", "helper", "apart", "inline")
        own = f.linkage, f.params, f.body, f.result, f.is_spelled_out
        same = own if is_inner else (f.name,)
        first = functions.setdefault(same, f)
        if first is not f:
            by[f.name] = first.name
    return replace(
        unit,
        functions=tuple(functions.values()),
        tables=tuple(_with_names(t, by) for t in tables.values()),
    )


def _renamed(e: Expr, by: dict[str, str]) -> Expr:
    match e:
        case Call(name) if name in by:
            return replace(e, function=by[name])
        case Elem(name) if name in by:
            return replace(e, array=by[name])
        case Var(name) if name in by:
            return replace(e, name=by[name])
        case _:
            return e


def _with_names(t: Table, by: dict[str, str]) -> Table:
    """Return a table whose functions have the names that are left."""
    return replace(t, values=tuple(by.get(v, v) if isinstance(v, str) else v for v in t.values))
