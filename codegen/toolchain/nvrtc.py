"""CUDA text becomes a cubin, by NVRTC: no GPU, no driver and no CUDA installation is needed.

NVRTC is a library; we reach it by ctypes, which gives the interpreter's lock back while it works,
so that threads compile at the same time. We ask for the machine code of one architecture (a
cubin), not for PTX: it loads on any driver of the same major version of CUDA.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tcdsl.codegen.toolchain.cc import INCLUDES
from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.codegen.toolchain.resources import Report, read_report
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError

# Division, square roots and denormals are exact by default; -v lists registers and spills.
OPTIONS = ("-std=c++17", "--ptxas-options=-v")
INSTALL = 'pip install "tcdsl[cuda13]" or "tcdsl[cuda12]", or set TCDSL_NVRTC to a libnvrtc.so'
_OLDEST = (12, 0)
_MAX_JOBS = 8  # each compile holds some 100 MB


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """The NVRTC of this process.

    archs: the compute capabilities it knows, 90 for sm_90.
    """

    path: str
    version: tuple[int, int]
    archs: tuple[int, ...]
    library: ctypes.CDLL


@dataclass(frozen=True, slots=True)
class CudaSource:
    """CUDA text; name, an identifier, is what messages call it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture, with what the compilers said."""

    data: bytes
    arch: str
    log: str

    @property
    def report(self) -> Report:
        """Return what ptxas said of the kernels."""
        return read_report(self.log)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the lines that warn; of text that we emit there are none."""
        return tuple(x for x in self.log.splitlines() if re.search(r"\bwarning (#|:)", x))


def compile_cuda(text: str, arch: str, *, name: str) -> Cubin:
    """Compile for an architecture, `sm_90`.

    Raises
    ------
    CompileError
        If there is no NVRTC, or it refuses the text: with its log and the lines it speaks of.
    """
    return _compile(find_nvrtc(), CudaSource(name, text), arch)


def default_jobs() -> int:
    """Return how many compiles run at a time."""
    return min(usable_cores(), _MAX_JOBS)


@functools.cache
def headers() -> tuple[tuple[str, str], ...]:
    """Return the names and texts of what emitted text may include, and they one another.

    NVRTC gets them from memory and looks into no folder.
    """
    shared = ("scalars.h", "builtins.h", "gamma.h")
    paths = (*sorted(INCLUDES.glob("*.cuh")), *(INCLUDES / name for name in shared))
    return tuple((p.name, p.read_text(encoding="utf-8")) for p in paths)


# ---- one compile


def _compile(nvrtc: Nvrtc, source: CudaSource, arch: str) -> Cubin:
    lib = nvrtc.library
    names, texts = zip(*headers(), strict=True)
    strings = ctypes.c_char_p * len(names)
    program = ctypes.c_void_p()
    _check(
        lib.nvrtcCreateProgram(
            ctypes.byref(program),
            source.text.encode(),
            f"{source.name}.cu".encode(),
            len(names),
            strings(*(t.encode() for t in texts)),
            strings(*(n.encode() for n in names)),
        ),
        nvrtc,
    )
    try:
        options = [f"-arch={arch}", *OPTIONS]
        code = lib.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*map(str.encode, options))
        )
        # Some messages of ptxas stand behind a zero in the midst of the log.
        log = _bytes(nvrtc, program, "ProgramLog").replace(b"\0", b"").decode(errors="replace")
        if code:
            raise CompileError(_refusal(nvrtc, source, arch, log.strip()))
        return Cubin(_bytes(nvrtc, program, "CUBIN"), arch, log.strip())
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(nvrtc: Nvrtc, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(nvrtc.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), nvrtc)
    data = ctypes.create_string_buffer(size.value)
    _check(getattr(nvrtc.library, f"nvrtcGet{what}")(program, data), nvrtc)
    return data.raw


def _check(code: int, nvrtc: Nvrtc) -> None:
    if code:
        raise CompileError(
            f"NVRTC failed: {_meaning(nvrtc.library, code)}\n  library: {nvrtc.path}"
        )


def _meaning(library: ctypes.CDLL, code: int) -> str:
    text: bytes = library.nvrtcGetErrorString(code)
    return text.decode()


def _refusal(nvrtc: Nvrtc, source: CudaSource, arch: str, log: str) -> str:
    version = ".".join(map(str, nvrtc.version))
    lines = [f"NVRTC {version} refused '{source.name}' for {arch}", log]
    if "invalid value for --gpu-architecture" in log:
        known = ", ".join(f"sm_{a}" for a in nvrtc.archs)
        lines.append(f"  note: this NVRTC knows {known}")
    return "\n".join([*lines, *_excerpt(source, log)])


def _excerpt(source: CudaSource, log: str, around: int = 3) -> list[str]:
    """Return the numbered lines of a source that a log names, each error's with its neighbours."""
    lines = source.text.splitlines()
    named = re.findall(rf"{re.escape(source.name)}\.cu\((\d+)\): (?:catastrophic )?error", log)
    failing = [int(n) for n in named[:5]]
    shown = sorted({n for f in failing for n in range(f - around, f + around + 1)})
    return [
        f"{'>' if n in failing else ' '}{n:5d} | {lines[n - 1]}"
        for n in shown
        if 1 <= n <= len(lines)
    ]


# ---- the library


def find_nvrtc() -> Nvrtc:
    """Return the NVRTC to use: `TCDSL_NVRTC`, an installed wheel's, a CUDA installation's.

    Raises
    ------
    CompileError
        If there is none, or it is too old.
    """
    return _open(os.environ.get("TCDSL_NVRTC", ""))


@functools.cache
def _open(named: str) -> Nvrtc:
    if named:
        return _load(Path(named).expanduser())
    tried: list[str] = []
    for path in _candidates():
        try:
            return _load(path)
        except CompileError as e:  # an old or broken one does not hide a good one behind it
            tried.append(f"  {str(e).splitlines()[0]}")
    looked = [*tried, "  looked for libnvrtc.so in: " + ", ".join(map(str, _folders()))]
    raise CompileError("\n".join(["no NVRTC was found", *looked, f"  note: {INSTALL}"]))


def _load(path: Path) -> Nvrtc:
    """Open a library.

    Raises
    ------
    CompileError
        If that fails or it is too old.
    """
    try:
        # NVRTC opens this one by its bare name: what is loaded is found wherever it lies.
        if path.parent != Path():  # not the linker's choice
            for builtins in path.parent.glob("libnvrtc-builtins.so*"):
                ctypes.CDLL(str(builtins))
        library = ctypes.CDLL(str(path))
    except OSError as e:
        raise CompileError(f"NVRTC '{path}' cannot be loaded: {e}\n  note: {INSTALL}") from e
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    version = (major.value, minor.value)
    if version < _OLDEST:
        raise CompileError(f"NVRTC '{path}' is {version[0]}.{version[1]}, 12.0 or newer is needed")
    library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    archs = (ctypes.c_int * count.value)()
    library.nvrtcGetSupportedArchs(archs)
    return Nvrtc(str(path), version, tuple(archs), library)


def _candidates() -> Iterator[Path]:
    """Yield libraries, the best first; of one kind of place the newest."""
    for folder_group in (_wheel_folders(), _installed_folders()):
        found = {p.resolve() for folder in folder_group for p in folder.glob("libnvrtc.so*")}
        yield from sorted(found, key=_version_in_name, reverse=True)
    if name := ctypes.util.find_library("nvrtc"):
        yield Path(name)


def _version_in_name(path: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", path.name)))


def _folders() -> list[Path]:
    return [*_wheel_folders(), *_installed_folders(), Path("the linker's folders")]


def _wheel_folders() -> list[Path]:
    """Return where wheels put NVRTC: `nvidia/cu13/lib` since CUDA 13, `nvidia/cuda_nvrtc/lib`."""
    spec = importlib.util.find_spec("nvidia")  # a namespace of many wheels: nothing is imported
    roots = [Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
    return [folder for root in roots for folder in sorted(root.glob("c*/lib"), reverse=True)]


def _installed_folders() -> list[Path]:
    named = [Path(v) for n in ("CUDA_HOME", "CUDA_PATH") if (v := os.environ.get(n))]
    usual = sorted(Path("/usr/local").glob("cuda*"), reverse=True)
    return [root / lib for root in (*named, *usual) for lib in ("lib64", "lib")]


# ---- for people


def report() -> dict[str, str]:
    """Return what `tcdsl doctor` says about NVRTC; `error` holds why there is none."""
    try:
        nvrtc = find_nvrtc()
    except CompileError as e:
        return {"error": str(e)}
    return {
        "library": nvrtc.path,
        "version": ".".join(map(str, nvrtc.version)),
        "architectures": " ".join(f"sm_{a}" for a in nvrtc.archs),
        "chosen by": "TCDSL_NVRTC" if os.environ.get("TCDSL_NVRTC") else "search",
    }
