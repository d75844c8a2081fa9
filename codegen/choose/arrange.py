"""A partition arranged: groups that some form takes, and the choices of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, TypeAlias

from tcdsl.codegen.forms.base.context import GroupContext
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.forms.base.outputs import is_injective
from tcdsl.codegen.forms.base.regime import Asked
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr
from tcdsl.codegen.machine.config import Knob, Value, is_same
from tcdsl.codegen.machine.cpu import LINE, Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.group import Group, Partition
from tcdsl.codegen.program.inline import is_contraction
from tcdsl.codegen.program.program import Program, Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import ScheduleError

AnyForm: TypeAlias = Form[Any, Any]  # of a CPU or a GPU


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Groups in order, each with the forms that take it, the preferred one first.

    program has the statements that the groups are of, temps are the homes of temporaries that have
    memory. asked has what the choice asked of a call's sizes, where it is one for all; settled:
    what of the program holds at these only (`program/settled.py`). Knobs and defaults are worked
    out once: the tuner lowers many configs of one arrangement.
    """

    name: str
    program: Program
    contexts: tuple[GroupContext[Any], ...]
    forms: tuple[Mapping[str, AnyForm], ...]
    temps: tuple[str, ...]
    asked: Asked | None = None
    settled: str = ""
    _knobs: dict[tuple[int, str], tuple[Knob, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _defaults: dict[tuple[int, str], Mapping[str, Value]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def knobs(self, group: int, form: str) -> tuple[Knob, ...]:
        """Return the knobs of a form of a group."""
        key = group, form
        if key not in self._knobs:
            self._knobs[key] = self.forms[group][form].knobs(self.contexts[group])
        return self._knobs[key]

    def defaults(self, group: int, form: str) -> Mapping[str, Value]:
        """Return the analytic values of the knobs of a form of a group."""
        key = group, form
        if key not in self._defaults:
            self._defaults[key] = self.forms[group][form].default(self.contexts[group])
        return self._defaults[key]

    def choice(self, group: int, given: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
        """Return the form of a group and all its values: those given, else the analytic ones.

        Raises
        ------
        ScheduleError
            If the form or a value of its knobs is not legal.
        """
        forms = self.forms[group]
        form = str(given.get("form", next(iter(forms))))
        if form not in forms:
            raise ScheduleError(f"g{group}.form is {form}; legal are {', '.join(forms)}")
        chosen = dict(self.defaults(group, form))
        for knob in self.knobs(group, form) if given.keys() - {"form"} else ():
            if knob.name in given:
                value = given[knob.name]
                if not any(is_same(value, v) for v in knob.values):
                    legal = ", ".join(map(str, knob.values))
                    raise ScheduleError(f"g{group}.{knob.name} is {value}; legal are {legal}")
                chosen[knob.name] = value
        return form, chosen


class _Able:
    """A group as forms see it, and which of them take it: each is asked once, where it matters."""

    def __init__(self, ctx: GroupContext[Any], forms: Sequence[AnyForm]) -> None:
        self.ctx = ctx
        self._forms = forms
        self._takes: dict[str, bool] = {}

    def takes(self, form: AnyForm) -> bool:
        """Whether a form takes the group."""
        found = self._takes.get(form.name)
        if found is None:
            found = self._takes[form.name] = form.matches(self.ctx)
        return found

    @property
    def is_taken(self) -> bool:
        """Whether any form takes it."""
        return any(map(self.takes, self._forms))

    @property
    def has_tiles(self) -> bool:
        """Whether a form with register tiles takes it."""
        return any(self.takes(x) for x in self._forms if x.has_tiles)

    @property
    def ends(self) -> bool:
        """Whether a form takes it behind whose statement a new group starts."""
        return any(self.takes(x) for x in self._forms if x.ends_group)

    def forms(self) -> Mapping[str, AnyForm]:
        """Return all that take it, the preferred one first."""
        return _Taking({x.name: x for x in self._forms}, self.takes)


class _Taking(Mapping[str, AnyForm]):
    """Forms that take a group, each asked when somebody comes to it: mostly the first is enough."""

    def __init__(self, forms: Mapping[str, AnyForm], takes: Callable[[AnyForm], bool]) -> None:
        self._forms, self._takes = forms, takes

    def __getitem__(self, name: str) -> AnyForm:
        form = self._forms[name]
        if not self._takes(form):
            raise KeyError(name)
        return form

    def __iter__(self) -> Iterator[str]:
        return (name for name, form in self._forms.items() if self._takes(form))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=64)
def arrange(
    program: Program,
    spec: Spec,
    partition: Partition,
    machine: Machine | Gpu,
    sizes: tuple[tuple[str, int], ...],
    offered: tuple[AnyForm, ...],
    call: tuple[tuple[str, int], ...] | None = None,
) -> Arrangement:
    """Return a partition whose groups are cut where no form takes one as a whole.

    Parameters
    ----------
    sizes
        Representative values.
    call
        The sizes of a call, where those stand for all; see `Regime`.

    Raises
    ------
    ScheduleError
        If no form takes a statement alone.
    """
    values = _values(program, {**dict(sizes), **dict(spec.sizes or ())})
    asked = None if call is None else Asked(dict(call))

    @lru_cache(maxsize=2)  # the program as a whole: not to be gone through for each group
    def memory(temps: tuple[str, ...]) -> tuple[Operands, Expr]:
        if isinstance(machine, Gpu):
            from tcdsl.codegen.forms.base.cuda.operands import KernelOperands  # on use

            return KernelOperands(program, spec, temps), b.c64(0)
        offsets, shared_base = places(program, spec, temps)
        return Operands(program, spec, offsets), shared_base

    met: dict[tuple[object, ...], _Able] = {}

    def able(g: Group, temps: tuple[str, ...]) -> _Able:
        key = g.members, g.local, g.origins, temps
        if key not in met:
            operands, base = memory(temps)
            ctx: GroupContext[Any] = GroupContext(
                program, g, spec, machine, values, "g0", 0, base, operands, asked
            )
            plain = all(_is_plain(program, s) for s in g.statements)
            is_scan = any(s.along is not None for s in g.statements)
            may = [x for x in offered if x.takes_scans is is_scan]
            may = [x for x in may if plain or x.takes_any_points]
            if any(s.is_ragged for s in g.statements):
                may = [x for x in may if x.takes_ragged]
            met[key] = _Able(ctx, may)
        return met[key]

    every = tuple(dict.fromkeys(x.home for x in program.buffers if x.role == "temp"))

    def fitting(group: Group) -> list[Group]:
        """Cut a group into the longest parts that some form takes.

        A contraction stays one: what stands before or after it may share its tiles, but a nest
        that takes both without register tiles is slower by far than one for each. The weight
        gradient of a convolution ends its part: other forms would take what follows it, but have
        no tiles that suit such sums.
        """
        count = len(group.statements)

        def stays(position: int) -> bool:
            alone = group.part(position, position + 1)
            return is_contraction(alone.statements[0]) and able(alone, every).has_tiles

        product = next((i for i in range(count) if stays(i)), count)
        longest = count
        if product < count:
            longest = product + 1 if able(group.part(0, product + 1), every).ends else count
        for stop in range(longest, 0, -1):
            head = group.part(0, stop)
            found = able(head, every)
            if found.has_tiles if stop > product else found.is_taken:
                return [head, *(fitting(group.part(stop, count)) if stop < count else ())]
        text = group.statements[0].text
        raise ScheduleError(f"{program.name}: no form takes '{text}'")

    groups = [part for g in partition.groups for part in fitting(g)]
    made = [s.target for g in groups for s in g.statements if s.target not in g.local]
    stored = {program.buffer(name).home for name in made}
    temps = tuple(home for home in every if home in stored)
    found = [able(g, temps) for g in groups]
    contexts = tuple(replace(x.ctx, prefix=f"g{i}") for i, x in enumerate(found))
    taking = tuple(x.forms() for x in found)
    return Arrangement(partition.name, program, contexts, taking, temps, asked)


def at_sizes(arrangement: Arrangement, sizes: Mapping[str, int]) -> Arrangement:
    """Return an arrangement whose costs are those of other sizes than it was made at."""
    values = _values(arrangement.program, sizes)
    contexts = tuple(
        replace(ctx, sizes=values, asked=None, known={}) for ctx in arrangement.contexts
    )
    return replace(arrangement, contexts=contexts, asked=None)


def _values(program: Program, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """Return sizes with the values of counted turns: one in the middle stands for all."""
    values = {**sizes}
    for loop in program.loops:
        low, high = (x.evaluate(values) for x in (loop.low, loop.high))
        values[loop.var] = (low + max(low, high - 1)) // 2
    return values


def _is_plain(program: Program, s: Statement) -> bool:
    """Whether any form may take a statement: its points are the same in all turns, none meet."""
    turning = any(program.depends(x) for r in s.ranges for x in (r.low, r.high))
    return is_injective(s) and not turning


# ---- memory shared by all tasks of a call: temporaries, then each group's own part


def places(program: Program, spec: Spec, temps: Sequence[str]) -> tuple[dict[str, Expr], Expr]:
    """Return the byte offset of each temporary, as phases read it, and of what comes after.

    Where sizes are exact they are constants, else plan leaves them in its first parameters.
    """
    operands = Operands(program, spec, {})
    out: dict[str, Expr] = {}
    at: Expr = b.c64(0)
    for home in temps:
        out[home] = at
        at = b.add(at, aligned_bytes(operands, home))
    if b.value_of(at) is None:
        return {h: b.plan_param(i) for i, h in enumerate(temps)}, b.plan_param(len(temps))
    return out, at


def aligned_bytes(operands: Operands, home: str) -> Expr:
    """Return the memory of a temporary, in whole cache lines."""
    buffer = operands.first_in(home)
    elements = b.mul(*map(operands.size, buffer.shape))
    size = operands.memory_dtype(buffer.name).size_bytes
    return b.round_up(b.mul(elements, size), LINE)
