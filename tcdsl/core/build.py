"""Compile the core of the tensor library once, into the object cache, and load it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from tcdsl.codegen.runtime import build as launcher
from tcdsl.codegen.toolchain.source import Source
from tcdsl.core.meanwhile import texts_read

HERE = Path(__file__).resolve().parent
NAME = "tcdsl.core._core"


def core_source() -> Source:
    """Return the C text of the core; it includes its other files, and headers of the launcher."""
    text = (HERE / "module.c").read_text()
    return Source("tensors", text, launcher.OPT, launcher.FLAGS, HERE.parent)


def load() -> ModuleType:
    """Return the core, compiled now or at any time before.

    Raises
    ------
    CompileError
        If there is no compiler, or Python is a build that the core does not serve.
    """
    with texts_read():
        return launcher.load_extension(NAME, core_source())
