"""Compile the C core once, into the object cache, and load it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

from tcdsl.codegen.toolchain.objects import use_object
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError

HERE = Path(__file__).resolve().parent
NAME = "tcdsl.codegen.runtime._core"
OPT = "-O1"  # calls are as fast as by -O2, which a compiler takes nearly twice as long for
FLAGS = ("-pthread", *(["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []))


def core_source() -> Source:
    """Return the C text of the core; it includes its other files."""
    return Source("core", (HERE / "module.c").read_text(), OPT, FLAGS, HERE)


def load() -> ModuleType:
    """Return the core, compiled now or at any time before.

    Raises
    ------
    CompileError
        If there is no compiler, or Python is a build that the core does not serve.
    """
    return load_extension(NAME, core_source())


def load_extension(name: str, source: Source) -> ModuleType:
    """Return the extension module of a C text that stands on pyabi.h, compiled once.

    Parameters
    ----------
    name : str
        Of the module, under which it is imported.
    source : Source

    Raises
    ------
    CompileError
        As `load` does.
    """
    if "t" in sys.abiflags or hasattr(sys, "getobjects"):
        raise CompileError(  # their objects have another header than pyabi.h says
            "tcdsl does not run on a free-threaded or reference-tracing build of Python\n"
            "  note: use the ordinary build of the same version"
        )
    module = use_object(source, partial(extension_at, name))
    sys.modules[name] = module
    return module


def extension_at(name: str, path: Path) -> ModuleType:
    """Return the extension module that a shared object holds."""
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, str(path), loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
