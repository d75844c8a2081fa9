"""Values read from a file that anybody may have written: each is checked for type and range."""

from __future__ import annotations

_MOST = 1024  # sizes
_LARGEST = 2**63
_LONGEST_NS = 1e18
_LATEST_S = 1 << 53  # since 1970; an integer beyond may be more than a float holds


def sizes_in(value: object) -> tuple[int, ...]:
    """Return a list of sizes.

    Raises
    ------
    ValueError
        If it is anything else, or one of them is no extent.
    """
    if not isinstance(value, list) or len(value) > _MOST:
        raise ValueError("expected a list of sizes")
    if not all(type(n) is int and -_LARGEST <= n < _LARGEST for n in value):
        raise ValueError("a size is an integer of 64 bits")
    return tuple(value)


def time_in(value: object) -> float:
    """Return a time in ns.

    Raises
    ------
    ValueError
        If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a time is a number")
    if not 0 < value < _LONGEST_NS:
        raise ValueError("a time is finite and positive")
    return float(value)


def optional_time_in(value: object) -> float | None:
    """Return a time in ns, or None where there is none yet."""
    return None if value is None else time_in(value)


def date_in(value: object) -> float:
    """Return a date in seconds since 1970.

    Raises
    ------
    ValueError
        If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a date is a number")
    if not -_LATEST_S < value < _LATEST_S:
        raise ValueError("it has a date of no calendar")
    return float(value)


def text_in(value: object) -> str:
    """Return a text.

    Raises
    ------
    ValueError
        If it is none.
    """
    if not isinstance(value, str):
        raise ValueError("it has a value of another type")
    return value
