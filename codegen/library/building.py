"""What another process does for whoever will wait: functions of the library are compiled.

What goes wrong it raises: whoever imports a function meets it again.
"""

from __future__ import annotations

import json

from tcdsl.codegen.choose.compiler import library_for
from tcdsl.codegen.library.functions import addresses
from tcdsl.codegen.toolchain.host import detect


def build(task: bytes) -> None:
    """Compile what a task names, as JSON: functions, or types for whose products there are some."""
    addresses(library_for(json.loads(task), detect()))
