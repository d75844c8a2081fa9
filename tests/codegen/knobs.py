"""All knobs of a program, whichever of its partitions and forms they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.program import Program


def knobs_of(
    program: Program, spec: Spec, machine: Machine | Gpu, sizes: Mapping[str, int]
) -> tuple[Knob, ...]:
    """Return every knob with all its values; `compiler.complete` tells which of them count."""
    names: dict[str, dict[Value, None]] = {}

    def offer(name: str, values: Sequence[Value]) -> None:
        names.setdefault(name, {}).update(dict.fromkeys(values))

    for partition, groups in compiler.choices(program, spec, machine, sizes).items():
        offer("partition", (partition,))
        for i, choices in enumerate(groups):
            offer(f"g{i}.form", tuple(x.name for x in choices))
            for x in choices:
                for knob in x.knobs:
                    offer(f"g{i}.{knob.name}", knob.values)
    return tuple(Knob(n, tuple(v)) for n, v in names.items())
