"""A process that compiles functions of the library before somebody waits for them.

It runs as ``python -P -m`` of this module, and reads names as JSON. What goes wrong it prints:
whoever imports a function meets it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

from tcdsl.codegen.library.functions import addresses
from tcdsl.grammar.text.errors import TCError

_NICE = 5  # whoever asked has other work


def main() -> int:
    """Compile what the input names."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    try:
        addresses(json.loads(sys.stdin.read()))
    except TCError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
