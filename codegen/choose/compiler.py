"""The line through codegen: program + spec + config -> groups -> lowered -> unit -> text."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tcdsl.codegen.choose.arrange import AnyForm, Arrangement, at_sizes
from tcdsl.codegen.choose.fuse import partitions
from tcdsl.codegen.choose.nominal import nominal_sizes
from tcdsl.codegen.choose.specialise import (
    SETTLED,
    arranged_for_all,
    arrangement_of,
    chains,
    rewritten,
    settled_at,
)
from tcdsl.codegen.choose.units import lowered, unit_of
from tcdsl.codegen.forms.base.context import GroupContext
from tcdsl.codegen.forms.base.regime import Regime
from tcdsl.codegen.loops.emit import emit
from tcdsl.codegen.loops.loopir import Unit
from tcdsl.codegen.loops.ready import Before, ready
from tcdsl.codegen.loops.target import CUDA, C
from tcdsl.codegen.machine.config import Config, Knob, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.proofs.signs import constants, substitute_symbols
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import InternalError, ScheduleError
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types.dtypes import BY_NAME

SLIDING = "sliding"  # the form, as configs name it
_REST = "nest"  # the form of what no other one takes
_BESIDE = 0.1  # of the time of a call: what forms take that are faster where all sizes are exact


@dataclass(frozen=True, slots=True)
class FormChoice:
    """A form that a group may take: its knobs, its analytic values, and the model of all values.

    cost_ns : the time of a call with the spec's threads (`machine/wall.py`), on both targets.
    meaning : what of the values decides the group's nest, and which group it is: the same in
        partitions that were cut to the same groups.
    """

    name: str
    knobs: tuple[Knob, ...]
    default: Mapping[str, Value]
    cost_ns: Callable[[Mapping[str, Value]], float]
    meaning: Callable[[Mapping[str, Value]], Hashable]


@on_own_stack
def default_config(
    program: Program, spec: Spec, machine: Machine | Gpu, sizes: Mapping[str, int]
) -> Config:
    """Return the analytic choice, every knob of it."""
    return complete(program, spec, Config(), machine, sizes)


@on_own_stack
def complete(
    program: Program, spec: Spec, config: Config, machine: Machine | Gpu, sizes: Mapping[str, int]
) -> Config:
    """Return all knobs that a config means: its own values, and defaults for the rest.

    Knobs of forms and partitions that it does not choose are left out, so equal kernels have
    equal configs.

    Raises
    ------
    ScheduleError
        If a value is not legal.
    """
    return _complete(arrangement_of(program, spec, config, machine, sizes), config)


def _complete(arrangement: Arrangement, config: Config) -> Config:
    values: dict[str, Value] = {"partition": arrangement.name}
    if arrangement.settled:  # else an executable for other sizes would be named alike
        values[SETTLED] = arrangement.settled
    for i in range(len(arrangement.contexts)):
        form, chosen = arrangement.choice(i, config.group(i))
        values[f"g{i}.form"] = form
        values.update({f"g{i}.{k}": v for k, v in chosen.items()})
    return Config.of(values)


@on_own_stack
def generic_choice(
    program: Program, spec: Spec, machine: Machine, sizes: Mapping[str, int]
) -> tuple[Config, Regime]:
    """Return the analytic choice of a size-generic executable of the CPU, and what it is for.

    It is made at sizes that stand for all; those of the call are asked for its regime only.
    """
    begun = settled_at(program, spec, sizes)
    arrangement = arranged_for_all(program, spec, begun, machine, sizes)
    config = _complete(arrangement, begun)
    assert arrangement.asked is not None
    return config, arrangement.asked.regime


@on_own_stack
def open_choice(
    program: Program,
    spec: Spec,
    machine: Machine,
    sizes: Mapping[str, int],
    wanted: Config = Config(),  # noqa: B008 - it is a value
) -> tuple[Config, Regime] | None:
    """Return the analytic choice of an executable that leaves sizes open; None if exact is faster.

    With it comes which values of these it is for: mostly all.

    wanted : the config of exact sizes that it is to be like. What calls plan by the sizes that are
    open has one value here, whatever it says.

    Products lose by it: programs of these that look at no windows are not arranged to see that. So
    may nests, as some form that needs to know the sizes may take what they are left with.
    """
    parts = program.statements
    if any(map(is_contraction, parts)) and not any(map(_slides, parts)):
        return None
    arrangement = arranged_for_all(program, spec, wanted, machine, sizes)
    wanted = _without_planned(arrangement, wanted)
    config = _complete(arrangement, wanted)
    total = apart = 0.0
    for i, ctx in enumerate(arrangement.contexts):
        form, chosen = arrangement.choice(i, wanted.group(i))
        cost = arrangement.forms[i][form].cost_ns(ctx, chosen)
        total += cost
        apart += 0.0 if _leaves_open(arrangement.forms[i][form], ctx) else cost
    if apart > _BESIDE * total:
        return None
    taken = _taken(arrangement, wanted)
    if _REST in taken:
        exact = replace(spec, sizes=tuple(sizes.items()), open=())
        if taken != _taken(arrangement_of(program, exact, wanted, machine, sizes), wanted):
            return None
    assert arrangement.asked is not None
    return config, arrangement.asked.regime


def _taken(arrangement: Arrangement, config: Config) -> list[str]:
    """Return the form of each group."""
    return [arrangement.choice(i, config.group(i))[0] for i in range(len(arrangement.contexts))]


def _leaves_open(form: AnyForm, ctx: GroupContext[Any]) -> bool:
    """Whether a form of a group loses nothing where sizes are open."""
    if not form.leaves_kept_open:
        return form.leaves_open
    folded = (r.extent for s in ctx.group.statements for r in s.reductions)
    return all({*ctx.spec.open}.isdisjoint(extent.symbols()) for extent in folded)


def _without_planned(arrangement: Arrangement, config: Config) -> Config:
    """Return a config without the values of knobs that leave no choice."""
    if not config.items:
        return config
    planned = {
        f"g{i}.{knob.name}"
        for i in range(len(arrangement.contexts))
        for knob in arrangement.knobs(i, arrangement.choice(i, _form_of(config, i))[0])
        if len(knob.values) == 1
    }
    return Config.of({name: value for name, value in config.items if name not in planned})


def _form_of(config: Config, group: int) -> dict[str, Value]:
    return {name: value for name, value in config.group(group).items() if name == "form"}


def _slides(s: Statement) -> bool:
    """Whether a sum reads subscripts in which several indices meet."""
    subs = (sub for read in s.reads() for sub in read.subs) if s.reductions else ()
    return any(len(indices_of(sub)) > 1 for sub in subs)


@on_own_stack
def lower_generic(
    program: Program,
    spec: Spec,
    config: Config,
    machine: Machine,
    sizes: Mapping[str, int],
    name: str,
) -> Unit:
    """Return what `lower` does of an executable of the CPU that leaves sizes open, some or all.

    It is the same for all sizes of a regime.
    """
    _hold_extents(program, spec)
    arrangement = arranged_for_all(program, spec, config, machine, sizes)
    return unit_of(arrangement, spec, config, machine, name)


@on_own_stack
def choices(
    program: Program, spec: Spec, machine: Machine | Gpu, sizes: Mapping[str, int]
) -> dict[str, tuple[tuple[FormChoice, ...], ...]]:
    """Return the forms of each group of each partition, the default first of both: for search.

    Everything but the values of knobs is worked out once, so that costs are quick to ask for.
    """
    found = {}
    known = rewritten(program, spec, machine)
    for partition in partitions(known, chains=chains(spec, machine)):
        config = Config.of({"partition": partition.name})
        arrangement = arrangement_of(program, spec, config, machine, sizes)
        found[partition.name] = tuple(
            tuple(
                FormChoice(
                    name,
                    arrangement.knobs(i, name),
                    arrangement.defaults(i, name),
                    functools.partial(form.cost_ns, ctx),
                    functools.partial(_meaning, form, ctx, arrangement.temps),
                )
                for name, form in arrangement.forms[i].items()
            )
            for i, ctx in enumerate(arrangement.contexts)
        )
    return found


def _meaning(
    form: AnyForm, ctx: GroupContext[Any], temps: tuple[str, ...], values: Mapping[str, Value]
) -> Hashable:
    group = ctx.group.members, ctx.group.local, ctx.group.origins
    own = form.name, *sorted(values.items())
    return *group, temps, own if form.meaning is None else form.meaning(ctx, values)


@on_own_stack
def cost_ns(
    program: Program, spec: Spec, config: Config, machine: Machine | Gpu, sizes: Mapping[str, int]
) -> float:
    """Return the predicted time of a call in ns, with the spec's threads: for ranking.

    Groups follow each other, and each form tells its cost in this unit (`machine/wall.py`). What
    leaves sizes open is arranged once for all that are asked, at sizes that stand for them.

    Raises
    ------
    ScheduleError
        If a knob's value is not legal.
    """
    if spec.is_exact or isinstance(machine, Gpu):
        arrangement = arrangement_of(program, spec, config, machine, sizes)
    else:
        is_of_call = spec.open or config.get(SETTLED)  # as the choices of both have it
        call = tuple(sorted(sizes.items())) if is_of_call else None
        usual = {**dict(nominal_sizes(program)), **dict(spec.sizes or ())}
        arrangement = at_sizes(arrangement_of(program, spec, config, machine, usual, call), sizes)
    total = 0.0
    for i, ctx in enumerate(arrangement.contexts):
        form, chosen = arrangement.choice(i, config.group(i))
        total += arrangement.forms[i][form].cost_ns(ctx, chosen)
    return total


@on_own_stack
def is_legal(
    program: Program, spec: Spec, config: Config, machine: Machine | Gpu, sizes: Mapping[str, int]
) -> bool:
    """Whether a config, wherever it comes from, is one of this program's, every knob of it."""
    try:
        if complete(program, spec, config, machine, sizes) != config:
            return False
        return math.isfinite(cost_ns(program, spec, config, machine, sizes))
    except ScheduleError:
        return False


@on_own_stack
def lower(
    program: Program,
    spec: Spec,
    config: Config,
    machine: Machine | Gpu,
    sizes: Mapping[str, int],
    name: str,
    before: Before | None = None,
) -> Unit:
    """Return the verified unit of a config; all its names begin with name.

    Parameters
    ----------
    sizes
        Representative values of the size symbols (the exact ones where the spec is exact).
    name
        Of the exported symbol `tc_exe_NAME`; several units may share one text.
    before
        Units of the CPU that were lowered before: what they have alike is not worked out again.

    Raises
    ------
    ScheduleError
        If a knob's value is not legal, or the program needs more phases than an executable has.
    InternalError
        If the sizes are none that a call has: a range would have less than no values.
    """
    _hold_extents(program, spec)
    arrangement = arrangement_of(program, spec, config, machine, sizes)
    return unit_of(arrangement, spec, config, machine, name, before)


@on_own_stack
def lower_library(name: str) -> Unit:
    """Return the verified unit that exports a function which units of other programs import.

    Raises
    ------
    KeyError
        If none is called so.
    """
    from tcdsl.codegen.forms.contraction.names import library_unit  # on use, as all of a form

    return ready(library_unit(name))


def library_of(program: Program, machine: Machine) -> tuple[str, ...]:
    """Return what size-generic executables of a program's contractions usually import."""
    from tcdsl.codegen.forms.contraction.names import usual  # on use, as above

    computed = {b.dtype.computed for b in program.buffers if b.dtype.is_float}
    return tuple(f.name for t in sorted(computed, key=str) for f in usual(machine, t))


def library_for(names: Sequence[str], machine: Machine) -> list[str]:
    """Return functions by their names; for the name of a type what its products usually import."""
    from tcdsl.codegen.forms.contraction.names import usual  # on use, as above

    of_types = {n: [f.name for f in usual(machine, BY_NAME[n])] for n in names if n in BY_NAME}
    return [x for n in names for x in of_types.get(n, [n])]


def has_own_tiles(config: Config) -> bool:
    """Whether a size-generic executable has all register tiles itself: a compiler takes long.

    So have convolutions that slide, whatever exact sizes have: a window of 1 is a plain product.
    """
    from tcdsl.codegen.forms.contraction.form import OWN  # on use, as above

    return any(
        (name.endswith(".tiles") and value == OWN) or (name.endswith(".form") and value == SLIDING)
        for name, value in config.items
    )


@on_own_stack
def emit_c(unit: Unit, before: Before | None = None) -> str:
    """Return the C text of a unit."""
    return emit(unit, C, None if before is None else before.printed)


@on_own_stack
def emit_cuda(unit: Unit) -> str:
    """Return the CUDA text of a unit for a GPU."""
    return emit(unit, CUDA)


@on_own_stack
def describe(
    program: Program, spec: Spec, config: Config, machine: Machine | Gpu, sizes: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Return every statement, as text, with the form of the nest that computes it."""
    return [(s.text, form) for s, form in titled(program, spec, config, machine, sizes)]


def titled(
    program: Program, spec: Spec, config: Config, machine: Machine | Gpu, sizes: Mapping[str, int]
) -> list[tuple[Statement, str]]:
    """Return every statement that is lowered, with the form of the nest that computes it.

    There may be more than the program has: products of pairs, what is taken out of loops.
    """
    if spec.is_exact or isinstance(machine, Gpu):
        arrangement = arrangement_of(program, spec, config, machine, sizes)
    else:
        arrangement = arranged_for_all(program, spec, config, machine, sizes)
    titles: dict[int, str] = {}
    for i, (ctx, one) in enumerate(zip(*lowered(arrangement, config, "k"), strict=True)):
        titles.update(dict.fromkeys(ctx.group.members, f"g{i}: {one.title}"))
    return [(s, titles[i]) for i, s in enumerate(arrangement.program.statements)]


def _hold_extents(program: Program, spec: Spec) -> None:
    """Check that exact sizes are ones that `bind` lets pass: loops count on it."""
    by = constants(spec.sizes)
    for s in program.statements if by else ():
        for r in s.ranges:
            if r.bounds is not None:
                continue
            extent = substitute_symbols(r.extent, by).constant
            if extent is not None and extent < 0:
                sizes = " ".join(f"{n}={v}" for n, v in spec.sizes or ())
                raise InternalError(
                    f"{program.name}: of {sizes} the range of '{r.name}' has {extent} values"
                )
