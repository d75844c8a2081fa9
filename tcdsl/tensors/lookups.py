"""Texts of what subscripts look up and write by data."""

from __future__ import annotations

from functools import cache

from tcdsl.core import Op
from tcdsl.ops.table import op_of_text
from tcdsl.ops.views import Shape

_LETTERS = "abcdefghijklmnopqrstuvw"


def _written(rank: int, dims: Shape) -> str:
    """Return the subscripts of a result: `...` of the data, in the place of what it looks up."""
    before, behind = kept(rank, dims)
    return ", ".join([*(_LETTERS[d] for d in before), "...", *(_LETTERS[d] for d in behind)])


@cache
def kept(rank: int, dims: Shape) -> tuple[Shape, Shape]:
    """Return the dimensions that no data looks up: those before it in a result, those behind it."""
    kept = tuple(d for d in range(rank) if d not in dims)
    side_by_side = dims == tuple(range(dims[0], dims[0] + len(dims)))
    before = sum(d < dims[0] for d in kept) if side_by_side else 0
    return kept[:before], kept[before:]


@cache
def lookup(rank: int, dims: Shape) -> Op:
    """Return the op that looks up these dimensions of a tensor by as many tensors."""
    read = _from_the_end(rank, dims)
    written = _written(rank, dims)
    extents = ", ".join(_LETTERS[d].upper() for d in range(rank))
    data = "".join(f", int64(...) i{n}" for n in range(len(dims)))
    return op_of_text(
        f"def index<T>(T({extents}) x{data}) -> (T({_extents(written)}) y) "
        f"{{\n  y({written}) = x({read})\n}}"
    )


@cache
def putting(rank: int, dims: Shape, is_number: bool, how: str = "=") -> Op:
    """Return the op that writes these dimensions of a tensor by as many tensors."""
    written = _written(rank, dims)
    letters = ", ".join(_LETTERS[d] for d in range(rank))
    extents = letters.upper()
    data = "".join(f", int64(...) i{n}" for n in range(len(dims)))
    target = _from_the_end(rank, dims)
    value, v = ("T v", "v") if is_number else (f"T({_extents(written)}) v", f"v({written})")
    return op_of_text(
        f"def index_put<T>(T({extents}) x{data}, {value}) -> (T({extents}) y) {{\n"
        f"  y({letters}) = x({letters})\n"
        f"  y({target}) {how} {v}\n}}",
        writes=True,
    )


def _from_the_end(rank: int, dims: Shape) -> str:
    """Return subscripts, those of these dimensions by data that may count from the end."""
    names = {d: f"i{n}(...)" for n, d in enumerate(dims)}
    return ", ".join(
        f"{name} < 0 ? {name} + {_LETTERS[d].upper()} : {name}"
        if (name := names.get(d))
        else _LETTERS[d]
        for d in range(rank)
    )


def _extents(written: str) -> str:
    return ", ".join(w if w == "..." else w.upper() for w in written.split(", "))
