"""Texts over the dimensions that a caller names, made of texts over the last one.

``def sum<T>(T(..., K) X) -> (T(...) S) { S(...) +=! X(..., k) }`` over dimensions 0 and 2 of 3 is

    def sum<T>(T(K0, D1, K2) X) -> (T(D1) S) { S(i1) +=! X(k0, i1, k2) }

The language has one ``...`` in an access, which cannot surround a dimension; and a tensor whose
reduced dimensions were brought to its end by a view would be read against the order of its memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from tcdsl.core import Op
from tcdsl.ops.meaning import Vjp
from tcdsl.ops.rules import TypeRule, same
from tcdsl.ops.strides import Layout
from tcdsl.ops.table import Family, op_of_text

_LAST = re.compile(r"\(\.\.\., ([^()]+)\)")  # (..., k), (..., t - 1): the places that are reduced
_REST = re.compile(r"(\w*)\(\.\.\.\)")  # (...): the others


def op_over(
    family: Family,
    name: str,
    rank: int,
    dims: tuple[int, ...],
    keepdim: bool = False,
    *,
    calls: Sequence[str] = (),
    types: TypeRule = same,
    vjp: Vjp = "derived",
    saves: Sequence[str] = (),
    order: Layout | None = None,
    node: str | None = None,
) -> Op:
    """Return the op of a definition of a family over some of a tensor's dimensions.

    Parameters
    ----------
    rank, dims, keepdim
        As of `over`.
    calls : sequence of str
        The definitions that it calls.
    types, vjp, saves, order, node
        As of `op_of_text`.
    """
    back = (vjp,) if isinstance(vjp, str) and vjp != "derived" else ()
    text = "\n".join(map(family.text, (name, *calls, *back)))
    made = over(text, rank, dims, keepdim)
    return op_of_text(made, name, types=types, vjp=vjp, saves=saves, order=order, node=node)


@cache
def over(text: str, rank: int, dims: tuple[int, ...], keepdim: bool = False) -> str:
    """Return a text of rank-less definitions for one rank, over certain dimensions.

    Parameters
    ----------
    text : str
        Definitions whose tensors are ``(..., K)`` or ``(...)``, read at ``(..., k)`` or ``(...)``.
    rank : int
        Of the tensors that are ``(..., K)``.
    dims : tuple of int, rising
        Which dimensions of theirs are ``K``; several only where all subscripts there are ``k``.
    keepdim : bool
        Tensors that are ``(...)`` have a dimension of one element for each reduced one.
    """
    return "\n".join(
        _definition(part, rank, dims, keepdim) for part in re.split(r"\n(?=def )", text.strip())
    )


def _definition(text: str, rank: int, dims: tuple[int, ...], keepdim: bool) -> str:
    """Rewrite one definition."""
    head, brace, body = text.partition("{")
    head = _accesses(head, [_size(d, dims) for d in range(rank)], dims, "1" if keepdim else None)
    body = _accesses(body, [_index(d, dims) for d in range(rank)], dims, "0" if keepdim else None)
    if len(dims) != 1:
        sizes = " * ".join(_size(d, dims) for d in dims) or "1"
        body = re.sub(r"\bK\b", f"({sizes})", body)
    return head + brace + body


def _size(dim: int, dims: Sequence[int]) -> str:
    if dim not in dims:
        return f"D{dim}"
    return "K" if len(dims) == 1 else f"K{dim}"


def _index(dim: int, dims: Sequence[int]) -> str:
    if dim not in dims:
        return f"i{dim}"
    return "k" if len(dims) == 1 else f"k{dim}"


def _accesses(text: str, names: list[str], dims: tuple[int, ...], one: str | None) -> str:
    """Write dimensions into brackets: `names` of all, `one` where a reduced one is kept."""

    def all_of(match: re.Match[str]) -> str:
        last = match[1]
        if last in ("K", "k"):
            found = names
        else:  # another subscript than the plain index: only over one dimension
            (dim,) = dims
            found = [last if d == dim else name for d, name in enumerate(names)]
        return f"({', '.join(found)})" if found else ""

    def rest_of(match: re.Match[str]) -> str:
        found = [one if d in dims else name for d, name in enumerate(names)]
        kept = [name for name in found if name is not None]
        return f"{match[1]}({', '.join(kept)})" if kept else match[1]

    return _REST.sub(rest_of, _LAST.sub(all_of, text))
