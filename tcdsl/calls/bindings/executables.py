"""What is compiled of one program for one machine, by specialisation and config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from tcdsl.calls.bindings.beginning import begin
from tcdsl.calls.bindings.index import Index, Own
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.library import load
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain import early
from tcdsl.codegen.toolchain.spare import later
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.stack import stack_for

if TYPE_CHECKING:
    from tcdsl.codegen.device.launch import LoadedUnit
    from tcdsl.codegen.forms.base.regime import Regime
    from tcdsl.codegen.loops.loopir import Unit
    from tcdsl.codegen.program.program import Program

Sizes = tuple[tuple[str, int], ...]

# Is told when a compiler is waited for: what will be wanted after it may be built aside.
COMPILING: ContextVar[Callable[[], None] | None] = ContextVar("compiling", default=None)


@dataclass(frozen=True, slots=True)
class Compiled:
    """An executable and the choice it was made by.

    is_collapsed: it is that of all ranks (`RankFree`): its sizes and strides are those of a `View`.
    """

    spec: Spec
    config: Config
    loaded: load.Loaded | LoadedUnit
    is_collapsed: bool = False


class Executables:
    """The executables of a program: found in this process, by the index, or compiled.

    program: gives it, asked where something is lowered. index: None where nothing is kept.
    """

    def __init__(
        self,
        name: str,
        program: Callable[[], Program],
        machine: Machine | Gpu,
        index: Index | None,
        *,
        is_collapsed: bool = False,
    ) -> None:
        self.name = name
        self.machine = machine
        self.index = index
        self.compiled: dict[tuple[Spec, Config], Compiled] = {}
        self._program = program
        self._is_collapsed = is_collapsed
        self._lock = Lock()
        self._generic: dict[Spec, list[tuple[Regime, Compiled]]] = {}
        self._chosen: tuple[tuple[Spec, Sizes], tuple[Config, Regime]] | None = None  # the last one

    def forget_choices(self) -> None:
        """Choose anew; what was compiled stays."""
        with self._lock:
            self._generic.clear()

    def at_hand(
        self, spec: Spec, sizes: Mapping[str, int], names: Sequence[str]
    ) -> Compiled | None:
        """Return the executable for all sizes of the regime of these, if it was compiled before.

        names: the size symbols of the program.
        """
        with self._lock:
            regimes = self._generic.setdefault(spec, [])
            for regime, compiled in regimes:
                if regime.holds(sizes):
                    return compiled
            if self.index is None:
                return None
            for config, regime in self.index.generic_choices(spec, names):
                if regime.holds(sizes) and (found := self.found(spec, config, sizes)) is not None:
                    regimes.append((regime, found))
                    return found
            return None

    def is_served_alike(self, compiled: Compiled, sizes: Mapping[str, Any]) -> bool:
        """Whether sizes get this executable, if no call has to compile: `Variant.served_alike`."""
        with self._lock:
            for regime, one in self._generic.get(compiled.spec, ()):
                if regime.holds(sizes):
                    return one is compiled
            return False

    def for_all(self, spec: Spec, sizes: Mapping[str, int]) -> Compiled:
        """Compile the executable of the CPU for all sizes of the regime of these."""
        early.begin()
        with self._lock:
            config, regime = self.generic_choice(spec, sizes)
            if self.index is not None:
                later(partial(self.index.keep_generic_choice, spec, config, regime))
            compiled = self.compile(spec, config, sizes)
            self._generic.setdefault(spec, []).append((regime, compiled))
            return compiled

    def generic_choice(self, spec: Spec, sizes: Mapping[str, int]) -> tuple[Config, Regime]:
        """Return the analytic choice of an executable of the CPU for all sizes of a regime."""
        from tcdsl.codegen.choose import compiler  # on use

        assert isinstance(self.machine, Machine)
        asked = spec, tuple(sizes.items())
        with self._lock:
            if self._chosen is None or self._chosen[0] != asked:
                with stack_for(self.name):
                    found = compiler.generic_choice(self._program(), spec, self.machine, sizes)
                self._chosen = asked, found
            return self._chosen[1]

    def unit(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Unit:
        """Return the nests of an executable."""
        from tcdsl.codegen.choose import compiler  # on use

        name, machine, program = self.name, self.machine, self._program()
        if not spec.is_exact and isinstance(machine, Machine):
            return compiler.lower_generic(program, spec, config, machine, sizes, name)
        return compiler.lower(program, spec, config, machine, sizes, name)

    def compile(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Compiled:
        """Return the executable of a specialisation and a config, made once.

        That of a GPU is machine code only once it is bound to a device.
        """
        with self._lock:
            known = self.found(spec, config, sizes)
            if known is None:
                early.begin()
                from tcdsl.codegen.choose import compiler  # on use

                if self.index is not None:
                    later(partial(begin, self.name, self.index.machine))
                unit = self.unit(spec, config, sizes)
                loaded: load.Loaded | LoadedUnit
                if isinstance(self.machine, Gpu):
                    from tcdsl.codegen.device.launch import LoadedUnit  # on use: not on the CPU

                    loaded = LoadedUnit(self._program(), unit)
                else:
                    imports = [f.name for f in unit.functions if f.linkage == "import"]
                    text = compiler.emit_c(unit)
                    if (tell := COMPILING.get()) is not None:
                        later(tell)
                    walks = bool(imports) and _only_walks(unit)
                    loaded = load.compile_and_load(text, self.name, imports, walks)
                    if self.index is not None:
                        self.index.keep_object(spec, config, sizes, loaded)
                known = self._keep(spec, config, loaded)
            return known

    def found(self, spec: Spec, config: Config, sizes: Mapping[str, int]) -> Compiled | None:
        """Return what was compiled in this process, or in another one for this machine."""
        with self._lock:
            known = self.compiled.get((spec, config))
            if known is None and self.index is not None:
                loaded = self.index.object(spec, config, sizes)
                if loaded is not None:
                    known = self._keep(spec, config, loaded)
            return known

    def named(self, spec: Spec, own: Own) -> Compiled | None:
        """Return the executable that a record names, None where its object is not there."""
        with self._lock:
            known = self.compiled.get((spec, own.config))
            if known is None and self.index is not None:
                loaded = self.index.loaded(own.file)
                if loaded is not None:
                    known = self._keep(spec, own.config, loaded)
            return known

    def _keep(self, spec: Spec, config: Config, loaded: load.Loaded | LoadedUnit) -> Compiled:
        known = self.compiled[spec, config] = Compiled(spec, config, loaded, self._is_collapsed)
        return known


def _only_walks(unit: Unit) -> bool:
    from tcdsl.codegen.choose.walks import only_walks  # on use

    return only_walks(unit)
