"""What all products of a machine share, built aside when something is first compiled there.

Whoever first calls a product at second sizes would wait for it, a second; no other call needs it.
"""

from __future__ import annotations

import json

from tcdsl.calls.bindings.aside import LIBRARY, Aside
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain import records
from tcdsl.codegen.toolchain.cachedir import is_lasting
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.host import usable_cores

BEGINS = True  # tests count what they compile
_USUAL = "float32"
_seen: set[str] = set()  # machines of which this process knows that it was begun there


def begin(name: str, machine: Machine) -> None:
    """Have it built if nobody has; name: of the definition that is compiled now."""
    told = repr(machine)
    if told in _seen or not BEGINS:
        return
    _seen.add(told)
    if usable_cores() < 2 or not is_lasting() or records.generator() is None:
        return  # nobody would do it beside us, or nobody find it
    found = find_compiler()
    parts = told, found.kind, found.version, found.isa_key, _USUAL
    if records.read("begun", parts, bool) is None:
        records.write("begun", parts, True, _USUAL)
        Aside(json.dumps([_USUAL]).encode(), name, LIBRARY)
