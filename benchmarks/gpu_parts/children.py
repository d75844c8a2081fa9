"""Children that check items and may die: followed line by line, ended when they are late."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_parts.setting import Setting

_ITEM_S = 60.0
_END_S = 30.0  # a sanitizer writes its summary
_START_S = 120.0  # a child's first words: it loads CuPy and opens the device


def run_children(
    setting: Setting,
    seconds: float,
    options: Mapping[str, Any],
    prefix: Sequence[str] = (),
    lanes: int = 1,
) -> dict[str, Any]:
    """Run children until all items are done or the time is over.

    Parameters
    ----------
    options : mapping
        Of `check_from`.
    prefix : sequence of str
        What the child's command stands behind: a sanitizer.
    lanes : int
        How many children run at a time, each with its share of the items.
    """
    end = time.monotonic() + seconds
    runs = [_Lane(setting, {**options, "step": lanes}, prefix) for _ in range(lanes)]
    threads = [threading.Thread(target=r.run, args=(i, end)) for i, r in enumerate(runs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "programs": sum(r.programs for r in runs),
        "kernels": sum(r.kernels for r in runs),
        "faults": [f for r in runs for f in r.faults],
        "is_complete": all(r.is_over for r in runs),
        "output": runs[0].output,
    }


class _Lane:
    """One child after the other, through one share of the items."""

    def __init__(self, setting: Setting, options: Mapping[str, Any], prefix: Sequence[str]) -> None:
        self._setting, self._options, self._prefix = setting, options, prefix
        self.programs = self.kernels = 0
        self.faults: list[str] = []
        self.is_over = False
        self.output = ""  # of a child behind a prefix

    def run(self, first: int, end: float) -> None:
        """Check every item from one on; behind one that ends its child, go on with another."""
        while not self.is_over and time.monotonic() < end:
            child = _Child(self._setting, {"first": first, **self._options}, self._prefix)
            try:
                at, name = self._follow(child, end)
            finally:
                child.end()
            self.output = child.last_words() if self._prefix else ""
            if self.is_over and child.exit_code:  # a sanitizer tells of errors at the end
                self.faults.append(f"all items were run, and then: {child.obituary()}")
            if self.is_over or time.monotonic() >= end:
                return
            if at is None:
                self.faults.append(f"no child begins: {child.obituary()}")
                return
            self.faults.append(f"{name}: {child.obituary()}")
            first = at + int(self._options["step"])

    def _follow(self, child: _Child, end: float) -> tuple[int | None, str]:
        """Read a child's lines; return the item that it was at when it said no more."""
        at: int | None = None
        name = ""
        limit = _START_S
        while (line := child.line(min(limit, max(0.1, end - time.monotonic())))) is not None:
            if "begin" in line:
                at, name, limit = line["begin"], line["name"], _ITEM_S
            elif "end" in line:
                self.programs += 1
                self.kernels += line["kernels"]
                self.faults += line["faults"]
            else:
                self.is_over = True
                break
        return at, name


class _Child:
    """A process that checks items, and its lines."""

    def __init__(self, setting: Setting, options: Mapping[str, Any], prefix: Sequence[str]) -> None:
        script = Path(__file__).resolve().parent.parent / "gpu.py"
        command = [*prefix, sys.executable, str(script), "--child", json.dumps(options)]
        if setting.is_simulated:
            command.append("--simulate")
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._other: list[str] = []
        self._was_slow = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def line(self, seconds: float) -> dict[str, Any] | None:
        """Return its next line of JSON; None when it has ended, or says nothing for so long."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                self._was_slow = True
                return None
            if line is None:
                return None
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
            self._other.append(line)

    def end(self) -> None:
        """End it, and keep what it says to the end: a sanitizer's summary comes last."""
        if self._was_slow:
            self._process.kill()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_S)
        while not self._lines.empty():
            self._other.append(self._lines.get() or "")

    @property
    def exit_code(self) -> int:
        """Return how it ended, after `end`; a signal is a negative number."""
        return int(self._process.returncode)

    def last_words(self) -> str:
        """Return the end of what it said besides."""
        return "".join(self._other[-40:])[-2000:].strip()

    def obituary(self) -> str:
        """Say how it ended."""
        how = "hang" if self._was_slow else f"exit code {self._process.returncode}"
        return f"{how}\n{self.last_words()}".strip()
