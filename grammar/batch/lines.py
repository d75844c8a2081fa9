"""The statements of a definition written anew with the index of a batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import assert_never

from tcdsl.grammar.batch.tensors import Places, Tensors
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.defaults import placed
from tcdsl.grammar.text.errors import Note
from tcdsl.grammar.text.fault import FaultError
from tcdsl.grammar.text.source import Span
from tcdsl.grammar.text.walk import walk
from tcdsl.grammar.types.builtins import PAD
from tcdsl.grammar.types.dtypes import BY_NAME

EQUALLY_LONG = Note(
    "let all elements share it; or write ranges without it, and let it stand in a condition "
    "(i < n ? X(i) : 0) or in the subscript of what is read"
)

Callee = Callable[[str, Places, Places], str]


class Lines:
    """Writes the parts of one definition anew, where its tensors have the batch.

    callee gives the name of what a definition is over the batch, for the parameters and the
    returns that have it.
    """

    def __init__(self, tensors: Tensors, callee: Callee) -> None:
        self._tensors = tensors
        self._callee = callee
        self._shared = tensors.shared
        self._places = tensors.places
        self._size, self._index = n.Name(self._shared.size), n.Name(self._shared.index)
        self._ranks = _ranks(tensors)

    def declared(self, param: n.Param) -> n.Param:
        """Return a parameter or return with the batch among its dimensions, if it has it."""
        ref = param.type
        if ref is None:
            return param
        for dim in ref.dims or ():
            if self._tensors.depends(dim):
                raise _unequal(param.name, dim.span)
        dims = tuple(d if isinstance(d, n.Dots) else self.expr(d) for d in ref.dims or ())
        default = param.default
        if param.name in self._places:
            dims = self._put(param.name, dims, self._size, param.name_span or param.span)
            default = None  # a number for each element of the batch has none
        return replace(param, type=replace(ref, dims=dims or ref.dims), default=default)

    def body(self, body: Sequence[n.Stmt]) -> Iterator[n.Stmt]:
        """Yield statements with the batch."""
        for node in body:
            match node:
                case n.ForLoop(low=low, high=high):
                    for bound in (low, high):
                        if self._tensors.depends(bound):
                            raise _unequal("the loop", bound.span)
                    inner = tuple(self.body(node.body))
                    yield replace(node, low=self.expr(low), high=self.expr(high), body=inner)
                case n.MultiCall(targets, callee, args) if self._tensors.is_call(callee):
                    yield from self._call(node, targets, callee, args)
                case n.Comprehension(target, value=n.Apply(name, args)) if self._tensors.is_call(
                    name
                ):
                    yield from self._call(node, (target,), name, args)
                case n.Comprehension():
                    yield self._comprehension(node)
                case n.MultiCall():
                    yield node
                case _:
                    assert_never(node)

    # ---- statements

    def _comprehension(self, node: n.Comprehension) -> n.Comprehension:
        target = node.target
        subs = tuple(map(self._sub, target.subs)) if target.subs is not None else None
        left = {x.name for x in walk(target.subs or ()) if isinstance(x, n.Name)}
        clauses = tuple(self._clause(c, left) for c in node.clauses)
        if target.name in self._places:
            subs = self._put(target.name, subs or (), self._index, target.span)
        is_sum = target.name in self._tensors.summed
        ends = [(c.low, c.high) for c in node.clauses if isinstance(c, n.RangeClause)]
        if self._tensors.depends(ends):  # and come behind what they depend on
            clauses = (self._range, *clauses)
        elif (is_sum or target.name in self._places) and not self._is_bounded(node.value):
            clauses = (*clauses, self._range)
        return replace(
            node,
            target=replace(target, subs=subs),
            op="+=!" if is_sum and node.op == "=" else node.op,
            value=self.expr(node.value),
            equivalent=None,  # of other ranks now, and ignored in any case
            clauses=clauses,
        )

    def _is_free(self, name: str) -> bool:
        """Whether a name before parentheses is that of a builtin, if there is one."""
        return name not in self._tensors.names and name not in self._shared.defs

    @property
    def _range(self) -> n.RangeClause:
        return n.RangeClause(self._index.name, n.IntLit(0), self._size)

    def _is_bounded(self, value: n.Expr) -> bool:
        """Whether an access that nothing guards gives the index of the batch its range."""
        todo: list[object] = [value]
        while todo:
            match todo.pop():
                case n.Name(name) | n.Apply(name) if name in self._places:
                    return True
                case n.Apply(name, args):
                    todo += args[:1] if name == PAD and self._is_free(name) else args
                case n.Ternary(cond):
                    todo.append(cond)
                case n.Binary("&&" | "||", lhs):
                    todo.append(lhs)
                case n.Binary(lhs=lhs, rhs=rhs) | n.MinMax(lhs=lhs, rhs=rhs):
                    todo += (lhs, rhs)
                case n.Cast(operand=operand) | n.Unary(operand=operand):
                    todo.append(operand)
        return False

    def _clause(self, clause: n.Clause, left: Collection[str]) -> n.Clause:
        match clause:
            case n.RangeClause(name, low, high):
                for bound in (low, high):
                    if name in left and self._tensors.depends(bound):
                        raise _unequal(f"'{name}'", bound.span)
                return replace(clause, low=self.expr(low), high=self.expr(high))
            case n.Let() | n.Exists():
                return replace(clause, value=self.expr(clause.value))

    # ---- calls

    def _call(
        self,
        node: n.Comprehension | n.MultiCall,
        targets: Sequence[n.Target],
        callee: str,
        args: Sequence[n.Arg],
    ) -> Iterator[n.Stmt]:
        """Yield a call of what the callee is over the batch, for these arguments and results."""
        shared, places = self._shared, self._places
        definition = shared.defs[callee]
        params, returns = definition.params, definition.returns
        given: list[n.Arg] = []
        with_batch: dict[str, int] = {}
        found, named = placed(definition, args)
        for arg, param in zip_longest(found, params):
            if arg is None or param is None:  # one too few or too many: the check says so
                continue
            if not self._tensors.depends(arg):
                given.append(arg)
            elif isinstance(arg, n.Name):
                given.append(arg)
                with_batch[param.name] = places[arg.name]
            else:
                assert not isinstance(arg, n.Dots | n.Keyword)
                value = n.Name(shared.fresh(f"{callee}_{param.name}"))
                yield self._scalar(value, param, arg)
                given.append(value)
                with_batch[param.name] = 0
        given += named
        pairs = [*zip(targets, returns, strict=False)]
        wanted = {r.name: places[t.name] for t, r in pairs if t.name in places}
        if with_batch or not wanted:
            name = self._callee(callee, with_batch, wanted) if with_batch else callee
            yield _called(node, targets, name, given)
            return
        if shared.is_random and shared.results(callee, frozenset()):
            raise FaultError(
                "TC163",
                f"'{callee}' draws random numbers of its own for each element, "
                "and none of its arguments has the batch",
                node.span,
                "it does not know how many elements there are",
                Note("write its rand here, or give it a seed that has the batch"),
            )
        copies = {t.name: shared.fresh(t.name) for t, r in pairs if r.name in wanted}
        fresh = [replace(t, name=copies.get(t.name, t.name)) for t in targets]
        yield _called(node, fresh, callee, given)
        for target, copy in copies.items():  # the callee does not know the batch's extent
            subs = self._put(target, (n.Dots(),), self._index, node.span)
            read = n.Apply(copy, (n.Dots(),))
            yield n.Comprehension(n.Target(target, subs), "=", read, clauses=(self._range,))

    def _scalar(self, name: n.Name, param: n.Param, arg: n.Expr) -> n.Comprehension:
        """Return what computes an argument that is an expression, for each element."""
        value = self.expr(arg)
        if param.type is not None and param.type.name in BY_NAME:
            value = n.Cast(param.type.name, value)
        clauses = () if self._is_bounded(arg) else (self._range,)
        return n.Comprehension(n.Target(name.name, (self._index,)), "=", value, None, clauses)

    # ---- expressions

    def expr(self, e: n.Expr) -> n.Expr:
        """Return an expression with the batch."""
        match e:
            case n.Name(name) if name in self._places:
                return n.Apply(name, self._put(name, (), self._index, e.span), span=e.span)
            case n.Extent(name, dim) if name in self._places:
                return replace(e, dim=self._dim(name, dim, e.span))
            case n.Apply(name, args) if self._tensors.is_rand(name):
                return replace(e, args=self._random(args))
            case n.Apply(name, args):
                args = tuple(map(self._argument, args))
                if name in self._places:
                    subs = tuple(a for a in args if not isinstance(a, n.Keyword))
                    args = self._put(name, subs, self._index, e.span)
                return replace(e, args=args)
            case n.Cast() | n.Unary():
                return replace(e, operand=self.expr(e.operand))
            case n.MinMax():
                return replace(e, lhs=self.expr(e.lhs), rhs=self.expr(e.rhs))
            case n.Ternary(cond, then, other):
                cond, then, other = map(self.expr, (cond, then, other))
                return replace(e, cond=cond, then=then, other=other)
            case n.Binary():
                first, chain = n.spine(e)
                value = self.expr(first)
                for link in chain:
                    value = replace(link, lhs=value, rhs=self.expr(link.rhs))
                return value
            case _:
                return e

    def _argument(self, arg: n.Arg) -> n.Arg:
        return arg if isinstance(arg, n.Dots | n.Keyword) else self.expr(arg)

    def _sub(self, sub: n.Sub) -> n.Sub:
        return sub if isinstance(sub, n.Dots) else self.expr(sub)

    def _random(self, args: Sequence[n.Arg]) -> tuple[n.Arg, ...]:
        """Return the arguments of `rand`; each element has its numbers if its seed does not."""
        seed, *rest = map(self._argument, args)
        is_own = self._shared.is_random and not self._tensors.depends(args[0])
        if is_own and rest == [n.Dots()]:
            return (seed, *rest, self._size, self._index)
        if is_own:
            rest = [
                c
                if isinstance(c, n.Dots | n.Keyword)
                else n.Binary("+", n.Binary("*", c, self._size), self._index)
                for c in rest
            ]
        return (seed, *rest)

    # ---- dimensions

    def _put(
        self, name: str, items: Sequence[n.Sub], new: n.Name, span: Span | None
    ) -> tuple[n.Sub, ...]:
        """Return subscripts or dimensions of a tensor with those of the batch among them."""
        for place in self._ways(name):
            at = place if place >= 0 else len(items) + 1 + place
            beside = items[:at] if place >= 0 else items[max(at, 0) :]
            if 0 <= at <= len(items) and not any(isinstance(x, n.Dots) for x in beside):
                return (*items[:at], new, *items[at:])
        raise self._misplaced(name, span)

    def _dim(self, name: str, dim: int, span: Span | None) -> int:
        """Return what number a dimension of a tensor has beside that of the batch."""
        for place in self._ways(name):
            if (place >= 0) == (dim >= 0):
                after = dim >= place if place >= 0 else dim > place
                return dim + (after if place >= 0 else after - 1)
            if place in (0, -1):
                return dim
        raise self._misplaced(name, span)

    def _ways(self, name: str) -> Iterator[int]:
        """Yield the number of the batch's dimension, counted as given and from the other end."""
        place = self._places[name]
        rank = self._ranks.get(name)
        if rank is not None and not -rank - 1 <= place <= rank:
            return
        yield place
        if rank is not None:
            yield place - (rank + 1) if place >= 0 else place + rank + 1

    def _misplaced(self, name: str, span: Span | None) -> FaultError:
        place = self._places[name]
        rank = self._ranks.get(name)
        if rank is not None and not -rank - 1 <= place <= rank:
            problem = f"'{name}' has {rank} dimensions, so that of the batch cannot be {place}"
            return FaultError(
                "TC161", problem, span, "", Note(f"choose from {-rank - 1} to {rank}")
            )
        problem = f"dimension {place} of '{name}', the batch, would be among those of '...'"
        cure = "put it first (0) or last (-1), or give '...' a rank: kernel.with_rank(2).batched()"
        return FaultError("TC161", problem, span, "", Note(cure))


def _called(
    node: n.Comprehension | n.MultiCall,
    targets: Sequence[n.Target],
    callee: str,
    args: Sequence[n.Arg],
) -> n.Stmt:
    if isinstance(node, n.MultiCall):
        return replace(node, targets=tuple(targets), callee=callee, args=tuple(args))
    return replace(node, target=targets[0], value=n.Apply(callee, tuple(args)), equivalent=None)


def _ranks(tensors: Tensors) -> dict[str, int]:
    """Return the ranks of parameters and returns, where the text says them without `...`.

    Others need none: temporaries have the batch first.
    """
    ranks: dict[str, int] = {}
    definition = tensors.definition
    for param in (*definition.params, *definition.returns):
        if param.type is not None:
            dims = param.type.dims or ()
            if not any(isinstance(d, n.Dots) for d in dims):
                ranks[param.name] = len(dims)
    for node in walk(definition.body):
        if not isinstance(node, n.Comprehension) or _is_call_in(tensors, node):
            continue
        subs = node.target.subs or ()
        if not any(isinstance(s, n.Dots) for s in subs):
            ranks.setdefault(node.target.name, len(subs))
    return ranks


def _is_call_in(tensors: Tensors, node: n.Comprehension) -> bool:
    return isinstance(node.value, n.Apply) and tensors.is_call(node.value.name)


def _unequal(what: str, span: Span | None) -> FaultError:
    return FaultError(
        "TC160",
        f"the extent of {what} depends on the batch",
        span,
        "all elements of a batch have one size",
        EQUALLY_LONG,
    )
