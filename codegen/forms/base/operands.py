"""Pointers, strides and sizes of a program's buffers under a specialisation.

Expressions are constants where the spec makes them so. Everything else is a variable named after
what it holds (`N`, `A`, `A_s0`); `declare` puts the declarations that a body needs in front of it,
so a form just uses the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import I64, Cast, Expr, Field, Let, Load, Opaque, Scalar, Stmt, Var
from tcdsl.codegen.loops.names import safe_name
from tcdsl.codegen.loops.walk import all_exprs, variables
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.program.expressions import indices_of
from tcdsl.codegen.program.program import Buffer, Program
from tcdsl.grammar.proofs import sizes as sz
from tcdsl.grammar.proofs.signs import constants, substitute_symbols
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.types.dtypes import UINT64, DType


class Operands:
    """The memory of a program: how a nest reaches it.

    A spec with exact sizes may leave out scalars that stand in bounds: these stay variables.

    Parameters
    ----------
    program, spec
        What is compiled, and what for.
    temps
        For the home of each temporary that has memory, its byte offset in the memory that all
        tasks of a call share.
    """

    def __init__(self, program: Program, spec: Spec, temps: Mapping[str, Expr]) -> None:
        self.program = program
        self.spec = spec
        self.temps = temps
        self._sizes = constants(spec.sizes)
        self._buffers = {x.name: x for x in program.buffers}
        self._first_in = {x.home: x for x in reversed(program.buffers)}
        self._position: dict[str, int] = {}  # of a home among the arguments
        for i, name in enumerate(program.operands):
            self._position.setdefault(self._buffers[name].home, i)
        self.taken = frozenset(safe_name(n) for n in _names(program))
        self._homes = {
            x.home: safe_name(x.home)
            if x.home == x.tensor
            else fresh(x.home.replace(".", "_"), self.taken)
            for x in program.buffers
        }
        indices = {r.name for s in program.statements for r in s.ranges}
        self._symbols = {n: safe_name(n) for n in program.sizes} | {
            # elsewhere the variable of a loop may be the name of an index
            n: safe_name(n) if n not in indices else fresh(f"turn_{n}", self.taken)
            for n in program.turns
        }
        for name in program.operands:  # the symbol of a stride is called like its variable
            strides = [self._stride_name(name, d) for d in range(len(self._buffers[name].shape))]
            self._symbols |= {n: n for n in strides}
        self._known = {let.var.name: let for let in self._declarations()}

    def local(self, name: str) -> str:
        """Return a name for a local variable that is none of the program's."""
        return fresh(name, self.taken)

    # ---- sizes

    def size(self, size: Size) -> Expr:
        """Return the value of a size, a constant where it is known; strides may be in it."""
        size = substitute_symbols(size, self._sizes)
        total: Expr = b.c64(0)
        for monomial, coefficient in size.terms:
            product = b.mul(*map(self._atom, monomial), abs(coefficient))
            total = b.add(total, product) if coefficient > 0 else b.sub(total, product)
        return total

    def _atom(self, atom: sz.Atom) -> Expr:
        match atom:
            case sz.Symbol(name):
                return b.i64(self._symbols[name])
            case sz.FloorDiv(n, d):
                return b.call("tc_div_i64", self.size(n), self.size(d), type=I64)
            case sz.Modulo(n, d):
                return b.call("tc_mod_i64", self.size(n), self.size(d), type=I64)
            case sz.Min(args):
                return self._fold(b.min64, args)
            case sz.Max(args):
                return self._fold(b.max64, args)
            case _:
                assert_never(atom)

    def symbol(self, name: str) -> str:
        """Return what a size or the variable of a loop is called in the emitted text."""
        return self._symbols[name]

    def _fold(self, op: Callable[[Expr, Expr], Expr], args: Sequence[Size]) -> Expr:
        out = self.size(args[0])
        for a in args[1:]:
            out = op(out, self.size(a))
        return out

    # ---- memory

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of that name."""
        return self._buffers[name]

    def first_in(self, home: str) -> Buffer:
        """Return the first of the buffers that share a home."""
        return self._first_in[home]

    def position(self, name: str) -> int | None:
        """Return where a buffer's memory stands among the arguments; None for a temporary."""
        return self._position.get(self._buffers[name].home)

    def memory_dtype(self, name: str) -> DType:
        """Return the type of stored elements: most temporaries keep halves in float32."""
        buffer = self._buffers[name]
        is_wide = buffer.role == "temp" and not buffer.is_packed
        return buffer.dtype.computed if is_wide else buffer.dtype

    def is_scalar(self, name: str) -> bool:
        """Whether the buffer is a rank-0 parameter, which comes by value."""
        buffer = self._buffers[name]
        return buffer.role == "param" and not buffer.shape

    def pointer(self, name: str) -> Var:
        """Return the pointer to a buffer's memory; inputs are const."""
        assert not self.is_scalar(name), f"'{name}' comes by value"
        buffer = self._buffers[name]
        return b.pointer(
            self._homes[buffer.home],
            self.memory_dtype(name),
            const=buffer.role == "param",
            restrict=True,
        )

    def scalar(self, name: str) -> Expr:
        """Return the value of a rank-0 parameter, in its computing type."""
        dtype = self._buffers[name].dtype.computed
        if name in self.program.sizes:
            return b.cast(self.size(Size.symbol(name)), Scalar(dtype))
        return b.var(safe_name(name), dtype)

    def layout(self, name: str) -> Layout:
        """Return the layout class of a buffer's memory; temporaries are contiguous."""
        position = self.position(name)
        if position is None:
            rank = len(self._buffers[name].shape)
            return Layout(rank, contiguous=True, unit=rank - 1 if rank else None)
        return self.spec.layouts[position]

    def extent(self, name: str, dim: int) -> Expr:
        """Return the extent of a dimension of a buffer."""
        return self.size(self._buffers[name].shape[dim])

    def stride(self, name: str, dim: int) -> Expr:
        """Return the distance in elements between neighbours along a dimension."""
        layout = self.layout(name)
        if layout.contiguous:
            return b.mul(*map(self.size, self._buffers[name].shape[dim + 1 :]))
        if dim == layout.unit:
            return b.c64(1)
        if dim in layout.zeros:
            return b.c64(0)
        return b.i64(self._stride_name(name, dim))

    def _stride_name(self, name: str, dim: int) -> str:
        return fresh(f"{self._homes[self._buffers[name].home]}_s{dim}", self.taken)

    def index(self, name: str, subs: Sequence[Expr]) -> Expr:
        """Return the position of an element: sum of subscript * stride."""
        return b.add(*(b.mul(sub, self.stride(name, d)) for d, sub in enumerate(subs)))

    def element(self, name: str, subs: Sequence[Expr]) -> Load:
        """Return an element as it is stored: a place to assign, a value still to be converted."""
        return b.load(self.pointer(name), self.index(name, subs))

    # ---- declarations

    def declare(self, body: Stmt) -> Stmt:
        """Return body after declarations of the sizes, pointers, strides and scalars it uses."""
        lets: dict[str, Let] = {}
        used = {v for e in all_exprs(body) if isinstance(e, Var) for v in (e.name,)}
        self._need(used, lets)
        return b.block(list(lets.values()), body)

    def _need(self, names: Iterable[str], lets: dict[str, Let]) -> None:
        # in the order of the program, each after what it stands on
        wanted = set(names)
        for name, let in self._known.items():
            if name in wanted and name not in lets:
                self._need(variables(let.value), lets)
                lets[name] = let

    def _declarations(self) -> list[Let]:
        """Return the declaration of every name that this class gives out."""
        out: list[Let] = []
        program = self.program
        for i, name in enumerate(program.sizes):
            if name not in program.scalars:
                out.append(Let(b.i64(safe_name(name)), Field(b.ARGS, f"sizes[{i}]", I64)))
        for i, name in enumerate(program.scalars):
            dtype = self._buffers[name].dtype
            value = _scalar(i, dtype)
            if name in program.sizes:  # its value changes from call to call, unlike an extent
                out.append(Let(b.i64(safe_name(name)), b.cast(value, I64)))
            else:
                out.append(Let(b.var(safe_name(name), dtype.computed), value))
        for i, loop in enumerate(program.loops):
            out.append(Let(b.i64(self._symbols[loop.var]), Field(b.ARGS, f"turn[{i}]", I64)))
        base = 0
        for i, name in enumerate(program.operands):
            if not self.is_scalar(name):
                p = self.pointer(name)
                out.append(Let(p, Cast(Field(b.ARGS, f"data[{i}]", Opaque("char *")), p.type)))
            rank = len(self._buffers[name].shape)
            for d in range(rank):
                field = Field(b.ARGS, f"strides[{base + d}]", I64)
                out.append(Let(b.i64(self._stride_name(name, d)), field))
            base += rank
        shared = Field(b.ARGS, "shared", Opaque("char *"))
        for home, at in self.temps.items():
            p = self.pointer(next(x.name for x in program.buffers if x.home == home))
            out.append(Let(p, Cast(b.offset(shared, at), p.type)))
        return out


def _scalar(index: int, dtype: DType) -> Expr:
    """Return the member of `tc_scalar` that holds a value of this type."""
    match dtype.kind:
        case "float":
            held = dtype.computed
            member = "d" if held.bits == 64 else "f"
            return Field(b.ARGS, f"scalars[{index}].{member}", Scalar(held))
        case "uint":
            return b.cast(Field(b.ARGS, f"scalars[{index}].u", Scalar(UINT64)), Scalar(dtype))
        case "int" | "bool":
            return b.cast(Field(b.ARGS, f"scalars[{index}].i", I64), Scalar(dtype))


def _names(program: Program) -> set[str]:
    """Return all names of a program: sizes, tensors, indices."""
    tensors = (x.tensor for x in program.buffers)
    names = {*program.sizes, *program.scalars, *program.turns, *tensors}
    for s in program.statements:
        names.update(r.name for r in s.ranges)
        names.update(indices_of(s.value))
    return names
