"""A definition over a batch: its text with one more index, which each tensor has or has not.

    def mv(float(M, K) A, float(K) x) -> (y) { y(i) +=! A(i, k) * x(k) }

over a batch of x is

    def batched_mv(float(M, K) A, float(B, K) x) -> (y) { y(b, i) +=! A(i, k) * x(b, k) }

A tensor has the index if a statement that writes it reads one that has it; what does not depend on
the batch is computed once. What is called is batched as well, for the arguments it gets.

It is a rewriting of trees, like that of `...`: it needs no types, so generics, `...` and the user's
names stay, and everything below knows nothing of it. Refused: a rewriting of checked definitions,
which have one type and one rank; inlining what is called, which is batched once for each kind of
arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from tcdsl.grammar.batch.lengths import lengths
from tcdsl.grammar.batch.lines import EQUALLY_LONG, Lines
from tcdsl.grammar.batch.split import split
from tcdsl.grammar.batch.sums import to_be_summed
from tcdsl.grammar.batch.tensors import Places, Shared, Tensors
from tcdsl.grammar.ranks.ellipsis import has_dots, with_ranks
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import raise_one
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.heads import has_any_rank
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.text.walk import identifiers
from tcdsl.grammar.types.typed import CheckedDef

Randomness = Literal["same", "different"]


@dataclass(frozen=True, slots=True)
class Batch:
    """A definition over a batch, the last of a program, behind what it calls.

    size: the name of the batch's extent. out_dims: by return, at which of its dimensions it has the
    batch; None where it does not depend on it. back: the name of its way back, if one was given.
    """

    program: n.Program
    size: str
    out_dims: Mapping[str, int | None]
    back: str = ""


@dataclass(frozen=True, slots=True)
class Backward:
    """A definition of the same text that gives gradients of another for its adjoints.

    like: for each parameter and return, the parameter or return of the other that has its shape.
    """

    name: str
    like: Mapping[str, str]


@on_own_stack
def batched(
    program: n.Program,
    name: str,
    in_dims: Places,
    out_dims: Mapping[str, int | None] | None = None,
    *,
    out_dim: int = 0,
    randomness: Randomness = "same",
    checked: CheckedDef | None = None,
    back: Backward | None = None,
) -> Batch:
    """Return a definition with one more index, the batch.

    Parameters
    ----------
    program : nodes.Program
    name : str
        The definition.
    in_dims : mapping of str to int
        The parameters that have the batch, and at which of their dimensions; negative ones count
        from the last. The others are the same for each element.
    out_dims : mapping of str to int or None, optional
        The same for returns: one that is named has the batch even where it does not depend on it;
        None asks that it does not.
    out_dim : int, default 0
        Where the returns that out_dims does not name have the batch, if they depend on it.
    randomness : {"same", "different"}
        Whether `rand` gives each element the same numbers, where its seed is one for all.
    checked : CheckedDef, optional
        The definition, checked: it says which scalars are lengths, which all elements share.
    back : Backward, optional
        Its way back, to have one over the batch: for adjoints that have it where the returns do.
        Gradients by parameters that have the batch have it there; the others are sums over it.

    Returns
    -------
    Batch
        Its size and index have fresh names: `B` and `b` if nothing else has them.

    Raises
    ------
    TCTypeError
        If a scalar that ranges depend on has the batch (TC160), if the batch would be inside of
        `...` or at a dimension that is not there (TC161), or if a return has no batch but depends
        on it (TC162).

    Examples
    --------
    >>> from tcdsl.grammar.text.format import format_program
    >>> from tcdsl.grammar.text.parser import parse
    >>> text = "def mv(float(M,K) A, float(K) x) -> (y) { y(i) +=! A(i, k) * x(k) }"
    >>> print(format_program(batched(parse(text), "mv", {"x": 0}).program), end="")
    def batched_mv(float(M, K) A, float(B, K) x) -> (y) {
      y(b, i) +=! A(i, k) * x(b, k)
    }
    """
    names = (name,) if back is None else (back.name, name)
    entries = [next(d for d in program.defs if d.name == one) for one in names]
    shared = Shared(reachable(program.defs, *entries), is_random=randomness == "different")
    maker = _Maker(shared)
    begin: list[n.Def] = []
    try:
        _bind_ranks(shared, name)
        if checked is not None:
            _want_equal_lengths(shared.defs[name], in_dims, checked)
        tensors = _tensors(shared, name, in_dims, out_dims or {}, out_dim)
        made = maker.definition(tensors)
        if back is not None:
            begin = [maker.definition(_way_back(shared, back, tensors.places, {*in_dims}))]
    except FaultError as fault:
        raise_one(fault.diagnostic)
    found = {r.name: tensors.places.get(r.name) for r in made.returns}
    program = maker.program(*begin, made)
    return Batch(program, shared.size, found, begin[0].name if begin else "")


class _Maker:
    """The definitions over one batch, each made once for the arguments that calls give it."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._made: dict[object, n.Def] = {}

    def definition(self, tensors: Tensors) -> n.Def:
        """Return a definition over the batch."""
        old = tensors.definition
        lines = Lines(tensors, self._callee)
        params = tuple(map(lines.declared, old.params))
        returns = tuple(map(lines.declared, old.returns))
        body = tuple(lines.body(old.body))
        name = self._shared.fresh(f"batched_{old.name}")
        return n.Def(name, old.generics, params, returns, body)

    def program(self, *entries: n.Def) -> n.Program:
        """Return definitions behind all that they need."""
        return reachable((*self._shared.defs.values(), *self._made.values()), *entries)

    def _callee(self, name: str, params: Places, returns: Places) -> str:
        """Return the name of a definition over the batch for arguments and results like these."""
        key = name, tuple(params.items()), tuple(returns.items())
        if key not in self._made:
            if self._shared.is_within(name):
                return name
            with self._shared.within(name):
                self._made[key] = self.definition(_tensors(self._shared, name, params, returns))
        return self._made[key].name


def _tensors(
    shared: Shared,
    name: str,
    params: Places,
    returns: Mapping[str, int | None],
    out_dim: int = 0,
    summed: Collection[str] = (),
) -> Tensors:
    """Return the tensors of a definition, given where some of them have the batch."""
    wanted = [r for r, at in returns.items() if at is not None]
    definition = split(shared, shared.defs[name], params, wanted, summed)
    tensors = Tensors(shared, definition, params, returns, out_dim, summed)
    tensors.follow(definition.body)
    return tensors


def _way_back(shared: Shared, back: Backward, places: Places, params: Collection[str]) -> Tensors:
    """Return the tensors of a way back.

    places: where the tensors of the definition have the batch; params: of these its parameters.
    """
    like = back.like
    definition = shared.defs[back.name]
    summed = [r.name for r in definition.returns if like[r.name] not in params]
    shared.defs[back.name] = to_be_summed(shared, definition, summed)
    _bind_ranks(shared, back.name)
    given = {p.name: places[of] for p in definition.params if (of := like[p.name]) in places}
    returns = {r.name: places[of] for r in definition.returns if (of := like[r.name]) in params}
    return _tensors(shared, back.name, given, returns, summed=summed)


def reachable(defs: Sequence[n.Def], *entries: n.Def) -> n.Program:
    """Return definitions behind those of defs that they need."""
    known = {d.name: d for d in defs}
    needed, todo = {d.name for d in entries}, [*entries]
    while todo:
        names = {*identifiers(todo.pop())} & known.keys() - needed
        needed |= names
        todo += [known[name] for name in names]
    last = {d.name for d in entries}
    return n.Program((*(d for d in defs if d.name in needed - last), *entries))


def _bind_ranks(shared: Shared, name: str) -> None:
    """Write `...` out where the parameters say what it stands for: then it takes any dimension."""
    definition = shared.defs[name]
    if has_dots(definition) and not any(map(has_any_rank, definition.params)):
        shared.defs[name] = with_ranks(definition, shared.defs, None)


def _want_equal_lengths(definition: n.Def, in_dims: Places, checked: CheckedDef) -> None:
    """Refuse a batch of scalars that ranges depend on: its elements would differ in size."""
    shared = lengths(checked)
    for param in definition.params:
        if param.name in in_dims and param.name in shared:
            raise FaultError(
                "TC160",
                f"'{param.name}' cannot be batched: ranges depend on it",
                param.name_span or param.span,
                "all elements of a batch have one size",
                EQUALLY_LONG,
            )
