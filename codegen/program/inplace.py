"""Which outputs may be written into the very memory of an input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types import typed


@on_own_stack
def inplace_pairs(program: Program) -> tuple[tuple[int, int], ...]:
    """Return the pairs (return, parameter) that may be one view.

    A parameter may give its memory to a return if every element is read only at the point that
    overwrites it, whatever order points run in and however statements are fused. That is proved
    for elementwise programs: each statement assigns over plain indices without reduction, and reads
    the parameter, and whatever the program itself writes, at the subscripts it writes; and nothing
    reads the parameter, or what may be computed of it again, after the return was first written,
    nor in a loop. And for what a
    return begins with, whatever is written over it later (`begun`), and for a parameter of which
    nothing but the sizes is asked.
    """
    begun_pairs = (*_begun(program), *_unread(program))
    if program.loops or not all(_is_elementwise(s) for s in program.statements):
        return begun_pairs
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
    return tuple(sorted({*pairs, *begun_pairs}))


def copied(program: Program, members: Sequence[int]) -> tuple[str, str] | None:
    """Return the return and the parameter that a group only copies, and which may be one view.

    Then nothing is left to do where they are. None where they are the whole program: nobody calls
    a copy for that.
    """
    if len(members) != 1 or len(program.statements) == 1:
        return None
    stmt = program.statements[members[0]]
    for r, p in _begun(program):
        target, source = program.outputs[r], program.inputs[p]
        is_of_it = program.buffer(stmt.target).tensor == program.buffer(target).tensor
        if is_of_it and isinstance(stmt.value, typed.Read) and stmt.value.tensor == source:
            return target, source
    return None


def _begun(program: Program) -> Iterator[tuple[int, int]]:
    """Yield the pairs where the return's first statement alone reads the parameter.

    It is elementwise, outside of loops, and reads the parameter at the subscripts that it writes:
    what later statements write, they write after that point, as they would otherwise. None of
    them reads the return, so that no value of it is computed again from the parameter. No sum of
    products stands before it.
    """
    for r, target in enumerate(program.outputs):
        tensor = program.buffer(target).tensor
        writing = [
            i for i, s in enumerate(program.statements) if program.buffer(s.target).tensor == tensor
        ]
        first = writing[0] if writing else 0
        stmt = program.statements[first]
        is_read = any(
            program.buffer(read.tensor).tensor == tensor
            for s in program.statements
            for read in s.reads()
        )
        in_loop = any(loop.first <= first < loop.last for loop in program.loops)
        begun, ended = program.buffer(stmt.target), program.buffer(target)
        if any(map(is_contraction, program.statements[:first])):
            continue  # the return may hold parts of their sums before the parameter is read
        is_same_box = (begun.shape, begun.low) == (ended.shape, ended.low)
        if not writing or is_read or in_loop or not is_same_box or not _is_elementwise(stmt):
            continue
        for p, source in enumerate(program.inputs):
            reads = [
                (i, read.subs)
                for i, s in enumerate(program.statements)
                for read in s.reads()
                if read.tensor == source
            ]
            if (
                begun.shape
                and program.buffer(source).shape == begun.shape
                and set(reads) == {(first, stmt.subs)}
            ):
                yield r, p


def _unread(program: Program) -> Iterator[tuple[int, int]]:
    """Yield the pairs whose parameter is neither read nor written."""
    asked = {
        program.buffer(name).tensor
        for s in program.statements
        for name in (s.target, *(read.tensor for read in s.reads()))
    }
    for p, source in enumerate(program.inputs):
        shape = program.buffer(source).shape
        if shape and program.buffer(source).tensor not in asked:
            yield from (
                (r, p)
                for r, target in enumerate(program.outputs)
                if program.buffer(target).shape == shape
            )


def _is_elementwise(stmt: Statement) -> bool:
    """Whether it assigns at plain indices, and leaves what it does not assign as it is."""
    names = [a.plain if (a := affine_of(s)) else None for s in stmt.subs]
    return (
        stmt.op == "="
        and (stmt.covers or stmt.base is not None)
        and not stmt.reductions
        and None not in names
        and len(set(names)) == len(names)
        and not any(isinstance(s, typed.Read) for s in stmt.subs)
    )


def _is_read_after_write(program: Program, source: str, tensor: str) -> bool:
    """Whether a value that a return has begun to overwrite may be asked for again.

    By a statement, or where one reads what was computed of it: a temporary is put into its readers
    where that is cheaper (`inline.py`). If that is a version of the return itself, it was not
    written.
    """
    was_written, again = False, {source}
    for stmt in program.statements:
        asked = again.intersection(r.tensor for r in stmt.reads())
        if was_written and any(program.buffer(x).tensor != tensor for x in asked):
            return True
        if asked and stmt.target not in program.outputs:
            again.add(stmt.target)
        was_written |= program.buffer(stmt.target).tensor == tensor
    return False
