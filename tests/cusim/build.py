"""Compile the runtime once, and units of CUDA text against it; both by content, in the cache."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import tcdsl.codegen.preludes
from tcdsl.codegen.toolchain.cachedir import subfolder

HERE = Path(__file__).parent
PRELUDES = Path(tcdsl.codegen.preludes.__file__).parent
UNIT = "unit.cu"  # what the compiler calls a unit's text

_COMPILER = "g++"
_RUNTIME_FLAGS = ("-std=c++17", "-O2", "-g1", "-shared", "-fPIC", "-w", "-fvisibility=hidden")
# Thread sanitising gives the hooks; what would hide an access from them, or join two, is off.
_UNIT_FLAGS = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-fPIC",
    "-w",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-tree-sra",
    "-fno-tree-vectorize",
    "-fno-ipa-icf",
    "-fno-optimize-sibling-calls",
    "-ftrivial-auto-var-init=pattern",
    "-fsanitize=thread",
    "-fno-tree-dce",  # leaves nothing in a loop without end or effect, not even the count of steps
    "-fsanitize-coverage=trace-pc",  # counts steps, so that a loop without end has one
    "-fsanitize=bounds,shift,integer-divide-by-zero,signed-integer-overflow",
)
_KERNEL = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\((?P<most>\d+)[^)]*\) )?(?P<name>\w+)\('
)
# A local that is declared without a value: floats begin as NaN, integers as a large number.
_LOCAL = re.compile(
    r"^ +(?:__align__\(\d+\) )?(?P<type>float|double|tc_[iu]\d+|tc_b|tc_f16|tc_bf16)"
    r" (?P<name>\w+)(?:\[\w+\])*;(?= *$| *//)",
    re.MULTILINE,
)


def kernels_of(text: str) -> tuple[str, ...]:
    """Return the names of the kernels of a unit, in order."""
    return tuple(m["name"] for m in _KERNEL.finditer(text))


def most_threads(text: str) -> dict[str, int]:
    """Return the threads that a block of each kernel may have, where it is declared."""
    return {m["name"]: int(m["most"]) for m in _KERNEL.finditer(text) if m["most"]}


def poisoned(text: str) -> str:
    """Return a unit's text with a fill behind every local that is declared without a value.

    gcc's own pattern is a large negative float, which a maximum never shows.
    """
    return _LOCAL.sub(lambda m: f"{m[0]} CUSIM_POISON_{_kind(m['type'])}({m['name']});", text)


def _kind(name: str) -> str:
    return "FLOAT" if name in ("float", "double", "tc_f16", "tc_bf16") else "INTEGER"


@cache
def runtime() -> ctypes.CDLL:
    """Return the runtime, whose names the units' libraries find."""
    sources = sorted((HERE / "runtime").glob("*.cpp"))
    headers = sorted((HERE / "runtime").glob("*.h"))
    key = _digest(*_RUNTIME_FLAGS, *(p.read_text() for p in (*sources, *headers)))
    path = _folder() / f"runtime-{key}.so"
    with _alone("runtime"):  # other processes wait, and find it
        if not path.exists():
            whole = "".join(f'#include "{p}"\n' for p in sources)  # the headers are read once
            _compile([_COMPILER, *_RUNTIME_FLAGS, "-x", "c++", "-"], path, whole)
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def compile_unit(text: str) -> Path:
    """Return the library of a unit."""
    key = _digest(*_UNIT_FLAGS, *_headers(), text)
    path = _folder() / f"unit-{key}.so"
    if path.exists():
        return path
    exports = "".join(f"CUSIM_EXPORT({k})\n" for k in kernels_of(text))
    whole = f'#include "cusim.h"\n#line 1 "{UNIT}"\n{poisoned(text)}\n{exports}'
    include = [f"-I{HERE}", f"-I{PRELUDES}"]
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "unit.o")
        _compile([_COMPILER, *_UNIT_FLAGS, *include, "-c", "-x", "c++", "-"], made, whole)
        # Without libtsan, nor what only whole programs need: that takes most of what linking does.
        _compile([_COMPILER, "-shared", "-nostdlib", str(made), "-lm", "-lgcc"], path)
    return path


def compile_all(texts: Sequence[str], jobs: int = 2) -> list[Path]:
    """Return the libraries of several units, compiled side by side."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(compile_unit, texts))


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Hold a lock that one process at a time has."""
    with (_folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(command: Sequence[str], path: Path, text: str = "") -> None:
    """Run a compiler; what it makes appears whole or not at all, whoever else makes it too."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    done = subprocess.run([*command, "-o", name], input=text, capture_output=True, text=True)
    if done.returncode:
        Path(name).unlink()
        raise AssertionError(f"{' '.join(command)}\n{done.stderr}")
    Path(name).replace(path)


@cache
def _headers() -> tuple[str, ...]:
    files = (*HERE.glob("*.h"), *PRELUDES.glob("*.cuh"), *PRELUDES.glob("*.h"))
    return tuple(p.read_text() for p in sorted(files))


def _folder() -> Path:
    return subfolder("cusim")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
