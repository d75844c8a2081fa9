"""Tuning as a user asks for it: which problems a request means; trials drawn."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.autotune import tuner
from tcdsl.autotune.report import plot_history, reporter
from tcdsl.autotune.store.records import find
from tcdsl.autotune.store.records import trials as trials_of
from tcdsl.autotune.store.trial import FINAL
from tcdsl.calls.bindings.targets import gpu_to_tune_on
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.problems import problem_of_call, problem_of_sizes
from tcdsl.grammar.check.bind import bind
from tcdsl.grammar.text.errors import ShapeError, TCTypeError
from tcdsl.grammar.types.typed import CheckedDef
from tcdsl.plain.kernel import PlainKernel

if TYPE_CHECKING:
    from tcdsl.autotune.store.records import StoredProblem
    from tcdsl.autotune.store.rows import TrialRow
    from tcdsl.calls.problems import Problem

SizeChoice = int | Iterable[int]


def autotune(
    kernel: PlainKernel,
    args: Sequence[Any],
    sets: Sequence[Mapping[str, int]] | None,
    sizes: Mapping[str, SizeChoice],
    generics: Mapping[str, Any],
    target: str | None,
    database: Path,
    seconds: float | None,
    trials: int | None,
    seed: int,
    quiet: bool,
    begun: float,
) -> tuple[Variant, Any]:
    """Tune as `Kernel.autotune` says; return what was tuned, and the config or configs found.

    seconds are for all sets of sizes together, shared evenly: a person waits for the whole, since
    begun (`time.monotonic()`). trials are for each.
    """
    variant, wanted = requested(kernel, args, sets, sizes, generics, target)
    results = tuner.tune(
        wanted,
        cache=database,
        seconds=None if seconds is None else seconds / len(wanted),
        trials=trials,
        seed=seed,
        report=reporter(quiet),
        shipped=kernel.session.settings.configs,
        begun=begun,
    )
    configs = {tuple(wanted[r.number].sizes.items()): r.config for r in results}
    is_single = sets is None and len(wanted) == 1
    return variant, next(iter(configs.values()), None) if is_single else configs


def requested(
    kernel: PlainKernel,
    args: Sequence[Any],
    sets: Sequence[Mapping[str, int]] | None,
    sizes: Mapping[str, SizeChoice],
    generics: Mapping[str, Any],
    target: str | None = None,
) -> tuple[Variant, list[Problem]]:
    """Return what `Kernel.autotune` was asked for; its docstring has the forms.

    Raises
    ------
    TCError
        If they are mixed, or do not fit the definition or the target.
    """
    asked = f"{kernel.name}.autotune takes arrays, shapes or sizes"
    if sum([bool(args), sets is not None, bool(sizes)]) > 1:
        raise TCTypeError(f"{asked}: give one of them")
    gpu = None if target in (None, "cpu") else gpu_to_tune_on(str(target))
    if args and not any(isinstance(a, tuple | list) for a in args):
        call = kernel.call(*args, **generics)
        if target is not None and call.variant.is_for_gpu != (gpu is not None):
            place = "on a GPU" if call.variant.is_for_gpu else "in the host's memory"
            raise TCTypeError(
                f"{kernel.name}.autotune: the arrays lie {place}, target is '{target}'\n"
                "  give arrays of the target, or shapes"
            )
        return call.variant, [problem_of_call(call)]
    session, definition = kernel.session, kernel.definition
    if args:
        shapes = [tuple(a) if isinstance(a, tuple | list) else () for a in args]
        variant = session.variant(definition, generics, gpu, shapes)
        return variant, [problem_of_sizes(variant, bind(variant.checked, shapes))]
    named = next(iter(sets or ()), sizes)
    variant = session.variant(
        definition, generics, gpu, session.ranks.shapes_named(definition, named)
    )
    if sets is None:
        needed = variant.checked.sizes
        if not sizes and needed:
            raise TCTypeError(f"{asked}, as in autotune({needed[0]}=100)")
        sets = list(combinations(variant.checked, sizes))
    return variant, [problem_of_sizes(variant, values) for values in sets]


def combinations(checked: CheckedDef, sizes: Mapping[str, SizeChoice]) -> Iterator[dict[str, int]]:
    """Yield every combination of `B=range(1, 65), M=128, N=[10, 100]`.

    Raises
    ------
    TCTypeError
        If a value is neither a size nor sizes.
    """
    lists = []
    for name, value in sizes.items():
        values = [value] if isinstance(value, int | np.integer) else list(_sizes_in(name, value))
        if not values:
            raise ShapeError(f"{checked.name}: '{name}' names no size at all")
        lists.append([int(v) for v in values])
    for choice in itertools.product(*lists):
        yield dict(zip(sizes, choice, strict=True))


def _sizes_in(name: str, value: object) -> Iterable[int]:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return value
    raise TCTypeError(f"expected a size or sizes for '{name}', got {type(value).__name__}")


# ---- drawings


def draw_history(problem: Problem, database: Path, path: Path) -> None:
    """Draw the trials of a problem, oldest first, as a PNG."""
    found = find(database, problem.key.digest)
    draw_trials(found, trials_of(database, found), path)


def draw_trials(problem: StoredProblem, trials: Sequence[TrialRow], path: Path) -> None:
    """Draw the trials that have ended, oldest first, as a PNG; a failed one has no time."""
    ended = [t for t in trials if t.status in FINAL]
    times = [inf if t.time_ns is None else t.time_ns for t in ended]
    plot_history(problem.name, times, problem.default_ns, path)
