"""A C compiler is started: with which words, in which folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tcdsl.codegen.toolchain.cc import INCLUDES, Compiler, environment
from tcdsl.codegen.toolchain.command import Command
from tcdsl.codegen.toolchain.source import Source

LONGEST_S = 300.0  # of a compiler


class Started:
    """A compiler that was started on the file of a source, which may have to be written yet.

    Parameters
    ----------
    compiler : Compiler
    source : Source
    folder : Path
        Its own, for what it reads and writes.
    libraries : sequence of str
    handles : sequence of int
        Open files that it has too.
    """

    def __init__(
        self,
        compiler: Compiler,
        source: Source,
        folder: Path,
        libraries: Sequence[str],
        handles: Sequence[int] = (),
    ) -> None:
        self.output, self.log = folder / "object.so", folder / "log"
        self.libraries = tuple(libraries)
        apart = ["-pipe"] if handles else []  # its assembler too is there before the text
        folders = [INCLUDES, *([source.include] if source.include else [])]
        self.words = [
            *compiler.command, *source.all_flags(compiler), *apart, *(f"-I{f}" for f in folders),
            "-shared", "-o", str(self.output), str(folder / source.file), *libraries,
        ]  # fmt: skip
        self.command = Command(
            self.words, LONGEST_S, folder, self.log, environment(folder), handles=handles
        )
