"""What tuned configs of the CPU are stored under: all that whoever looks one up loads."""

from __future__ import annotations

from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.targets.key import Structure, key_for
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain import cc
from tcdsl.grammar.types.typed import CheckedDef


def key_of(of: CheckedDef | Structure, spec: Spec, machine: Machine) -> ProblemKey:
    """Return the key of a definition at exact sizes and layouts on this machine."""
    found = cc.find_compiler()
    target = f"cpu {machine.isa} {found.isa_key}"
    return key_for(of, spec, target, f"{found.kind} {found.version}")
