"""Tune all that a module or a function calls, forward and backward, for given inputs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcdsl.calls.bindings.settings import check_budget
from tcdsl.calls.record import Seen, recording
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.layers.configs import Keeper
from tcdsl.layers.library import Library

if TYPE_CHECKING:
    from tcdsl.autotune.report import Reporter
    from tcdsl.autotune.store.key import ProblemKey
    from tcdsl.calls.problems import Problem
    from tcdsl.codegen.machine.config import Config


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one kernel at one form of operands; times are those of a call in ns.

    why : what stands against it, "" where it was tuned.
    """

    name: str
    key: ProblemKey
    config: Config | None = None
    default_ns: float = 0.0
    time_ns: float = 0.0
    why: str = ""

    @property
    def gain(self) -> float:
        """How many times faster than before."""
        return self.default_ns / self.time_ns if self.config is not None else 1.0


@dataclass(frozen=True)
class Tuned:
    """The kernels that a program called, and what came of tuning them.

    is_complete : False where the user stopped it; the rest is as it was.
    """

    rows: list[Row] = field(default_factory=list)
    is_complete: bool = True

    def __str__(self) -> str:
        if not self.rows:
            return "no kernel was called"
        width = max(len(r.name) for r in self.rows)
        lines = [f"{'':{width}} {'untuned':>13}{'tuned':>13}"]
        for row in self.rows:
            if row.config is None:
                lines.append(f"{row.name:{width}}  not tuned: {row.why}")
                continue
            times = "".join(f"{ns / 1e3:10.2f} us" for ns in (row.default_ns, row.time_ns))
            lines.append(f"{row.name:{width}} {times}  {row.gain:.2f}x")
        if not self.is_complete:
            lines.append("stopped: what was found is kept, the next run goes on from there")
        return "\n".join(lines)


def autotune(
    library: Library,
    run: Any,
    inputs: Sequence[Any],
    *,
    training: bool = True,
    kwargs: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    cache: str | PathLike[str] | None = None,
    quiet: bool = False,
    again: bool = True,
) -> Tuned:
    """Tune every kernel of tcdsl that a module of a library calls; see `nn.autotune` there."""
    check_budget(seconds, trials)
    seen = calls_of(library, run, inputs, kwargs or {}, training=training)
    if not seen:
        name = getattr(run, "__name__", type(run).__name__)
        raise TCTypeError(
            f"{name} calls no kernel of {library.kernels_name} for these inputs, "
            "so there is nothing to tune"
        )
    tuned = tune_calls(
        seen, seconds=seconds, trials=trials, seed=seed, cache=cache, quiet=quiet, again=again
    )
    if isinstance(run, library.module):
        _hand_on(tuned, seen, run)
    return tuned


def _hand_on(tuned: Tuned, seen: Sequence[Sequence[Seen]], module: Any) -> None:
    """Let the layers of a module keep what was found for their kernels."""
    from tcdsl.autotune.store.shipped import ShippedConfig

    now = time.time()
    found = {
        row.key.digest: ShippedConfig(row.key, row.config, row.time_ns, row.default_ns, now)
        for row in tuned.rows
        if row.config is not None
    }
    # The kernels of a text and of its ways back have settings of one root.
    settings: dict[int, list[ShippedConfig]] = {}
    for one in (one for same in seen for one in same):
        kept = found.get(one.problem.key.digest)
        if kept is not None:
            settings.setdefault(id(one.kernel.session.settings.root), []).append(kept)
    for layer in module.modules():
        if isinstance(layer, Keeper):
            layer.keep(settings.get(id(layer.tc.session.settings.root), ()))


def calls_of(
    library: Library,
    run: Any,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    training: bool = True,
) -> list[list[Seen]]:
    """Return what a module calls for inputs, by problem in the order of the first call."""
    modules = [*run.modules()] if isinstance(run, library.module) else []
    own = [p for m in modules for p in m.parameters(recurse=False)]
    with _unchanged(library, modules), library.eager():
        for _ in range(library.passes - 1 if training else 0):
            with library.enable_grad():
                _there_and_back(library, run, inputs, kwargs, own)
        with recording() as record:
            with library.no_grad():
                run(*inputs, **kwargs)
            if training:
                with library.enable_grad():
                    _there_and_back(library, run, inputs, kwargs, own)
    return [*record.seen.values()]


def _there_and_back(
    library: Library,
    run: Callable[..., Any],
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    own: Sequence[Any],
) -> None:
    kind: Any = library.tensor
    leaves_of = library.leaves
    results = [r for r in leaves_of(run(*inputs, **kwargs)) if isinstance(r, kind)]
    results = [r for r in results if r.requires_grad]
    leaves = [t for t in leaves_of((inputs, kwargs)) if isinstance(t, kind)]
    wanted = [t for t in (*leaves, *own) if t.requires_grad]
    if results and wanted:
        adjoints = [library.randn_like(r) for r in results]
        once = [*{id(t): t for t in wanted}.values()]
        library.grad(results, once, adjoints, allow_unused=True)  # .grad stays as it is


@contextmanager
def _unchanged(library: Library, modules: Sequence[Any]) -> Iterator[None]:
    """Leave buffers (running means) and random generators as they were."""
    buffers = [b for m in modules for b in m.buffers(recurse=False)]
    kept = [b.detach().clone() for b in buffers]
    try:
        with library.fork_rng():
            yield
    finally:
        with library.no_grad():
            for buffer, values in zip(buffers, kept, strict=True):
                buffer.copy_(values)


def tune_calls(
    seen: Sequence[Sequence[Seen]],
    *,
    seconds: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    cache: str | PathLike[str] | None = None,
    quiet: bool = False,
    again: bool = True,
) -> Tuned:
    """Tune problems one after the other; one that fails does not end the rest.

    again: whether those that were tuned before are tuned on.
    """
    databases = [one.kernel.session.database if cache is None else Path(cache) for one, *_ in seen]
    found = [
        None if again else _found_before(one, database)
        for (one, *_), database in zip(seen, databases, strict=True)
    ]
    share = None if seconds is None else seconds / max(1, found.count(None))
    if None not in found:
        return Tuned([row for row in found if row is not None])
    from tcdsl.autotune.report import reporter  # on use, as what tunes

    report = reporter(quiet)
    rows: list[Row] = []
    for same, database, before in zip(seen, databases, found, strict=True):
        if before is not None:
            rows.append(before)
            continue
        row, is_complete = _tune_one(same[0], database, share, trials, seed, report)
        if row is not None:
            rows.append(row)
            for one in same:
                one.kernel._forget_choices(one.variant)
        if not is_complete:
            return Tuned(rows, is_complete=False)
    return Tuned(rows)


def _found_before(one: Seen, database: Path) -> Row | None:
    """Return what came of a problem that was tuned before, which its calls find by themselves."""
    from tcdsl.autotune.store import best

    problem = one.problem
    known = best.lookup(database, problem.key)
    if known is None or not one.variant.is_legal(problem.spec, known.config):
        return None
    default_ns = known.time_ns if known.default_ns is None else known.default_ns
    return Row(_label(problem), problem.key, known.config, default_ns, known.time_ns)


def _tune_one(
    one: Seen,
    database: Path,
    seconds: float | None,
    trials: int | None,
    seed: int,
    report: Reporter,
) -> tuple[Row | None, bool]:
    """Return what came of a problem, and whether the user lets it go on."""
    from tcdsl.autotune.store.trial import TuneError
    from tcdsl.autotune.tuner import tune

    problem = one.problem
    try:
        found = tune(
            [problem], cache=database, seconds=seconds, trials=trials, seed=seed, report=report
        )
    except TuneError as error:
        why = str(error).partition("\n")[0]
        return Row(_label(problem), problem.key, why=why), True
    if not found:
        return None, False
    verdict = found[0].verdict
    row = Row(_label(problem), problem.key, verdict.config, verdict.default_ns, verdict.time_ns)
    return row, found[0].is_complete


def _label(problem: Problem) -> str:
    """Return the name of a problem, for a training forward that of its text.

    Elsewhere it has the name of the definition, whose own row stands beside it here.
    """
    name, *sizes = problem.name.split(" ")
    training = re.search(rf"\bdef ({re.escape(name)}_forward\w*)\(", problem.text)
    return problem.name if training is None else " ".join([training[1], *sizes])
