"""What a program spends its time on, kernel by kernel: `torch.profiler`'s names.

    with profile() as prof:
        step(model, batch)
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))

An event is a call of a kernel; its time is that of the kernel alone, its name that of the
definition. A call of new sizes or types waits for its executable: `prepare NAME`, long where a
compiler runs. Times are those of the host: calls on a GPU are not among them.
"""

from __future__ import annotations

from tcdsl.calls.process.places import found_in
from tcdsl.profiler.events import EventAverage, EventList, FunctionEvent
from tcdsl.profiler.labels import record_function
from tcdsl.profiler.profile import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "EventAverage",
    "EventList",
    "FunctionEvent",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

found_in(__name__)
