"""`python -m tcdsl.as_torch SCRIPT [arguments]`: run a script that was written for PyTorch."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tcdsl.as_torch import install

USAGE = "usage: python -m tcdsl.as_torch SCRIPT [arguments of the script]"


def main() -> None:
    """Run the script of the command line as `python SCRIPT` would."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__ if arguments else USAGE, file=sys.stdout if arguments else sys.stderr)
        raise SystemExit(0 if arguments else 2)
    script = Path(arguments[0])
    if not script.is_file():
        print(f"{script}: no such file\n{USAGE}", file=sys.stderr)
        raise SystemExit(2)
    install()
    sys.argv = arguments
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
