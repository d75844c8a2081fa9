"""Tuning of kernels: which problems a request means, what was found before, how calls use it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.arguments import Array, as_array, contiguous, is_addressable, layout_of
from tcdsl.autotune import best
from tcdsl.autotune.kernel import KernelProblem, key_of, space_of
from tcdsl.autotune.model import choose
from tcdsl.autotune.report import Silent
from tcdsl.autotune.trial import Trial
from tcdsl.codegen.cachedir import cache_dir
from tcdsl.codegen.config import Config
from tcdsl.codegen.spec import Layout, Spec
from tcdsl.grammar.bind import bind
from tcdsl.grammar.errors import ShapeError, TCTypeError
from tcdsl.grammar.typed import CheckedDef
from tcdsl.sizes import check_sizes
from tcdsl.variant import Variant

if TYPE_CHECKING:
    from tcdsl.kernel import Kernel

SizeChoice = int | Iterable[int]
Strides = tuple[tuple[int, ...] | None, ...]


def default_database() -> Path:
    """Return the SQLite file of tuned configs in the user's cache folder."""
    return cache_dir() / "tuned.db"


# ---- what was found before


def tuned_config(variant: Variant, spec: Spec, database: Path) -> Config | None:
    """Return the config tuned for exactly this specialisation, or None."""
    key = key_of(variant.checked, spec, variant.machine)
    found = best.lookup(database, key)
    return None if found is None else found.config


def neighbour_config(variant: Variant, spec: Spec, database: Path) -> Config | None:
    """Return the config of another size where the model puts it above this size's default."""
    tuned = best.relatives(database, key_of(variant.checked, spec, variant.machine))
    if not tuned:
        return None
    space = space_of(variant.program, spec, variant.machine)
    chosen = choose(space, tuned)
    return None if chosen == space.default else chosen


# ---- what a request means


@dataclass(frozen=True, slots=True)
class Operands:
    """Sizes, and how the operands lie in memory."""

    sizes: Mapping[str, int]
    layouts: tuple[Layout, ...]
    strides: Strides
    given: Mapping[str, Any] = field(default_factory=dict)  # numbers, used as they are

    def problem(self, variant: Variant) -> KernelProblem:
        """Return the tuning problem."""
        spec = Spec(tuple(self.sizes.items()), self.layouts, variant.threads)
        return KernelProblem(variant.checked, spec, variant.machine, self.strides, dict(self.given))


def operands_of_arrays(
    checked: CheckedDef, sizes: Mapping[str, int], args: Sequence[Any]
) -> Operands:
    """Return the operands of a call with these arguments and fresh outputs."""
    layouts: list[Layout] = []
    strides: list[tuple[int, ...] | None] = []
    given = {}
    for tensor, value in zip(checked.params, args, strict=True):
        array = as_array(value, tensor.name)
        if not tensor.shape:
            layouts.append(contiguous(0))
            strides.append(None)
            given[tensor.name] = array[()]
            continue
        if not is_addressable(array):
            array = array.copy()
        layouts.append(layout_of(array))
        dense = layouts[-1].contiguous
        strides.append(None if dense else tuple(s // array.itemsize for s in array.strides))
    for tensor in checked.returns:
        layouts.append(contiguous(len(tensor.shape)))
        strides.append(None)
    return Operands(sizes, tuple(layouts), tuple(strides), given)


def problem_of_call(
    variant: Variant, spec: Spec, args: Sequence[Any], outs: Sequence[Array] | None
) -> KernelProblem:
    """Return the tuning problem of one call: its very layouts, strides and numbers."""
    strides: list[tuple[int, ...] | None] = []
    tensors = (*variant.checked.params, *variant.checked.returns)
    missing: Sequence[Any] = [None] * len(variant.checked.returns)
    arrays = (*args, *(outs or missing))
    for tensor, array, layout in zip(tensors, arrays, spec.layouts, strict=True):
        if layout.contiguous or not tensor.shape or array is None:
            strides.append(None)
        else:
            strides.append(tuple(s // array.itemsize for s in array.strides))
    given = {
        t.name: as_array(a, t.name)[()]
        for t, a in zip(variant.checked.params, args, strict=True)
        if not t.shape
    }
    return KernelProblem(variant.checked, spec, variant.machine, tuple(strides), given)


def operands_of_sizes(checked: CheckedDef, sizes: Mapping[str, int]) -> Operands:
    """Return operands of these sizes, all in C order."""
    tensors = (*checked.params, *checked.returns)
    layouts = tuple(contiguous(len(t.shape)) for t in tensors)
    return Operands(check_sizes(checked, sizes), layouts, (None,) * len(tensors))


def requested(
    kernel: Kernel,
    args: Sequence[Any],
    sets: Sequence[Mapping[str, int]] | None,
    sizes: Mapping[str, SizeChoice],
    generics: Mapping[str, Any],
) -> tuple[Variant, list[Operands]]:
    """Return what `Kernel.autotune` was asked for; its docstring has the forms.

    Raises
    ------
    TCError
        If they are mixed, or do not fit the definition.
    """
    asked = f"{kernel.name}.autotune takes arrays, shapes or sizes"
    if sum([bool(args), sets is not None, bool(sizes)]) > 1:
        raise TCTypeError(f"{asked}: give one of them")
    if any(isinstance(a, tuple | list) for a in args):
        variant = kernel.variant(**generics)
        shapes = [tuple(a) if isinstance(a, tuple | list) else () for a in args]
        return variant, [operands_of_sizes(variant.checked, bind(variant.checked, shapes))]
    if args:
        variant, values = kernel.session.bind(
            kernel.definition,
            [as_array(v, n) for v, n in zip(args, kernel.params, strict=True)],
            generics,
        )
        return variant, [operands_of_arrays(variant.checked, values, args)]
    variant = kernel.variant(**generics)
    checked = variant.checked
    if sets is None:
        if not sizes and checked.sizes:
            raise TCTypeError(f"{asked}, as in autotune({checked.sizes[0]}=100)")
        sets = list(combinations(checked, sizes))
    return variant, [operands_of_sizes(checked, values) for values in sets]


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


def draw_history(variant: Variant, operands: Operands, database: Path, path: Path) -> None:
    """Draw the trials of a problem, oldest first, as a PNG."""
    from tcdsl.autotune.cache import find, trials
    from tcdsl.autotune.report import plot_history

    problem = find(database, operands.problem(variant).key.digest)
    times = [inf if t.time_ns is None else t.time_ns for t in trials(database, problem)]
    plot_history(problem.name, times, problem.default_ns, path)


# ---- tuning beside the calls


class Online:
    """A search in a thread of its own; each call may take one checked candidate from it."""

    def __init__(
        self, problem: KernelProblem, database: Path, seconds: float, trials: int | None, seed: int
    ) -> None:
        self._lock = threading.Lock()
        self._checked: list[Config] = []
        self.is_over = False
        self._thread = threading.Thread(
            target=self._search, args=(problem, database, seconds, trials, seed), daemon=True
        )
        self._thread.start()

    def take(self) -> Config | None:
        """Return a candidate that was found right and has not run in a call yet, or None."""
        with self._lock:
            return self._checked.pop(0) if self._checked else None

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of the search."""
        self._thread.join(timeout)

    def _search(
        self, problem: KernelProblem, database: Path, seconds: float, trials: int | None, seed: int
    ) -> None:
        from tcdsl.autotune.tuner import tune

        try:
            tune(
                [problem],
                cache=database,
                seconds=seconds,
                trials=trials,
                seed=seed,
                report=_Listener(self._offer),
            )
        finally:
            self.is_over = True

    def _offer(self, config: Config) -> None:
        with self._lock:
            self._checked.append(config)


class _Listener(Silent):
    """Passes on the configs of trials that came out right."""

    def __init__(self, offer: Any) -> None:
        self._offer = offer

    def ended(self, trial: Trial) -> None:
        if trial.is_timed:
            self._offer(trial.config)
