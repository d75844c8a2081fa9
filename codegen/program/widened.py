"""Gradients of a window's weights over halves as those over float32 copies of them.

    D(f, c, k) +=! pad(I(..), 0) * G(f, h)
                                     ->  I.wide(c, h) = float32(I(c, h))
                                         G.wide(f, h) = float32(G(f, h))
                                         D.wide(f, c, k) +=! pad(I.wide(..), 0) * G.wide(f, h)
                                         D(f, c, k) = D.wide(f, c, k)

Their own forms read operands where they lie, as they are computed with, and each element many
times: a pass over each operand is little beside that. A contraction walks all of an image for each
tap anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from tcdsl.codegen.program.expressions import indices_of, map_typed, reads_of
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.padding import padding_of
from tcdsl.codegen.program.program import Buffer, Program, Statement
from tcdsl.codegen.program.temporaries import moved, name_of, new_buffer, new_statement
from tcdsl.codegen.program.unparse import statement_text
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.types import typed
from tcdsl.grammar.types.dtypes import FLOAT32, INT64, DType
from tcdsl.grammar.types.typed import Expr, Range

_FEW = 8  # uses of an element


def widened(program: Program, sizes: Mapping[str, int]) -> Program:
    """Return a program whose gradients of weights read float32 copies of halves.

    sizes : representative ones, which tell taps from pixels.
    """
    if not any(x.dtype.is_half for x in program.buffers):
        return program
    made = _Made(program)
    for at, s in enumerate(program.statements):
        made.begins.append(len(made.statements))
        reader = _reader(program, at)
        if not _is_gradient(program, reader, sizes):
            made.statements.append(s)
            continue
        value = _of_others(s.value, made.copy)
        target = program.buffer(s.target)
        if s is not reader or target.role == "temp" or not target.dtype.is_half:
            made.statements.append(replace(s, value=value))
            continue
        name = name_of(target.tensor, "wide", made.buffers)
        made.buffers.append(new_buffer(name, target.tensor, FLOAT32, target.shape))
        made.statements.append(new_statement(name, s.subs, s.op, value, s.ranges))
        read = typed.Read(name, s.subs, FLOAT32, (False,) * len(s.subs))
        rounded = typed.Cast(read, target.dtype)
        text = statement_text(typed.Statement(s.target, s.subs, "=", rounded, s.outputs))
        made.statements.append(replace(s, op="=", value=rounded, ranges=s.outputs, text=text))
    made.begins.append(len(made.statements))
    if len(made.buffers) == len(program.buffers):
        return program
    return replace(
        program,
        buffers=tuple(made.buffers),
        statements=tuple(made.statements),
        loops=moved(program.loops, made.begins),
    )


class _Made:
    """The program as it is made: a copy comes before what reads it first."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.buffers: list[Buffer] = [*program.buffers]
        self.statements: list[Statement] = []
        self.begins: list[int] = []
        self._copies: dict[str, str] = {}

    def copy(self, version: str) -> str:
        """Return the float32 copy of a version."""
        if version not in self._copies:
            buffer = self._program.buffer(version)
            name = name_of(buffer.tensor, "wide", self.buffers)
            ranges = [Range(f"i{d}", Size(), n, "output") for d, n in enumerate(buffer.shape)]
            subs = tuple(typed.IndexValue(r.name, INT64) for r in ranges)
            read = typed.Read(version, subs, buffer.dtype, (False,) * len(subs))
            self.buffers.append(new_buffer(name, buffer.tensor, FLOAT32, buffer.shape))
            value = typed.Cast(read, FLOAT32)
            self.statements.append(new_statement(name, subs, "=", value, tuple(ranges)))
            self._copies[version] = name
        return self._copies[version]


def _of_others(value: Expr, name: Callable[[str], str]) -> Expr:
    """Return a value whose halves are float32 elements of the tensors of other names."""

    def one(e: Expr) -> Expr:
        match e:
            case typed.Cast(typed.Read(tensor, subs, of, checked), to) if (
                of.is_half and to == FLOAT32
            ):
                return typed.Read(name(tensor), subs, FLOAT32, checked)
            case _:
                return e

    return map_typed(value, one)


def padded_halves(s: Statement) -> str | None:
    """Return the tensor of which a statement is a padding, of halves as float32 too."""
    found = padding_of(replace(s, value=_of_others(s.value, lambda name: name)))
    return None if found is None else found[0].tensor


def _reader(program: Program, at: int) -> Statement:
    """Return a statement, or the one behind it if it is a padding that only that one reads."""
    s, *behind = program.statements[at : at + 2]
    if not behind or padded_halves(s) is None:
        return s
    readers = [x for x in program.statements if any(r.tensor == s.target for r in x.reads())]
    return behind[0] if readers == behind else s


def _is_gradient(program: Program, s: Statement, sizes: Mapping[str, int]) -> bool:
    """Whether it is a sum over pixels for each tap of two operands that lie as halves of a type."""
    if s.op != "+=!" or s.base is not None or not s.covers or s.is_ragged or program.loops:
        return False
    if not is_contraction(s) or any(any(r.checked) for r in s.reads()):
        return False
    reads = reads_of(s.value)
    first, *others = (_stored(program, r) for r in reads)
    if first is None or not first.is_half or any(x != first for x in others):
        return False
    extents = {r.name: max(1, r.extent.evaluate(sizes)) for r in s.ranges}
    outputs = {r.name for r in s.outputs}

    def is_tap(e: Expr) -> bool:
        names = [n for n in indices_of(e) if n in extents]
        taps, pixels = ([n for n in names if (n in outputs) is x] for x in (True, False))
        return len(taps) == len(pixels) == 1 and extents[taps[0]] < extents[pixels[0]]

    if not any(is_tap(e) for r in reads for e in r.subs):
        return False
    points = prod(extents.values())
    shapes = (program.buffer(r.tensor).shape for r in reads)
    return all(points >= _FEW * prod(n.evaluate(sizes) for n in shape) for shape in shapes)


def _stored(program: Program, read: typed.Read) -> DType | None:
    """Return the type in which the elements of a factor lie, of a padding those that it pads."""
    buffer = program.buffer(read.tensor)
    if buffer.role != "temp":
        return buffer.dtype
    padding = next((s for s in program.statements if s.target == read.tensor), None)
    of = None if padding is None else padded_halves(padding)
    return None if of is None or program.buffer(of).role == "temp" else program.buffer(of).dtype
