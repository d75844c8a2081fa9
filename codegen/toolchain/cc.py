"""C compilers: which one, with which flags, and one run of it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import platform
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from tcdsl.codegen.toolchain.cachedir import read_json, subfolder, update_json
from tcdsl.codegen.toolchain.contentfile import stem
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import CompileError

Kind = Literal["gcc", "clang", "zig"]

INCLUDES = Path(__file__).resolve().parent.parent / "preludes"
OLDEST = {"gcc": 12, "clang": 14}
INSTALL = (
    "install one (Debian: apt install gcc; Fedora: dnf install gcc; macOS: xcode-select --install),"
    ' or run: pip install "tcdsl[zig]", or set TCDSL_CC'
)

# Never -ffast-math: it loses NaN, and linked into a shared object it flushes the denormals of the
# whole process. These change no value, but that a * b + c is rounded once.
_FLAGS = (
    "-std=gnu11 -fwrapv -ffp-contract=fast -fno-math-errno -fno-trapping-math -fopenmp-simd "
    "-fvisibility=hidden -fPIC -Wno-psabi "
    "-Werror=implicit-function-declaration -Werror=incompatible-pointer-types "
    "-Werror=int-conversion"
)
# clang warns of each `omp simd` loop that stays scalar; zig traps on undefined behaviour. Texts
# have vectors where these pay: gcc's search for more in straight lines found none for an operation
# on floats in 62 kernels of the benchmarks, but took most of its time for some (2 s of 2.4).
_OWN_FLAGS: Mapping[Kind, tuple[str, ...]] = {
    "gcc": ("-fno-tree-slp-vectorize",),
    "clang": ("-Wno-pass-failed",),
    "zig": ("-Wno-pass-failed", "-fno-sanitize=undefined"),
}
_BARE = "-nostdlib"
_POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler for this machine.

    macros: the predefined ones that say what it compiles for (`__AVX512F__`), as they stand in
    its answer. isa_key: a hash of all of them, which tells machines and targets apart.
    """

    command: tuple[str, ...]
    kind: Kind
    version: str
    flags: tuple[str, ...]
    macros: tuple[str, ...]
    isa_key: str

    def __str__(self) -> str:
        return f"{self.kind} {self.version} ({shlex.join(self.command)})"


def find_compiler() -> Compiler:
    """Return the C compiler that tcdsl uses in this process.

    ``TCDSL_CC`` (a command, with arguments if need be) decides; otherwise the first that serves
    of cc, gcc, clang on the path; otherwise the ziglang wheel.

    Raises
    ------
    CompileError
        If there is none, with what to install and why those that were found do not serve.
    """
    return _find(os.environ.get("TCDSL_CC", ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _find(named: str, search_path: str) -> Compiler:
    if named:
        return probe(tuple(shlex.split(named)))
    refused = []
    for command in _candidates(search_path):
        try:
            return probe(command)
        except CompileError as e:
            refused.append(f"  note: {e}")
    raise CompileError("\n".join(["no C compiler that serves was found", *refused, "  " + INSTALL]))


def _candidates(search_path: str) -> Iterator[tuple[str, ...]]:
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name, path=search_path):
            yield (path,)
    if importlib.util.find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", "cc")


def probe(command: tuple[str, ...]) -> Compiler:
    """Return what a command is as a compiler; its answer is kept for later processes.

    Raises
    ------
    CompileError
        If it is not there, does not run, or is too old.
    """
    program = shutil.which(command[0])
    if program is None:
        raise CompileError(f"the C compiler '{command[0]}' is not on the path")
    command = (program, *command[1:])
    identity = _identity(command)
    known = read_json("compilers.json").get(identity)
    if isinstance(known, dict):
        with contextlib.suppress(KeyError, TypeError):  # damaged: ask again
            return Compiler(
                command, known["kind"], known["version"],
                tuple(known["flags"]), tuple(known["macros"]), known["isa_key"],
            )  # fmt: skip
    found = _ask(command)
    update_json("compilers.json", {identity: asdict(found)})
    return found


def _identity(command: tuple[str, ...]) -> str:
    """Hash what decides a compiler's answer: its programs (of `ccache gcc` both), processor, us."""
    programs = [path for word in command if (path := shutil.which(word))]
    if "ziglang" in command and (wheel := importlib.util.find_spec("ziglang")) and wheel.origin:
        programs.append(wheel.origin)
    stats = [os.stat(path) for path in programs]
    parts = [
        *command,
        *(f"{s.st_mtime_ns} {s.st_size}" for s in stats),
        _processor(),
        _FLAGS,
        repr(_OWN_FLAGS),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _processor() -> str:
    """Return the model and the features of the processor, without what changes while it runs."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            text = f.read(8192).split("\n\n")[0]
    except OSError:
        return platform.processor() or platform.machine()
    wanted = ("model name", "flags", "Features", "CPU part", "cpu family", "model\t", "stepping")
    return "\n".join(line for line in text.splitlines() if line.startswith(wanted))


def _ask(command: tuple[str, ...]) -> Compiler:
    """Run the preprocessor: what is predefined says kind, version and instruction set."""
    is_zig = "zig" in Path(command[0]).name or "ziglang" in command
    native = _native_flags(is_zig)
    try:
        answer = subprocess.run(
            [*command, *native, "-dM", "-E", "-x", "c", os.devnull],
            capture_output=True, text=True, check=True, timeout=120,
            env=_environment(subfolder("zig")),
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError) as e:
        log = getattr(e, "stderr", None) or str(e)
        raise CompileError(f"'{shlex.join(command)}' is no C compiler that works: {log}") from e
    lines = [line for line in answer.splitlines() if line.startswith("#define ")]
    defined = dict(line.split(" ", 2)[1:] for line in lines if line.count(" ") >= 2)
    kind: Kind = "zig" if is_zig else "clang" if "__clang__" in defined else "gcc"
    family = "gcc" if kind == "gcc" else "clang"
    major = int(defined.get("__GNUC__" if kind == "gcc" else "__clang_major__", "0"))
    if major < OLDEST[family]:
        raise CompileError(
            f"'{shlex.join(command)}' is {family} {major}; version {OLDEST[family]} or newer is"
            " needed"
        )
    features = sorted(line for line in lines if re.search(r"__(AVX|SSE|FMA|F16C|ARM|aarch)", line))
    return Compiler(
        command=command,
        kind=kind,
        version=defined.get("__VERSION__", "?").strip('"').strip(),
        flags=(*native, *_FLAGS.split(), *_OWN_FLAGS[kind]),
        macros=tuple(line.split(" ")[1] for line in features),
        isa_key=hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16],
    )


def _native_flags(is_zig: bool) -> tuple[str, ...]:
    if platform.machine().lower() in ("x86_64", "amd64"):
        return ("-mcpu=native" if is_zig else "-march=native", "-mprefer-vector-width=512")
    return ("-mcpu=native",)


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a compiler: English messages, zig's caches inside ours."""
    return {
        **os.environ,
        "LC_ALL": "C",
        "ZIG_GLOBAL_CACHE_DIR": str(subfolder("zig")),
        "TMPDIR": str(folder),  # what a compiler writes on its way lies with its object
        "ZIG_LOCAL_CACHE_DIR": str(folder / "zig"),
    }


# ---- one run


@dataclass(frozen=True, slots=True)
class Source:
    """Text to be made a shared object: C, or C++ by the same compiler.

    name: for files and messages. flags stand after the compiler's own, which C++ has none of.
    include: another folder, beside the one of the prelude, for `#include "..."`. libraries stand
    behind the text.
    """

    name: str
    text: str
    opt: str = "-O3"
    flags: tuple[str, ...] = ()
    include: Path | None = None
    language: Literal["c", "c++"] = "c"
    libraries: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The name of the file that is compiled; its ending tells the language."""
        return f"{stem(self.name)}.{'c' if self.language == 'c' else 'cpp'}"

    def all_flags(self, compiler: Compiler) -> tuple[str, ...]:
        """Return all flags of a compiler for this text."""
        own = compiler.flags if self.language == "c" else ()  # they speak of C
        return (*own, self.opt, *self.flags, *([_BARE] if self._is_bare(compiler) else []))

    def all_libraries(self, compiler: Compiler) -> tuple[str, ...]:
        """Return all libraries that it is linked with."""
        return (*self.libraries, "-lm", *(["-lgcc"] if self._is_bare(compiler) else []))

    def _is_bare(self, compiler: Compiler) -> bool:
        """Whether it is linked without what a program needs to start: half of what linking takes.

        It calls libm at most, and memcpy, which the process has. What a person's own flags of a
        compiler ask for (sanitizers) comes with the usual libraries.
        """
        is_ours = self.language == "c" and not self.libraries and self.include is None
        is_plain = not any(word.startswith("-") for word in compiler.command)
        return is_ours and is_plain and compiler.kind == "gcc" and sys.platform == "linux"


class Run:
    """A compiler at work in its own process group, so that Ctrl-C reaches us and not it."""

    def __init__(self, compiler: Compiler, source: Source, folder: Path) -> None:
        self.source = source
        self.output = folder / "object.so"
        self._log = folder / "log"
        self._deadline = time.monotonic() + 300
        file = folder / source.file
        file.write_text(source.text, encoding="utf-8")
        folders = [INCLUDES, *([source.include] if source.include else [])]
        self._command = [
            *compiler.command, *source.all_flags(compiler), *(f"-I{f}" for f in folders),
            "-shared", "-o", str(self.output), str(file), *source.all_libraries(compiler),
        ]  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                env=_environment(folder), start_new_session=True,
            )  # fmt: skip

    def finished(self) -> bool:
        """Whether the compiler has ended; one that takes five minutes is ended."""
        if self._process.poll() is None and time.monotonic() > self._deadline:
            self.kill()
        return self._process.poll() is not None

    def wait(self) -> None:
        """Wait for the end; kill the compiler if the wait is interrupted."""
        try:
            self._process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the compiler and what it has started."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def error(self) -> CompileError | None:
        """Return why there is no object, or None if there is one."""
        if self._process.returncode == 0 and self.output.exists():
            return None
        log = self._log.read_text(encoding="utf-8", errors="replace").strip()
        if self._process.returncode < 0:
            log += f"\nthe compiler was ended by signal {-self._process.returncode}"
        return CompileError(
            f"the C compiler refused '{self.source.name}'\n  command: {shlex.join(self._command)}\n"
            f"{log}\n{_excerpt(self.source, log)}"
        )


def wait_for_any(runs: Sequence[Run], seconds: float) -> None:
    """Wait until one of some compilers has ended, at most so long; handlers of signals run.

    They are not ended yet, as far as we know: their numbers are still theirs.
    """
    handles: list[int] = []
    ended = select.poll()
    try:
        for run in runs:
            handles.append(os.pidfd_open(run._process.pid))
            ended.register(handles[-1], select.POLLIN)
        ended.poll(seconds * 1e3)
    except (AttributeError, OSError):  # a system without, or no handles left
        time.sleep(min(seconds, _POLL_S))
    finally:
        for handle in handles:
            os.close(handle)


def _excerpt(source: Source, log: str, around: int = 3) -> str:
    """Return the numbered lines of a source that a log names, each error's with its neighbours."""
    lines = source.text.splitlines()
    named = re.findall(rf"{re.escape(source.file)}:(\d+):\d+: (?:fatal )?error", log)
    failing = [int(n) for n in named[:5]]
    shown = sorted(
        {
            n
            for line in failing
            for n in range(line - around, line + around + 1)
            if 1 <= n <= len(lines)
        }
    )
    return "\n".join(f"{'>' if n in failing else ' '}{n:5d} | {lines[n - 1]}" for n in shown)


# ---- for people


def report() -> Mapping[str, str]:
    """Return what `tcdsl doctor` says about the compiler; `error` holds why there is none."""
    try:
        compiler = find_compiler()
    except CompileError as e:
        return {"error": str(e)}
    return {
        "compiler": shlex.join(compiler.command),
        "kind": compiler.kind,
        "version": compiler.version,
        "flags": " ".join(compiler.flags),
        "chosen by": "TCDSL_CC" if os.environ.get("TCDSL_CC") else "search",
    }
