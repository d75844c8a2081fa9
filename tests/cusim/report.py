"""What the simulator found and counted, for people: kind, line of the text, memory, thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.cusim.symbols import Site

# As the runtime numbers them, with what to do about each.
KINDS: Mapping[str, str] = {
    "out of bounds": "guard the access, or correct its index",
    "between elements": "multiply the index by the stride of the view",
    "read only": "the operand is an input; write to an output or to the workspace",
    "misaligned": "a copy of n bytes needs addresses that n divides",
    "uninitialised": "write it before, or wait for the threads that write it",
    "in flight": "wait for the asynchronous copy (tc_copy_wait), then for the block's barrier",
    "race": "put a barrier between, or a ticket where the other is of another block",
    "divergence": "all threads must come to the same call: move it out of the condition",
    "early exit": "a thread that ends takes no part in a barrier: move the condition inside",
    "shuffle": "name a lane that exists",
    "unwaited copy": "tc_copy_commit and tc_copy_wait(0) before the kernel ends",
    "index": "it is outside the array's dimension",
    "overflow": "compute in 64 bits, or by tc_wrap_*",
    "shift": "shift by less than the width",
    "division": "it has no result",
    "local memory": "the address of a local array must stay in its thread",
    "space": "the instruction works on another kind of memory",
    "endless": "a thread takes more steps than any kernel of a test needs: see how its loop ends",
    "launch bounds": "start no more threads than __launch_bounds__ of the kernel allows",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of mistake at one place; other is the access it collides with."""

    kind: str
    site: Site
    kernel: str
    buffer: str
    byte: int
    size: int
    is_write: bool
    block: int
    thread: int
    other: Site | None
    other_is_write: bool
    other_block: int
    other_thread: int
    count: int
    note: str
    buffer_bytes: int

    def __str__(self) -> str:
        what = f"{self.kind}: {self._sentence()}"
        lines = [what, f"  at {self.site}"]
        lines.append(f"  by thread {self.thread} of block {self.block} of {self.kernel}")
        if self.other is not None:
            verb = "writes" if self.other_is_write else "is"
            if self.kind == "race" and not self.other_is_write:
                verb = "reads"
            lines.append(
                f"  while thread {self.other_thread} of block {self.other_block} {verb} at "
                f"{self.other}"
            )
        if self.count > 1:
            lines.append(f"  {self.count} times")
        lines.append(f"  cure: {KINDS[self.kind]}")
        return "\n".join(lines)

    def _sentence(self) -> str:
        words = []
        if self.size:
            verb = "write of" if self.is_write else "read of"
            words.append(f"{verb} {self.size} bytes")
        if self.buffer:
            words.append(f"at byte {self.byte} of {self.buffer} ({self.buffer_bytes} bytes)")
        elif self.kind == "out of bounds":
            words.append(f"at address {self.byte:#x}, far from all memory of the kernel")
        if self.note:
            words.append(self.note)
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class LineCount:
    """Requests of a line to one kind of memory; moved and ideal are sectors or wavefronts."""

    site: Site
    is_write: bool
    is_shared: bool
    size: int
    requests: int
    moved: int
    ideal: int

    @property
    def excess(self) -> float:
        """How many times the least is moved."""
        return self.moved / self.ideal if self.ideal else 1.0


@dataclass(slots=True)
class Report:
    """All findings of one or several launches, and counters where they were asked for."""

    findings: list[Finding] = field(default_factory=list)
    counts: list[LineCount] = field(default_factory=list)
    switches: int = 0

    @property
    def kinds(self) -> set[str]:
        return {f.kind for f in self.findings}

    @property
    def lines(self) -> dict[int, list[LineCount]]:
        """Counters by line of the unit's text."""
        found: dict[int, list[LineCount]] = {}
        for c in self.counts:
            found.setdefault(c.site.line, []).append(c)
        return found

    def sectors(self, is_write: bool | None = None) -> tuple[int, int]:
        """Return 32-byte sectors that global requests move, and the fewest possible."""
        return self._sum(False, is_write)

    def wavefronts(self, is_write: bool | None = None) -> tuple[int, int]:
        """Return passes over the banks of shared memory, and the fewest possible."""
        return self._sum(True, is_write)

    def _sum(self, is_shared: bool, is_write: bool | None) -> tuple[int, int]:
        chosen = [
            c
            for c in self.counts
            if c.is_shared is is_shared and (is_write is None or c.is_write is is_write)
        ]
        return sum(c.moved for c in chosen), sum(c.ideal for c in chosen)

    def assert_clean(self, where: str = "") -> None:
        """Fail with the text of all findings, where there are any."""
        if self.findings:
            raise AssertionError("\n".join([where, *map(str, self.findings)]).strip())
