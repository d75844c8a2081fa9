"""What every CUDA form gives for one group, and how a kernel gets its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcdsl.codegen.forms.base.context import GpuContext
from tcdsl.codegen.forms.base.cuda.operands import KernelOperands
from tcdsl.codegen.forms.base.expr import Values
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import (
    Argument,
    Block,
    Eval,
    Expr,
    Function,
    If,
    Launch,
    Return,
    Stmt,
    Table,
    Var,
)
from tcdsl.grammar.text.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LoweredKernels:
    """Kernels of one group, in the order they are started.

    scratch: bytes of each block of memory that the group's own kernels share, over the size
    symbols. title: for people, `simt 128x128x8 + epilogue`.
    """

    title: str
    functions: tuple[Function, ...]
    launches: tuple[Launch, ...]
    scratch: tuple[Expr, ...] = ()
    tables: tuple[Table, ...] = ()


def kernel(
    ctx: GpuContext,
    name: str,
    body: Stmt,
    *,
    blocks: b.IntLike,
    threads: int,
    min_blocks: int = 0,
    shared_bytes: b.IntLike = 0,
    scratch: Sequence[Var] = (),
) -> tuple[Function, Launch]:
    """Return a kernel and its launch; its parameters are the names of memory that body uses.

    Parameters
    ----------
    name
        Behind the prefix of the context.
    blocks, shared_bytes
        Over size symbols.
    scratch
        Pointers to the group's own blocks of memory, in the order of `LoweredKernels.scratch`.
    """
    own: Mapping[str, tuple[Var, Argument]] = {
        v.name: (v, Argument("workspace", ctx.param_base + i)) for i, v in enumerate(scratch)
    }
    parameters = operands(ctx).parameters(body, own)
    function = Function(
        f"{ctx.prefix}_{name}",
        tuple(v for v, _ in parameters),
        body,
        "kernel",
        threads=threads,
        min_blocks=min_blocks,
    )
    arguments = tuple(a for _, a in parameters)
    launch = Launch(function.name, arguments, b.expr(blocks), threads, b.expr(shared_bytes))
    return function, launch


def operands(ctx: GpuContext) -> KernelOperands:
    """Return the operands of a context, which on a GPU are `KernelOperands`."""
    assert isinstance(ctx.operands, KernelOperands), "a GPU's context has KernelOperands"
    return ctx.operands


class KernelValues(Values):
    """`Values` of a kernel: a thread that meets a subscript outside its tensor says so and ends.

    So no thread that must come to a barrier may evaluate a checked read.
    """

    def inside(self, name: str, dim: int, at: Expr) -> Expr:
        """Check a subscript, and return it."""
        v = self.introduce(at)
        extent = self.operands.extent(name, dim)
        outside = b.any_of(b.compare("<", v, 0), b.compare(">=", v, extent))
        position = self.operands.position(name)
        assert isinstance(self.operands, KernelOperands), "values of a kernel"
        fault = b.call(
            "tc_fault",
            self.operands.fault,
            -1 if position is None else position,
            dim,
            v,
            extent,
        )
        self.stmts.append(If(outside, Block((Eval(fault), Return()))))
        return v
