"""Which run works on a trial, and whether it still lives."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

_open_here: set[str] = set()


def begin() -> str:
    """Return the name of a new run in this process: host, process, its start time, a token."""
    pid = os.getpid()
    name = f"{socket.gethostname()}:{pid}:{_start_time(pid)}:{secrets.token_hex(4)}"
    _open_here.add(name)
    return name


def end(owner: str) -> None:
    """Declare a run of this process ended."""
    _open_here.discard(owner)


def is_alive(owner: str) -> bool:
    """Whether the run of that name goes on; one of another host counts as alive.

    A shared cache folder may hold trials of another host's run. Not touching them costs that run's
    unfinished candidates; trying them while the other does would cost a wrong time.
    """
    try:
        host, pid, start, _ = owner.rsplit(":", 3)
        number = int(pid)
    except ValueError:
        return False
    if host != socket.gethostname():
        return True
    if number == os.getpid():
        return owner in _open_here
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _start_time(number) == start


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
