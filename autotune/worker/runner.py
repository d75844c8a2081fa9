"""Where candidates are checked and timed: a worker process and what is loaded in it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.store.trial import Failure, UntunedError
from tcdsl.autotune.worker import bench
from tcdsl.autotune.worker.aside import aside
from tcdsl.autotune.worker.candidate import Candidate
from tcdsl.autotune.worker.case import Case
from tcdsl.autotune.worker.case_folder import new_case_folder
from tcdsl.autotune.worker.problem import TuningProblem
from tcdsl.autotune.worker.process import CutError, WorkerDiedError, WorkerProcess
from tcdsl.autotune.worker.timing import FEWEST_WAY_ROUNDS, ROUNDS, WAY_ROUNDS
from tcdsl.codegen.toolchain.cachedir import CacheError

_LEAVE_S = 0.5  # that what the answer has to be has to end, once nobody asks for it
_POLL_S = 0.1  # between looks at whether the user wants no more
_FIRST_LIMIT_S = 60.0  # nothing is known yet
_LEAST_LIMIT_S = 1.0
_MOST_DELAY = 10.0  # where other programs have the cores
_PATIENCE = 20.0  # times the shortest check so far: the deadline while there is much time left
_FAIR = 3.0  # times the shortest check: the deadline when time is short
_SHARE = 1 / 8  # of the time left that one candidate may take


class StoppedError(Exception):
    """The user wants no more, and there is nothing to compare yet."""


class Runner:
    """The worker process of one problem; a context manager that ends it.

    The problem's case, the reference's answer above all, is computed aside while the first
    candidates are compiled.

    Parameters
    ----------
    problem : TuningProblem
    budget : Budget
    tell : callable
        Told in words if the case takes longer than there is time for.
    """

    def __init__(
        self,
        problem: TuningProblem,
        budget: Budget,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._problem, self._budget, self._tell = problem, budget, tell
        self._case: Future[Case] | None = None
        self._is_ready = False  # the case is saved
        self._stack = ExitStack()
        self._process: WorkerProcess | None = None
        self._loaded: dict[int, int] = {}  # by row: the generation of the process that has it
        self._right: set[int] = set()  # rows that were found right, in any process
        self._killed: set[int | None] = set()  # rows whose process was killed from outside
        self._check_s = math.inf  # the shortest so far
        self._checks_s = self._owns_s = 0.0  # all so far, and for how much of it they had a core
        self.turn_s = (
            0.0  # of one candidate, with all that others did meanwhile: of the last timing
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def is_calibrated(self) -> bool:
        """Whether it is known how long a good candidate's check takes."""
        return math.isfinite(self._check_s)

    @property
    def check_s(self) -> float:
        """Seconds that the check of a good candidate takes; 0 where that is not known."""
        return self._check_s if self.is_calibrated else 0.0

    def knows(self, check_s: float, own_s: float = 0.0) -> None:
        """Note how long the check of a good candidate took, and how long of that it had a core."""
        self._check_s = min(self._check_s, check_s)
        if own_s:
            self._checks_s, self._owns_s = self._checks_s + check_s, self._owns_s + own_s

    @property
    def _delay(self) -> float:
        """How many times as long as alone a check takes where others have the cores."""
        return max(1.0, min(_MOST_DELAY, self._checks_s / self._owns_s)) if self._owns_s else 1.0

    def has(self, candidate: Candidate) -> bool:
        """Whether a candidate is loaded, and was found right, in the process that runs now."""
        return self._loaded.get(candidate.row.id) == self._worker().generation

    def forgives(self, death: WorkerDiedError, row: int | None = None) -> bool:
        """Whether a death says nothing of a candidate: once each, where it came from outside.

        row : of the candidate, where the death does not name it.
        """
        row = death.row if row is None else row
        if not death.is_killed or row in self._killed:
            return False
        self._killed.add(row)
        return True

    def load(self, candidate: Candidate) -> Failure | None:
        """Load and check a candidate; one that was found right before is loaded alone.

        Raises
        ------
        CutError
            If there is no more time for it: nothing is said of the candidate.
        """
        worker, row = self._worker(), candidate.row.id
        is_known = row in self._right
        request = {"do": "check", "row": row, "code": candidate.code, "is_known": is_known}
        # The default is what everything else is held against: it gets the time it needs.
        is_default = candidate.config == self._problem.space.default
        limit_s = _FIRST_LIMIT_S if is_default and not self.is_calibrated else self.limit_s
        begun = time.monotonic()
        try:
            answer = worker.ask(limit_s, request)
        except WorkerDiedError as death:
            if self.forgives(death, row):
                return self.load(candidate)
            return Failure(death.reason, death.detail)
        if "wrong" in answer:
            return Failure("wrong", answer["wrong"])
        if "short" in answer:
            return Failure("resources", answer["short"])
        if not is_known:
            self.knows(time.monotonic() - begun, answer["own_s"])
            self._right.add(row)
        self._loaded[row] = worker.generation
        return None

    def samples(
        self,
        candidates: Sequence[Candidate],
        rounds: int,
        *,
        drops: bool = True,
        seconds: float | None = None,
        latest: float | None = None,
        least: int = ROUNDS,
    ) -> list[list[float]]:
        """Time candidates that are loaded, side by side; return the samples of each, ns per call.

        Who comes first has samples where there is no time for all.

        Parameters
        ----------
        candidates : sequence of Candidate
        rounds : int
        drops : bool
            Whether slow ones get fewer turns.
        seconds, latest, least : optional
            After so many seconds there are no more rounds than the least; after the latest no turn
            begins, by default after what the budget has for what is under way.

        Raises
        ------
        WorkerDiedError
            If one of them ended the process: its `row` tells which.
        """
        rows = [c.row.id for c in candidates]
        found: dict[int, list[float]] = {row: [] for row in rows}

        def hear(turn: dict[str, Any]) -> None:
            if turn["of"] is not None:
                found[turn["of"]] += turn["new"]

        request = {"do": "time", "rows": rows, "rounds": rounds, "drops": drops}
        latest = self._budget.cut_s if latest is None else latest
        request |= {"seconds": seconds, "latest": latest, "least": least}
        try:
            answer = self._worker().ask(self.limit_s, request, hear)
        except CutError:  # what was timed until then
            return [found[row] for row in rows]
        self.turn_s = answer["turn_s"]
        found = dict(answer["samples"])
        return [found[row] for row in rows]

    def in_other_ways(
        self, candidates: Sequence[Candidate], seconds: float | None = None
    ) -> dict[str, list[list[float]]]:
        """Time candidates that are loaded in the further ways of callers: a sample each a round.

        seconds : after which there are no more rounds than the least, in each way.

        Raises
        ------
        WorkerDiedError
            If one of them ended the process: its `row` tells which.
        CutError
            If there is no time to say.
        """
        rows = [c.row.id for c in candidates]
        request = {"do": "ways", "rows": rows, "rounds": WAY_ROUNDS, "drops": False}
        request |= {"seconds": seconds, "latest": self._budget.cut_s, "least": FEWEST_WAY_ROUNDS}
        answer = self._worker().ask(self.limit_s, request)["samples"]
        return {way: [dict(found)[row] for row in rows] for way, found in answer.items()}

    def prepare(self) -> None:
        """Begin what a first check needs: the case, and the worker process with its imports."""
        if self._process is not None:
            return
        self._folder = self._stack.enter_context(new_case_folder())
        with _writing(self._folder):
            bench.save(self._folder, self._problem.bench)
        process = WorkerProcess(self._folder, lambda: self._budget.is_cut)
        self._process = self._stack.enter_context(process)
        self._process.launch()
        over = Event()
        self._case = aside(self._problem.case, over.is_set)
        self._stack.callback(wait, [self._case], _LEAVE_S)  # else the next run would time beside it
        self._stack.callback(over.set)

    def _worker(self) -> WorkerProcess:
        self.prepare()
        assert self._process is not None
        if not self._is_ready:
            begun = self._budget.clock()
            case = self._awaited()
            with _writing(self._folder):
                case.save(self._folder)
            self._is_ready = True
            self._start(self._process)
            self._budget.note_once(self._budget.clock() - begun)
        self._start(self._process)
        return self._process

    def _start(self, process: WorkerProcess) -> None:
        try:
            process.start()
        except WorkerDiedError as death:  # no candidate was in it
            if self.forgives(death):
                return self._start(process)
            raise UntunedError(
                f"{self._problem.name}: no candidate can be run: the process for them ended as it"
                f" began: {death}\n  note: the default serves, untuned"
            ) from None

    def _awaited(self) -> Case:
        assert self._case is not None
        is_told = False
        while not wait([self._case], _POLL_S).done:
            if self._budget.is_stopped:
                raise StoppedError
            if self._budget.is_cut or self._budget.is_case_cut:
                raise UntunedError(
                    f"{self._problem.name}: what the answer has to be takes longer to compute than"
                    f" the {self._budget.seconds:g} s given\n"
                    "  note: the default serves, untuned; give it more seconds"
                )
            if self._budget.seconds_left == 0 and not is_told:
                is_told = True
                self._tell(
                    f"{self._problem.name}: what the answer has to be takes longer to compute than"
                    f" the {self._budget.seconds:g} s given; this run tries nothing beyond the"
                    " first configs, give the next one more seconds"
                )
        return self._case.result()

    @property
    def limit_s(self) -> float:
        """Seconds for a check, or for a turn in a timing.

        Some times what the fastest candidate so far took, without letting one candidate eat the
        budget: then less, but never so little that one who comes near the fastest is cut, nor one
        that waits for a core as others do.
        """
        left = self._budget.seconds_left
        share = math.inf if left is None else _SHARE * left
        if not self.is_calibrated:
            return max(_LEAST_LIMIT_S, min(_FIRST_LIMIT_S, share))
        patience = min(_PATIENCE * self._check_s, share)
        return max(_LEAST_LIMIT_S * self._delay, _FAIR * self._check_s, patience)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or error  # NumPy's own has no number
        raise CacheError(f"{folder} cannot be written: {why}") from error
