"""A definition bound to types, generics and a machine: its program, its choices, its texts.

What checks, arranges, lowers and prints is two thirds of our code, and imported by the functions
that do so: a call whose signature and executable records find does without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tcdsl.calls.bindings.executables import Compiled, Executables
from tcdsl.calls.bindings.index import Index
from tcdsl.calls.bindings.rankfree import RankFree
from tcdsl.calls.bindings.signature import Signature
from tcdsl.calls.operands.collapse import View
from tcdsl.calls.operands.collapse_rows import RowView
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain import early
from tcdsl.codegen.toolchain.spare import later
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.stack import stack_for
from tcdsl.grammar.types.typed import CheckedDef

if TYPE_CHECKING:
    from tcdsl.codegen.device.standalone import Standalone
    from tcdsl.codegen.program.program import Program


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A definition and what it is bound to.

    checked : the definition; or what checks it, where its signature is known, which is all that
        calls ask where the executable is.
    machine : the CPU; or a GPU: all GPUs of the same description share a variant.
    threads : that a call may use; 0 on a GPU.
    is_deterministic : see `Spec`.
    identity : the definition and its types as text, by which later processes find what was chosen
        and compiled; without it nothing is kept.
    shared : gives the executables of all ranks, where the definition is pointwise or along rows.
    """

    checked: CheckedDef | Callable[[], CheckedDef]
    machine: Machine | Gpu
    threads: int
    is_deterministic: bool = False
    identity: str | None = None
    signature: Signature | None = None
    shared: Callable[[Any], RankFree] | None = None


class Binding:
    """A definition bound to types and a machine; `Variant`: which executable serves which call."""

    def __init__(self, bound: Bound) -> None:
        self._lock = Lock()
        self._checked, self._signature = bound.checked, bound.signature
        self._program: Program | None = None
        self.identity, self.machine = bound.identity, bound.machine
        self.name = (self._signature or self.checked).name
        self._index: Index | None = None
        if self.identity is not None and isinstance(self.machine, Machine):
            self._index = Index(self.identity, self.name, self.machine)
        self._made = Executables(self.name, lambda: self.program, self.machine, self._index)
        self._shared = bound.shared
        self._rank_free: RankFree | None = None
        self.threads = bound.threads
        self.is_deterministic = bound.is_deterministic

    @property
    def checked(self) -> CheckedDef:
        """The definition, checked at its first use."""
        with self._lock:
            if callable(self._checked):
                self._checked = self._checked()
            return self._checked

    @property
    def program(self) -> Program:
        """The statements, made at their first use."""
        with self._lock:
            if self._program is None:
                from tcdsl.codegen.program.last import with_last_points  # on use
                from tcdsl.codegen.program.ssa import program_of

                with stack_for(self.name):
                    checked = self.checked
                    if self.is_for_gpu:  # where points that meet would wait for each other
                        checked = with_last_points(checked)
                    self._program = program_of(checked)
            return self._program

    @property
    def signature(self) -> Signature:
        """What calls ask of the definition."""
        if self._signature is not None:
            return self._signature
        with self._lock:
            if self._signature is None:
                from tcdsl.codegen.program.inplace import inplace_pairs  # on use

                program = self.program
                with stack_for(self.name):
                    self._signature = Signature.of(self.checked, program, inplace_pairs(program))
            return self._signature

    @property
    def executables(self) -> tuple[Compiled, ...]:
        """What was compiled so far."""
        shared = () if self._rank_free is None else self._rank_free.executables
        return *self._made.compiled.values(), *shared

    @property
    def rank_free(self) -> RankFree | None:
        """What serves calls whose dimensions are collapsed; None where they cannot be."""
        if self._shared is None or self.is_for_gpu:
            return None
        if self.signature.pointwise is None and self.signature.rowwise is None:
            return None
        with self._lock:
            if self._rank_free is None:
                self._rank_free = self._shared(self)
            return self._rank_free

    def of_any_rank(self, view: View | RowView) -> Compiled | None:
        """Return the executable that serves a view of operands; None where there is no such."""
        with self._lock:
            shared = self.rank_free
            return None if shared is None else shared.executable(view, lambda: self.program)

    def default_of_calls(self, spec: Spec, sizes: Mapping[str, int]) -> Config:
        """Return the analytic choice, which a record may say if the executable is there too."""
        if self._index is None:
            return self.default_config(spec, sizes)
        known = self._index.choice(spec, sizes)
        if known is not None and self._made.found(spec, known, sizes) is not None:
            return known
        config = self.default_config(spec, sizes)
        if config != known:
            later(partial(self._index.keep_choice, spec, sizes, config))
        return config

    def is_legal(self, spec: Spec, config: Config) -> bool:
        """Whether a config, as a file has it, is one of this program's at exact sizes."""
        if self._index is not None and self._index.is_legal(spec, config):
            return True
        from tcdsl.codegen.choose import compiler  # on use

        with stack_for(self.name):
            sizes = dict(spec.sizes or ())
            found = compiler.is_legal(self.program, spec, config, self.machine, sizes)
        if found and self._index is not None:
            self._index.keep_legal(spec, config)
        return found

    def default_config(self, spec: Spec, sizes: Mapping[str, int]) -> Config:
        """Return the analytic choice."""
        early.begin()
        from tcdsl.codegen.choose import compiler  # on use

        if spec.sizes is None and not self.is_for_gpu:
            return self._made.generic_choice(spec, sizes)[0]
        with stack_for(self.name):
            return compiler.default_config(self.program, spec, self.machine, sizes)

    def text(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> str:
        """Return the C or CUDA text of an executable."""
        from tcdsl.codegen.choose import compiler  # on use

        with stack_for(self.name):
            unit = self._made.unit(spec, config, sizes)
            return (compiler.emit_cuda if self.is_for_gpu else compiler.emit_c)(unit)

    def standalone(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Standalone:
        """Return CUDA text that compiles alone, and a C header that says how to start it.

        Raises
        ------
        TCTypeError
            If the machine is no GPU.
        """
        if not isinstance(self.machine, Gpu):
            raise TCTypeError("only text for a GPU stands alone; expected the target 'cuda'")
        from tcdsl.codegen.device.standalone import standalone  # on use: calls do without

        unit = self._made.unit(spec, config, sizes)
        return standalone(unit, self.program, spec, self.machine.arch)

    @property
    def is_for_gpu(self) -> bool:
        """Whether the machine is a GPU."""
        return isinstance(self.machine, Gpu)

    def compile(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Compiled:
        """Return the executable of a specialisation and a config, made once."""
        return self._made.compile(spec, config, sizes)
