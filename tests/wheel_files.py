"""Compare the files of a wheel with the tracked ones: `python tests/wheel_files.py X.whl`."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("grammar", "codegen", "autotune")
KINDS = {".py", ".pyi", ".lark", ".tc", ".h", ".c", ".cpp", ".cuh", ".typed"}
NAMES = {"tables.json", "py.typed", "LANGUAGE.md"}  # the language reference, of documents alone


def tracked() -> set[str]:
    """Return the package files of the checkout under the names a wheel gives them."""
    listed = subprocess.run(
        ["git", "ls-files", "tcdsl", *PACKAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    files = [f for f in listed if Path(f).suffix in KINDS or Path(f).name in NAMES]
    return {f if f.startswith("tcdsl/") else f"tcdsl/{f}" for f in files}


def main(wheel: str) -> None:
    """Print the differences and exit with 1 if there are any."""
    with zipfile.ZipFile(wheel) as archive:
        held = {n for n in archive.namelist() if ".dist-info/" not in n}
    pure = wheel.endswith("-py3-none-any.whl")
    missing, extra = tracked() - held, held - tracked()
    for name in sorted(missing):
        print(f"tracked but not in the wheel: {name}")
    for name in sorted(extra):
        print(f"in the wheel but not tracked: {name}")
    if not pure:
        print(f"not a pure wheel: {wheel}")
    if missing or extra or not pure:
        sys.exit(1)
    print(f"wheel: {len(held)} files, all of them tracked; pure")


if __name__ == "__main__":
    main(sys.argv[1])
