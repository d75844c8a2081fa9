"""PyTorch's older profiler: a block whose kernels are timed, printed as a table."""

from __future__ import annotations

import os
import warnings
from typing import Self

from tcdsl.profiler import profile as recorder
from tcdsl.profiler.events import EventAverage, EventList
from tcdsl.profiler.labels import record_function

__all__ = ["EventList", "profile", "record_function"]


class profile:  # noqa: N801 - PyTorch's name
    """Record what runs in a block; see `tcdsl.profiler`, whose names are today's.

    Parameters
    ----------
    enabled : bool, default True
        Whether anything is recorded.
    use_cuda : bool, default False
        Calls on a GPU are not recorded: a warning says so.
    record_shapes, with_flops : bool
        Shapes and work of calls are recorded in any case.

    Examples
    --------
    >>> import tcdsl as tc
    >>> x = tc.ones(3)
    >>> with tc.autograd.profiler.profile() as prof:
    ...     y = x + x
    >>> prof.total_average().count
    1
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        record_shapes: bool = False,
        with_flops: bool = False,
    ) -> None:
        if use_cuda:
            warnings.warn("profile: calls on a GPU are not recorded", stacklevel=2)
        self.enabled = enabled
        self._recorder = recorder()
        self._has_begun = self._has_ended = False

    def __enter__(self) -> Self:
        if self._has_begun:
            raise RuntimeError("Profiler context manager is not reentrant")
        if self.enabled:
            self._has_begun = True
            self._recorder.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._recorder.stop()
        self._has_ended = self._has_begun

    @property
    def function_events(self) -> EventList:
        """What was recorded, call by call."""
        return self._recorder.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all, each counted once."""
        return self.function_events.self_cpu_time_total

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """Return the sums of calls of a kernel."""
        return self._recorder.key_averages(group_by_input_shape)

    def total_average(self) -> EventAverage:
        """Return the sum of all calls."""
        return self.function_events.total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """Return the calls as a table; see `EventList.table`."""
        return self.function_events.table(sort_by, row_limit)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file that chrome://tracing and Perfetto show."""
        self._recorder.export_chrome_trace(path)

    def __str__(self) -> str:
        return self.table() if self._has_ended else repr(self)
