"""Loop nests: the form between a schedule and the text of a kernel, for C and for CUDA.

The whole IR stands on this page. Forms build it, passes rewrite it, `verify` states its laws,
`emit` spells it. It is a small typed imperative language: integers for addresses are int64, memory
is reached through typed pointers, vectors and masks are first-class values, and everything that
a target spells in its own way (masked loads, pins, prefetches, barriers, transcendental
functions) is a call of a prelude function named `tc_*`. `build.py` has short constructors,
`walk.py` the walkers.
"""

from __future__ import annotations

from typing import Literal

from tcdsl.grammar.text import chain
from tcdsl.grammar.text.chain import Chained
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.dtypes import BOOL, INT64, DType

# ---- types


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar value."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class Vector:
    """lanes values of one type in a register."""

    dtype: DType
    lanes: int


@dataclass(frozen=True, slots=True)
class Mask:
    """lanes booleans, for masked loads and stores of elements of dtype's width."""

    dtype: DType
    lanes: int


@dataclass(frozen=True, slots=True)
class Pointer:
    """Address of elements; space is where they lie (CUDA: shared or global)."""

    dtype: DType
    const: bool = False
    restrict: bool = False
    space: Literal["global", "shared", "local"] = "global"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A type of the ABI spelled as it is: `const tc_args *`, `tc_plan *`, a function pointer."""

    text: str


Type = Scalar | Vector | Mask | Pointer | Opaque

I64 = Scalar(INT64)
TRUTH = Scalar(BOOL)

# ---- expressions


@dataclass(frozen=True, slots=True)
class Const:
    """A literal; for a vector type, the value in all lanes."""

    value: int | float | bool
    type: Type


@dataclass(frozen=True, slots=True)
class Var:
    """A variable, parameter or array by name."""

    name: str
    type: Type


BinaryOp = Literal[
    "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "&", "|", "^", "<<", ">>"
]


@dataclass(frozen=True, slots=True, eq=False)
class Bin(Chained):
    """An operator on operands of one type (a vector may meet its scalar); integers wrap in it.

    `/` and `%` are C's and appear on integers only where both sides are proved positive or on
    floats; the language's floor division is a call of `tc_div_i32`, ....
    """

    op: BinaryOp
    lhs: Expr
    rhs: Expr
    type: Type

    def own(self) -> tuple[object, ...]:
        """Return all but the left operand."""
        return self.op, self.rhs, self.type


@dataclass(frozen=True, slots=True)
class Un:
    """`-x`, `!x` or `~x`."""

    op: Literal["-", "!", "~"]
    operand: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Select:
    """cond ? then : other, scalar condition."""

    cond: Expr
    then: Expr
    other: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Cast:
    """A plain conversion that cannot overflow; saturating ones are calls (`tc_f32_i32`)."""

    operand: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Load:
    """pointer[index], index in elements."""

    pointer: Expr
    index: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Elem:
    """array[i][j]: an element of a local `Array`."""

    array: str
    indices: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Address:
    """&array[i][j]: where an element of a local `Array` lies, for copies of several at once."""

    place: Elem
    type: Pointer


@dataclass(frozen=True, slots=True)
class Offset:
    """pointer + index (elements) or, with bytes=True, + index bytes; the type stays."""

    pointer: Expr
    index: Expr
    type: Type
    bytes: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """`args->sizes[2]`: what the ABI structures hold; text is the C spelling after the arrow."""

    base: Expr
    text: str
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """A prelude function or another function of the unit."""

    function: str
    args: tuple[Expr, ...]
    type: Type | None


Expr = Const | Var | Bin | Un | Select | Cast | Load | Elem | Address | Offset | Field | Call


def spine(expr: Expr) -> tuple[Expr, list[Bin]]:
    """Return the leftmost operand of a chain, and the chain from the inside (`chain.spine`)."""
    return chain.spine(Bin, expr)


# ---- statements


@dataclass(frozen=True, slots=True)
class Let:
    """Declare a variable with its value; mutable ones may be assigned later."""

    var: Var
    value: Expr
    mutable: bool = False


@dataclass(frozen=True, slots=True)
class Array:
    """A local array of fixed shape in registers or on the stack; CUDA: or shared by a block.

    align: bytes, where copies of several elements at once need it; 0 for the type's own.
    """

    name: str
    type: Type
    shape: tuple[int, ...]
    zero: bool = False
    space: Literal["local", "shared"] = "local"
    align: int = 0


@dataclass(frozen=True, slots=True)
class Assign:
    """place op value: a mutable variable, an array element, pointer[index], a field of the plan."""

    place: Var | Elem | Load | Field
    value: Expr
    op: Literal["=", "+=", "*=", "|=", "&="] = "="


@dataclass(frozen=True, slots=True)
class Serial:
    """A loop that runs in order."""


@dataclass(frozen=True, slots=True)
class Unroll:
    """A loop unrolled by count (0: wholly; 1: never)."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class Simd:
    """A loop whose iterations are independent but for reductions (operator, variable)."""

    reductions: tuple[tuple[Literal["+", "*", "min", "max", "|"], str], ...] = ()


Mark = Serial | Unroll | Simd


@dataclass(frozen=True, slots=True)
class For:
    """for (int64 var = low; var < high; var += step) body."""

    var: Var
    low: Expr
    high: Expr
    body: Stmt
    step: Expr = Const(1, I64)
    mark: Mark = Serial()


@dataclass(frozen=True, slots=True)
class If:
    """if (cond) then else other."""

    cond: Expr
    then: Stmt
    other: Stmt | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Statements in order."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Eval:
    """A call for its effect: pin, fence, prefetch, masked store, barrier, another function."""

    call: Call


@dataclass(frozen=True, slots=True)
class Return:
    """Leave the function."""

    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Comment:
    """A line for the reader of the emitted text."""

    text: str


Stmt = Let | Array | Assign | For | If | Block | Eval | Return | Comment

# ---- functions

Linkage = Literal[
    "micro", "helper", "apart", "inline", "phase", "plan", "range", "kernel", "import", "export"
]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a unit.

    linkage: "micro" is never inlined nor cloned (`noipa`), "helper" is static, "apart" is static
    and compiled once, for what all its calls say alike, "inline" is always inlined, "phase" has the
    ABI's phase signature (`build.phase_function`), "plan" the plan's, "range" gives the range of a
    loop over phases, "kernel" is started on a GPU in blocks of `threads` threads, of which
    `min_blocks` fit on a multiprocessor (0: as many as the registers allow). "import" has no body:
    it is another unit's, where it is an "export".
    is_spelled_out: all that takes time in it is vectors in loops that say how they are unrolled, so
    that a compiler need not look for more.
    """

    name: str
    params: tuple[Var, ...]
    body: Stmt
    linkage: Linkage
    result: Type | None = None
    threads: int = 0
    min_blocks: int = 0
    is_spelled_out: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A constant table of the unit: of integers, or of functions by name."""

    name: str
    type: Type
    values: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class PhaseLoop:
    """Phases [first, last) run for each value in the range that the function `range` gives."""

    first: int
    last: int
    range: str


@dataclass(frozen=True, slots=True)
class Executable:
    """The exported symbol `tc_exe_NAME`: a plan function and phases in their order.

    Loops nest, and stand in the order in which they begin, an outer one first.
    """

    name: str
    plan: str
    phases: tuple[str, ...]
    loops: tuple[PhaseLoop, ...] = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """What stands for one parameter of a kernel, passed by value.

    data: address of operand index; stride: elements between neighbours along its dimension dim;
    size: symbol index of `Program.sizes`; turn: the variable of loop index; scalar: index of
    `Program.scalars`, in its computing type; workspace: address of block index of
    `Unit.workspace`; fault: address of the record that `tc_fault` fills.
    """

    kind: Literal["data", "stride", "size", "turn", "scalar", "workspace", "fault"]
    index: int = 0
    dim: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of a kernel: what its parameters are, and its grid.

    blocks and shared_bytes (dynamic shared memory) are int64 expressions over the size symbols,
    by their names in the emitted text; the grid is linear. Nothing is started where blocks is 0.
    """

    function: str
    arguments: tuple[Argument, ...]
    blocks: Expr
    threads: int
    shared_bytes: Expr = Const(0, I64)


@dataclass(frozen=True, slots=True)
class LaunchLoop:
    """Launches [first, last) once for each value of a variable in [low, high), in order.

    The ends are int64 expressions over size symbols and the variables of loops around.
    """

    var: str
    low: Expr
    high: Expr
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Unit:
    """What is compiled together; header is the comment at its top (TC text, config, sizes).

    A unit for the CPU has executables. One for a GPU has launches, in their order, the loops
    around them (an outer one first), and the bytes of each block of memory that they share
    (temporaries, partial sums), over the size symbols.
    """

    name: str
    header: str
    functions: tuple[Function, ...]
    tables: tuple[Table, ...] = ()
    executables: tuple[Executable, ...] = ()
    launches: tuple[Launch, ...] = ()
    workspace: tuple[Expr, ...] = ()
    loops: tuple[LaunchLoop, ...] = ()
