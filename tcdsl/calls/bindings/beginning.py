"""What many programs of a machine share, built aside when something is first compiled there.

What all products import: whoever first calls one at second sizes would wait for it, a second. And,
where a program of tensors is the first, what most of these ask for (`library/usual.py`), which they
would wait for one by one.
"""

from __future__ import annotations

import json

from tcdsl.calls.bindings.aside import LIBRARY, USUAL, Aside
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.toolchain import records
from tcdsl.codegen.toolchain.cachedir import is_lasting
from tcdsl.codegen.toolchain.cc import find_compiler
from tcdsl.codegen.toolchain.host import detect, usable_cores

BEGINS = True  # tests count what they compile
_USUAL = "float32"
_of_tensors = False  # whether this process has our tensors
_seen: set[str] = set()  # machines of which this process knows that it was begun there


def begin(name: str, machine: Machine) -> None:
    """Have it built if nobody has; name: of the definition that is compiled now."""
    told = repr(machine)
    if told in _seen or not BEGINS:
        return
    _seen.add(told)
    if usable_cores() < 2 or not is_lasting() or records.generator() is None:
        return  # nobody would do it beside us, or nobody find it
    if records.read("begun", _parts(machine), bool) is None:
        records.write("begun", _parts(machine), True, _USUAL)
        Aside(json.dumps([_USUAL]).encode(), name, LIBRARY)
    if _of_tensors and records.read("usual", _parts(machine), bool) is None:
        Aside(b"0", name, USUAL)


def say_of_tensors() -> None:
    """Say that this program has tensors of ours."""
    global _of_tensors
    _of_tensors = True


def keep_usual() -> None:
    """Keep that what is usual is there; until then each process goes on with it."""
    records.write("usual", _parts(detect()), True, _USUAL)


def _parts(machine: Machine) -> tuple[str, ...]:
    found = find_compiler()
    return repr(machine), found.kind, found.version, found.isa_key, _USUAL
