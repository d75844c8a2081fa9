"""Compile a source in a process of its own: nobody has to wait, and it outlives who asked.

A short program that starts a long compilation ends before it; the next one finds the object.
It runs as ``python -P -m`` of this module, reads a source as JSON, writes why there is no object.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.ours import start
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError

_NICE = 10  # whoever asked has other work


def compile_aside(source: Source) -> str:
    """Compile a source in another process; return why there is no object, "" where there is one.

    The caller waits, so that it is to be a thread that nobody waits for.

    Raises
    ------
    InterruptedError
        If a signal ended the other process, which says nothing about the source.
    """
    given = asdict(source) | {"include": source.include and str(source.include)}
    pipe = subprocess.PIPE
    try:
        process = start(
            __name__, env={"PYTHONIOENCODING": "utf-8"}, stdin=pipe, stdout=pipe, stderr=pipe,
            encoding="utf-8", errors="replace",
        )  # fmt: skip
    except CompileError as error:
        return str(error)
    said, complained = process.communicate(json.dumps(given))
    if process.returncode == 0:
        return ""
    if process.returncode < 0:
        raise InterruptedError(f"a signal ended its compilation: {-process.returncode}")
    return said.strip() or complained.strip() or f"exit code {process.returncode}"


def main() -> int:
    """Compile what the input says; print what is wrong."""
    given = json.loads(sys.stdin.read())
    names = {"flags": tuple(given["flags"]), "libraries": tuple(given["libraries"])}
    include = given["include"] and Path(given["include"])
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    try:
        compile_source(Source(**(given | names | {"include": include})))
    except CompileError as error:
        with contextlib.suppress(BrokenPipeError):
            print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
