"""From serial time to the time of a call: the one unit that costs of groups are told in.

Every form's `cost_ns` is the predicted time in ns that a call waits for its group, with as many
threads as the spec has: that of the busiest thread. So costs of different forms can be added up
and compared. On a GPU it is the time of the kernels, which are never run side by side.
"""

from __future__ import annotations

from math import ceil

SERIAL_NS = 2500  # below this a second thread does not pay
TASK_NS = 2000.0  # a task should be worth claiming
BYTES_PER_NS = (120.0, 60.0, 30.0, 15.0)  # of one core, from L1, L2, L3 and memory
FAR_BYTES_PER_NS = BYTES_PER_NS[2]  # of what does not fit in a core's own cache


def wall_ns(serial_ns: float, tasks: int, threads: int) -> float:
    """Return the time of the busiest thread.

    Parameters
    ----------
    serial_ns : float
        Of all tasks together.
    tasks : int
        How many equal ones there are.
    threads : int
    """
    if serial_ns <= SERIAL_NS or not tasks:
        return serial_ns
    return serial_ns * ceil(tasks / max(1, threads)) / tasks


def divided_ns(serial_ns: float, pieces: float, threads: int) -> float:
    """Return the time of the busiest thread where tasks are of some pieces each, as it suits.

    pieces: what cannot be divided further, a row that folds for one. A task is not smaller than is
    worth it.
    """
    return wall_ns(serial_ns, int(max(1.0, min(pieces, serial_ns / TASK_NS))), threads)
