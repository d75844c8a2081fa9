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
from tcdsl.as_torch import files
from tcdsl.as_torch.absent import absent_module, missing
from tcdsl.grammar.text.garbage import sought_seldom

__all__ = ["VERSIONS", "install"]

VERSIONS = {"2.13": "2.13.0+tcdsl", "0.4": "0.4.0+tcdsl"}  # and what `torch.__version__` says
OURS = {"tcdsl.torch": "as_torch.kernels", "tcdsl.torch.nn": "nn"}  # what stands on PyTorch
ELSEWHERE = {"GradScaler": "amp"}  # names of rooms that PyTorch has in `torch` too
THREADS = ("get_num_threads", "set_num_threads")  # names that the compiler and the library share


class _Names(types.ModuleType):
    """The module `torch`: the library's names, none of the compiler's."""

    def __getattr__(self, name: str) -> Any:
        import tcdsl

        if name == "fft" and _version != "0.4":  # a module of today, a function then
            return files.stand_in(name)
        if name in names.ROOMS or name in names.LIBRARY or name in THREADS:
            if name == "Tensor":
                with sought_seldom():
                    importlib.import_module("tcdsl.library")  # gives it its methods
            value = getattr(tcdsl, name)
            _show_types()
            if name in names.ROOMS:
                files.attach(name)
            setattr(self, name, value)
            return value
        if name in ELSEWHERE:
            return getattr(getattr(self, ELSEWHERE[name]), name)
        if files.room_of(name):  # which scripts read without an import
            return files.stand_in(name)
        why = "" if name.startswith("__") else missing(name)  # those the interpreter asks for
        raise AttributeError(f"module 'torch' has no attribute '{name}' in tcdsl{why}")

    def __dir__(self) -> list[str]:
        return sorted({*names.ROOMS, *names.LIBRARY, *THREADS, "__version__"})


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `torch` and its submodules here, and `tcdsl.torch`, which imports them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in OURS:
            return importlib.machinery.ModuleSpec(
                fullname, _Loader(OURS[fullname]), is_package=True
            )
        first, _, rest = fullname.partition(".")
        if first != "torch":
            return None
        if files.room_of(rest):
            return importlib.machinery.ModuleSpec(fullname, _Loader(rest), is_package=True)
        if rest and (
            rest.split(".")[0] not in names.ROOMS
            or importlib.util.find_spec(f"tcdsl.{rest}") is None
        ):
            if why := absent_module(rest):
                raise ModuleNotFoundError(
                    f"No module named '{fullname}' in tcdsl: {why}", name=fullname
                )
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
        if files.room_of(self._name):
            return files.stand_in(self._name)
        with sought_seldom():
            module = importlib.import_module(f"tcdsl.{self._name}")
        files.attach(self._name)
        _show_types()
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        if self._name:
            module.__spec__ = self._spec or module.__spec__
        else:
            vars(module).update(__version__=VERSIONS[_version], newaxis=None)
            vars(module).update(_swapped)


_version = "2.13"
_swapped: dict[str, Any] = {}  # names of `torch` that are not the library's


def install(version: str = "2.13") -> None:
    """Let `import torch` mean this library in this process, from now on.

    Parameters
    ----------
    version : {"2.13", "0.4"}
        The version of PyTorch that the script was written for: with "0.4" what `differences.py`
        lists is given back, in all of this process's scripts.

    Raises
    ------
    ImportError
        If PyTorch itself has been imported.
    ValueError
        If the version is unknown, or another one has been installed.
    """
    if version not in VERSIONS:
        raise ValueError(f"expected a version of {', '.join(VERSIONS)}, got '{version}'")
    global _version
    there = sys.modules.get("torch")
    if there is not None and not isinstance(there, _Names):
        raise ImportError(
            "torch is imported already: install() comes before the first import torch"
        )
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        if version != _version:
            raise ValueError(f"version {_version} is installed: install() once a process")
        return
    sys.meta_path.insert(0, _Finder())
    if version == "0.4":
        _swap()
    _version = version


def _show_types() -> None:
    """Let types of tensors show themselves as PyTorch's do: scripts print them."""
    for at, name, shown in (
        ("tcdsl.core", "Tensor", "torch"),
        ("tcdsl.tensors.parameter", "Parameter", "torch.nn.parameter"),
    ):
        found = getattr(sys.modules.get(at), name, None)
        if found is not None:
            found.__module__ = shown


def _swap() -> None:
    """Give back what PyTorch 0.4 meant."""
    from tcdsl.as_torch.differences import DIFFERENCES  # late: most scripts are of today
    from tcdsl.as_torch.scripts import OF_TORCH

    importlib.import_module("tcdsl.library")  # makes public what is swapped
    for swap in dict.fromkeys(d.swap for d in DIFFERENCES):
        module, _, function = swap.partition(".")
        getattr(importlib.import_module(f"tcdsl.as_torch.{module}"), function)()
    _swapped.update(OF_TORCH)
