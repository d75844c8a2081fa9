"""`torch.distributed` to a process that is alone: nothing was begun, so scripts do without it."""

from __future__ import annotations

from typing import NoReturn

__all__ = [
    "get_rank",
    "get_world_size",
    "is_available",
    "is_initialized",
    "is_torchelastic_launched",
]


def is_available() -> bool:
    """Return False: processes do not talk to each other."""
    return False


def is_initialized() -> bool:
    """Return False: no group of processes was begun."""
    return False


is_torchelastic_launched = is_initialized


def get_rank(group: object = None) -> NoReturn:
    """Refuse: there is no group of processes."""
    raise ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )


get_world_size = get_rank
