"""`torch.multiprocessing`: Python's, between whose processes tensors are copied."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

__all__ = [
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


def __getattr__(name: str) -> Any:
    return getattr(multiprocessing, name)


def get_all_sharing_strategies() -> set[str]:
    """Return the ways in which PyTorch shares memory on Linux."""
    return {"file_descriptor", "file_system"}


_chosen = "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Take a way of sharing memory: tensors are copied whatever it is."""
    global _chosen
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"invalid sharing strategy: {new_strategy}")
    _chosen = new_strategy


def get_sharing_strategy() -> str:
    """Return what was taken."""
    return _chosen


def start_processes(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> list[Any] | None:
    """Run ``fn(number, *args)`` in processes.

    Parameters
    ----------
    fn : callable
    args : tuple
    nprocs : int
    join : bool
        Wait for all; else they are returned.
    daemon, start_method
        As of Python's processes.

    Raises
    ------
    RuntimeError
        If one of them fails.
    """
    context: Any = multiprocessing.get_context(start_method)
    made = [context.Process(target=fn, args=(n, *args), daemon=daemon) for n in range(nprocs)]
    for process in made:
        process.start()
    if not join:
        return made
    for process in made:
        process.join()
    for n, process in enumerate(made):
        if process.exitcode:
            raise RuntimeError(f"process {n} terminated with exit code {process.exitcode}")
    return None


def spawn(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> list[Any] | None:
    """Run ``fn(number, *args)`` in fresh processes; see `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
