"""Run in a process of its own: kernels whose index arrays another thread writes all the while."""

from __future__ import annotations

import ctypes
import sys
import threading

import numpy as np

from tcdsl.autotune.targets.cpu.guard_pages import GuardedBytes
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.library.load import load
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.toolchain.host import detect
from tcdsl.codegen.toolchain.objects import compile_source
from tcdsl.codegen.toolchain.source import Source
from tcdsl.grammar.text.errors import ScheduleError
from tests.codegen.harness import Array, Problem, call, problem, spec_of

ROWS, POINTS, WIDTH, CALLS = 50, 20_000, 16, 500
TEXTS = {
    "checked": "def f(int32(B) I, float(N,D) A) -> (float(B,D) O) { O(b,d) = A(I(b), d) }",
    "padded": "def f(int32(B) I, float(N,D) A) -> (float(B,D) O) { O(b,d) = pad(A(I(b), d), 0) }",
    "clamped": """def f(int32(B) I, float(N,D) A) -> (float(B,D) O) {
        O(b,d) = A(min(max(I(b), 0), N - 1), d) }""",
    "rows": """def f(int32(B) I, float(B,D) A, float(N,D) L) -> (float(N,D) O) {
        O(I(b),d) +=! A(b,d) }""",
}


def guarded(shape: tuple[int, ...], dtype: type) -> Array:
    """Return zeros that end at a page which cannot be touched."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = GuardedBytes(size, "after")
    _kept.append(memory)
    view: Array = memory.bytes.view(dtype).reshape(shape)
    view[...] = 0
    return view


_kept: list[GuardedBytes] = []


def main(name: str) -> None:
    rows = guarded((POINTS,), np.int32)
    tables = [guarded((POINTS, WIDTH), np.float32)] if name == "rows" else []
    made = problem(TEXTS[name], rows, *tables, guarded((ROWS, WIDTH), np.float32))
    out = guarded((ROWS if name == "rows" else POINTS, WIDTH), np.float32)
    p = Problem(made.checked, made.args, (out,))
    addresses = []
    for n in (1, 4):
        config = Config.of({"g0.ranges": n}) if name == "rows" else Config()
        try:
            unit = compiler.lower(
                p.program, spec_of(p, exact=True), config, detect(), p.sizes, f"k{n}"
            )
        except ScheduleError:
            continue
        path = compile_source(Source("racing", compiler.emit_c(unit)))
        addresses.append(load(path, f"k{n}").address)
    memset = ctypes.CDLL(None).memset
    memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    is_done = threading.Event()

    def write() -> None:  # as all of this, without Python's lock
        while not is_done.is_set():
            for byte in (0, 0x7F):
                memset(rows.ctypes.data, byte, rows.nbytes)

    writer = threading.Thread(target=write)
    writer.start()
    rng = np.random.default_rng(0)
    for _ in range(CALLS):
        for address in addresses:
            call(address, p, 1, rng, writes_inputs=True)
    is_done.set()
    writer.join()


if __name__ == "__main__":
    main(sys.argv[1])
