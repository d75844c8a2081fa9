"""What the Python API of 2018 had and ours spells otherwise: taken, translated or told.

Names of a text come before these keywords; one that neither API has is an error.

References
----------
Tensor Comprehensions v0.1.1, ``tensor_comprehensions/tc_unit.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, NoReturn, Self

import torch

from tcdsl.calls.process.caller import warn
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.text.instead import instead

autotuner_settings = {"threads": 32, "generations": 2, "pop_size": 10, "number_elites": 1}
small_sizes_autotuner_settings = {**autotuner_settings, "tuner_min_launch_total_threads": 1}

_POP_SIZE, _GENERATIONS = 100, 25  # the tuner's own, where one of them is given
_PRESETS = ("naive", "single_thread", "pointwise", "mlp", "conv", "group_conv")
_SETTERS = (
    "tile",
    "mapToThreads",
    "mapToBlocks",
    "unroll",
    "useSharedMemory",
    "usePrivateMemory",
    "useReadOnlyCache",
    "unrollCopyShared",
    "maxSharedMemory",
    "matchLibraryCalls",
    "fixParametersBeforeScheduling",
    "scheduleFusionStrategy",
    "outerScheduleFusionStrategy",
    "intraTileScheduleFusionStrategy",
)
_OF_THE_GENETIC_SEARCH = (
    "crossover_rate",
    "mutation_rate",
    "number_elites",
    "threads",
    "gpus",
    "options",
    "restore_from_proto",
    "restore_number",
    "log_generations",
    "tuner_min_launch_total_threads",
)
_OF_CALLS = {
    "reorder_function": "the way back takes an adjoint for each float output, in their order",
    "inject_kernel": "write the kernel as a text",
    "cuda_code": "write the kernel as a text",
    "grid": "the tuner chooses how a kernel is started",
    "block": "the tuner chooses how a kernel is started",
}
OF_CALLS = frozenset({"options", "cache", *_OF_CALLS})


class Options:
    """Mapping options: taken, and of no effect, since the compiler chooses and the tuner searches.

    Parameters
    ----------
    preset : "naive", "single_thread", "pointwise", "mlp", "conv" or "group_conv"
    """

    def __init__(self, preset: str = "naive") -> None:
        if preset not in _PRESETS:
            raise TCTypeError(f"there are no options '{preset}'{instead(preset, _PRESETS)}")
        self.preset = preset
        _warn_of_options()

    def __repr__(self) -> str:
        return f"Options({self.preset!r})"

    def __getattr__(self, name: str) -> Callable[..., Self]:
        if name not in _SETTERS:
            raise AttributeError(f"options have no '{name}'{instead(name, _SETTERS)}")
        return lambda *values: self


@cache
def _warn_once(text: str) -> None:
    warn(text)


def _warn_of_options() -> None:
    _warn_once(
        "mapping options have no effect: the compiler chooses a schedule by itself, and "
        "autotune() searches a better one, which later calls use"
    )


def tuning(
    name: str, named: Mapping[str, Any], known: Collection[str], *, by_sizes: bool
) -> dict[str, Any]:
    """Return keywords of `autotune` in place of the first API's.

    Parameters
    ----------
    name : str
        The kernel.
    named : mapping
        As they came.
    known : collection of str
        Names of the text, which come first, and our own keywords.
    by_sizes : bool
        Whether other keywords are sizes, for the kernel to judge.

    Raises
    ------
    TCTypeError
        If there is no such keyword, or a number of trials is none.
    """
    ours = {k: v for k, v in named.items() if k in known}
    theirs = {k: v for k, v in named.items() if k not in known}
    generations, pop_size = theirs.pop("generations", None), theirs.pop("pop_size", None)
    if (generations, pop_size) != (None, None) and ours.get("trials") is None:
        counts = (generations or _GENERATIONS, pop_size or _POP_SIZE)
        if not all(isinstance(c, int) and c > 0 for c in counts):
            raise TCTypeError(
                f"{name}.autotune: generations and pop_size are numbers, got {counts}"
            )
        ours["trials"] = counts[0] * counts[1]
    for key in [k for k in theirs if k in _OF_THE_GENETIC_SEARCH]:
        if theirs.pop(key) is not None:
            _warn_once(
                f"autotune({key}=...) has no effect: the search here is another one, with trials= "
                "(generations x pop_size) and seconds= for its budget"
            )
    if theirs and not by_sizes:
        key = next(iter(theirs))
        every = [*known, "generations", "pop_size", *_OF_THE_GENETIC_SEARCH]
        raise TCTypeError(f"{name}.autotune has no keyword '{key}'{instead(key, every)}")
    return {**ours, **theirs}


def calling(name: str, keywords: dict[str, Any]) -> Any:
    """Take the first API's keywords out of those of a call; return what `cache` was.

    Raises
    ------
    TCTypeError
        If one has no meaning here; it says what has.
    """
    for key, cure in _OF_CALLS.items():
        if keywords.pop(key, None) is not None:
            raise TCTypeError(f"{name}: {key}= is not there any more\n  {cure}")
    if keywords.pop("options", None) is not None:
        _warn_of_options()
    return keywords.pop("cache", None)


def make_autograd(
    forward: Callable[..., Any], backward: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function whose way back is another function.

    backward is called with all inputs of forward, then with the gradients of its outputs (zeros
    where there is none), and returns a gradient or None for each input, at the end those that are
    missing. It is differentiated in turn if autograd can.

    Kernels of `tct.define` need none of this: autograd sees them.

    Parameters
    ----------
    forward, backward : callable
        On tensors; backward None: calls are not differentiable.
    """

    class Function(torch.autograd.Function):
        """The two as autograd wants them."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.rest = [None if isinstance(i, torch.Tensor) else i for i in inputs]
            ctx.save_for_backward(*(i for i in inputs if isinstance(i, torch.Tensor)))
            ctx.places = [p for p, i in enumerate(inputs) if isinstance(i, torch.Tensor)]
            results = forward(*inputs)
            return tuple(results) if isinstance(results, tuple | list) else results

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            if backward is None:
                _no_way_back(forward)
            inputs = [*ctx.rest]
            for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
                inputs[place] = tensor
            found = backward(*inputs, *(g.contiguous() for g in gradients))
            listed = list(found) if isinstance(found, tuple | list) else [found]
            if len(listed) > len(inputs):
                raise TCTypeError(
                    f"the way back of {_name(forward)} gave {len(listed)} gradients "
                    f"for {len(inputs)} inputs"
                )
            return (*listed, *[None] * (len(inputs) - len(listed)))

    return Function.apply


def _no_way_back(forward: Callable[..., Any]) -> NoReturn:
    raise TCTypeError(
        f"{_name(forward)} has no way back\n  give one: make_autograd(forward, backward)"
    )


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))
