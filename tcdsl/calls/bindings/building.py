"""What the builder does for `Variant`: the executable for all sizes.

What goes wrong it raises, and `aside.py` keeps: whoever wants the executable meets it again.
"""

from __future__ import annotations

from tcdsl.calls.bindings.aside import unpacked
from tcdsl.calls.bindings.binding import Bound
from tcdsl.calls.bindings.executables import Sizes
from tcdsl.calls.bindings.meanwhile import Layouts
from tcdsl.calls.bindings.variant import Variant
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.grammar.types.typed import CheckedDef

_Task = tuple[CheckedDef, Machine, int, str, Sizes, Layouts, bool]


def build(task: bytes) -> None:
    """Build what a task says."""
    said: _Task = unpacked(task)
    checked, machine, threads, identity, sizes, layouts, is_short = said
    variant = Variant(Bound(checked, machine, threads, identity=identity))
    variant.compile_for_all(dict(sizes), layouts, is_short=is_short)
