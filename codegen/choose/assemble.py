"""Lowered groups joined into a unit: its plan, its exported executable, its header."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tcdsl.codegen.choose.arrange import Arrangement, aligned_bytes, places
from tcdsl.codegen.choose.turns import joined
from tcdsl.codegen.forms.base.context import Context, GpuContext, GroupContext
from tcdsl.codegen.forms.base.lowered import Lowered, Phase
from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    I64,
    Assign,
    Executable,
    Expr,
    Field,
    Function,
    If,
    LaunchLoop,
    Let,
    Opaque,
    PhaseLoop,
    Return,
    Scalar,
    Stmt,
    Unit,
)
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import LINE
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.preludes.abi import MAX_LOOPS, MAX_PARAMS, MAX_PHASES
from tcdsl.codegen.program.inplace import copied
from tcdsl.codegen.program.program import Program, TurnLoop
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import FLOAT64, INT32

if TYPE_CHECKING:
    from tcdsl.codegen.forms.base.cuda.kernel import LoweredKernels

T = TypeVar("T")


def assemble(
    program: Program,
    spec: Spec,
    arrangement: Arrangement,
    contexts: Sequence[Context],
    lowered: Sequence[Lowered],
    config: Config,
    name: str,
) -> Unit:
    """Return the unit of lowered groups.

    The plan places temporaries, then runs the plan of each group, a function of its own.

    Raises
    ------
    ScheduleError
        If there are more phases, plan parameters or loops than an executable has.
    """

    def ahead(loop: int) -> Iterator[tuple[int, Phase]]:
        for i, one in enumerate(lowered):
            if one.ahead_of == loop:
                yield from ((i, p) for p in one.ahead)

    own = [[*_functions(ctx, one)] for ctx, one in zip(contexts, lowered, strict=True)]
    placed, spans = _in_order(program, contexts, [one.phases for one in lowered], ahead)
    changed, placed, spans = joined(program, spec, (f for x in own for f in x), placed, spans, name)
    params = len(arrangement.temps) + 1 + sum(one.params_used for one in lowered)
    for count, most, what in (
        (len(program.loops), MAX_LOOPS, "loops"),
        (len(placed), MAX_PHASES, "phases"),
        (params, MAX_PARAMS, "plan parameters"),
    ):
        if count > most:
            raise ScheduleError(
                f"{program.name}: {count} {what}, at most {most} in one kernel: define a part of "
                "it, as some of its statements or one of its loops, as a kernel of its own"
            )
    functions: list[Function] = []
    calls: list[Stmt] = []
    for i, (ctx, one) in enumerate(zip(contexts, lowered, strict=True)):
        functions += (changed.pop(f.name, f) for f in own[i])
        numbered = [(k, p) for k, (group, p) in enumerate(placed) if group == i]
        planner = _group_plan(ctx, one, numbered, len(arrangement.temps))
        functions.append(planner)
        calls.append(b.do(planner.name, b.ARGS, b.PLAN))
    functions += changed.values()
    while spans and spans[-1][0] == spans[-1][1]:  # others keep their places in `args->turn`
        spans.pop()
    loops = []
    for k, (loop, (first, last)) in enumerate(zip(program.loops, spans, strict=False)):
        function = _range(program, spec, f"{name}_turns{k}", loop)
        functions.append(function)
        loops.append(PhaseLoop(first, last, function.name))
    placing = _place_temps(program, spec, arrangement.temps)
    kept = [_place_kept(one.kept_bytes, one) for one in lowered if one.kept_bytes is not None]
    body = b.block(placing, calls, kept, Return(b.const(0, INT32)))
    planner = b.plan_function(f"{name}_plan", body)
    return Unit(
        name=name,
        header=_header(program, spec, contexts, lowered, config),
        functions=(*functions, planner),
        tables=tuple(t for one in lowered for t in one.tables),
        executables=(
            Executable(name, planner.name, tuple(p.function for _, p in placed), tuple(loops)),
        ),
    )


def _in_order(
    program: Program,
    contexts: Sequence[GroupContext[Any]],
    parts: Sequence[Sequence[T]],
    ahead: Callable[[int], Iterable[tuple[int, T]]] = lambda _: (),
) -> tuple[list[tuple[int, T]], list[tuple[int, int]]]:
    """Return the parts of all groups in order, each with its group's number, and each loop's span.

    ahead: what stands before a loop, of which group. A span is [first, last) of what is in a loop.
    """
    placed: list[tuple[int, T]] = []
    first, last = dict[int, int](), dict[int, int]()
    for i, (ctx, own) in enumerate(zip(contexts, parts, strict=True)):
        for k, loop in enumerate(program.loops):
            if k not in first and _at(ctx) >= loop.first:
                placed += ahead(k)
                first[k] = last[k] = len(placed)
        placed += [(i, p) for p in own]
        for k, loop in enumerate(program.loops):
            if loop.first <= _at(ctx) < loop.last:
                last[k] = len(placed)
    end = len(placed)
    return placed, [(first.get(k, end), last.get(k, end)) for k in range(len(program.loops))]


def _at(ctx: GroupContext[Any]) -> int:
    """Return where a group stands among the statements: its last one's place."""
    return max(ctx.group.members)


def _range(program: Program, spec: Spec, name: str, loop: TurnLoop) -> Function:
    """Return the function that gives the range of a loop."""
    operands = Operands(program, spec, {})
    body = b.block(
        Assign(Field(b.RANGE, "low", I64), operands.size(loop.low)),
        Assign(Field(b.RANGE, "high", I64), operands.size(loop.high)),
    )
    return b.range_function(name, b.block(operands.declare(body), Return(b.const(0, INT32))))


def assemble_kernels(
    program: Program,
    spec: Spec,
    arrangement: Arrangement,
    contexts: Sequence[GpuContext],
    lowered: Sequence[LoweredKernels],
    config: Config,
    name: str,
) -> Unit:
    """Return the unit of groups lowered for a GPU."""
    operands = Operands(program, spec, {})
    temps = [aligned_bytes(operands, home) for home in arrangement.temps]
    launches, spans = _in_order(program, contexts, [one.launches for one in lowered])
    loops = []
    for loop, span in zip(program.loops, spans, strict=True):
        ends = operands.size(loop.low), operands.size(loop.high)
        loops.append(LaunchLoop(operands.symbol(loop.var), *ends, *span))
    return Unit(
        name=name,
        header=_header(program, spec, contexts, lowered, config),
        functions=tuple(f for one in lowered for f in one.functions),
        tables=tuple(t for one in lowered for t in one.tables),
        launches=tuple(x for _, x in launches),
        workspace=(*temps, *(size for one in lowered for size in one.scratch)),
        loops=tuple(loops),
    )


def _place_temps(program: Program, spec: Spec, temps: Sequence[str]) -> Stmt:
    """Return the plan's part that lays out shared memory."""
    _, total = places(program, spec, temps)
    if b.value_of(total) is not None:
        return _start(total)
    operands = Operands(program, spec, {})
    at = b.i64(operands.local("at"))
    stmts: list[Stmt] = [Let(at, b.c64(0), mutable=True)]
    for i, home in enumerate(temps):
        stmts.append(b.set_param(i, at))
        stmts.append(Assign(at, aligned_bytes(operands, home), "+="))
    stmts.append(b.set_param(len(temps), at))
    return operands.declare(b.block(stmts, _start(at)))


def _start(total: Expr) -> Stmt:
    return b.block(
        Assign(Field(b.PLAN, "shared_bytes", I64), total),
        Assign(Field(b.PLAN, "thread_bytes", I64), b.c64(0)),
    )


def _place_kept(count: Expr, one: Lowered) -> Stmt:
    """Return the plan's part that lays out what a group keeps through a loop, behind all else.

    count may be what the group's plan has left where the place is written.
    """
    shared = Field(b.PLAN, "shared_bytes", I64)
    at = b.round_up(shared, LINE)
    return b.block(
        Assign(shared, b.add(at, count)),
        b.set_param(one.kept_param, b.sub(shared, count)),
    )


def _group_plan(
    ctx: Context, one: Lowered, numbered: Sequence[tuple[int, Phase]], temps: int
) -> Function:
    """Return the function that plans the phases of a group, which have these numbers."""
    stmts: list[Stmt] = list(one.plan)
    for k, phase in numbered:
        stmts.append(Assign(Field(b.PLAN, f"tasks[{k}]", I64), phase.tasks))
        cost = b.cast(phase.cost_ns, Scalar(FLOAT64))
        stmts.append(Assign(Field(b.PLAN, f"cost_ns[{k}]", Scalar(FLOAT64)), cost))
    if b.value_of(one.thread_bytes) != 0:
        thread = Field(b.PLAN, "thread_bytes", I64)
        stmts.append(Assign(thread, b.max64(thread, one.thread_bytes)))
    if b.value_of(one.shared_bytes) != 0:
        base = ctx.shared_base
        if b.value_of(base) is None:  # phases read it from the finished plan
            base = Field(b.PLAN, f"param[{temps}]", I64)
        shared = Field(b.PLAN, "shared_bytes", I64)
        stmts.append(Assign(shared, b.max64(shared, b.add(base, one.shared_bytes))))
    body = b.block(ctx.operands.declare(b.block(stmts)), Return(b.const(0, INT32)))
    return b.plan_function(f"{ctx.prefix}_plan", body)


def _functions(ctx: Context, one: Lowered) -> Iterator[Function]:
    """Yield the functions of a group; phases that copy what lies there already return at once."""
    found = copied(ctx.program, ctx.group.members)
    for f in one.functions:
        if found is None or f.linkage != "phase":
            yield f
            continue
        target, source = (_address(ctx.program, name) for name in found)
        is_there = b.compare("==", target, source)
        nothing = If(is_there, Return(b.const(0, INT32)))
        yield replace(f, body=b.block(nothing, f.body))


def _address(program: Program, name: str) -> Expr:
    return Field(b.ARGS, f"data[{program.operands.index(name)}]", Opaque("char *"))


def _header(
    program: Program,
    spec: Spec,
    contexts: Sequence[GroupContext[Any]],
    lowered: Sequence[Lowered | LoweredKernels],
    config: Config,
) -> str:
    known = [f"{n}={v}" for n, v in spec.sizes or ()] + [f"{n}=any" for n in spec.open]
    sizes = "any" if spec.sizes is None else " ".join(known)
    threads = f"; threads: {spec.threads}" if spec.threads else ""
    lines = [program.text, "", f"sizes: {sizes or 'none'}{threads}"]
    if config.items:
        lines.append(f"config: {config}")
    for ctx, one in zip(contexts, lowered, strict=True):
        lines += [f"{program.statements[m].text}    [{one.title}]" for m in ctx.group.members]
    return "\n".join(lines)
