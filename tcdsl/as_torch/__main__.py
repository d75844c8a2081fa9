"""`python -m tcdsl.as_torch SCRIPT [arguments]`: run a script that was written for PyTorch."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tcdsl.as_torch import VERSIONS, install

USAGE = """\
usage: python -m tcdsl.as_torch [--version VERSION] SCRIPT [arguments of the script]
       python -m tcdsl.as_torch --list-differences

  --version VERSION    the PyTorch that the script was written for: 2.13 (the default) or 0.4
  --list-differences   what 0.4 means otherwise, and --version 0.4 gives back
"""


def main() -> None:
    """Run the script of the command line as `python SCRIPT` would."""
    arguments = sys.argv[1:]
    version = "2.13"
    while arguments and arguments[0].startswith("-"):
        option, _, value = arguments.pop(0).partition("=")
        if option in ("-h", "--help"):
            print(f"{__doc__}\n\n{USAGE}", end="")
            raise SystemExit(0)
        if option == "--list-differences":
            from tcdsl.as_torch.differences import listing  # late: of use here only

            print(listing())
            raise SystemExit(0)
        if option != "--version":
            _refuse(f"unknown option '{option}'")
        version = value or (arguments.pop(0) if arguments else "")
        if version not in VERSIONS:
            _refuse(f"--version: expected {' or '.join(VERSIONS)}, got '{version}'")
    if not arguments:
        _refuse("SCRIPT is missing")
    script = Path(arguments[0])
    if not script.is_file():
        _refuse(f"{script}: no such file")
    install(version)
    sys.argv = arguments
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


def _refuse(problem: str) -> None:
    print(f"{problem}\n{USAGE}", end="", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
