"""cuDNN: the same inputs give the same bits, and float32 is float32, whatever is said."""

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return False: it does not compute here."""
    return False


def version() -> int | None:
    """Return None: there is none."""
    return None
