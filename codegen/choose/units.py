"""An arranged program becomes a unit: its groups lowered, joined, made ready to be printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcdsl.codegen.choose.arrange import Arrangement
from tcdsl.codegen.choose.assemble import assemble, assemble_kernels
from tcdsl.codegen.forms.base.context import GroupContext
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.codegen.loops.merge import merge
from tcdsl.codegen.loops.ready import Before, ready
from tcdsl.codegen.loops.shorten import shorten
from tcdsl.codegen.loops.simplify import simplify
from tcdsl.codegen.loops.verify import verify
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec


def unit_of(
    arrangement: Arrangement,
    spec: Spec,
    config: Config,
    machine: Machine | Gpu,
    name: str,
    before: Before | None = None,
) -> Unit:
    """Return the verified unit of an arrangement with the values of a config; before: `lower`."""
    contexts, parts = lowered(arrangement, config, name, before)
    program = arrangement.program
    is_gpu = isinstance(machine, Gpu)
    join = assemble_kernels if is_gpu else assemble
    unit = join(program, spec, arrangement, contexts, parts, config, name)
    if not is_gpu:
        return ready(unit, before)
    from tcdsl.codegen.narrow.integers import narrow  # on use, as the forms

    unit = narrow(simplify(unit), program, spec, temps=len(arrangement.temps))
    unit = merge(shorten(unit))
    verify(unit)
    return unit


def lowered(
    arrangement: Arrangement, config: Config, name: str, before: Before | None = None
) -> tuple[list[GroupContext[Any]], list[Any]]:
    """Return the groups of an arrangement as a config has them, named after name.

    They are `Lowered` for the CPU, `LoweredKernels` for a GPU. before: `lower`.
    """
    known = None if before is None else before.groups
    contexts: list[GroupContext[Any]] = []
    parts: list[Any] = []
    base = len(arrangement.temps)  # of plan parameters, the end of them too; of blocks of memory
    for i, bare in enumerate(arrangement.contexts):
        form, chosen = arrangement.choice(i, config.group(i))
        on_gpu = isinstance(bare.machine, Gpu)
        ctx = replace(bare, prefix=f"{name}_g{i}", param_base=base + (not on_gpu))
        asked = id(bare), ctx.prefix, ctx.param_base, form, tuple(sorted(chosen.items()))
        found = None if known is None else known.get(asked)
        one = arrangement.forms[i][form].lower(ctx, chosen) if found is None else found[1]
        if known is not None:
            known.put(asked, (bare, one))  # bare keeps its identity
        base += len(one.scratch) if on_gpu else one.params_used
        contexts.append(ctx)
        parts.append(one)
    return contexts, parts
