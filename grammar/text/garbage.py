"""Cycles of garbage are looked for seldom while many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 200_000  # new ones between two searches for cycles


def search_after(objects: int) -> None:
    """Let cycles of garbage be looked for after so many new objects."""
    gc.set_threshold(objects, *gc.get_threshold()[1:])


@contextmanager
def sought_seldom() -> Iterator[None]:
    """Look for cycles seldom meanwhile, in all threads; what others set meanwhile stays.

    Modules that are loaded make objects that stay: to go through them again and again was an eighth
    of the time that the tensor library takes to load. Afterwards they count as old, so that the
    next search does not go through them either.
    """
    usual = gc.get_threshold()[0]
    is_raised = 0 < usual < OBJECTS  # 0: there is no search
    if is_raised:
        search_after(OBJECTS)
    try:
        yield
    finally:
        if is_raised and gc.get_threshold()[0] == OBJECTS:
            # Of few new ones it is not asked whether a program has frozen objects of its own: that
            # counts them, 50 ms of a million for each name of a module that is loaded already.
            if gc.get_count()[0] > usual and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            search_after(usual)
