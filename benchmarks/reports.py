"""What the benchmarks are asked, the tables they print, the reports they keep."""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tcdsl.codegen import runtime


def asking(doc: str | None, seconds: float, of: str) -> argparse.ArgumentParser:
    """Return a parser of the options that all tables have.

    Parameters
    ----------
    doc : str
        Of the benchmark.
    seconds : float
        By default.
    of : str
        What the seconds are for: "per problem".
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--seconds", type=float, default=seconds, help=of)
    parser.add_argument("--threads", type=int, default=0, help="of a call; all by default")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    return parser


class Table:
    """Lines of figures under a head, printed as they come.

    Parameters
    ----------
    first : str
        The head of the names.
    width : int
        Of the names.
    columns : mapping of str to str
        The format of each head's figures, with its width: `"9.1f"`.
    """

    def __init__(self, first: str, width: int, columns: dict[str, str]) -> None:
        self._width, self._formats = width, tuple(columns.values())
        heads = (f"{head:>{form.split('.')[0]}}" for head, form in columns.items())
        print(f"{first:{width}}{''.join(heads)}")

    def row(self, name: str, *figures: float | None, note: str = "") -> None:
        """Print a line; None leaves its column empty."""
        cells = (
            " " * int(form.split(".")[0]) if figure is None else format(figure, form)
            for figure, form in zip(figures, self._formats, strict=True)
        )
        print(f"{name:{self._width}}{''.join(cells)}{note}", flush=True)


def facts() -> dict[str, Any]:
    """Return what a report says of where its figures come from."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    found = {
        "commit": done.stdout.strip() or "unknown",
        "machine": _processor(),
        "threads": runtime.get_num_threads(),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    with contextlib.suppress(PackageNotFoundError):
        found["torch"] = version("torch")
    return found


def _processor() -> str:
    """Return its name where the system tells it, else its family."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            key, _, name = line.partition(":")
            if key.strip() == "model name":
                return name.strip()
    return platform.processor() or platform.machine()


def keep(report: dict[str, Any], path: Path | None) -> None:
    """Write a report as JSON where a path is given; one that is cut off leaves the one before."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"{path.name}.new")
        made.write_text(json.dumps(report, indent=1))
        made.replace(path)
