"""What to say after an unknown name."""

from __future__ import annotations

from collections.abc import Iterable


def instead(name: str, known: Iterable[str]) -> str:
    """Return the end of a message: the name that was meant, or all there are."""
    import difflib  # on use: a name that is known needs it not

    listed = list(known)
    near = difflib.get_close_matches(name, listed, 1)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; it has {', '.join(listed) or 'none'}"
