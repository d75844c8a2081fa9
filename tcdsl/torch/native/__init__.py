"""The bridge: what calls ask of torch, answered by torch's own headers, compiled once.

Without it every call is what it is with it, and costs some microseconds more: torch's answers come
through Python (`foreign.py`), and calls are recorded by `Function.apply`. So it is nobody's to wait
for: the first call that Python sees starts a thread, this one a process that compiles
(`codegen/toolchain/aside.py`), and when that has ended calls change over.

``TCDSL_TORCH_BRIDGE=0`` leaves it away. `tcdsl doctor` tells how it stands.

Whether a tensor is plain is one comparison of its dispatch keys, an output comes from torch's
allocator without its dispatcher, modes are thread locals. What is compiled, 18 s, is kept for a
torch, a Python and a compiler, and held against torch's answers when it is loaded.

Three tensors of 8 numbers, without and with it, the least of many repeats in one run: `out=` 1.5
and 0.37 us (NumPy's arrays 0.20), fresh outputs 1.96 and 0.59 (`torch.empty` 0.74), recorded a
product 8.0 and 3.9, a sum 8.8 and 4.7 (`torch.add` 1.8), of which 1.6 are the node and 0.6 the
kernel.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tcdsl.calls.operands import foreign
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.runtime.build import HERE as RUNTIME
from tcdsl.codegen.runtime.build import extension_at
from tcdsl.codegen.toolchain.aside import compile_aside
from tcdsl.codegen.toolchain.cachedir import CacheError, is_lasting, read_json, update_json
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.objects import key_of, lookup
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import CompileError

FACTS = "torch-bridge.json"  # of the cache: per version of torch, how the last attempt ended
_NAME = "tcdsl.torch.native._bridge"
_AGAIN_S = 3600.0  # what failed may be installed by then


def _apply(function: type[torch.autograd.Function], *args: Any) -> Any:
    """Call a function such that autograd records it, where no transform is active."""
    # What `Function.apply` does for transforms of torch.func is not asked where none is active.
    return super(torch.autograd.Function, function).apply(*args)  # type: ignore[misc]


apply: Callable[..., Any] = (
    _apply  # of a `Function` whose outputs are new; the bridge's, once loaded
)


def source() -> Source:
    """Return the text of the bridge for this torch and this Python.

    Raises
    ------
    CompileError
        If it cannot be compiled here, whatever the compiler says.
    """
    home = Path(torch.__file__).resolve().parent
    headers, python = home / "include", python_headers()
    for needed in (headers / "torch/csrc/autograd/python_function.h", python / "Python.h"):
        if not needed.exists():
            raise CompileError(f"there is no '{needed}'")
    is_mac = sys.platform == "darwin"
    if find_compiler().kind == "zig" and not is_mac:
        raise CompileError(
            "the compiler is zig, whose C++ library is not the one that torch is made with\n"
            "  note: install gcc or clang with C++ (Debian: apt install g++)"
        )
    made_for = f"// torch {torch.__version__} {torch.version.git_version}, {sys.version}\n"
    return Source(
        "torch_bridge",
        made_for + (Path(__file__).parent / "bridge.cpp").read_text(encoding="utf-8"),
        "-O2",
        (
            "-std=c++20", "-fPIC", "-DAT_PER_OPERATOR_HEADERS",  # which compile in half the time
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            "-isystem", str(headers), "-isystem", str(python),
            *(["-undefined", "dynamic_lookup"] if is_mac else []),
        ),
        RUNTIME,
        "c++",
        (
            f"-L{home / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python",
            "-lc++" if is_mac else "-lstdc++",
        ),
    )  # fmt: skip


def python_headers() -> Path:
    """Return the folder of Python.h, if it is installed."""
    return Path(sysconfig.get_path("include"))


class Bridge:
    """How it stands in this process.

    Attributes
    ----------
    module : module or None
        What calls use, once it is there.
    why : str
        Why it is not there.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread: threading.Thread | None = None
        self.module: ModuleType | None = None
        self.begun = False
        self.why = "no call has asked for it"

    def begin(self) -> None:
        """Start to bring it, once in a process."""
        if self.begun:
            return
        with self._lock:
            if self.begun:
                return
            self.begun = True
            if os.environ.get("TCDSL_TORCH_BRIDGE", "1") == "0":
                self.why = "TCDSL_TORCH_BRIDGE is 0"
                return
            self.why = "it is being compiled"
            self._thread = threading.Thread(target=self._bring, name="tcdsl-bridge", daemon=True)
            self._thread.start()

    def wait(self, seconds: float | None) -> bool:
        """Wait for it, so long at most; return whether it is there."""
        self.begin()
        if self._thread is not None:
            self._thread.join(seconds)
        return self.module is not None

    def after_fork(self) -> None:
        """Begin anew in a child, where the thread of its parent does not run."""
        if self.module is None and self._thread is not None:
            self.begun, self._thread = False, None

    def _bring(self) -> None:
        key = ""
        try:
            made_from = source()
            key = key_of(made_from, find_compiler())
            module = extension_at(_NAME, _object_of(made_from, key))
            _check(module)
        except (InterruptedError, CacheError) as error:
            self.why = str(error)  # of this moment: the next process tries again
            return
        except (CompileError, OSError, ImportError, RuntimeError) as error:
            self.why = str(error)
            _remember(key, self.why)
            return
        _remember(key, "")
        self.module, self.why = module, ""
        use(module)


def _object_of(made_from: Source, key: str) -> Path:
    """Return the object, compiled now unless it was before."""
    path = lookup(key)
    if path is None:
        known = _known(key)
        if known:
            raise CompileError(known)
        if not is_lasting():
            raise CacheError(
                "the cache folder cannot keep it, and each process would compile it\n"
                "  note: set TCDSL_CACHE to a folder that you may write to, with room"
            )
        error = compile_aside(made_from)
        path = lookup(key)
        if path is None:
            raise CompileError(error or "the cache folder keeps no object")
    return path


def _known(key: str) -> str | None:
    """Return what is known of a key: an error of less than an hour ago, "" where it serves."""
    match read_json(FACTS).get(torch.__version__):
        case {"key": str(old), "error": str(error), "at": float(at)} if old == key:
            return error if not error or 0 <= time.time() - at < _AGAIN_S else None
    return None


def _remember(key: str, error: str) -> None:
    """Keep how it went, for `tcdsl doctor` and for processes to come."""
    if _known(key) != error:
        facts = {"key": key, "error": error, "at": time.time()}
        update_json(FACTS, {torch.__version__: facts})


def _check(module: ModuleType) -> None:
    """Hold what the bridge sees of a few tensors against what torch says of them."""
    x = torch.empty(6, 5, dtype=torch.float64)[1:5:2, 1:4].t()
    found = module.seen(x, True)
    expected = (x.data_ptr(), tuple(x.shape), tuple(x.stride()), 2, 64)
    others = (x.clone().requires_grad_(), torch._neg_view(x), torch.empty(2, device="meta"))
    if found != expected or any(module.seen(o, True) is not None for o in others):
        raise CompileError(f"its headers are not those of this torch: {found}, not {expected}")


_bridge = Bridge()
begin = _bridge.begin
os.register_at_fork(after_in_child=_bridge.after_fork)


def wait(seconds: float | None = None) -> bool:
    """Wait until the bridge is there, or known to be missing; return whether calls use it.

    Programs have no need of this, measurements have.
    """
    return _bridge.wait(seconds)


def why() -> str:
    """Return why calls do not use the bridge, "" where they do."""
    return _bridge.why


def use(module: ModuleType | None) -> None:
    """Let calls use a bridge from now on, or none."""
    global apply
    foreign.use_bridge(None if module is None else module.bridge)
    apply = _apply if module is None else module.apply
