"""The line through codegen: program + spec + config -> groups -> lowered -> unit -> text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from tcdsl.codegen import build as b
from tcdsl.codegen.config import Config, Knob, Value
from tcdsl.codegen.emit import emit
from tcdsl.codegen.fuse import partitions
from tcdsl.codegen.group import Group, Partition
from tcdsl.codegen.loopir import (
    I64,
    Assign,
    Executable,
    Expr,
    Field,
    Function,
    Let,
    Return,
    Scalar,
    Stmt,
    Unit,
)
from tcdsl.codegen.lower import contraction, nest, pointwise, reduction, rows
from tcdsl.codegen.lower.context import Context
from tcdsl.codegen.lower.lowered import Lowered
from tcdsl.codegen.lower.operands import Operands
from tcdsl.codegen.machine import Machine
from tcdsl.codegen.program import Program
from tcdsl.codegen.simplify import simplify
from tcdsl.codegen.spec import Spec
from tcdsl.codegen.target import C
from tcdsl.codegen.verify import verify
from tcdsl.grammar.dtypes import FLOAT64, INT32
from tcdsl.grammar.errors import ScheduleError

# The first whose `matches` is true is a group's default form; `nest` takes any one statement.
LOWERINGS: tuple[ModuleType, ...] = (contraction, pointwise, reduction, rows, nest)

_MAX_PHASES, _MAX_PARAMS = 64, 192  # TC_MAX_PHASES, TC_MAX_PARAMS of tc_abi.h
_LINE = 64  # bytes: alignment of everything in shared memory


@dataclass(frozen=True, slots=True)
class Form:
    """One way to lower a group: its knobs, its analytic values, and the model of all values."""

    name: str
    knobs: tuple[Knob, ...]
    default: Mapping[str, Value]
    cost_ns: Callable[[Mapping[str, Value]], float]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A partition whose groups all have a lowering, and where its temporaries lie."""

    partition: Partition
    contexts: tuple[Context, ...]
    temps: tuple[str, ...]  # homes of temporaries that have memory


def default_config(
    program: Program, spec: Spec, machine: Machine, sizes: Mapping[str, int]
) -> Config:
    """Return the analytic choice, every knob of it."""
    return complete(program, spec, Config(), machine, sizes)


def complete(
    program: Program, spec: Spec, config: Config, machine: Machine, sizes: Mapping[str, int]
) -> Config:
    """Return all knobs that a config means: its own values, and defaults for the rest.

    Knobs of forms and partitions that it does not choose are left out, so equal kernels have
    equal configs.

    Raises
    ------
    ScheduleError
        If a value is not legal.
    """
    plan = _plan(program, spec, config, machine, sizes)
    values: dict[str, Value] = {"partition": plan.partition.name}
    for i, ctx in enumerate(plan.contexts):
        form, chosen = _choice(ctx, config.group(i))
        values[f"g{i}.form"] = _form_name(form)
        values.update({f"g{i}.{k}": v for k, v in chosen.items()})
    return Config.of(values)


def space(
    program: Program, spec: Spec, machine: Machine, sizes: Mapping[str, int]
) -> tuple[Knob, ...]:
    """Return all knobs of all partitions and forms; `complete` tells which of them count."""
    names: dict[str, dict[Value, None]] = {}

    def offer(name: str, values: Sequence[Value]) -> None:
        names.setdefault(name, {}).update(dict.fromkeys(values))

    for choice in partitions(program):
        offer("partition", (choice.name,))
        config = Config.of({"partition": choice.name})
        for i, ctx in enumerate(_plan(program, spec, config, machine, sizes).contexts):
            for form in _forms(ctx):
                offer(f"g{i}.form", (_form_name(form),))
                for knob in form.knobs(ctx):
                    offer(f"g{i}.{knob.name}", knob.values)
    return tuple(Knob(n, tuple(v)) for n, v in names.items())


def choices(
    program: Program, spec: Spec, machine: Machine, sizes: Mapping[str, int]
) -> dict[str, tuple[tuple[Form, ...], ...]]:
    """Return the forms of each group of each partition, the default first of both: for search.

    Everything but the values of knobs is worked out once, so that costs are quick to ask for.
    """
    found = {}
    for choice in partitions(program):
        plan = _plan(program, spec, Config.of({"partition": choice.name}), machine, sizes)
        found[choice.name] = tuple(
            tuple(
                Form(
                    _form_name(form),
                    form.knobs(ctx),
                    form.default(ctx),
                    functools.partial(form.cost_ns, ctx),
                )
                for form in _forms(ctx)
            )
            for ctx in plan.contexts
        )
    return found


def cost_ns(
    program: Program, spec: Spec, config: Config, machine: Machine, sizes: Mapping[str, int]
) -> float:
    """Return the predicted serial time of a config, for ranking."""
    total = 0.0
    for i, ctx in enumerate(_plan(program, spec, config, machine, sizes).contexts):
        form, chosen = _choice(ctx, config.group(i))
        total += form.cost_ns(ctx, chosen)
    return total


def lower(
    program: Program,
    spec: Spec,
    config: Config,
    machine: Machine,
    sizes: Mapping[str, int],
    name: str,
) -> Unit:
    """Return the verified unit of a config; all its names begin with name.

    Parameters
    ----------
    sizes
        Representative values of the size symbols (the exact ones where the spec is exact).
    name
        Of the exported symbol `tc_exe_NAME`; several units may share one text.

    Raises
    ------
    ScheduleError
        If a knob's value is not legal, or the program needs more phases than an executable has.
    """
    plan = _plan(program, spec, config, machine, sizes, name)
    lowered = []
    base = len(plan.temps) + 1
    for i, ctx in enumerate(plan.contexts):
        form, chosen = _choice(ctx, config.group(i))
        one: Lowered = form.lower(_with_params(ctx, base), chosen)
        base += one.params_used
        lowered.append(one)
    if base > _MAX_PARAMS:
        raise ScheduleError(f"{program.name}: {base} plan parameters, at most {_MAX_PARAMS}")
    unit = simplify(_unit(program, spec, config, plan, lowered, name))
    verify(unit)
    return unit


def emit_c(unit: Unit) -> str:
    """Return the C text of a unit."""
    return emit(unit, C)


def describe(
    program: Program, spec: Spec, config: Config, machine: Machine, sizes: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Return every statement, as text, with the form of the nest that computes it."""
    plan = _plan(program, spec, config, machine, sizes)
    forms: dict[int, str] = {}
    for i, ctx in enumerate(plan.contexts):
        form, chosen = _choice(ctx, config.group(i))
        text = form.lower(_with_params(ctx, len(plan.temps) + 1), chosen).form
        for m in ctx.group.members:
            forms[m] = f"g{i}: {text}"
    return [(s.text, forms[i]) for i, s in enumerate(program.statements)]


# ---- choices


def _form_name(form: ModuleType) -> str:
    return form.__name__.rsplit(".", 1)[1]


def _forms(ctx: Context) -> list[ModuleType]:
    return [form for form in LOWERINGS if form.matches(ctx)]


def _choice(ctx: Context, given: Mapping[str, Value]) -> tuple[ModuleType, dict[str, Value]]:
    """Return the form of a group and all its values: those given, else the analytic ones."""
    forms = {_form_name(form): form for form in _forms(ctx)}
    name = str(given.get("form", next(iter(forms))))
    if name not in forms:
        raise ScheduleError(f"{ctx.prefix}: form '{name}' does not fit; {', '.join(forms)} do")
    form = forms[name]
    legal = {k.name: k.values for k in form.knobs(ctx)}
    chosen: dict[str, Value] = dict(form.default(ctx))
    for knob, value in given.items():
        if knob in legal:
            if value not in legal[knob]:
                allowed = ", ".join(map(str, legal[knob]))
                raise ScheduleError(f"{ctx.prefix}.{knob} is {value}; legal are {allowed}")
            chosen[knob] = value
    return form, chosen


def _plan(
    program: Program,
    spec: Spec,
    config: Config,
    machine: Machine,
    sizes: Mapping[str, int],
    name: str = "k",
) -> _Plan:
    """Return the groups of a config, cut where no lowering takes one as a whole."""
    by_name = {p.name: p for p in partitions(program)}
    wanted = str(config.get("partition", next(iter(by_name))))
    if wanted not in by_name:
        raise ScheduleError(f"partition is {wanted}; legal are {', '.join(by_name)}")
    partition = by_name[wanted]
    sizes = {**sizes, **dict(spec.sizes or ())}

    def contexts(groups: Sequence[Group], temps: Sequence[str]) -> list[Context]:
        offsets, shared_base = _places(program, spec, temps)
        operands = Operands(program, spec, offsets)
        return [
            Context(program, g, spec, machine, sizes, f"{name}_g{i}", 0, shared_base, operands)
            for i, g in enumerate(groups)
        ]

    every = tuple(dict.fromkeys(x.home for x in program.buffers if x.role == "temp"))

    def fitting(group: Group) -> list[Group]:
        """Cut a group into the longest parts that some lowering takes."""
        count = len(group.statements)
        for stop in range(count, 0, -1):
            head = group.part(0, stop)
            if _forms(contexts([head], every)[0]):
                return [head, *(fitting(group.part(stop, count)) if stop < count else ())]
        text = group.statements[0].text
        raise ScheduleError(f"{program.name}: no lowering takes '{text}' yet")

    groups = [part for g in partition.groups for part in fitting(g)]
    stored = {
        program.buffer(s.target).home
        for g in groups
        for s in g.statements
        if s.target not in g.local
    }
    temps = tuple(h for h in every if h in stored)
    return _Plan(Partition(wanted, tuple(groups)), tuple(contexts(groups, temps)), temps)


def _with_params(ctx: Context, base: int) -> Context:
    return replace(ctx, param_base=base)


# ---- memory shared by all tasks of a call: temporaries, then each group's own part


def _places(program: Program, spec: Spec, temps: Sequence[str]) -> tuple[dict[str, Expr], Expr]:
    """Return the byte offset of each temporary, as phases read it, and of what comes after.

    Where sizes are exact they are constants, else plan leaves them in its first parameters.
    """
    operands = Operands(program, spec, {})
    out: dict[str, Expr] = {}
    at: Expr = b.c64(0)
    for h in temps:
        out[h] = at
        at = b.add(at, _aligned_bytes(operands, h))
    if b.value_of(at) is None:
        return {h: b.plan_param(i) for i, h in enumerate(temps)}, b.plan_param(len(temps))
    return out, at


def _aligned_bytes(operands: Operands, home: str) -> Expr:
    buffer = next(x for x in operands.program.buffers if x.home == home)
    elements = b.mul(*map(operands.size, buffer.shape))
    size = operands.memory_dtype(buffer.name).size_bytes
    return b.mul(b.ceil_div(b.mul(elements, size), _LINE), _LINE)


# ---- the unit


def _unit(
    program: Program,
    spec: Spec,
    config: Config,
    plan: _Plan,
    lowered: Sequence[Lowered],
    name: str,
) -> Unit:
    phases = [p for one in lowered for p in one.phases]
    if len(phases) > _MAX_PHASES:
        raise ScheduleError(f"{program.name}: {len(phases)} phases, at most {_MAX_PHASES}")
    functions: list[Function] = []
    calls: list[Stmt] = []
    at = 0
    for ctx, one in zip(plan.contexts, lowered, strict=True):
        functions += one.functions
        planner = _group_plan(ctx, one, at)
        functions.append(planner)
        calls.append(b.do(planner.name, b.ARGS, b.PLAN))
        at += len(one.phases)
    planner = b.plan_function(
        f"{name}_plan",
        b.block(_place_temps(program, spec, plan), calls, Return(b.const(0, INT32))),
    )
    return Unit(
        name=name,
        header=_header(program, spec, config, plan, lowered),
        functions=(*functions, planner),
        tables=tuple(t for one in lowered for t in one.tables),
        executables=(Executable(name, planner.name, tuple(p.function for p in phases)),),
    )


def _place_temps(program: Program, spec: Spec, plan: _Plan) -> Stmt:
    """Return the plan's part that lays out shared memory."""
    _, total = _places(program, spec, plan.temps)
    if b.value_of(total) is not None:
        return _start(total)
    operands = Operands(program, spec, {})
    at = b.i64(operands.local("at"))
    stmts: list[Stmt] = [Let(at, b.c64(0), mutable=True)]
    for i, home in enumerate(plan.temps):
        stmts.append(b.set_param(i, at))
        stmts.append(Assign(at, _aligned_bytes(operands, home), "+="))
    stmts.append(b.set_param(len(plan.temps), at))
    return operands.declare(b.block(stmts, _start(at)))


def _start(total: Expr) -> Stmt:
    return b.block(
        Assign(Field(b.PLAN, "shared_bytes", I64), total),
        Assign(Field(b.PLAN, "thread_bytes", I64), b.c64(0)),
    )


def _group_plan(ctx: Context, one: Lowered, first: int) -> Function:
    """Return the function that plans the phases of a group, numbered from first."""
    stmts: list[Stmt] = list(one.plan)
    for k, phase in enumerate(one.phases, first):
        stmts.append(Assign(Field(b.PLAN, f"tasks[{k}]", I64), phase.tasks))
        cost = b.cast(phase.cost_ns, Scalar(FLOAT64))
        stmts.append(Assign(Field(b.PLAN, f"cost_ns[{k}]", Scalar(FLOAT64)), cost))
    thread = Field(b.PLAN, "thread_bytes", I64)
    shared = Field(b.PLAN, "shared_bytes", I64)
    if b.value_of(one.thread_bytes) != 0:
        stmts.append(Assign(thread, b.max64(thread, one.thread_bytes)))
    if b.value_of(one.shared_bytes) != 0:
        base = ctx.shared_base
        if b.value_of(base) is None:  # phases read it from the finished plan
            base = Field(b.PLAN, f"param[{len(ctx.operands.temps)}]", I64)
        stmts.append(Assign(shared, b.max64(shared, b.add(base, one.shared_bytes))))
    body = b.block(ctx.operands.declare(b.block(stmts)), Return(b.const(0, INT32)))
    return b.plan_function(f"{ctx.prefix}_plan", body)


def _header(
    program: Program, spec: Spec, config: Config, plan: _Plan, lowered: Sequence[Lowered]
) -> str:
    lines = [program.text, ""]
    sizes = "any" if spec.sizes is None else " ".join(f"{n}={v}" for n, v in spec.sizes)
    lines.append(f"sizes: {sizes or 'none'}; threads: {spec.threads}")
    if config.items:
        lines.append(f"config: {config}")
    for ctx, one in zip(plan.contexts, lowered, strict=True):
        lines += [f"{program.statements[m].text}    [{one.form}]" for m in ctx.group.members]
    return "\n".join(lines)
