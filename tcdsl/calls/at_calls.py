"""Tuning at calls: before the first one of a size, or a candidate at each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tcdsl.autotune import tuner
from tcdsl.autotune.report import Reporter, Silent, reporter
from tcdsl.autotune.store.trial import Trial, UntunedError
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.call import KernelCall
from tcdsl.calls.problems import problem_of_call
from tcdsl.calls.process.caller import warn
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.machine.config import Config
from tcdsl.grammar.text.errors import CompileError

if TYPE_CHECKING:
    from tcdsl.calls.problems import Problem

# No fault of the kernel's. What a compiler refuses the call itself meets, if it needs it.
_NO_FAULT = (UntunedError, CompileError, OSError, MemoryError)


def tune_first_call(call: KernelCall, session: Session) -> None:
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
        except _NO_FAULT as error:
            name = call.variant.name
            warn(f"{name} runs untuned: {error}")


class FirstCallTuning:
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
    settings = session.settings
    tuner.tune(
        [problem],
        cache=session.database,
        seconds=settings.seconds,
        trials=settings.trials,
        seed=settings.seed,
        report=report,
        shipped=settings.configs,
    )


class OnlineSearch:
    """A search in a thread of its own; each call may take one checked candidate from it."""

    def __init__(self, call: KernelCall, session: Session) -> None:
        self._lock = Lock()
        self._checked: list[Config] = []
        self._has_ended = False
        self._thread = threading.Thread(
            target=self._search, args=(problem_of_call(call), session), daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:
            self._has_ended = True
            warn(f"{call.variant.name} runs untuned: {error} (ulimit -u)")

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
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _search(self, problem: Problem, session: Session) -> None:
        try:
            _tune(problem, session, _Listener(self._offer))
        except _NO_FAULT as error:
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
