"""What the builder does for `Variant`: the executable for all sizes.

What goes wrong it raises, and `aside.py` keeps: whoever wants the executable meets it again.
"""

from __future__ import annotations

import pickle

from tcdsl.calls.bindings.executables import Sizes
from tcdsl.calls.bindings.meanwhile import Layouts
from tcdsl.calls.bindings.variant import Variant
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types.typed import CheckedDef

_Task = tuple[CheckedDef, Machine, int, str, Sizes, Layouts, bool]


@on_own_stack
def _read(data: bytes) -> _Task:
    found: _Task = pickle.loads(data)
    return found


def build(task: bytes) -> None:
    """Build what a task says."""
    checked, machine, threads, identity, sizes, layouts, is_short = _read(task)
    variant = Variant(checked, machine, threads, identity=identity)
    variant.compile_for_all(dict(sizes), layouts, is_short=is_short)
