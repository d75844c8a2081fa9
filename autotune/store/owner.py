"""Which run works on a trial, and whether it still lives.

A run is named by its place (host, boot of its kernel, namespace of its process numbers), process,
the start time of that process, and a token. In its own place a run is asked for by its process; of
another place, as hosts and containers that share a home folder are, nothing can be asked: a run
there lives as long as it has written to a trial of late.
"""

from __future__ import annotations

import functools
import os
import secrets
import socket
from pathlib import Path

# A run writes at every stage of a batch, which takes it seconds; hosts' clocks differ by less.
LEASE_S = 3600.0

_open_here: set[str] = set()


def begin() -> str:
    """Return the name of a new run in this process: place, process, its start time, a token."""
    pid = os.getpid()
    name = f"{_place()}:{pid}:{_start_time(pid)}:{secrets.token_hex(4)}"
    _open_here.add(name)
    return name


def end(owner: str) -> None:
    """Declare a run of this process ended."""
    _open_here.discard(owner)


def is_alive(owner: str, idle_s: float = 0.0) -> bool:
    """Whether the run of that name goes on.

    Parameters
    ----------
    owner : str
    idle_s : float
        Seconds since it last wrote to the trial in question. It decides for runs of other places:
        far less than 0 is a clock that was wrong then, and is no sign of life.
    """
    try:
        place, pid, start, _ = owner.rsplit(":", 3)
        number = int(pid)
    except ValueError:
        return False
    if place != _place():
        return abs(idle_s) < LEASE_S
    if number == os.getpid():
        return owner in _open_here
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return _start_time(number) == start


@functools.cache
def _place() -> str:
    """Return what tells apart the places in which a process number means a process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        space = "".join(filter(str.isdigit, os.readlink("/proc/self/ns/pid")))
    except OSError:
        boot = space = ""
    return f"{socket.gethostname().replace(':', '-')}/{boot}/{space}"


def _start_time(pid: int) -> str:
    """Return the start time of a process in clock ticks, "" where /proc does not tell.

    A zombie, dead but not yet waited for, has none.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state, *rest = stat.rpartition(")")[2].split()  # the name before the bracket may hold spaces
    return "zombie" if state == "Z" else rest[18]
