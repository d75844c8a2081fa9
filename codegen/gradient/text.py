"""Definitions in the making as TC text, the one pretty way; ranges that follow are left out."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tcdsl.codegen.gradient.lines import Line, Loop, Part, walk
from tcdsl.codegen.gradient.shadows import want_apart
from tcdsl.codegen.gradient.spelling import with_types
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.unparse import expr_text, range_text
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.check.made import keep
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.moved import moved
from tcdsl.grammar.text.nodes import Comprehension, Def, Program
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.text.source import Source, Span
from tcdsl.grammar.text.walk import walk as walk_nodes
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import BOOL, DType
from tcdsl.grammar.types.typed import Range

Wanted = dict[int, set[str]]  # by line, the indices whose ranges are written out


def definition_text(
    name: str, params: Iterable[str], returns: Iterable[str], parts: Sequence[Part], called: str
) -> str:
    """Return a definition as text.

    Ranges are left out where the check infers them: it is tried. What was found so is kept for
    whoever calls the text so (`grammar/check/made.py`).

    Raises
    ------
    ShadowedError
        If a name hides a builtin that the lines call (`shadows.py`).
    """
    given, results = [*params], [*returns]
    want_apart((*given, *results), parts)
    head = f"def {name}({', '.join(given)}) -> ({', '.join(results)})"
    parts = with_types(parts, {r.split()[-1] for r in results})
    lines = [*walk(parts)]
    written: Wanted = {}
    for _ in range(4):
        text = f"{head} {{\n{_body(parts, written, iter(range(len(lines))))}}}\n"
        program = _laid_out(text, called)
        more = _missing(program, lines, written)
        if not more:
            assert program.span is not None
            return program.span.source.text
        for at, names in more.items():
            written.setdefault(at, set()).update(names)
    everything = {at: {r.name for r in line.ranges} for at, line in enumerate(lines)}
    text = f"{head} {{\n{_body(parts, everything, iter(range(len(lines))))}}}\n"
    return format_program(parse(text))


def _laid_out(text: str, called: str) -> Program:
    """Return the tree of a text in the one layout, as it is parsed under a name."""
    program = parse(text)
    source = Source(format_program(program), called)
    return moved(program, text, source) or parse(source.text, called)


def head(name: str, dtype: DType, shape: Sequence[Size], default: int | float | None = None) -> str:
    """Return the declaration of a parameter or return."""
    if default is not None:
        return f"{dtype} {name} = {int(default) if dtype == BOOL else default!r}"
    dims = ",".join(map(str, shape))
    return f"{dtype}({dims}) {name}" if dims else f"{dtype} {name}"


def with_bare_results(text: str) -> str:
    """Return a definition with results as names alone where the check gives them the same shape."""
    (made,) = parse(text).defs
    wanted = _meaning(made)
    for at, result in enumerate(made.returns):
        bare = replace(result, type=None)
        shorter = replace(made, returns=(*made.returns[:at], bare, *made.returns[at + 1 :]))
        with contextlib.suppress(TCError):
            if _meaning(shorter) == wanted:
                made = shorter
    return format_program(Program((made,)))


def _meaning(definition: Def) -> tuple[object, ...]:
    checked = check(parse(format_program(Program((definition,)))))
    return checked.params, checked.returns, checked.temps, checked.body


def _missing(program: Program, lines: Sequence[Line], written: Wanted) -> Wanted:
    """Return the ranges that are not inferred as they should be, by line.

    Where there are none, what the check found is kept.
    """
    starts = [s.span.start for s in walk_nodes(program) if isinstance(s, Comprehension) and s.span]
    try:
        checked = check(program)
    except TCError as error:
        spans = [d.span for d in error.diagnostics if d.span is not None]
        faulty = {_line_at(s, starts) for s in spans} & {*range(len(lines))}
        return (
            _unwritten(lines, faulty, written, inner=True)
            or _unwritten(lines, faulty, written)
            or _unwritten(lines, range(len(lines)), written)
        )
    more: Wanted = {}
    for at, (line, found) in enumerate(zip(lines, typed.statements(checked.body), strict=True)):
        mine = {r.name: r for r in line.ranges}
        its = {r.name: r for r in found.ranges}
        odd = {n for n in mine if not _is_same(mine[n], its.get(n))}
        odd -= written.get(at, set())
        if odd:
            more[at] = odd
    for warning in checked.warnings:  # what is meant to stay 0, and where guards hold, is said
        if warning.code in ("TC152", "TC154") and warning.span is not None:
            at = _line_at(warning.span, starts)
            if warning.span.text not in written.get(at, set()):
                more.setdefault(at, set()).add(warning.span.text)
    if not more:
        keep(program, checked)
    return more


def _unwritten(
    lines: Sequence[Line], which: Iterable[int], written: Wanted, *, inner: bool = False
) -> Wanted:
    """Return the ranges that are not written out yet, by line; inner: not of those on the left."""
    left: Wanted = {}
    for at in which:
        names = {r.name for r in lines[at].ranges} - written.get(at, set())
        if inner:
            names -= {n for e in lines[at].subs for n in indices_of(e)}
        if names:
            left[at] = names
    return left


def _is_same(a: Range, b: Range | None) -> bool:
    if a.bounds is not None:  # written out in any case
        return True
    return b is not None and (a.low, a.high) == (b.low, b.high)


def _line_at(span: Span, starts: Sequence[int]) -> int:
    """Return which line of the body a place is in, or behind, -1 for the head."""
    return bisect_right(starts, span.start) - 1


def _body(parts: Sequence[Part], written: Wanted, count: Iterator[int]) -> str:
    out = []
    for part in parts:
        if isinstance(part, Loop):
            inner = _body(part.body, written, count)
            out.append(f"for {part.var} in {part.low}:{part.high} {{\n{inner}}}\n")
            continue
        names = written.get(next(count), set())
        given = [r for r in part.ranges if r.name in names | _needed(part)]
        out.append(_line(part, given))
    return "".join(out)


def _needed(line: Line) -> set[str]:
    """Return the indices whose ranges nothing infers: ragged ones, and what they depend on.

    Of these, those on the right: an index on the left is known before.
    """
    left = {n for e in line.subs for n in indices_of(e)}
    ends = {n for r in line.ranges for e in r.bounds or () for n in indices_of(e)}
    if line.is_ragged_scatter:
        left = set()
    return {r.name for r in line.ranges if r.bounds is not None} | (ends - left)


def _line(line: Line, given: Sequence[Range]) -> str:
    where = ", ".join(map(range_text, given))
    subs = f"({', '.join(map(expr_text, line.subs))})" if line.subs else ""
    text = f"{line.target}{subs} {line.op} {expr_text(line.value)}"
    return f"{text}{f' where {where}' if where else ''}\n"
