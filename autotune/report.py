"""What people see of a tuning run: live on a terminal, lines elsewhere, nothing when asked."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, TextIO

from tcdsl.autotune.search.budget import Budget
from tcdsl.autotune.store.trial import Trial, Verdict
from tcdsl.autotune.worker.problem import Roofline, TuningProblem
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.excerpt import printable

_LINE_EVERY_S = 5.0

_WORDS = {
    "compile": "compiling {}",
    "check": "checking {}",
    "time": "timing {}",
    "final": "timing {} head to head",
}


class Reporter:
    """Is told what happens in a tuning run, as it happens; by default says nothing of it."""

    def begin(self, problem: TuningProblem, budget: Budget) -> None:
        """Tell that a problem's search begins."""

    def stage(self, what: str, count: int) -> None:
        """Tell that so many candidates enter a stage: a key of the words above."""

    def ended(self, trial: Trial) -> None:
        """Tell the end of a trial."""

    def note(self, text: str) -> None:
        """Tell the user something; called from a signal handler."""

    def finish(self, verdict: Verdict | None) -> None:
        """Tell the verdict; None if the run ended without one. Called however it ended."""


def reporter(quiet: bool = False, stream: TextIO | None = None) -> Reporter:
    """Return the report that suits a stream, by default standard error."""
    stream = stream or sys.stderr
    if quiet:
        return Silent()
    return Live(stream) if stream.isatty() else Lines(stream)


class Silent(Reporter):
    """Says nothing."""


@dataclass(slots=True)
class Progress:
    """The state of one problem's search, and its figures as text."""

    name: str
    roofline: Roofline
    budget: Budget
    times_ns: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    stage: str = ""

    def add(self, trial: Trial) -> bool:
        """Count a trial; return whether it is the fastest so far. A twin is no trial of its own."""
        if trial.is_twin:
            return False
        if not trial.is_timed:
            self.failures[trial.reason] += 1
            return False
        is_best = not self.times_ns or trial.time_ns < min(self.times_ns)
        self.times_ns.append(trial.time_ns)
        return is_best

    @property
    def trials(self) -> int:
        """Number of trials that have ended."""
        return len(self.times_ns) + self.failures.total()

    def best(self) -> str:
        """Return the best rate, its share of the machine's peak, its time."""
        if not self.times_ns:
            return "no result yet"
        time_ns = min(self.times_ns)
        return f"{rate_text(self.roofline, time_ns)}, {duration(time_ns)}"

    def median(self) -> str:
        """Return the median rate."""
        if not self.times_ns:
            return "-"
        return f"{self.roofline.rate(statistics.median(self.times_ns)):.1f} {self.roofline.unit}"

    def counts(self) -> str:
        """Return number and rate of trials, and the failures by reason."""
        elapsed = max(self.budget.clock() - self.budget.begun, 1e-9)
        text = f"{self.trials} trials, {self.trials / elapsed:.1f}/s"
        if self.failures:
            reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(self.failures.items()))
            text += f", failed: {reasons}"
        return text

    def left(self) -> str:
        """Return what is left of the budget."""
        parts = []
        if (seconds := self.budget.seconds_left) is not None:
            parts.append(f"{int(seconds) // 60}:{int(seconds) % 60:02d} left")
        if (trials := self.budget.trials_left) is not None:
            parts.append(f"{trials} trials left")
        return ", ".join(parts)


class Lines(Reporter):
    """Plain lines: each new best, and where the search stands every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = 0.0
        self._progress: Progress | None = None

    def begin(self, problem: TuningProblem, budget: Budget) -> None:
        """Write the name."""
        self._progress = Progress(problem.name, problem.roofline, budget)
        self._last = time.monotonic()
        self._write(f"{problem.name}: {problem.space.size} configs")

    def stage(self, what: str, count: int) -> None:
        """Write where the search stands, if that was some time ago."""
        progress = self._progress
        if progress is not None and time.monotonic() - self._last >= _LINE_EVERY_S:
            self._last = time.monotonic()
            self._write(
                f"  {progress.counts()}; best {progress.best()}; median {progress.median()}; "
                f"{progress.left()}".rstrip("; ")
            )

    def ended(self, trial: Trial) -> None:
        """Write a new best, and every failure that no plan foresaw."""
        assert self._progress is not None
        if self._progress.add(trial):
            self._write(f"  best so far {self._progress.best()}: {trial.config}")
        elif trial.reason in ("crash", "wrong"):
            first = trial.detail.splitlines()[0] if trial.detail else ""
            self._write(f"  {trial.reason}: {first} ({trial.config})")

    def note(self, text: str) -> None:
        """Write past the stream's buffer, which the signal may have found half way."""
        os.write(2, f"{text}\n".encode())

    def finish(self, verdict: Verdict | None) -> None:
        """Write the verdict."""
        if self._progress is not None and verdict is not None:
            self._write(f"  {verdict_text(self._progress.roofline, verdict)}")

    def _write(self, text: str) -> None:
        print(printable(text), file=self._stream, flush=True)


class Live(Reporter):
    """A few lines on a terminal that change in place.

    They are drawn when something has happened, never by a thread of their own: that one would run
    beside what is being timed.
    """

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream)
        self._live: Any = None
        self._progress: Progress | None = None
        self._note = ""
        self._drawn = 0.0

    def begin(self, problem: TuningProblem, budget: Budget) -> None:
        """Draw the first picture."""
        from rich.live import Live as RichLive

        self._progress = Progress(problem.name, problem.roofline, budget)
        self._live = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        self._draw()

    def stage(self, what: str, count: int) -> None:
        """Draw the stage."""
        assert self._progress is not None
        self._progress.stage = _WORDS[what].format(count)
        self._draw()

    def ended(self, trial: Trial) -> None:
        """Draw the new figures, at most ten times a second."""
        assert self._progress is not None
        self._progress.add(trial)
        if time.monotonic() - self._drawn > 0.1:
            self._draw()

    def note(self, text: str) -> None:
        """Draw a line with the next picture."""
        self._note = text

    def finish(self, verdict: Verdict | None) -> None:
        """Replace the picture by the verdict."""
        assert self._progress is not None
        self._live.stop()
        self._console.print(f"[bold]{self._progress.name}[/bold]  {self._progress.counts()}")
        if verdict is not None:
            text = verdict_text(self._progress.roofline, verdict)
            self._console.print(f"  {text}", highlight=False)

    def _draw(self) -> None:
        from rich.table import Table

        assert self._progress is not None
        table = Table.grid(padding=(0, 2))
        for name, text in (
            (f"[bold]{self._progress.name}[/bold]", self._progress.stage),
            ("  best", f"[green]{self._progress.best()}[/green]"),
            ("  median", self._progress.median()),
            ("  trials", self._progress.counts()),
            ("  budget", self._progress.left()),
            ("", f"[yellow]{self._note}[/yellow]"),
        ):
            if text:
                table.add_row(name, text)
        self._live.update(table, refresh=True)
        self._drawn = time.monotonic()


def rate_text(roofline: Roofline, time_ns: float) -> str:
    """Return a rate with its share of the machine's peak."""
    return f"{roofline.rate(time_ns):.1f} {roofline.unit} ({roofline.share_text(time_ns)})"


def duration(time_ns: float) -> str:
    """Return a time with a unit that suits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if time_ns >= size:
            return f"{time_ns / size:.3g} {unit}"
    return f"{time_ns:.3g} ns"


def verdict_text(roofline: Roofline, verdict: Verdict) -> str:
    """Return one line on the winner."""
    gain = verdict.default_ns / verdict.time_ns
    speed = f"{gain:.2f}x the default" if gain > 1 else "the default"
    rate = rate_text(roofline, verdict.time_ns)
    return f"{rate}, {duration(verdict.time_ns)}, {speed}: {verdict.config}"


def plot_history(
    title: str, times_ns: Sequence[float], default_ns: float | None, path: Path
) -> None:
    """Draw the times of trials in their order, and the best so far, as a PNG.

    Parameters
    ----------
    title : str
    times_ns : sequence of float
        Per trial, oldest first; inf for one that failed.
    default_ns : float or None
        Drawn as a line.
    path : Path

    Raises
    ------
    ImportError
        If matplotlib is not installed: `pip install "tcdsl[demo]"` brings it.
    """
    from matplotlib.figure import Figure

    numbered = [(i, t / 1e3) for i, t in enumerate(times_ns, 1) if t != float("inf")]
    failed = [i for i, t in enumerate(times_ns, 1) if t == float("inf")]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    if numbered:
        numbers, times_us = zip(*numbered, strict=True)
        axes.scatter(numbers, times_us, s=12, alpha=0.5, label="trial")
        best_us = [min(times_us[: k + 1]) for k in range(len(times_us))]
        axes.step(numbers, best_us, where="post", color="tab:green", label="best so far")
        axes.set_yscale("log")
    if default_ns is not None:
        axes.axhline(default_ns / 1e3, color="tab:gray", linestyle="--", label="default")
    if failed:
        transform = axes.get_xaxis_transform()
        axes.scatter(failed, [0.02] * len(failed), marker="x", s=16, color="tab:red",
                     transform=transform, label="failed")  # fmt: skip
    axes.set_title(title)
    axes.set_xlabel("trial")
    axes.set_ylabel("time per call, us")
    if times_ns or default_ns is not None:
        axes.legend()
    figure.savefig(path, dpi=120)
