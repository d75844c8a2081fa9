"""Dimensions of tensors that `...` lines up: how long they are, which are equally long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TypeVar

from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import Note, count
from tcdsl.grammar.text.fault import FaultError

ONE = n.IntLit(1)

_Item = TypeVar("_Item")


@dataclass(eq=False, slots=True)
class Group:
    """Dimensions that are equally long.

    size: the name or number that stands for their extent. source: the dimension of a tensor that
    the definition can ask for it. is_free: `...` of a parameter has them, so their extent is
    whatever they are linked to. is_one: it is 1 in the call at hand; is_broadcast: and `...`
    repeats it somewhere.
    """

    members: list[Dim] = field(default_factory=list)
    size: n.Expr | None = None
    source: Dim | None = None
    is_free: bool = False
    is_one: bool = False
    is_broadcast: bool = False


class Dim:
    """A dimension of a tensor; declared is what the text says of its extent, if it says it."""

    __slots__ = ("declared", "group", "place", "tensor")

    def __init__(self, tensor: str, place: int, declared: n.Expr | None = None) -> None:
        self.tensor, self.place, self.declared = tensor, place, declared
        self.group = Group([self])

    @property
    def is_literally_one(self) -> bool:
        """Whether the text says 1."""
        return self.declared == ONE

    @property
    def extent(self) -> n.Expr:
        """The extent, as an expression of the definition; known when all is lined up."""
        group = self.group
        if self.is_literally_one or group.is_broadcast:
            return ONE
        source = group.source or self
        return self.declared or group.size or n.Extent(source.tensor, source.place)

    def match(self, other: Dim) -> None:
        """Link two dimensions that have to be equally long, if a type can say that they are.

        Where both extents are fixed, they may differ.
        """
        ours, theirs = self.group, other.group
        if ours.size is not None and theirs.size is not None and ours.size != theirs.size:
            return
        if all(group.is_free or group.size is not None for group in (ours, theirs)):
            self.link(other)

    def link(self, other: Dim) -> None:
        """Let two dimensions, and all those linked to them, be equally long: they are."""
        kept, joined = self.group, other.group
        if kept is joined:
            return
        kept.size = kept.size or joined.size
        kept.source = kept.source or joined.source
        kept.is_free |= joined.is_free
        kept.is_broadcast |= joined.is_broadcast
        kept.members += joined.members
        for dim in joined.members:
            dim.group = kept


Dims = tuple[Dim, ...]
Tensors = dict[str, Dims | None]  # None: the dimensions are not known, which the check reports


def dots_in(subs: Sequence[n.Node] | None, what: str) -> n.Dots | None:
    """Return the `...` among subscripts or dimensions.

    Raises
    ------
    FaultError
        If there are two.
    """
    found = [sub for sub in subs or () if isinstance(sub, n.Dots)]
    if len(found) > 1:
        raise FaultError(
            "TC190",
            f"two '...' in {what}",
            found[1].span,
            "the second",
            Note("which dimensions belong to which would not be known: keep one"),
        )
    return found[0] if found else None


def around(items: Sequence[_Item], dots: n.Dots | None) -> tuple[Sequence[_Item], Sequence[_Item]]:
    """Return what stands before and behind `...`."""
    at = next(i for i, item in enumerate(items) if item is dots)
    return items[:at], items[at + 1 :]


def beside(items: Sequence[_Item], dots: n.Dots | None, dims: Dims) -> Iterator[tuple[_Item, Dim]]:
    """Yield the subscripts or declared extents beside `...`, each with its dimension."""
    before, after = (items, ()) if dots is None else around(items, dots)
    yield from zip(before, dims, strict=False)
    yield from zip(reversed(after), reversed(dims), strict=False)


def covered(dims: Dims, subs: Sequence[n.Node], dots: n.Dots, name: str) -> Dims:
    """Return the dimensions for which `...` stands in an access.

    Raises
    ------
    FaultError
        If the subscripts beside it are more than the tensor has dimensions.
    """
    before, after = around(subs, dots)
    beside = len(before) + len(after)
    if beside > len(dims):
        raise FaultError(
            "TC103",
            f"'{name}' has {count(len(dims), 'dimension')}, but {beside} subscripts beside '...'",
            dots.span,
            "stands for none or more dimensions",
        )
    return dims[len(before) : len(dims) - len(after)]


def columns(rows: Sequence[Dims]) -> list[list[Dim]]:
    """Return dimensions that are lined up, the first column first; rows end together."""
    longest = max(map(len, rows), default=0)
    return [
        [row[len(row) - place] for row in rows if place <= len(row)]
        for place in range(longest, 0, -1)
    ]
