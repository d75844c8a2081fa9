"""Recorded calls and labels as PyTorch's profiler shows them: events, their sums by name."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tcdsl.codegen.runtime import Entry, Launcher
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.profiler.render import table
from tcdsl.profiler.tracing import Call, Label, Recording
from tcdsl.profiler.work import Work, work_of

__all__ = ["EventAverage", "EventList", "FunctionEvent", "events_of"]

Shapes = tuple[tuple[int, ...], ...]


@dataclass
class FunctionEvent:
    """A call of a kernel, or a block of the program that has a name.

    Times are in microseconds, as PyTorch's; those of a kernel are of its phases alone, without
    what the call costs besides.
    """

    name: str
    thread: int
    start_ns: int
    end_ns: int
    is_kernel: bool
    input_shapes: Shapes = ()
    work: Work | None = None  # unknown where sizes are numbers of the call
    within_ns: int = 0  # of what ran within

    @property
    def key(self) -> str:
        """What events are summed by."""
        return self.name

    @property
    def count(self) -> int:
        """How many calls: one."""
        return 1

    @property
    def cpu_time_total(self) -> float:
        """From begin to end."""
        return (self.end_ns - self.start_ns) / 1e3

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Without what ran within."""
        return (self.end_ns - self.start_ns - self.within_ns) / 1e3

    @property
    def flops(self) -> int:
        """Arithmetic operations, 0 where they are unknown."""
        return self.work.flops if self.work else 0


class EventAverage:
    """Events of one name, or of one name and the same shapes.

    Attributes
    ----------
    key : str
    count : int
    cpu_time_total, self_cpu_time_total, cpu_time : float
        Microseconds: of all calls, without what ran within them, of a call on average.
    input_shapes : tuple
        Those of the first.
    flops : int
        Of all calls.
    gflops, gbytes : float or None
        A second, of all calls whose work is known.
    """

    def __init__(self, first: FunctionEvent | EventAverage) -> None:
        self.key: str = first.key
        self.input_shapes: Shapes = first.input_shapes
        self.is_kernel: bool = first.is_kernel
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.flops = self.bytes = 0
        self._known = 0.0  # microseconds of calls whose work is known

    def add(self, event: FunctionEvent | EventAverage) -> None:
        """Count one more, or those that another one has counted."""
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        if isinstance(event, EventAverage):
            self.flops += event.flops
            self.bytes += event.bytes
            self._known += event._known
        elif event.work:
            self.flops += event.work.flops
            self.bytes += event.work.bytes
            self._known += event.cpu_time_total

    @property
    def cpu_time(self) -> float:
        """Microseconds of a call on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def gflops(self) -> float | None:
        """Arithmetic, in 1e9 operations a second."""
        return self.flops / self._known / 1e3 if self._known else None

    @property
    def gbytes(self) -> float | None:
        """The least traffic, in 1e9 bytes a second."""
        return self.bytes / self._known / 1e3 if self._known else None

    def __repr__(self) -> str:
        return f"<EventAverage {self.key} count={self.count} cpu_time_total={self.cpu_time_total}>"


class EventList(list[Any]):
    """Events or their averages.

    Attributes
    ----------
    wall_ns : int
        What passed by the clock while they were recorded.
    lost : int
        How many calls there was no room for.
    """

    def __init__(self, events: Iterable[Any] = (), wall_ns: int = 0, lost: int = 0) -> None:
        super().__init__(events)
        self.wall_ns = wall_ns
        self.lost = lost

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all, each counted once."""
        return float(sum(e.self_cpu_time_total for e in self))

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        """Return the sums of events of a name, or of a name and the same shapes."""
        found: dict[object, EventAverage] = {}
        for event in self:
            key = (event.key, event.input_shapes if group_by_input_shape else None)
            found.setdefault(key, EventAverage(event)).add(event)
        return EventList(found.values(), self.wall_ns, self.lost)

    def total_average(self) -> EventAverage:
        """Return the sum of all events."""
        total = EventAverage(FunctionEvent("Total", 0, 0, 0, is_kernel=False))
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Return the events as a table.

        Parameters
        ----------
        sort_by : str, optional
            `cpu_time`, `cpu_time_total`, `self_cpu_time_total`, `count`, `flops` or `key`: the
            greatest first. Without, events come in their order.
        row_limit : int, default 100
            -1 for all.
        max_name_column_width, max_shapes_column_width : int
            Longer texts are cut.
        max_src_column_width
            Without a meaning here: places of the program are not recorded.
        header : str, optional
            A line above it.
        top_level_events_only : bool, default False
            Only what ran within nothing else.

        Raises
        ------
        ValueError
            If there is nothing of the name sort_by to sort by.
        """
        rows: list[Any] = self._top() if top_level_events_only else list(self)
        return table(
            rows,
            self,
            sort_by,
            row_limit,
            max_name_column_width,
            max_shapes_column_width,
            header,
        )

    def _top(self) -> list[Any]:
        """Return what ran within nothing else, in its order; sums are not told apart."""
        events = [e for e in self if isinstance(e, FunctionEvent)]
        within = {id(e) for _, e in _nested(sorted(events, key=_begin))}
        return [e for e in self if id(e) not in within]

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a file that chrome://tracing and Perfetto show; `.gz` is packed."""
        rows = [
            {
                "ph": "X",
                "cat": "kernel" if e.is_kernel else "user_annotation",
                "name": e.name,
                "pid": os.getpid(),
                "tid": e.thread,
                "ts": e.start_ns / 1e3,
                "dur": e.cpu_time_total,
                "args": {"Input Dims": e.input_shapes}
                | ({"flops": e.work.flops, "bytes": e.work.bytes} if e.work else {}),
            }
            for e in self
        ]
        text = json.dumps({"schemaVersion": 1, "traceEvents": rows})
        name = os.fspath(path)
        if name.endswith(".gz"):
            Path(name).write_bytes(gzip.compress(text.encode()))
        else:
            Path(name).write_text(text, encoding="utf-8")


def events_of(recording: Recording) -> EventList:
    """Return what was recorded, in the order in which it began."""
    works: dict[tuple[Launcher, tuple[Any, ...]], Work | None] = {}
    forms: dict[Entry, tuple[tuple[np.dtype[Any], Any], ...]] = {}
    events = []
    for call in recording.calls:
        form = forms.setdefault(call.entry, call.entry.operands)
        key = (call.launcher, form)
        if key not in works:
            works[key] = work_of(call.entry)
        events.append(_event(call, form, works[key]))
    events += map(_block, recording.labels)
    events.sort(key=_begin)
    for outer, inner in _nested(events):  # blocks of generators may end one after the other
        outer.within_ns += min(inner.end_ns, outer.end_ns) - inner.start_ns
    return EventList(events, recording.end_ns - recording.start_ns, recording.lost)


def _event(call: Call, form: tuple[tuple[Any, Any], ...], work: Work | None) -> FunctionEvent:
    launcher = call.launcher
    given = form[: len(launcher.params)]
    shapes = tuple(shape if shape is not None else () for _, shape in given)
    return FunctionEvent(launcher.name, call.thread, call.start_ns, call.end_ns, True, shapes, work)


def _block(label: Label) -> FunctionEvent:
    return FunctionEvent(label.name, label.thread, label.start_ns, label.end_ns, is_kernel=False)


def _begin(event: FunctionEvent) -> tuple[int, int]:
    return event.start_ns, -event.end_ns


def _nested(events: Iterable[FunctionEvent]) -> Iterator[tuple[FunctionEvent, FunctionEvent]]:
    """Yield (outer, inner) where inner begins within outer and nothing between; they are sorted."""
    open_: dict[int, list[FunctionEvent]] = {}
    for event in events:
        around = open_.setdefault(event.thread, [])
        while around and around[-1].end_ns <= event.start_ns:
            around.pop()
        if around:
            yield around[-1], event
        around.append(event)
