"""Compile the C core once, into the cache directory, and load it."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType

from platformdirs import user_cache_dir

from tcdsl.grammar.errors import CompileError

HERE = Path(__file__).parent
NAME = "tcdsl.codegen.runtime._core"
FLAGS = ("-O2", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")


def sources() -> tuple[Path, ...]:
    """Return the files that make the core."""
    return (*sorted(HERE.glob("*.[ch]")), HERE.parent / "tc_abi.h")


def load() -> ModuleType:
    """Return the core, compiled if this source has not been compiled with this compiler yet."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise CompileError("tcdsl does not run on a free-threaded build of Python yet")
    path = _compiled()
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(path))
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    loader.exec_module(module)
    return module


def _compiled() -> Path:
    cc = shutil.which(os.environ.get("TCDSL_CC") or "cc")
    if cc is None:
        raise CompileError("no C compiler: install gcc or clang")
    content = hashlib.sha256("\0".join((cc, *FLAGS)).encode())
    for path in sources():
        content.update(path.read_bytes())
    folder = Path(os.environ.get("TCDSL_CACHE") or user_cache_dir("tcdsl"))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = folder / f"_core-{content.hexdigest()[:32]}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "_core.so"
            command = [cc, *FLAGS, str(HERE / "module.c"), "-o", str(made)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode:
                raise CompileError(f"{' '.join(command)} failed:\n{run.stderr}")
            made.replace(target)
    return target
