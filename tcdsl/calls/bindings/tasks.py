"""A task of `aside.py` is built, by the builder or by a thread of who wants it."""

from __future__ import annotations

import traceback
from importlib import import_module

from tcdsl.codegen.toolchain.making import UnwantedError
from tcdsl.grammar.text.errors import TCError

_MOST = 1000  # characters of what a fault says


def built(module: str, task: bytes) -> str:
    """Build a task of a module; return what went wrong, "" if nothing did."""
    try:
        import_module(module).build(task)
    except UnwantedError:  # the process ends
        return ""
    except TCError as error:
        return str(error) or type(error).__name__
    except Exception:  # a fault of ours in one task: the others are built all the same
        return traceback.format_exc().strip()[-_MOST:]
    return ""
