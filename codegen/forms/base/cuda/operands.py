"""Memory of a program as kernels on a GPU reach it: pointers, sizes and strides are parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen.forms.base.operands import Operands
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Argument, Let, Opaque, Stmt, Var
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.loops.walk import all_exprs
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.program import Program

FAULT = Opaque("tc_error *")


class KernelOperands(Operands):
    """`Operands` whose names are parameters of kernels.

    Parameters
    ----------
    program, spec
        What is compiled, and what for.
    temps
        Homes of the temporaries that have memory, in the order of their blocks in the workspace.
    """

    def __init__(self, program: Program, spec: Spec, temps: Sequence[str]) -> None:
        self._arguments: dict[str, tuple[Var, Argument]] = {}
        super().__init__(program, spec, {home: b.c64(i) for i, home in enumerate(temps)})

    @property
    def fault(self) -> Var:
        """The record that a subscript outside its tensor is told to."""
        return Var(self.local("fault"), FAULT)

    def parameters(
        self, body: Stmt, own: Mapping[str, tuple[Var, Argument]]
    ) -> tuple[tuple[Var, Argument], ...]:
        """Return the parameters that body uses, pointers first; own are those of the group."""
        known = {**self._arguments, **own}
        used = _names(body)
        return tuple(known[name] for name in known if name in used)

    def _declarations(self) -> list[Let]:
        """Note what each name stands for; kernels declare nothing."""
        found: list[tuple[Var, Argument]] = []
        program = self.program
        ranks: list[tuple[str, int, int]] = []
        for i, name in enumerate(program.operands):
            if not self.is_scalar(name):
                found.append((self.pointer(name), Argument("data", i)))
            ranks.append((name, i, len(self.buffer(name).shape)))
        for i, home in enumerate(self.temps):
            buffer = next(x for x in program.buffers if x.home == home)
            found.append((self.pointer(buffer.name), Argument("workspace", i)))
        for i, name in enumerate(program.sizes):
            found.append((b.i64(safe_name(name)), Argument("size", i)))
        for i, loop in enumerate(program.loops):
            found.append((b.i64(self.symbol(loop.var)), Argument("turn", i)))
        for i, name in enumerate(program.scalars):
            if name not in program.sizes:
                dtype = self.buffer(name).dtype.computed
                found.append((b.var(safe_name(name), dtype), Argument("scalar", i)))
        for name, i, rank in ranks:
            for d in range(rank):
                v = b.i64(self._stride_name(name, d))
                found.append((v, Argument("stride", i, d)))
        found.append((self.fault, Argument("fault")))
        for v, argument in found:
            self._arguments.setdefault(v.name, (v, argument))
        return []


def _names(body: Stmt) -> frozenset[str]:
    return frozenset(e.name for e in all_exprs(body) if isinstance(e, Var))
