"""The forms that groups may take on the CPU: the one place that lists them.

The first whose `matches` is true is a group's default form; `nest` takes any one statement, so no
program is refused for want of a form.

A form's files are loaded when a group comes that may have it: all of them are two thirds of what is
loaded to lower an addition. So what is asked of all forms stands here, not with each; its `FORM`
says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.forms.base.form import Form, KnobValues
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.program.affine import affine_of
from tcdsl.codegen.program.expressions import reads_of, walk_typed
from tcdsl.codegen.program.program import Statement
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types import typed

CpuForm: TypeAlias = Form[Machine, Any]
Statements: TypeAlias = tuple[Statement, ...]


# ---- what holds for the statements of a group where a form takes it


def _any(_: Statements) -> bool:
    return True


def _sum(statements: Statements) -> bool:
    return any(s.op in ("+=", "+=!") and s.reductions for s in statements)


def _three(statements: Statements) -> bool:
    return len(statements) > 2 and _sum(statements)


def _fold(statements: Statements) -> bool:
    return any(s.reductions for s in statements)


def _two_folds(statements: Statements) -> bool:
    return sum(1 for s in statements if s.reductions) > 1


def _points(statements: Statements) -> bool:
    return not _fold(statements)


def _slide(statements: Statements) -> bool:
    """Whether a subscript of one is more than an index, or its value hangs on a condition.

    So is what reads neighbours or writes apart.
    """
    return any(
        any(isinstance(e, typed.Select) for e in walk_typed(s.value))
        or any((a := affine_of(e)) is None or a.plain is None for e in s.subscripts())
        for s in statements
    )


def _place(statements: Statements) -> bool:
    return statements[0].is_arg


def _look_up(statements: Statements) -> bool:
    """Whether data chooses what one reads."""
    reads = (r for s in statements for r in s.reads())
    return any(any(r.checked) or any(map(reads_of, r.subs)) for r in reads)


def _by_data(statements: Statements) -> bool:
    """Whether data chooses what the first writes."""
    return any(map(reads_of, statements[0].subs))


def _scan(statements: Statements) -> bool:
    return statements[0].along is not None


@dataclass(frozen=True, slots=True)
class Row:
    """A form, the module of its `FORM`, and what is asked before that is loaded.

    may: holds for the statements of all groups that the form takes. facts: as `FORM` has them.
    """

    name: str
    module: str
    may: Callable[[Statements], bool]
    facts: Mapping[str, bool]
    has_meaning: bool = False

    def load(self) -> CpuForm:
        """Return the form as its module has it."""
        found: CpuForm = import_module(f"tcdsl.codegen.forms.{self.module}").FORM
        return found


TABLE = (
    Row("chain", "chain.form", _three, {"has_tiles": True, "takes_ragged": True}),
    Row(
        "convolution_weights", "contraction.weights.form", _slide,
        {"has_tiles": True, "ends_group": True, "leaves_open": True},
    ),
    Row(
        "convolution", "contraction.window.form", _slide, {"has_tiles": True, "leaves_open": True}
    ),
    Row(
        "sliding_weights", "contraction.weights.sliding_form", _slide,
        {"has_tiles": True, "ends_group": True},
    ),
    Row("sliding", "contraction.window.sliding_form", _slide, {"has_tiles": True}),
    Row("stencil", "stencil.form", _slide, {"leaves_kept_open": True}, has_meaning=True),
    Row("stencil_weights", "stencil.weights", _slide, {}),
    Row(
        "contraction", "contraction.form", _sum, {"has_tiles": True, "takes_ragged": True},
        has_meaning=True,
    ),
    Row("pointwise", "rows.cpu.pointwise", _points, {}, has_meaning=True),
    Row("reduction", "rows.cpu.reduction", _fold, {"leaves_kept_open": True}, has_meaning=True),
    Row("crossed", "rows.cpu.crossed", _two_folds, {}, has_meaning=True),
    Row("rows", "rows.cpu.rows", _any, {"leaves_kept_open": True}, has_meaning=True),
    Row("arg_lanes", "points.arg_lanes", _place, {}),
    Row("arg_columns", "points.arg_columns", _place, {}),
    Row("gather", "points.gather", _look_up, {"takes_ragged": True, "leaves_open": True}),
    Row("scatter", "points.scatter", _by_data, {"takes_any_points": True}),
    Row(
        "scan", "points.scan", _scan, {"takes_scans": True, "leaves_kept_open": True},
        has_meaning=True,
    ),
    Row(
        "nest", "points.nest", _any,
        {"takes_any_points": True, "takes_ragged": True, "leaves_open": True},
    ),
)  # fmt: skip


def _later(row: Row) -> CpuForm:
    """Return a form whose module is loaded for groups that may have it."""
    form = cache(row.load)

    def matches(ctx: Context) -> bool:
        return row.may(ctx.group.statements) and form().matches(ctx)

    def meaning(ctx: Context, values: KnobValues) -> Hashable:
        own = form().meaning
        assert own is not None
        return own(ctx, values)

    return Form(
        row.name,
        matches,
        lambda ctx: form().knobs(ctx),
        lambda ctx: form().default(ctx),
        lambda ctx, values: form().cost_ns(ctx, values),
        lambda ctx, values: form().lower(ctx, values),
        meaning if row.has_meaning else None,
        **row.facts,
    )


CPU = tuple(map(_later, TABLE))
