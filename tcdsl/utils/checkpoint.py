"""Memory for time: parts of a model whose inner results are computed again on the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcdsl import autograd, library
from tcdsl.core import Tensor, is_grad_enabled

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function, keep its inputs only, and compute it again on the way back.

    Parameters
    ----------
    function : callable
        Of tensors and whatever else; gives a tensor or a tuple of them. Leaves that it reads, the
        parameters of a model, get their gradients too.
    *args, **kwargs
        Its arguments; gradients go to tensors among *args.
    use_reentrant : bool, optional
        Taken for the sake of programs that say it: gradients are the same by both.
    preserve_rng_state : bool
        Whether the second call draws the random numbers of the first.

    Returns
    -------
    what the function gives
    """
    if not is_grad_enabled():
        return function(*args, **kwargs)
    state = library.get_rng_state() if preserve_rng_state else None
    given = [a.detach().requires_grad_(a.requires_grad) if _is_float(a) else a for a in args]
    result = function(*given, **kwargs)
    leaves = _leaves_behind(result, given)
    first = [_detached(r) for r in (result if isinstance(result, tuple) else (result,))]
    again = _Call(function, kwargs, state, len(args), first)
    made = _Again.apply(again, *args, *leaves)
    return made if isinstance(result, tuple) else made[0]


class _Call:
    """A call that can be made again; its first results are handed over once."""

    def __init__(
        self, function: Callable[..., Any], kwargs: Any, state: Any, count: int, first: list[Any]
    ) -> None:
        self.function, self.kwargs, self.state = function, kwargs, state
        self.count, self.first = count, first

    def taken(self) -> tuple[Any, ...]:
        first, self.first = self.first, []
        return tuple(first)

    def again(self, args: list[Any]) -> tuple[Any, ...]:
        """Return the results, recorded, with the random numbers of the first call."""
        behind = None
        if self.state is not None:
            behind = library.get_rng_state()
            library.set_rng_state(self.state)
        try:
            with autograd.enable_grad():
                result = self.function(*args, **self.kwargs)
        finally:
            if behind is not None:
                library.set_rng_state(behind)
        return result if isinstance(result, tuple) else (result,)


class _Again(autograd.Function):
    """A call whose way back begins with the call."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Hand the results over that the call has given."""
        ctx.call, ctx.args = args[0], args[1 : args[0].count + 1]
        ctx.save_for_backward(*(a for a in args[1:] if isinstance(a, Tensor)))
        ctx.leaves = args[args[0].count + 1 :]
        return args[0].taken()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Call again and go back through that."""
        ctx.saved_tensors  # noqa: B018  (refuses inputs that were written since)
        is_recorded = is_grad_enabled()
        given = list(ctx.args)
        if not is_recorded:
            given = [
                a.detach().requires_grad_(a.requires_grad) if _is_float(a) else a for a in given
            ]
        results = ctx.call.again(given)
        pairs = [
            (r, g)
            for r, g in zip(results, grad_outputs, strict=True)
            if isinstance(r, Tensor) and r.requires_grad
        ]
        wanted = [t for t in (*given, *ctx.leaves) if isinstance(t, Tensor) and t.requires_grad]
        found = iter(
            autograd.grad(
                [r for r, _ in pairs],
                wanted,
                [g for _, g in pairs],
                create_graph=is_recorded,
                allow_unused=True,
            )
        )
        every = (*given, *ctx.leaves)
        return None, *(
            next(found) if isinstance(t, Tensor) and t.requires_grad else None for t in every
        )


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _leaves_behind(result: Any, given: list[Any]) -> list[Tensor]:
    """Return the leaves that results were computed from, but those that were given."""
    known = {id(a) for a in given}
    values = result if isinstance(result, tuple) else (result,)
    tensors = [v for v in values if isinstance(v, Tensor) and v.requires_grad]
    leaves = {id(t): t for t in tensors if t.grad_fn is None and id(t) not in known}
    waiting: list[Any] = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen = {id(node) for node in waiting}
    while waiting:
        for before, _ in waiting.pop().next_functions:
            if before is None or id(before) in seen or id(before) in known:
                continue
            seen.add(id(before))
            if isinstance(before, Tensor):
                leaves[id(before)] = before
            else:
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
