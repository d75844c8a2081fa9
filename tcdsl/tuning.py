"""Tuning of kernels: which problems a request means, what was found before, how calls use it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.autotune.report import Reporter, Silent, reporter
from tcdsl.autotune.search.cost_model import choose
from tcdsl.autotune.store import best
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.schema import NAME
from tcdsl.autotune.store.trial import FINAL, Trial, UntunedError
from tcdsl.autotune.store.tuning_file import warn_once
from tcdsl.autotune.targets.cpu.problem import CpuProblem, key_of
from tcdsl.autotune.targets.definition import Strides, space_of
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.sizes import check_sizes
from tcdsl.calls.bindings.variant import Variant, spec_for
from tcdsl.calls.call import Call
from tcdsl.calls.operands.arguments import element_strides
from tcdsl.calls.operands.device_arrays import DeviceArray
from tcdsl.calls.process.caller import warn
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.device import device as devices
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain.cachedir import usable_folder
from tcdsl.grammar.check.bind import bind
from tcdsl.grammar.text.errors import DeviceError, ShapeError, TCTypeError
from tcdsl.grammar.types.typed import CheckedDef

if TYPE_CHECKING:
    from tcdsl.autotune.store.records import StoredProblem
    from tcdsl.autotune.store.rows import TrialRow
    from tcdsl.autotune.store.shipped import Shipped
    from tcdsl.autotune.targets.cuda.problem import CudaProblem
    from tcdsl.kernel import Kernel

    Problem = CpuProblem | CudaProblem

SizeChoice = int | Iterable[int]


def default_database() -> Path:
    """Return the SQLite file of tuned configs in the user's cache folder."""
    return usable_folder() / NAME


# ---- what was found before


def tuned_config(
    variant: Variant, spec: Spec, database: Path, shipped: Shipped | None = None
) -> Config | None:
    """Return the config tuned for exactly this specialisation, or None.

    What was tuned here, in the database, comes before what came with a model: it was timed on this
    machine, and the other took part if `configs=` was given then. A file may say anything: what is
    no config of this program is refused with a warning.
    """
    key = _key(variant, spec)
    own = best.lookup(database, key)
    for config, where in (
        (None if own is None else own.config, str(database)),
        (None if shipped is None else shipped.lookup(key), "those that came with the model"),
    ):
        if config is None:
            continue
        if variant.is_legal(spec, config):
            return config
        warn_once(
            f"{variant.checked.name}: the config in {where} is none of this program's: "
            f"{config!s:.200}; the default serves"
        )
    return None


def neighbour_config(
    variant: Variant, spec: Spec, database: Path, shipped: Shipped | None = None
) -> Config | None:
    """Return the config of another size where the model puts it above this size's default."""
    key = _key(variant, spec)
    tuned = best.relatives(database, key)
    if shipped is not None:
        tuned = best.nearest((*tuned, *shipped.relatives(key)), key)
    if not tuned:
        return None
    space = space_of(variant.program, spec, variant.machine)
    chosen = choose(space, tuned)
    return None if chosen == space.default else chosen


def _key(variant: Variant, spec: Spec) -> ProblemKey:
    if isinstance(variant.machine, Gpu):
        from tcdsl.autotune.targets.cuda.problem import (
            key_of as cuda_key_of,  # on use: the CPU does without
        )

        return cuda_key_of(variant.checked, spec, variant.machine)
    return key_of(variant.checked, spec, variant.machine)


# ---- what a request means


def problem_of_call(call: Call) -> Problem:
    """Return the tuning problem of one call: its very layouts, strides and numbers."""
    checked, spec = call.variant.checked, call.spec
    arrays = [*call.operands, *(call.outs or [None] * len(checked.returns))]
    strides = tuple(
        element_strides(array)
        if isinstance(array, np.ndarray | DeviceArray) and not layout.contiguous
        else None
        for array, layout in zip(arrays, spec.layouts, strict=True)
    )
    given = {
        t.name: np.asarray(o)[()]
        for t, o in zip(checked.params, call.operands, strict=True)
        if not t.shape
    }
    place = next((a.device for a in arrays if isinstance(a, DeviceArray)), 0)
    return _problem(call.variant, spec, place, strides, given)


def problem_of_sizes(variant: Variant, sizes: Mapping[str, int]) -> Problem:
    """Return the tuning problem of these sizes, all operands in C order."""
    values = check_sizes(variant.checked, sizes)
    return _problem(variant, spec_for(variant, values), 0)


def _problem(
    variant: Variant,
    spec: Spec,
    place: int,
    strides: Strides | None = None,
    given: Mapping[str, Any] | None = None,
) -> Problem:
    """Return a problem for what a variant is for; place is the number of the GPU."""
    machine = variant.machine
    if isinstance(machine, Gpu):
        from tcdsl.autotune.targets.cuda.problem import CudaProblem  # on use: the CPU does without

        return CudaProblem(variant.checked, spec, strides, given, device=devices.device(place))
    return CpuProblem(variant.checked, spec, strides, given, machine=machine)


def gpu_for(target: str) -> Gpu:
    """Return the GPU that a target names: "cuda", or "cuda:sm_90" where it has to be such a one.

    Raises
    ------
    TCTypeError
        If it is no target.
    DeviceError
        If there is no such GPU here.
    """
    kind, _, arch = target.partition(":")
    if kind != "cuda":
        raise TCTypeError(f"target is '{target}'; expected 'cpu', 'cuda' or 'cuda:sm_90'")
    gpu = devices.device(0).gpu
    if arch and arch != gpu.arch:
        raise DeviceError(
            f"cannot tune for {arch}: the GPU here, {gpu.name}, is {gpu.arch}\n"
            "  candidates are timed where they will run; leave the architecture out"
        )
    return gpu


def requested(
    kernel: Kernel,
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
    gpu = None if target in (None, "cpu") else gpu_for(str(target))
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
    variant = session.variant(definition, generics, gpu, session.shapes_named(definition, named))
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
    from tcdsl.autotune.store.records import find, trials

    found = find(database, problem.key.digest)
    draw_trials(found, trials(database, found), path)


def draw_trials(problem: StoredProblem, trials: Sequence[TrialRow], path: Path) -> None:
    """Draw the trials that have ended, oldest first, as a PNG; a failed one has no time."""
    from tcdsl.autotune.report import plot_history

    ended = [t for t in trials if t.status in FINAL]
    times = [inf if t.time_ns is None else t.time_ns for t in ended]
    plot_history(problem.name, times, problem.default_ns, path)


# ---- tuning at calls


def tune_first_call(call: Call, session: Session) -> None:
    """Tune for a call, with progress, unless its config is known.

    A call does not fail because its kernel could not be tuned: then a warning says why.

    Raises
    ------
    TuneError
        If the default itself does not run right.
    """
    if session.tuned(call.variant)(call.spec) is None:
        try:
            _tune(problem_of_call(call), session, reporter())
        except (UntunedError, OSError) as error:
            name = call.variant.checked.name
            warn(f"{name} runs untuned: {error}")


class FirstCalls:
    """Tunes once for each key; whoever asks meanwhile waits, and then runs what was found."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._begun: dict[object, Lock] = {}
        self._over: set[object] = set()

    def once(self, key: object, tune: Callable[[], None]) -> None:
        """Tune, unless it was tried for this key before."""
        with self._lock:
            turn = self._begun.setdefault(key, Lock())
        with turn:
            if key not in self._over:
                self._over.add(key)
                tune()


def _tune(problem: Problem, session: Session, report: Reporter) -> None:
    from tcdsl.autotune.tuner import tune

    settings = session.settings
    tune(
        [problem],
        cache=session.database,
        seconds=settings.seconds,
        trials=settings.trials,
        seed=settings.seed,
        report=report,
        shipped=settings.configs,
    )


class Online:
    """A search in a thread of its own; each call may take one checked candidate from it."""

    def __init__(self, call: Call, session: Session) -> None:
        self._lock = Lock()
        self._checked: list[Config] = []
        self._has_ended = False
        self._thread = threading.Thread(
            target=self._search, args=(problem_of_call(call), session), daemon=True
        )
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether no more comes: in a forked child the thread is gone."""
        return self._has_ended or not self._thread.is_alive()

    def take(self) -> Config | None:
        """Return a candidate that was found right and has not run in a call yet, or None."""
        with self._lock:
            return self._checked.pop(0) if self._checked else None

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end of the search."""
        self._thread.join(timeout)

    def _search(self, problem: Problem, session: Session) -> None:
        try:
            _tune(problem, session, _Listener(self._offer))
        except (UntunedError, OSError) as error:
            warn(f"{problem.checked.name} runs untuned: {error}")
        finally:
            self._has_ended = True

    def _offer(self, config: Config) -> None:
        with self._lock:
            self._checked.append(config)


class _Listener(Silent):
    """Passes on the configs of trials that came out right."""

    def __init__(self, offer: Callable[[Config], None]) -> None:
        self._offer = offer

    def ended(self, trial: Trial) -> None:
        if trial.is_timed:
            self._offer(trial.config)
