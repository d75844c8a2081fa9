"""Values that a plan finds once a call and phases read: parameters of the plan."""

from __future__ import annotations

from dataclasses import field

from tcdsl.codegen.forms.base.context import Context
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Let, Stmt
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.fresh import fresh


@dataclass(frozen=True, slots=True)
class Planned:
    """A value as the plan has it, and as phases read it."""

    in_plan: Expr
    in_phase: Expr

    @staticmethod
    def of(value: int) -> Planned:
        """Return one that is known."""
        return Planned(b.c64(value), b.c64(value))


@dataclass(slots=True)
class Plan:
    """What the plan of a group declares and leaves for its phases; count: parameters so far."""

    ctx: Context
    stmts: list[Stmt] = field(default_factory=list)
    count: int = 0
    kept: dict[Expr, Planned] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def keep(self, name: str, value: Expr) -> Planned:
        """Return a value that phases read too; what is known is no parameter."""
        if b.value_of(value) is not None:
            return Planned(value, value)
        if value in self.kept:
            return self.kept[value]
        param = self.ctx.param_base + self.count
        self.count += 1
        var = b.i64(fresh(f"{self.ctx.prefix}_{name}", self.ctx.operands.taken | self.names))
        self.names.add(var.name)
        self.stmts += [Let(var, value), b.set_param(param, var)]
        self.kept[value] = Planned(var, b.plan_param(param))
        return self.kept[value]
