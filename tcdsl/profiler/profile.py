"""`profile`: recordings that begin and end by steps."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Self

from tcdsl.profiler.events import EventList, events_of
from tcdsl.profiler.tracing import Recording, label

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """What is recorded: here what the host's kernels do."""

    CPU = 0
    CUDA = 2


class ProfilerAction(Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be recorded."""
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Return what to do in each step: wait, warm up, record, and so on again.

    Parameters
    ----------
    wait, warmup, active : int
        Steps of a cycle: without recording, before it, and recorded.
    repeat : int, default 0
        How many cycles; 0: without end.
    skip_first : int, default 0
        Steps before the first cycle.
    skip_first_wait : int, default 0
        Not 0: the first cycle does not wait.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise ValueError(
            "schedule: steps are numbers from 0 on, active from 1 on; "
            f"got wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
            f"skip_first={skip_first}"
        )

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, at = divmod(step, wait + warmup + active)
        if step < 0 or (repeat and cycle >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = at == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return what writes each recording into a folder, as a file for chrome://tracing."""
    folder = Path(dir_name)

    def write(profiled: profile) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        end = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        profiled.export_chrome_trace(folder / f"{worker}.{time.time_ns()}{end}")

    return write


class profile:  # noqa: N801 - PyTorch's name
    """Record what runs in a block.

    Parameters
    ----------
    activities : iterable of ProfilerActivity, optional
        The host's kernels are recorded in any case; of CUDA nothing is, which is warned of.
    schedule : callable (int) -> ProfilerAction, optional
        Which steps are recorded, each ended by `step`; without, all is recorded.
    on_trace_ready : callable (profile), optional
        Called with this when a recording has ended.
    record_shapes, with_flops : bool
        Shapes and work of calls are recorded in any case.
    profile_memory, with_stack, with_modules : bool
        Not recorded: a warning says so.
    use_cuda : bool, optional
        Old name for an activity.

    Examples
    --------
    >>> import tcdsl as tc
    >>> from tcdsl.profiler import profile
    >>> x = tc.ones(3)
    >>> with profile() as prof:
    ...     y = x + x
    >>> [(e.key, e.count) for e in prof.key_averages()]
    [('add', 1)]
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object = None,
        execution_trace_observer: object = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
    ) -> None:
        asked = set(activities or ())
        if use_cuda or (asked and ProfilerActivity.CPU not in asked):
            warnings.warn(
                "profile: calls on a GPU are not recorded, those of the host are; "
                "NVIDIA's Nsight Systems shows a GPU's kernels by their names",
                stacklevel=2,
            )
        wanted = {
            "profile_memory": profile_memory, "with_stack": with_stack,
            "with_modules": with_modules,
        }  # fmt: skip
        for name in (n for n, is_wanted in wanted.items() if is_wanted):
            warnings.warn(f"profile: {name}=True has no meaning here: not recorded", stacklevel=2)
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self.on_trace_ready = on_trace_ready
        self._schedule = schedule or (lambda _: ProfilerAction.RECORD)
        self._has_steps = schedule is not None
        self._is_on = False
        self._recording: Recording | None = None
        self._events: EventList | None = None
        self._step_ns = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0."""
        self.step_num = 0
        self._is_on = True
        self._do(self._schedule(0))

    def step(self) -> None:
        """End a step, and do in the next one what the schedule says; nothing behind the end."""
        if not self._is_on:
            return
        self._name_step()
        was_last = self.current_action is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        action = self._schedule(self.step_num)
        if was_last or action.value < ProfilerAction.RECORD.value:
            self._end()
        self._do(action)

    def stop(self) -> None:
        """End what is being recorded."""
        self._is_on = False
        if self._recording:
            self._name_step()
        self._end()
        self.current_action = ProfilerAction.NONE

    def events(self) -> EventList:
        """Return what was recorded, call by call.

        Raises
        ------
        RuntimeError
            If no recording has ended.
        """
        if self._events is None:
            raise RuntimeError(
                "Profiler didn't finish running: its block, or a step that its schedule records, "
                "has to end first"
            )
        return self._events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """Return the sums of calls of a kernel; see `EventList.table`."""
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file that chrome://tracing and Perfetto show."""
        self.events().export_chrome_trace(path)

    def _do(self, action: ProfilerAction) -> None:
        self.current_action = action
        self._step_ns = time.perf_counter_ns()
        if action.value >= ProfilerAction.RECORD.value and not self._recording:
            self._recording = Recording()
            self._recording.start()
            self._step_ns = time.perf_counter_ns()

    def _name_step(self) -> None:
        if self._has_steps and self._recording:
            label(f"ProfilerStep#{self.step_num}", self._step_ns)

    def _end(self) -> None:
        if not self._recording:
            return
        recording, self._recording = self._recording, None
        recording.stop()
        self._events = events_of(recording)
        if self.on_trace_ready:
            self.on_trace_ready(self)
