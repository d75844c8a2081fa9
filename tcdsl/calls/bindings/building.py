"""The process of `aside.py`: build the executable for all sizes of a variant.

It runs as ``python -P -m`` of this module, and reads pickled arguments of the very program that
started it. What goes wrong it prints: whoever wants the executable meets it again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys

from tcdsl.calls.bindings.variant import Layouts, Sizes, Variant
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types.typed import CheckedDef

_NICE = 5  # whoever asked has other work


@on_own_stack
def _read(data: bytes) -> tuple[CheckedDef, Machine, int, str, Sizes, Layouts]:
    found: tuple[CheckedDef, Machine, int, str, Sizes, Layouts] = pickle.loads(data)
    return found


def main() -> int:
    """Build what the input says."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    checked, machine, threads, identity, sizes, layouts = _read(sys.stdin.buffer.read())
    variant = Variant(checked, machine, threads, identity=identity)
    try:
        variant.compile_for_all(dict(sizes), layouts)
    except TCError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
