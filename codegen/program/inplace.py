"""Which outputs may be written into the very memory of an input."""

from __future__ import annotations

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types import typed


@on_own_stack
def inplace_pairs(program: Program) -> tuple[tuple[int, int], ...]:
    """Return the pairs (return, parameter) that may be one view.

    A parameter may give its memory to a return if every element is read only at the point that
    overwrites it, whatever order points run in and however statements are fused. That is proved
    for elementwise programs alone: each statement assigns over plain indices without reduction,
    and reads the parameter, and whatever the program itself writes, at the subscripts it writes;
    and nothing reads the parameter after the return was first written, nor again in a loop.
    """
    if program.loops or not all(_is_elementwise(s) for s in program.statements):
        return ()
    written = {program.buffer(s.target).tensor for s in program.statements}
    pairs = []
    for p, source in enumerate(program.inputs):
        if not program.buffer(source).shape:
            continue
        exact = all(
            read.subs == stmt.subs
            for stmt in program.statements
            for read in stmt.reads()
            if read.tensor == source or program.buffer(read.tensor).tensor in written
        )
        if not exact:
            continue
        for r, target in enumerate(program.outputs):
            tensor = program.buffer(target).tensor
            if program.buffer(target).shape == program.buffer(source).shape and not (
                _is_read_after_write(program, source, tensor)
            ):
                pairs.append((r, p))
    return tuple(pairs)


def _is_elementwise(stmt: Statement) -> bool:
    names = [a.plain if (a := affine_of(s)) else None for s in stmt.subs]
    return (
        stmt.op == "="
        and not stmt.reductions
        and None not in names
        and len(set(names)) == len(names)
        and not any(isinstance(s, typed.Read) for s in stmt.subs)
    )


def _is_read_after_write(program: Program, source: str, tensor: str) -> bool:
    was_written = False
    for stmt in program.statements:
        if was_written and any(r.tensor == source for r in stmt.reads()):
            return True
        was_written |= program.buffer(stmt.target).tensor == tensor
    return False
