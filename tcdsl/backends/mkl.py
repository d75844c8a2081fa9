"""Intel's MKL, which does not compute here."""


def is_available() -> bool:
    """Return False."""
    return False
