"""Names that nothing else has."""

from __future__ import annotations

from collections.abc import Container

__all__ = ["counted", "fresh"]


def fresh(name: str, taken: Container[str]) -> str:
    """Return a name, or with underscores behind it, that is not taken."""
    while name in taken:
        name += "_"
    return name


def counted(name: str, *taken: Container[str]) -> str:
    """Return a name, or with the first count from 2 on behind it, that is in none of these."""
    candidate, count = name, 1
    while any(candidate in names for names in taken):
        count += 1
        candidate = f"{name}_{count}"
    return candidate
