"""What a unit's library tells of addresses: lines of its text, arrays in shared memory."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cusim.build import UNIT

_SECTION = ("__start_cusim_shared", "__stop_cusim_shared")
_LOCAL = re.compile(r"_ZZ(?P<is_helper>L?)(?P<length>\d+)(?P<rest>.*)")


@dataclass(frozen=True, slots=True)
class Site:
    """A line of a unit's text; 0 where it is not known."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"{UNIT}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A static array in shared memory: its kernel (empty: a helper's), place and size in bytes."""

    kernel: str
    name: str
    at: int
    size: int


_DECLARED = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(?P<kernel>\w+)\('
    r"|^(?P<helper>\S.*\) ?\{)|"
    r"__shared__ (?:__align__\((?P<align>\d+)\) )?(?P<type>\w+) (?P<name>\w+)",
    re.MULTILINE,
)
_BYTES = {"float": 4, "double": 8, "char": 1, "int": 4, "unsigned": 4, "bool": 1, "tc_b": 1}
_BYTES |= {"tc_f16": 2, "tc_bf16": 2} | {
    f"tc_{k}{b}": b // 8 for k in "iu" for b in (8, 16, 32, 64)
}


def declared_alignments(text: str) -> dict[tuple[str, str], int]:
    """Return how arrays in shared memory are declared to be aligned, by kernel and name.

    gcc aligns large arrays by more than they ask for, a GPU's linker does not.
    """
    found: dict[tuple[str, str], int] = {}
    kernel = ""
    for m in _DECLARED.finditer(text):
        if m["name"] is None:
            kernel = m["kernel"] or ""
        else:
            found[kernel, m["name"]] = int(m["align"] or _BYTES[m["type"]])
    return found


def resolve(library: Path, text: str, offsets: Sequence[int]) -> dict[int, Site]:
    """Return the line of the unit's text for each return address of its library.

    A call inlined from a header is told of by the line of the unit that it stands in.
    """
    if not offsets:
        return {}
    lines = text.splitlines()
    wanted = [hex(o - 1) for o in offsets]  # the call lies before what it returns to
    sites: dict[int, Site] = {}
    at = -1
    for row in _output("addr2line", "-a", "-i", "-e", str(library), *wanted):
        if row.startswith("0x"):
            at = int(row, 16) + 1
            sites[at] = Site(0, "")
            continue
        file, _, number = row.partition(" ")[0].rpartition(":")
        if file.endswith(UNIT) and number.isdigit() and sites[at].line == 0:
            n = int(number)
            sites[at] = Site(n, lines[n - 1].strip() if 0 < n <= len(lines) else "")
    return sites


def shared_arrays(library: Path) -> tuple[int, tuple[SharedArray, ...]]:
    """Return the bytes of static shared memory of all kernels of a unit, and their arrays."""
    symbols = [row.split() for row in _output("nm", "-S", str(library))]
    ends = {s[-1]: int(s[0], 16) for s in symbols if s[-1] in _SECTION}
    if not ends:
        return 0, ()
    first, last = (ends[name] for name in _SECTION)
    found = []
    for symbol in symbols:
        if len(symbol) != 4:  # address, size, kind, name
            continue
        at, size = int(symbol[0], 16), int(symbol[1], 16)
        name = _LOCAL.fullmatch(symbol[3])
        if name is not None and first <= at < last:
            kernel, variable = _parts(name)
            found.append(SharedArray(kernel, variable, at - first, size))
    return last - first, tuple(sorted(found, key=lambda a: a.at))


def _parts(name: re.Match[str]) -> tuple[str, str]:
    """Return kernel and variable of `_ZZ6kernelE4name`; of a helper, no kernel."""
    length = int(name["length"])
    function, rest = name["rest"][:length], name["rest"][length:]
    digits, variable = re.findall(r"E(\d+)(.*)", rest)[-1]
    return "" if name["is_helper"] else function, variable[: int(digits)]


def _output(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
