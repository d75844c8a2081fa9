"""What `...` lines up: which dimensions of a definition's tensors are equally long, which are 1.

The statements are followed in order, calls too, with the ranks that the parameters have. In each
statement the dimensions under `...` stand in columns, the last ones in the last column; those of
one column are equally long, but for those of extent 1, which are repeated.

Repeated are dimensions for which `...` stands in the type of a parameter, what is written from
them, and literal 1s. A dimension that a type names is as long as it says: one named N beside one
named K is checked to be equal. So is what a statement writes by explicit subscripts, but
`T(.., d) = X(.., d)` hands X's dimension on. An access of a target that has a rank takes that rank:
`Y(...) += 1.0` adds to all of Y. In a callee an extent is repeated only if it is the literal 1 in
the caller; an argument of the caller that a callee repeats becomes the literal 1 there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from tcdsl.grammar.ranks.dims import (
    ONE,
    Dim,
    Dims,
    Tensors,
    around,
    beside,
    columns,
    covered,
    dots_in,
)
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.defaults import placed
from tcdsl.grammar.text.errors import Note, count
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.walk import declared_names, walk

MAX_STATEMENTS = 5_000  # those of callees counted; the check refuses more
MAX_CALLS = 50  # calls within calls; the check refuses more


class Alignment:
    """The tensors of a definition, their dimensions linked by its statements.

    tensors has all of them once `run` is through.
    """

    def __init__(self, definition: n.Def, defs: Mapping[str, n.Def], callers: Sequence[str] = ()):
        self.definition = definition
        self.tensors: Tensors = {}
        self.statements = 0
        self._defs = defs
        self._callers = (*callers, definition.name)
        self._params = {p.name for p in definition.params}
        self._names = declared_names(definition)  # those that are no indices
        self._is_entry = not callers  # what a callee's names mean, its caller cannot say

    def run(self, params: Sequence[Dims | None]) -> None:
        """Follow the statements, given the dimensions of the parameters."""
        names: dict[str, Dim] = {}
        for param, dims in zip(self.definition.params, params, strict=True):
            self.tensors[param.name] = dims
            _link_named(param, dims, names)
        for result in self.definition.returns:
            ref = result.type
            if ref is not None and dots_in(ref.dims, f"the type of '{result.name}'") is None:
                self.tensors[result.name] = self.declared(result, len(ref.dims or ()))
        self._body(self.definition.body)

    def declared(self, param: n.Param, rank: int) -> Dims:
        """Return new dimensions of a parameter or return, with what its type says of them.

        Raises
        ------
        FaultError
            If the type has more dimensions.
        """
        dims = tuple(Dim(param.name, d) for d in range(rank))
        if self._is_entry:
            for dim in dims:
                dim.group.source = dim
        if param.type is None:
            return dims
        types = param.type.dims or ()
        dots = dots_in(types, f"the type of '{param.name}'")
        if dots is not None and len(types) - 1 > rank:
            raise FaultError(
                "TC113",
                f"'{param.name}' is written with {count(rank, 'dimension')}, but its type has "
                f"{len(types) - 1} beside '...'",
                param.span,
            )
        for said, dim in beside(types, dots, dims):
            assert not isinstance(said, n.Dots)
            dim.declared = said
            if self._is_entry and (
                isinstance(said, n.IntLit)
                or (isinstance(said, n.Name) and said.name not in self._params)
            ):
                dim.group.size = said
        return dims

    def _body(self, body: Sequence[n.Stmt]) -> None:
        for node in body:
            self.statements += 1
            if self.statements > MAX_STATEMENTS:
                return
            match node:
                case n.ForLoop(body=inner):
                    self._body(inner)
                case n.MultiCall(targets, callee, args):
                    self._call(callee, args, targets)
                case n.Comprehension(target, value=n.Apply(name, args)) if self._is_def(name):
                    self._call(name, args, (target,))
                case n.Comprehension():
                    self._statement(node)
                case _:
                    assert_never(node)

    def _is_def(self, name: str) -> bool:
        return name in self._defs and name not in self.tensors

    # ---- statements

    def rows(self, node: n.Comprehension) -> list[tuple[n.Apply, n.Dots, Dims]]:
        """Return the accesses with `...` but for the target, and what `...` covers in each."""
        found = []
        for item in walk(node.target.subs or (), node.value, node.clauses):
            if isinstance(item, n.Apply) and (dots := dots_in(item.args, _subscripts(item.name))):
                dims = self.tensors.get(item.name)
                if dims is not None:
                    found.append((item, dots, covered(dims, item.args, dots, item.name)))
        return found

    def _statement(self, node: n.Comprehension) -> None:
        target = node.target
        known = self.tensors.get(target.name)
        subs = target.subs or ()
        dots = dots_in(subs, _subscripts(target.name))
        found = self.rows(node)
        rows = [row for _, _, row in found]
        if dots is None:
            self._want_reduced(node, found)
            for column in columns(rows):
                _join(column)
            middle: Sequence[Dim] = ()
            before: Sequence[n.Sub] = subs
            after: Sequence[n.Sub] = ()
        elif known is not None:
            left = covered(known, subs, dots, target.name)
            _want_room(target, left, columns(rows))
            for column in columns([left, *rows]):
                _join(column)
            return
        elif not rows:
            if any(isinstance(x, n.Dots) for x in walk(node.value, node.clauses)):
                self.tensors[target.name] = None  # of something that the check reports
                return
            raise FaultError(
                "TC190",
                f"nothing on the right says for how many dimensions '...' of '{target.name}' "
                "stands",
                dots.span,
                "",
                Note("read a tensor with '...', or name one: where exists X(...)"),
            )
        else:
            middle = [_join(column) for column in columns(rows)]
            before, after = around(subs, dots)
        if known is None:
            self._create(node, before, middle, after)

    def _want_reduced(
        self, node: n.Comprehension, found: Sequence[tuple[n.Apply, n.Dots, Dims]]
    ) -> None:
        """Refuse '=' where `...` stands only on the right."""
        on_left = {id(x) for x in walk(node.target.subs or ())}
        if node.op != "=" or not found or any(id(access) in on_left for access, _, _ in found):
            return
        name, (_, dots, _) = node.target.name, found[0]
        cure = f"write '+=!' to sum from zero, or {name}(...) to keep the dimensions"
        raise FaultError(
            "TC104",
            "'...' is summed over, but '=' does not reduce",
            dots.span,
            f"not on the left, at '{name}'",
            Note(cure, node.op_span),
        )

    def _create(
        self,
        node: n.Comprehension,
        before: Sequence[n.Sub],
        middle: Sequence[Dim],
        after: Sequence[n.Sub],
    ) -> None:
        """Give the target of its first statement dimensions."""
        name = node.target.name
        rank = len(before) + len(middle) + len(after)
        result = next((r for r in self.definition.returns if r.name == name), None)
        dims = self.declared(result or n.Param(name, None), rank)
        bare = self._bare_indices(node)
        inside = [bare.get(s.name) if isinstance(s, n.Name) else None for s in (*before, *after)]
        meant = [*inside[: len(before)], *middle, *inside[len(before) :]]
        for dim, other in zip(dims, meant, strict=True):
            if other is not None:
                _take(dim, other)
        self.tensors[name] = dims

    def _bare_indices(self, node: n.Comprehension) -> dict[str, Dim]:
        """Return the dimensions that indices run through, where subscripts `i` alone say it."""
        found: dict[str, list[Dim | None]] = {}
        bare: set[int] = set()
        other = {c.name for c in node.clauses if not isinstance(c, n.Exists)} | self._names
        for item in walk(node.value, node.clauses):
            if isinstance(item, n.Apply) and (dims := self.tensors.get(item.name)) is not None:
                dots = dots_in(item.args, _subscripts(item.name))
                for sub, dim in beside(item.args, dots, dims):
                    if isinstance(sub, n.Name):
                        bare.add(id(sub))
                        found.setdefault(sub.name, []).append(dim)
            elif isinstance(item, n.Name) and id(item) not in bare:
                found.setdefault(item.name, []).append(None)
        kept = {}
        for name, places in found.items():
            first = places[0]
            if first is None or name in other:
                continue
            if all(x is not None and x.group is first.group for x in places):
                kept[name] = first
        return kept

    # ---- calls

    def _call(self, name: str, args: Sequence[n.Arg], targets: Sequence[n.Target]) -> None:
        results = self._results(name, args)
        for i, target in enumerate(targets):
            if self.tensors.get(target.name) is not None:
                continue
            given = results[i] if i < len(results) else None
            if given is None:
                self.tensors[target.name] = None
                continue
            param = next((r for r in self.definition.returns if r.name == target.name), None)
            dims = self.declared(param or n.Param(target.name, None), len(given))
            for dim, other in zip(dims, given, strict=True):
                other.group.source = other.group.source or dim
                _take(dim, other)
            self.tensors[target.name] = dims

    def _results(self, name: str, args: Sequence[n.Arg]) -> list[Dims | None]:
        """Return the dimensions that a callee's returns have, as far as they can be told."""
        callee = self._defs.get(name)
        if callee is None or name in self._callers:
            return []
        given = [a for a in placed(callee, args)[0] if a is not None]
        if len(given) != len(callee.params):
            return []
        if len(self._callers) > MAX_CALLS:
            return []
        inner = Alignment(callee, self._defs, self._callers)
        inner.statements = self.statements
        passed: list[Dims | None] = []
        for param, arg in zip(callee.params, given, strict=True):
            dims = self.tensors.get(arg.name) if isinstance(arg, n.Name) else None
            passed.append(dims if dims is None or fits(param, len(dims)) else None)
        try:
            inner.run(passed)
        except FaultError:  # the check reports it, and where the call is
            return []
        finally:
            self.statements = inner.statements
        results = [inner.tensors.get(r.name) for r in callee.returns]
        for dims in results:
            for dim in dims or ():
                _forget(dim)
        return results


def _join(column: Sequence[Dim]) -> Dim:
    """Make the dimensions of a column equally long; return one that is as long as the column.

    Those of extent 1 beside longer ones are repeated.
    """
    other = [dim for dim in column if not dim.is_literally_one]
    wide = [dim for dim in other if not dim.group.is_one]
    for dim in other:
        if wide and dim.group.is_one:
            dim.group.is_broadcast = True
    kept = wide or other or [*column]
    if other:
        for dim in kept[1:]:
            kept[0].match(dim)
    return kept[0]


def _take(dim: Dim, other: Dim) -> None:
    """Let a dimension of a new tensor have the extent of the one that it is written from."""
    if dim.declared is not None:
        _join((dim, other))
    elif other.is_literally_one:
        dim.declared = ONE
    else:
        other.link(dim)


def _want_room(target: n.Target, left: Dims, right: Sequence[Sequence[Dim]]) -> None:
    """Refuse to write more dimensions or more elements than a target has."""
    name = target.name
    dots = dots_in(target.subs, _subscripts(name))
    assert dots is not None
    if len(right) > len(left):
        raise FaultError(
            "TC197",
            f"'...' on the right stands for {count(len(right), 'dimension')}, but that of "
            f"'{name}' for {len(left)}",
            dots.span,
        )
    for dim, column in zip(left[len(left) - len(right) :], right, strict=True):
        is_one = dim.is_literally_one or dim.group.is_one
        if is_one and any(not (x.is_literally_one or x.group.is_one) for x in column):
            raise FaultError(
                "TC197",
                f"dimension {dim.place} of '{name}' has 1 element, but '...' on the right has more",
                dots.span,
                "only what is read is repeated",
            )


def _link_named(param: n.Param, dims: Dims | None, names: dict[str, Dim]) -> None:
    """Link dimensions of parameters that have one name."""
    types = (param.type.dims if param.type is not None else None) or ()
    dots = dots_in(types, f"the type of '{param.name}'")
    if dims is None:
        return
    for said, dim in beside(types, dots, dims):
        if not isinstance(said, n.Name) or dim.is_literally_one:
            continue
        first = names.setdefault(said.name, dim)
        if first.group.is_one == dim.group.is_one:
            first.match(dim)


def _subscripts(name: str) -> str:
    return f"the subscripts of '{name}'"


def fits(param: n.Param, rank: int) -> bool:
    """Whether a parameter may have a rank."""
    dims = (param.type.dims if param.type is not None else None) or ()
    if dots_in(dims, f"the type of '{param.name}'") is None:
        return rank == len(dims)
    return rank >= len(dims) - 1


def _forget(dim: Dim) -> None:
    """Let a callee's names stay in the callee."""
    if not dim.is_literally_one:
        dim.declared = None
