"""Memory for time: parts of a model whose inner results are computed again on the way back."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

from tcdsl import autograd, library
from tcdsl.autograd.graph import AccumulateGrad, recorded_below
from tcdsl.core import Tensor, is_grad_enabled

__all__ = ["checkpoint", "checkpoint_sequential"]

MOST = 32  # leaves of one node; a node has at most 64 inputs


def _no_contexts() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = _no_contexts,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function, keep its inputs only, and compute it again on the way back.

    Parameters
    ----------
    function : callable
        Of tensors and whatever else. Leaves that it reads, the parameters of a model, get their
        gradients too; what is computed from leaves has to be among its arguments.
    *args, **kwargs
        Its arguments; gradients go to tensors among them, and in their tuples, lists and dicts.
    context_fn : callable
        Gives two contexts: one for the first call, one for the second.
    preserve_rng_state : bool
        Whether the second call draws the random numbers of the first.
    use_reentrant, determinism_check, debug, early_stop
        Taken for the sake of programs that say them: gradients are the same by all.

    Returns
    -------
    what the function gives
        Tensors, alone or in tuples, lists and dicts, and whatever else beside them.

    Raises
    ------
    TypeError
        If it gives an object of another class with a recorded tensor in it.
    ValueError
        If determinism_check is neither "default" nor "none".
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    if not is_grad_enabled():
        return function(*args, **kwargs)
    state = library.get_rng_state() if preserve_rng_state else None
    first, second = context_fn()
    again = _Call(function, args, kwargs, state, second)
    inputs = _tensors((args, kwargs))
    given = _fresh(inputs)
    with first:
        result = again.made_of(given)
    every = _tensors(result)
    _check_plain(result)
    again.recorded = [i for i, r in enumerate(every) if r.requires_grad]
    if not again.recorded:
        return result
    leaves = _leaves_behind([every[i] for i in again.recorded], given)
    again.leaves, again.first = leaves, [every[i].detach() for i in again.recorded]
    tickets = [
        _Leaves.apply(again, at, *leaves[at : at + MOST]) for at in range(0, len(leaves), MOST)
    ]
    made = iter(_Again.apply(again, *inputs, *tickets))
    return _with(result, iter([next(made) if r.requires_grad else r for r in every]))


class _Call:
    """A call that can be made again; its first results are handed over once.

    Attributes
    ----------
    recorded : list of int
        Which of the tensors of its result gradients come to.
    leaves : list of Tensor
        What it reads beside its arguments.
    """

    recorded: list[int]
    leaves: list[Tensor]
    first: list[Tensor]

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, state: Any, context: Any
    ) -> None:
        self.function, self.state, self.context = function, state, context
        self.arguments = args, kwargs
        self.found: list[Tensor | None] = []  # gradients of leaves, on their way

    def made_of(self, tensors: list[Tensor]) -> Any:
        """Return what the function gives of other tensors in the places of its arguments'."""
        args, kwargs = _with(self.arguments, iter(tensors))
        return self.function(*args, **kwargs)

    def taken(self) -> tuple[Tensor, ...]:
        """Hand the first results over."""
        first, self.first = self.first, []
        return tuple(first)

    def again(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return the tensors of the result, recorded, with the random numbers of the first call."""
        behind = None
        if self.state is not None:
            behind = library.get_rng_state()
            library.set_rng_state(self.state)
        try:
            with autograd.enable_grad(), self.context:
                every = _tensors(self.made_of(tensors))
        finally:
            if behind is not None:
                library.set_rng_state(behind)
        if [i for i, r in enumerate(every) if r.requires_grad] != self.recorded:
            raise RuntimeError(
                "checkpoint: the function gave other tensors on the way back than before: it has "
                "to do the same when it is called again"
            )
        return [every[i] for i in self.recorded]


class _Leaves(autograd.Function):
    """Some of the leaves that a call reads, as one number: a node has only so many inputs."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Return a number that stands for them."""
        ctx.call, ctx.begin, ctx.count = args[0], args[1], len(args) - 2
        return library.zeros(())

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Hand on what has been found for them."""
        mine = slice(ctx.begin, ctx.begin + ctx.count)
        found, ctx.call.found[mine] = ctx.call.found[mine], [None] * ctx.count
        return None, None, *found


class _Again(autograd.Function):
    """A call whose way back begins with the call."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Hand the results over that the call has given."""
        ctx.call, inputs = args[0], _tensors(args[0].arguments)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *args[0].leaves)
        ctx.tickets = args[len(inputs) + 1 :]
        return args[0].taken()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Call again and go back through that."""
        ctx.saved_tensors  # noqa: B018  (refuses what was written since)
        inputs = _tensors(ctx.call.arguments)
        is_recorded = is_grad_enabled()
        given = inputs if is_recorded else _fresh(inputs)
        results = ctx.call.again(given)
        known = [(r, g) for r, g in zip(results, grad_outputs, strict=True) if g is not None]
        every = (*given, *ctx.call.leaves)
        wanted = [t for t in every if t.requires_grad]
        results, weights = [r for r, _ in known], [g for _, g in known]
        found = iter(
            autograd.grad(results, wanted, weights, create_graph=is_recorded, allow_unused=True)
        )
        gradients = [next(found) if t.requires_grad else None for t in every]
        ctx.call.found = gradients[len(given) :]
        return None, *gradients[: len(given)], *(t.detach() for t in ctx.tickets)


def _fresh(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors as leaves of their own; integers as they are."""
    return [
        t.detach().requires_grad_(t.requires_grad) if t.is_floating_point() else t for t in tensors
    ]


def _tensors(value: Any) -> list[Tensor]:
    """Return the tensors of a value, in the order of its members."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for member in value for tensor in _tensors(member)]
    if isinstance(value, dict):
        return [tensor for member in value.values() for tensor in _tensors(member)]
    return []


def _check_plain(value: Any) -> None:
    """Refuse recorded tensors in objects, through which no gradient would find its way."""
    if isinstance(value, tuple | list | dict):
        for member in value.values() if isinstance(value, dict) else value:
            _check_plain(member)
    elif not isinstance(value, Tensor):
        held = _tensors(getattr(value, "__dict__", {}))
        if any(t.requires_grad for t in held):
            raise TypeError(
                "checkpoint: expected tensors in tuples, lists and dicts, but the function gave "
                f"{type(value).__name__}"
            )


def _with(value: Any, tensors: Iterator[Tensor]) -> Any:
    """Return a value with other tensors in the places of its own."""
    if isinstance(value, Tensor):
        return next(tensors)
    if not _tensors(value):
        return value
    if isinstance(value, dict):
        made = copy.copy(value)
        made.update({key: _with(member, tensors) for key, member in value.items()})
        return made
    members = [_with(member, tensors) for member in value]
    return type(value)(*members) if hasattr(value, "_fields") else type(value)(members)


def _leaves_behind(tensors: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    """Return the leaves that tensors were computed from, but those that were given."""
    known = {id(a) for a in given}
    leaves = {id(t): t for t in tensors if t.grad_fn is None and id(t) not in known}
    waiting: list[Any] = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen = {id(node) for node in waiting}
    while waiting:
        for before, _ in recorded_below(waiting.pop()):
            if isinstance(before, AccumulateGrad):
                if id(before.variable) not in known:
                    leaves[id(before.variable)] = before.variable
            elif before is not None and id(before) not in seen:
                seen.add(id(before))
                waiting.append(before)
    return list(leaves.values())


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Call functions one behind the other in segments, each but the last a `checkpoint`.

    Parameters
    ----------
    functions : Sequential, or a list of callables
    segments : int
    input : Tensor
    use_reentrant, preserve_rng_state
        As of `checkpoint`.
    """
    listed = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(listed) // segments

    def through(part: list[Any]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for function in part:
                x = function(x)
            return x

        return run

    for number in range(segments - 1):
        part = listed[number * size : (number + 1) * size]
        input = checkpoint(through(part), input, use_reentrant=use_reentrant, **kwargs)
    return through(listed[(segments - 1) * size :])(input)
