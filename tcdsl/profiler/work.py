"""What a recorded call had to do, from its text and the shapes of its operands."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tcdsl.calls.call import Keep
from tcdsl.codegen.program.work import bytes_of, flops_of
from tcdsl.codegen.runtime import Entry
from tcdsl.grammar.check.bind import bind

__all__ = ["Work", "work_of"]


class Work(NamedTuple):
    """Arithmetic operations as the text counts them, and the least traffic in bytes."""

    flops: int
    bytes: int


def work_of(entry: Entry) -> Work | None:
    """Return the work of a call; None where numbers of the call decide it, or nothing is known."""
    keep = entry.keep
    variant = keep.variant() if isinstance(keep, Keep) else None
    if variant is None or variant.signature.scalars:
        return None
    known = replace(variant.signature, constraints=())  # the call was checked
    shapes = [shape or () for _, shape in entry.operands[: len(known.params)]]
    sizes = bind(known, shapes, [p.dtype for p in known.params], {})
    return Work(flops_of(variant.program, sizes), bytes_of(variant.program, sizes))
