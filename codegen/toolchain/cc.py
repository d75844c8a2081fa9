"""C compilers: which one, and with which flags."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from tcdsl.codegen.toolchain.cachedir import read_json, subfolder, update_json
from tcdsl.codegen.toolchain.contentfile import building_folder
from tcdsl.codegen.toolchain.processor import has_amx_fp16, processor, processor_key
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
# on floats in 62 kernels of the benchmarks, but took most of its time for some (2 s of 2.4). Copies
# of loops for a stride of 1 are of no use either, as texts know which strides are 1: they change
# nothing in most kernels, none by 1.3 % of its time, and are a fifth of the work on products that
# pack. Nor are those for conditions that hold or not all along: loops on elements have none but
# whether there are elements, and walks of products of any sizes are half as long again by them.
_OWN_FLAGS: Mapping[Kind, tuple[str, ...]] = {
    # expensive: below -O2 it leaves the upper halves of registers in use, where some processors
    # take 30 times as long for each function of libm, until a kernel clears them
    "gcc": (
        "-fno-tree-slp-vectorize",
        "-fno-version-loops-for-strides",
        "-fno-unswitch-loops",
        "-fexpensive-optimizations",
    ),
    "clang": ("-Wno-pass-failed",),
    "zig": ("-Wno-pass-failed", "-fno-sanitize=undefined"),
}
_USUAL = ("cc", "gcc", "clang")  # names that are searched
_FEATURES = re.compile(r"__(AMX|AVX|SSE|FMA|F16C|ARM|aarch)")  # macros of instruction sets
_KNOWN = "compilers.json"  # what is known of compilers, in the cache folder
_ADDED = re.compile(r"-mtune=[\w-]+|-D__AMX_FP16__", re.ASCII)  # what answers add to our flags
_KNOWS_AMX_FP16 = {"gcc": 13, "clang": 16}  # which say themselves whether it is there
_ASKED_S = 60.0  # that a compiler may take to say what it is


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
    of cc, gcc, clang on the path; otherwise the ziglang wheel. Where there is none, it is the last
    one that the cache folder was filled by on this processor: what lies there serves, and only
    what has to be compiled is an error.

    Raises
    ------
    CompileError
        If there is none, with what to install and why those that were found do not serve.
    """
    try:
        return search_compiler()
    except CompileError:
        if not _named() and (known := _remembered()):
            return known
        raise


def search_compiler() -> Compiler:
    """Return the C compiler that is here; a `CompileError` as of `find_compiler`."""
    return _find(_named(), os.environ.get("PATH", ""))


def _named() -> str:
    return os.environ.get("TCDSL_CC", "").strip()


@functools.lru_cache(maxsize=8)
def _find(named: str, search_path: str) -> Compiler:
    if named:
        try:
            return probe(tuple(shlex.split(named)))
        except (ValueError, CompileError) as e:  # of shlex: a quotation without end
            raise CompileError(
                f"{e}\n  note: TCDSL_CC is '{named}'; set it to the command of a C compiler,"
                " or unset it to have one found"
            ) from e
    refused = []
    for command in _candidates(search_path):
        try:
            return probe(command)
        except CompileError as e:
            refused.append(f"  note: {e}")
    raise CompileError("\n".join(["no C compiler that serves was found", *refused, "  " + INSTALL]))


def _remembered() -> Compiler | None:
    """Return the compiler of this processor, as a search finds one, that was asked last."""
    here = processor_key()
    of_here = [
        (entry["asked"], known)
        for identity, entry in read_json(_KNOWN).items()
        if isinstance(entry, dict)
        and entry.get("processor") == here
        and isinstance(entry.get("asked"), int)
        and (known := _compiler_of(entry))
        and (known.kind == "zig" or (known.command[1:] == () and _base(known) in _USUAL))
    ]
    return max(of_here, key=lambda found: found[0])[1] if of_here else None


def _base(compiler: Compiler) -> str:
    return Path(compiler.command[0]).name


def _candidates(search_path: str) -> Iterator[tuple[str, ...]]:
    for name in _USUAL:
        if path := _which(name, search_path):
            yield (path,)
    if importlib.util.find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", "cc")


def _which(name: str, search_path: str | None = None) -> str | None:
    """Return a program on the path, as `shutil.which` does: that module loads compressors."""
    if os.path.dirname(name):
        folders = [""]
    else:
        known = os.environ.get("PATH", os.defpath) if search_path is None else search_path
        folders = known.split(os.pathsep) if known else []
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def probe(command: tuple[str, ...]) -> Compiler:
    """Return what a command is as a compiler; its answer is kept for later processes.

    Raises
    ------
    CompileError
        If it is not there, does not run, or is too old.
    """
    program = _which(command[0])
    if program is None:
        raise CompileError(f"the C compiler '{command[0]}' is not on the path")
    command = (program, *command[1:])
    identity = _identity(command)
    entry = read_json(_KNOWN).get(identity)
    if isinstance(entry, dict) and "asked" in entry and (known := _compiler_of(entry)):
        return replace(known, command=command)
    found = _ask(command)
    of_here = {"processor": processor_key(), "asked": time.time_ns()}
    update_json(_KNOWN, {identity: asdict(found) | of_here})
    return found


def _compiler_of(entry: Mapping[str, Any]) -> Compiler | None:
    """Return what an entry of the file says; None where it is damaged, or has flags of others."""
    try:
        known = Compiler(
            tuple(entry["command"]), entry["kind"], entry["version"],
            tuple(entry["flags"]), tuple(entry["macros"]), entry["isa_key"],
        )  # fmt: skip
    except (KeyError, TypeError):
        return None
    texts = (*known.command, known.version, *known.flags, *known.macros, known.isa_key)
    if known.kind not in _OWN_FLAGS or not known.command:
        return None
    if not all(isinstance(t, str) for t in texts):
        return None
    usual = _flags(known.kind)
    own = known.flags[len(usual) :]
    is_ours = known.flags[: len(usual)] == usual and all(map(_ADDED.fullmatch, own))
    return known if is_ours else None


def _identity(command: tuple[str, ...]) -> str:
    """Hash what decides a compiler's answer: its programs (of `ccache gcc` both), processor, us."""
    programs = [path for word in command if (path := _which(word))]
    if "ziglang" in command and (wheel := importlib.util.find_spec("ziglang")) and wheel.origin:
        programs.append(wheel.origin)
    stats = [os.stat(path) for path in programs]
    parts = [
        *command,
        *(f"{s.st_mtime_ns} {s.st_size}" for s in stats),
        processor(),
        _FLAGS,
        repr(_OWN_FLAGS),
        _FEATURES.pattern,
        "2",  # of the questions
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _ask(command: tuple[str, ...]) -> Compiler:
    """Run the preprocessor: what is predefined says kind, version and instruction set."""
    is_zig = "zig" in Path(command[0]).name or "ziglang" in command
    native = _native_flags(is_zig)
    answer = _printed(command, (*native, "-dM", "-E", "-x", "c", os.devnull))
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
    added: tuple[str, ...] = ()
    if "__AMX_TILE__" in defined and major < _KNOWS_AMX_FP16[family] and has_amx_fp16():
        lines.append("#define __AMX_FP16__ 1")  # as newer ones do; the prelude has it as bytes
        added = ("-D__AMX_FP16__",)
    if kind == "gcc":
        added += _tuning(command, native, defined)
    features = sorted(line for line in lines if _FEATURES.search(line))
    return Compiler(
        command=command,
        kind=kind,
        version=defined.get("__VERSION__", "?").strip('"').strip(),
        flags=(*_flags(kind), *added),
        macros=tuple(line.split(" ")[1] for line in features),
        isa_key=hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16],
    )


def _tuning(
    command: tuple[str, ...], native: tuple[str, ...], defined: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the flag that a processor newer than gcc needs, if it is one.

    gcc then compiles for the architecture that has most of its instructions, but tunes for none:
    without gathers, which many a loop needs to be vectors at all (an embedding bag of 128x50 rows
    takes 1.6 times as long).
    """
    if "__x86_64__" not in defined or any(name.startswith("__tune_") for name in defined):
        return ()
    answer = _printed(command, (*native, "-Q", "--help=target"))
    options = dict(re.findall(r"^\s*-m(arch|tune)=\s+(\S+)\s*$", answer, re.MULTILINE))
    arch = options.get("arch", "")
    is_known = options.get("tune") == "generic" and not arch.startswith("x86-64")
    flag = f"-mtune={arch}"
    return (flag,) if is_known and _ADDED.fullmatch(flag) else ()


def _printed(command: tuple[str, ...], words: tuple[str, ...]) -> str:
    """Return what a compiler prints when it is asked; Ctrl-C leaves nothing of it."""
    import shutil  # on use: mostly another process has asked

    from tcdsl.codegen.toolchain.command import Command, beginning_of, readable, uninterrupted

    folder = asked = None
    try:
        with uninterrupted():
            folder = building_folder()
            printed, errors = folder / "printed", folder / "errors"
            try:
                asked = Command(
                    [*command, *words], _ASKED_S, folder, printed, environment(folder), errors
                )
            except OSError as e:
                raise CompileError(_not_working(command, e.strerror or str(e))) from e
        asked.wait()
        if asked.status != 0:
            why = asked.objection or readable(beginning_of(errors)) or f"status {asked.status}"
            raise CompileError(_not_working(command, why))
        return printed.read_text(encoding="utf-8", errors="replace")
    finally:
        with uninterrupted():
            if asked:
                asked.kill()
            if folder:
                shutil.rmtree(folder, ignore_errors=True)


def _not_working(command: tuple[str, ...], why: str) -> str:
    from tcdsl.codegen.toolchain.command import cure_in  # on use, as above

    return f"'{shlex.join(command)}' is no C compiler that works: {why}{cure_in(why)}"


def _flags(kind: Kind) -> tuple[str, ...]:
    return (*_native_flags(kind == "zig"), *_FLAGS.split(), *_OWN_FLAGS[kind])


def _native_flags(is_zig: bool) -> tuple[str, ...]:
    if platform.machine().lower() in ("x86_64", "amd64"):
        return ("-mcpu=native" if is_zig else "-march=native", "-mprefer-vector-width=512")
    return ("-mcpu=native",)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a compiler: English messages, zig's caches inside ours."""
    return {
        **os.environ,
        "LC_ALL": "C",
        "ZIG_GLOBAL_CACHE_DIR": str(subfolder("zig")),
        "TMPDIR": str(folder),  # what a compiler writes on its way lies with its object
        "ZIG_LOCAL_CACHE_DIR": str(folder / "zig"),
    }


def report() -> Mapping[str, str]:
    """Return what `tcdsl doctor` says about the compiler; `error` holds why there is none."""
    try:
        compiler = search_compiler()
    except CompileError as e:
        return {"error": str(e)}
    return {
        "compiler": shlex.join(compiler.command),
        "kind": compiler.kind,
        "version": compiler.version,
        "flags": " ".join(compiler.flags),
        "chosen by": "TCDSL_CC" if _named() else "search",
    }
