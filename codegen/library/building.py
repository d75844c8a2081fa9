"""What another process does for whoever will wait: functions of the library are compiled.

What goes wrong it raises: whoever imports a function meets it again.
"""

from __future__ import annotations

import json

from tcdsl.codegen.library.functions import addresses


def build(task: bytes) -> None:
    """Compile the functions that a task names, as JSON."""
    addresses(json.loads(task))
