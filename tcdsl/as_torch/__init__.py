"""Scripts written for PyTorch run on tcdsl: `import torch` and its submodules mean this library."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

from tcdsl import names

__all__ = ["install"]

THREADS = ("get_num_threads", "set_num_threads")  # names that the compiler and the library share


class _Names(types.ModuleType):
    """The module `torch`: the library's names, none of the compiler's."""

    def __getattr__(self, name: str) -> Any:
        import tcdsl

        if name in names.ROOMS or name in names.LIBRARY or name in THREADS:
            value = getattr(tcdsl, name)
            setattr(self, name, value)
            return value
        raise AttributeError(f"module 'torch' has no attribute '{name}' in tcdsl")

    def __dir__(self) -> list[str]:
        return sorted({*names.ROOMS, *names.LIBRARY, *THREADS, "__version__"})


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `torch` and its submodules here."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        first, _, rest = fullname.partition(".")
        if first != "torch":
            return None
        if rest and (
            rest.split(".")[0] not in names.ROOMS
            or importlib.util.find_spec(f"tcdsl.{rest}") is None
        ):
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(rest), is_package=True)


class _Loader(importlib.abc.Loader):
    """Gives the very module of this library, which keeps the name and the spec it has."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if not self._name:
            return _Names("torch", "PyTorch's names, computed by tcdsl.")
        module = importlib.import_module(f"tcdsl.{self._name}")
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        if self._name:
            module.__spec__ = self._spec
        else:
            module.__version__ = "2.13.0+tcdsl"  # type: ignore[attr-defined]  # as torch's


def install() -> None:
    """Let `import torch` mean this library in this process, from now on.

    Raises
    ------
    ImportError
        If PyTorch itself has been imported.
    """
    there = sys.modules.get("torch")
    if there is not None and not isinstance(there, _Names):
        raise ImportError(
            "torch is imported already: install() comes before the first import torch"
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
