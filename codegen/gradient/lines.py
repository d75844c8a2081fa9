"""Statements of a definition in the making, and their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tcdsl.codegen.program import affine_of, indices_of, map_typed, reads_of, walk_typed
from tcdsl.codegen.unparse import expr_text
from tcdsl.grammar import typed
from tcdsl.grammar.nodes import AssignOp
from tcdsl.grammar.sizes import Size
from tcdsl.grammar.typed import Expr, Range


@dataclass(frozen=True, slots=True)
class Line:
    """`target(subs) op value where ranges`, all tensors counted from 0."""

    target: str
    subs: tuple[Expr, ...]
    op: AssignOp
    value: Expr
    ranges: tuple[Range, ...]

    def reads(self) -> Iterator[typed.Read]:
        """Yield the reads of both sides."""
        for e in (self.value, *self.subs):
            yield from reads_of(e)


@dataclass(frozen=True, slots=True)
class Loop:
    """`for var in low:high { body }`."""

    var: str
    low: Size
    high: Size
    body: tuple[Part, ...]


Part = Line | Loop


def walk(parts: Sequence[Part]) -> Iterator[Line]:
    """Yield the lines in parts, those of loops too."""
    for part in parts:
        if isinstance(part, Line):
            yield part
        else:
            yield from walk(part.body)


def map_line(line: Line, f: Callable[[Expr], Expr], size: Callable[[Size], Size]) -> Line:
    """Return a line with every node of its expressions passed through f and sizes through size."""

    def one(e: Expr) -> Expr:
        if isinstance(e, typed.SizeValue):
            e = replace(e, size=size(e.size))
        return f(e)

    return Line(
        line.target,
        tuple(map_typed(e, one) for e in line.subs),
        line.op,
        map_typed(line.value, one),
        tuple(replace(r, low=size(r.low), high=size(r.high)) for r in line.ranges),
    )


def text_of(parts: Sequence[Part], shapes: Mapping[str, tuple[Size, ...]], depth: int = 1) -> str:
    """Return parts as TC text, a line each.

    Parameters
    ----------
    parts
        In order.
    shapes
        Of the tensors that they read, by name: a range that follows from a plain access is left
        out.
    depth
        Of the indentation.
    """
    out = []
    indent = "    " * depth
    for part in parts:
        if isinstance(part, Loop):
            head = f"{indent}for {part.var} in {part.low}:{part.high} {{\n"
            out.append(f"{head}{text_of(part.body, shapes, depth + 1)}{indent}}}\n")
            continue
        given = [r for r in part.ranges if not _follows(part, r, shapes)]
        where = ", ".join(f"{r.name} in {r.low}:{r.high}" for r in given)
        subs = f"({', '.join(map(expr_text, part.subs))})" if part.subs else ""
        text = f"{part.target}{subs} {part.op} {expr_text(part.value)}"
        out.append(f"{indent}{text}{f' where {where}' if where else ''}\n")
    return "".join(out)


def _follows(line: Line, r: Range, shapes: Mapping[str, tuple[Size, ...]]) -> bool:
    """Whether plain accesses, and nothing else, bound an index: by the very range it has."""
    if r.low != Size.const(0):
        return False
    found = False
    for read in reads_of(line.value):
        for sub, extent in zip(read.subs, shapes.get(read.tensor, ()), strict=False):
            if r.name not in indices_of(sub):
                continue
            a = affine_of(sub)
            if a is None or a.plain != r.name or extent != r.high:
                return False
            found = True
    return found and not _is_guarded(line.value)


def _is_guarded(e: Expr) -> bool:
    """Whether some part is evaluated under a condition: then ranges are written out."""
    return any(isinstance(x, typed.Select) for x in walk_typed(e))
