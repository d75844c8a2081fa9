"""A source compiled into a folder of the test, without the cache."""

from __future__ import annotations

from pathlib import Path

from tcdsl.codegen.toolchain.cc import Compiler, Run, Source


def compiled(compiler: Compiler, source: Source, folder: Path) -> Path:
    run = Run(compiler, source, folder)
    run.wait()
    if error := run.error():
        raise error
    return run.output
