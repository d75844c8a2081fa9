"""Processes of ours: this interpreter, with a module of the very package that starts it.

With ``-P``, and our folder first on the path: what lies in the user's folder is not imported. In a
session of its own: the terminal's Ctrl-C reaches who started it, which decides.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcdsl.grammar.text.errors import CompileError


def start(
    module: str, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """Start a module of ours.

    Parameters
    ----------
    module, *arguments : str
        As after ``python -m``.
    env : mapping of str to str, optional
        Variables beside those of this process.
    **options
        Of `subprocess.Popen`: its streams, for the most part.

    Raises
    ------
    CompileError
        If this interpreter is a part of a program and cannot be started by itself.
    """
    if not sys.executable:
        raise CompileError("this interpreter does not know what started it: no other can be")
    package = sys.modules[__name__.partition(".")[0]]
    root = str(Path(str(package.__file__)).resolve().parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments], start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(env or {})}, **options,
        )  # fmt: skip
    except OSError as error:
        raise CompileError(f"'{sys.executable}' cannot be started: {error.strerror}") from None
