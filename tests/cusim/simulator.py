"""Start kernels in the simulator, on memory that it has been told of."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tests.cusim.build import compile_unit, kernels_of, most_threads, runtime
from tests.cusim.report import KINDS, Finding, LineCount, Report
from tests.cusim.symbols import SharedArray, Site, declared_alignments, resolve, shared_arrays

Array = np.ndarray[Any, np.dtype[Any]]
Access = Literal["read", "write", "update"]
Order = Literal["forward", "reverse", "random"]

_ACCESS: tuple[Access, ...] = ("read", "write", "update")
_ORDERS: tuple[Order, ...] = ("forward", "reverse", "random")
_MOST_MASKED = 1 << 28  # bytes of a view beyond which gaps between elements are not looked at
_NONE, _STATIC, _DYNAMIC = -1, -2, -3
_KIND_NAMES = tuple(KINDS)
MOST_STEPS = 1 << 24  # pieces of straight code of one thread in a launch; tests need thousands
_lock = threading.Lock()  # one machine runs at a time


class _Finding(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("buffer", ctypes.c_int32),
        ("site", ctypes.c_uint64),
        ("other_site", ctypes.c_uint64),
        ("byte", ctypes.c_int64),
        ("size", ctypes.c_uint32),
        ("is_write", ctypes.c_uint32),
        ("other_is_write", ctypes.c_uint32),
        ("block", ctypes.c_uint32),
        ("thread", ctypes.c_uint32),
        ("other_block", ctypes.c_uint32),
        ("other_thread", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("note", ctypes.c_char * 160),
    ]


class _Line(ctypes.Structure):
    _fields_ = [
        ("site", ctypes.c_uint64),
        ("is_write", ctypes.c_uint32),
        ("is_shared", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("requests", ctypes.c_uint64),
        ("moved", ctypes.c_uint64),
        ("ideal", ctypes.c_uint64),
    ]


@cache
def _library() -> ctypes.CDLL:
    lib = runtime()
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    lib.cusim_new.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_int, ctypes.c_int]
    lib.cusim_new.restype = pointer
    lib.cusim_delete.argtypes = [pointer]
    lib.cusim_add.argtypes = [
        pointer, ctypes.c_int, pointer, size, ctypes.c_uint, ctypes.c_int, ctypes.c_int, pointer,
    ]  # fmt: skip
    lib.cusim_remove.argtypes = [pointer, ctypes.c_int]
    lib.cusim_change.argtypes = [pointer, ctypes.c_uint]
    lib.cusim_fill.argtypes = [pointer, ctypes.c_int]
    lib.cusim_run.argtypes = [
        pointer, pointer, ctypes.c_uint, ctypes.c_uint, size, pointer, pointer, ctypes.c_uint64,
        pointer,
    ]  # fmt: skip
    lib.cusim_findings.argtypes = [pointer, pointer, size]
    lib.cusim_findings.restype = size
    lib.cusim_lines.argtypes = [pointer, pointer, size]
    lib.cusim_lines.restype = size
    lib.cusim_switches.argtypes = [pointer]
    lib.cusim_switches.restype = ctypes.c_uint64
    return lib


class Module:
    """The kernels of one unit's text."""

    def __init__(self, text: str) -> None:
        _library()  # first: the unit's library looks for its names
        self.text = text
        self.path: Path = compile_unit(text)
        self._library = ctypes.CDLL(str(self.path))
        self._size, arrays = shared_arrays(self.path) if "__shared__" in text else (0, ())
        self._arrays: dict[str, list[SharedArray]] = {k: [] for k in kernels_of(text)}
        for a in arrays:
            for kernel in (a.kernel,) if a.kernel else self._arrays:
                self._arrays[kernel].append(a)
        self._alignments = declared_alignments(text) if arrays else {}
        self.most_threads = most_threads(text)

    def arrays(self, kernel: str) -> Array:
        """Return, for every byte of shared memory, the number of the kernel's array it is in."""
        numbers: Array = np.zeros(self._size, np.uint8)
        for i, a in enumerate(self._arrays[kernel]):
            numbers[a.at : a.at + a.size] = i % 255 + 1
        return numbers

    def alignments(self, kernel: str) -> Array:
        """Return, for every byte of shared memory, how its array is declared to be aligned."""
        found: Array = np.ones(self._size, np.uint8)
        for a in self._arrays[kernel]:
            found[a.at : a.at + a.size] = self._alignments[a.kernel, a.name]
        return found

    def array_at(self, kernel: str, byte: int) -> SharedArray:
        """Return the array of a kernel that a byte of shared memory is in, or behind."""
        arrays = self._arrays[kernel]
        return next((a for a in reversed(arrays) if a.at <= byte), arrays[0])

    def entry(self, kernel: str) -> int:
        """Return the address of the function that starts a kernel."""
        function = getattr(self._library, f"{kernel}__start")
        return ctypes.cast(function, ctypes.c_void_p).value or 0


class Simulator:
    """A machine with memory; launches are one stream's, each after the other.

    Parameters
    ----------
    order
        Of the threads of a block between their meetings, and of the blocks of a grid.
    seed
        Of the random order.
    checked
        Look for races and for reads of what nobody wrote; bounds and alignment are looked at
        always.
    counters
        Count the transactions of each line; costs time and memory.
    changing
        Every so many-th read of what chooses an element turns bits of it, in all bytes.

    Attributes
    ----------
    most_steps
        Pieces of straight code that a thread may run in a launch.
    """

    def __init__(
        self,
        order: Order = "forward",
        seed: int = 0,
        *,
        checked: bool = True,
        counters: bool = False,
        changing: int = 0,
    ) -> None:
        lib = _library()
        self._delete = lib.cusim_delete  # names of the module are gone when the process ends
        self._machine = lib.cusim_new(_ORDERS.index(order), seed, checked, counters)
        if changing:
            lib.cusim_change(self._machine, changing)
        self._counters = counters
        self.most_steps = MOST_STEPS
        self._names: dict[int, tuple[str, int]] = {}
        self._next = 0
        self.report = Report()

    def __del__(self) -> None:
        self._delete(self._machine)

    def add(
        self,
        name: str,
        address: int,
        size: int,
        access: Access = "update",
        *,
        granule: int = 4,
        is_set: bool | None = None,
        reachable: Array | None = None,
    ) -> int:
        """Let kernels touch size bytes at an address; return the number to `remove` it by.

        Parameters
        ----------
        access
            "read" of an input; "write" of what has no values yet; "update" of what has.
        granule
            Bytes of an element, if smaller than 4: of what is smaller nobody else knows.
        is_set
            Whether the memory has values; by default unless the access is "write".
        reachable
            One bool per byte: of a strided view, which bytes are its elements.
        """
        number = self._next
        self._next += 1
        mask = None if reachable is None else np.ascontiguousarray(reachable, np.uint8)
        _library().cusim_add(
            self._machine,
            number,
            address,
            size,
            min(granule, 4),
            _ACCESS.index(access),
            access != "write" if is_set is None else is_set,
            None if mask is None else mask.ctypes.data,
        )
        self._names[number] = (name, size)
        return number

    def add_array(self, name: str, array: Array, access: Access = "update") -> int:
        """Let kernels touch the elements of an array, which may be a strided view."""
        low, size, reachable = span(array)
        return self.add(
            name, low, size, access, granule=min(4, array.itemsize), reachable=reachable
        )

    def remove(self, number: int) -> None:
        """Forget memory."""
        _library().cusim_remove(self._machine, number)
        del self._names[number]

    def fill(self, number: int) -> None:
        """Note that the host has given all of a piece of memory values."""
        _library().cusim_fill(self._machine, number)

    def launch(
        self,
        module: Module,
        kernel: str,
        blocks: int,
        threads: int,
        arguments: Sequence[Any],
        shared_bytes: int = 0,
    ) -> bool:
        """Run a kernel; return whether it came to its end.

        Parameters
        ----------
        arguments
            One ctypes value each, of the parameter's type.
        """
        addresses = (ctypes.c_void_p * max(1, len(arguments)))(*map(ctypes.addressof, arguments))
        return self.run(module, kernel, blocks, threads, ctypes.addressof(addresses), shared_bytes)

    def run(
        self,
        module: Module,
        kernel: str,
        blocks: int,
        threads: int,
        arguments: int,
        shared_bytes: int = 0,
    ) -> bool:
        """Run a kernel as `launch` does; arguments is where the addresses of the values lie."""
        lib = _library()
        most = module.most_threads.get(kernel, threads)
        if threads > most:
            self.report.findings.append(_beyond_bounds(module, kernel, threads, most))
            return False
        with _lock:
            entry, fixed = module.entry(kernel), module.arrays(kernel)
            alignments = module.alignments(kernel)
            status = lib.cusim_run(
                self._machine,
                entry,
                blocks,
                threads,
                shared_bytes,
                fixed.ctypes.data,
                alignments.ctypes.data,
                self.most_steps,
                arguments,
            )
            assert status >= 0, f"no such launch: {threads} threads, {shared_bytes} bytes shared"
            self._collect(module, kernel, shared_bytes)
        return bool(status == 0)

    def _collect(self, module: Module, kernel: str, shared_bytes: int) -> None:
        """Move findings and counters to the report, with the lines that they are of."""
        lib = _library()
        findings = (_Finding * lib.cusim_findings(self._machine, None, 0))()
        lib.cusim_findings(self._machine, findings, len(findings))
        counts = (_Line * (lib.cusim_lines(self._machine, None, 0) if self._counters else 0))()
        lib.cusim_lines(self._machine, counts, len(counts))
        offsets = {f.site for f in findings} | {f.other_site for f in findings if f.other_site}
        offsets |= {c.site for c in counts}
        sites = resolve(module.path, module.text, sorted(offsets))
        for f in findings:
            where = self._where(f, module, kernel, shared_bytes)
            self.report.findings.append(_finding(f, sites, kernel, *where))
        self.report.counts += [
            LineCount(
                sites[c.site],
                bool(c.is_write),
                bool(c.is_shared),
                c.size,
                c.requests,
                c.moved,
                c.ideal,
            )
            for c in counts
        ]
        self.report.switches = lib.cusim_switches(self._machine)

    def _where(
        self, f: _Finding, module: Module, kernel: str, shared_bytes: int
    ) -> tuple[str, int, int]:
        """Return the memory of a finding: its name, the byte in it, its size."""
        if f.buffer == _DYNAMIC:
            return "dynamic shared memory", f.byte, shared_bytes
        if f.buffer == _STATIC:
            a = module.array_at(kernel, f.byte)
            return f"shared array '{a.name}'", f.byte - a.at, a.size
        name, size = self._names.get(f.buffer, ("", 0))
        return name, f.byte, size


def _finding(
    f: _Finding, sites: dict[int, Site], kernel: str, buffer: str, byte: int, size: int
) -> Finding:
    return Finding(
        kind=_KIND_NAMES[f.kind],
        site=sites[f.site],
        kernel=kernel,
        buffer=buffer,
        byte=byte,
        size=f.size,
        is_write=bool(f.is_write),
        block=f.block,
        thread=f.thread,
        other=sites[f.other_site] if f.other_site else None,
        other_is_write=bool(f.other_is_write),
        other_block=f.other_block,
        other_thread=f.other_thread,
        count=f.count,
        note=f.note.decode(),
        buffer_bytes=size,
    )


def _beyond_bounds(module: Module, kernel: str, threads: int, most: int) -> Finding:
    """Return the finding of a launch that CUDA refuses."""
    lines = module.text.splitlines()
    at = next(i for i, line in enumerate(lines) if f" {kernel}(" in line and "__global__" in line)
    return Finding(
        kind="launch bounds",
        site=Site(at + 1, lines[at]),
        kernel=kernel,
        buffer="",
        byte=0,
        size=0,
        is_write=False,
        block=0,
        thread=0,
        other=None,
        other_is_write=False,
        other_block=0,
        other_thread=0,
        count=1,
        note=f"{threads} threads, {most} allowed",
        buffer_bytes=0,
    )


def span(array: Array) -> tuple[int, int, Array | None]:
    """Return address and bytes of what a view can reach, and which bytes, unless it is all."""
    extents = zip(array.shape, array.strides, strict=True)
    reach = [(n - 1) * s for n, s in extents] if array.size else []
    low = sum(r for r in reach if r < 0)
    size = sum(abs(r) for r in reach) + array.itemsize if array.size else 0
    start = array.ctypes.data + low
    if array.size * array.itemsize == size or size > _MOST_MASKED:
        return start, size, None
    mask = np.zeros(size, np.uint8)
    if array.size:
        strides = (*array.strides, 1)
        shape = (*array.shape, array.itemsize)
        np.lib.stride_tricks.as_strided(mask[-low:], shape, strides)[...] = 1
    return start, size, mask if not mask.all() else None
