"""The one folder in which tcdsl keeps files: objects, tuned configs, what it knows of compilers."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcdsl.grammar.errors import CompileError


def cache_dir() -> Path:
    """Return the cache folder, made with mode 0700 where it does not exist.

    ``TCDSL_CACHE`` names it; otherwise it is the user's cache folder of the platform.

    Raises
    ------
    CompileError
        If the folder cannot be made, or if someone else may write to it: what lies there is
        loaded as machine code.
    """
    path = usual_folder()
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = path.stat()
    except OSError as e:
        raise CompileError(
            f"the cache folder '{path}' cannot be used: {e.strerror}\n"
            "  note: set TCDSL_CACHE to a folder that you may write to"
        ) from e
    if status.st_uid != os.geteuid():
        raise CompileError(
            f"the cache folder '{path}' belongs to another user (id {status.st_uid})\n"
            "  note: set TCDSL_CACHE to a folder of your own"
        )
    # A folder that others write to is not ours to close: it may be everybody's, /tmp for one.
    if status.st_mode & 0o022:
        raise CompileError(
            f"others may write to the cache folder '{path}' (mode {status.st_mode & 0o777:04o})\n"
            f"  note: chmod 700 '{path}', or set TCDSL_CACHE to a folder of your own"
        )
    return path


def usual_folder() -> Path:
    """Return where the cache folder lies, whether or not it can be used."""
    named = os.environ.get("TCDSL_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs  # here, because a warm start with TCDSL_CACHE set does not need it

    return Path(platformdirs.user_cache_dir("tcdsl"))


def subfolder(name: str) -> Path:
    """Return a folder of the cache, made where it does not exist."""
    path = cache_dir() / name
    path.mkdir(exist_ok=True, mode=0o700)
    return path


def read_json(name: str) -> dict[str, Any]:
    """Return what `update_json` kept under a name; nothing if it is missing or damaged."""
    try:
        data = json.loads((cache_dir() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def update_json(name: str, values: Mapping[str, Any]) -> None:
    """Add values to a file of facts that can be found out again, by an atomic rename."""
    folder = cache_dir()
    text = json.dumps({**read_json(name), **values}, indent=1, sort_keys=True)
    handle, path = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path, folder / name)
