"""OpenMP, whose threads are not used here."""


def is_available() -> bool:
    """Return False."""
    return False
