"""What the kernels of one text share: its definitions, settings, and bindings to types.

Pickle takes the text and the settings, never machine code: the text as it was written, so that
places in messages stay and kernels of one text share it again; a printed one where none was written
(ranks bound, a whole gradient). To unpickle parses only, and what comes back compiles for the
machine that it comes to. A kernel of a text can be read by later versions; a gradient's, which
holds derived texts and shapes, is of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcdsl.calls.bindings import signature as signatures
from tcdsl.calls.bindings.binding import Bound
from tcdsl.calls.bindings.fitting import check_shapes, sizes_of, types_of
from tcdsl.calls.bindings.identity import identity_of
from tcdsl.calls.bindings.met import Met, form_of
from tcdsl.calls.bindings.parsed import parsed
from tcdsl.calls.bindings.rankfree import RankFree, general, key_of
from tcdsl.calls.bindings.ranks import Ranks, Shapes
from tcdsl.calls.bindings.settings import Settings, default_database
from tcdsl.calls.bindings.variant import Advised, Variant
from tcdsl.calls.operands.abstract import AbstractArray
from tcdsl.calls.operands.arguments import Operand
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.caller import warn
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain.host import detect, usable_cores
from tcdsl.grammar.check.bind import bind_generics
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.errors import TCError, TCTypeError, render
from tcdsl.grammar.text.format import format_program
from tcdsl.grammar.text.heads import shapes_of_rank
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.types.dtypes import DType
from tcdsl.grammar.types.typed import CheckedDef
from tcdsl.text.instead import instead
from tcdsl.text.names import generic_values

if TYPE_CHECKING:
    from tcdsl.codegen.gradient.derivatives import Gradient

_MAX_VARIANTS = 512  # of a text: by types, generics, ranks and machine
_RANKS = (2, 1, 3, 0)  # for how many dimensions `...` stands while no call says it: the first right


class Session:
    """The definitions of one text, bound to types as calls need them.

    A definition of any rank has a variant for each combination of ranks and repeated dimensions
    that calls bring. What has no arrays (`Kernel.text`, `autotune` by sizes, the commands) takes
    the rank at which the definition has the sizes that are named.

    origin: what the text is a gradient of, if it was derived. out_dims: of a text over a batch,
    where each return of its last definition has that.
    """

    def __init__(
        self,
        program: nodes.Program,
        settings: Settings,
        origin: Gradient | None = None,
        out_dims: tuple[int | None, ...] | None = None,
    ) -> None:
        self.program = program
        self.settings = settings
        self.origin = origin
        self.out_dims = out_dims
        self._variants: dict[Any, Variant] = {}
        self._rank_free: dict[str, RankFree] = {}  # by the key of what ranks share
        self._lock = Lock()
        self._warned: set[str] = set()
        self._is_bounded = True  # no text is asked whose definitions are checked one by one
        self.ranks = Ranks(program)
        self._met = Met()

    def __reduce__(self) -> tuple[Any, ...]:
        # text only: what runs is compiled for the machine and the process that call
        return _session, (*text_of(self.program), self.settings, self.origin, self.out_dims)

    def has(self, name: str) -> bool:
        """Whether the text has a definition of that name."""
        return any(d.name == name for d in self.program.defs)

    def definition(self, name: str) -> nodes.Def:
        """Return the definition of that name.

        Raises
        ------
        TCTypeError
            If the text has none.
        """
        for d in self.program.defs:
            if d.name == name:
                return d
        names = [d.name for d in self.program.defs]
        raise TCTypeError(f"no definition '{name}'{instead(name, names)}")

    @property
    def machine(self) -> Machine:
        """The machine that kernels are compiled for."""
        return detect()

    @property
    def threads(self) -> int:
        """How many threads a kernel may use."""
        return self.settings.threads or usable_cores()

    def variant(
        self,
        definition: nodes.Def,
        generics: Mapping[str, Any],
        gpu: Gpu | None = None,
        shapes: Shapes | None = None,
    ) -> Variant:
        """Return the definition bound to generics and a machine, checked at its first use.

        shapes, those of the arguments, bind a definition of any rank to theirs. Shapes of the same
        ranks in which the same dimensions are repeated share a variant.
        """
        generics = generic_values(definition, generics)
        text = ""
        if self.ranks.has_any(definition):
            text = self.ranks.text(definition, shapes)
        key = (definition.name, text, tuple(sorted(generics.items(), key=lambda g: g[0])), gpu)
        with self._lock:
            found = self._variants.get(key)
            if found is None:
                found = self._bound(definition, generics, gpu, text, shapes)
                kept = thinned(self._variants, _MAX_VARIANTS)
                if kept is not self._variants:
                    self._variants = kept
                    self._met.clear()  # calls and their tuning go on with one and the same variant
                self._variants[key] = found
            return found

    def _bound(
        self,
        definition: nodes.Def,
        generics: Mapping[str, int | DType],
        gpu: Gpu | None,
        ranked: str,
        shapes: Shapes | None,
    ) -> Variant:
        """Return a new variant: one that has been checked before is not checked again.

        ranked: the text of the definition bound to the ranks of shapes, where it has any rank.
        """

        def checked() -> CheckedDef:
            # on use: most calls find a signature
            from tcdsl.grammar.check.definition import check, want_bounded

            if not self._is_bounded:
                want_bounded(self.program)
                self._is_bounded = True
            program = self.program
            if ranked:
                program = self.program_with(self.ranks.bound(definition, shapes))
            return check(program, definition.name, generics=generics)

        identity = identity_of(self.program, definition, generics, ranked)
        signature = signatures.read(identity, definition)
        known = checked() if signature is None else None
        if known is not None and self.out_dims is None:  # else they were said before
            for warning in known.warnings:
                text = render(warning)
                if text not in self._warned:
                    self._warned.add(text)
                    warn(text)
        # the CPU's results never depend on the moment
        bound = Bound(
            known or checked,
            gpu or self.machine,
            0 if gpu else self.threads,
            is_deterministic=gpu is not None and self.settings.deterministic,
            identity=identity,
            signature=signature,
            shared=self._rank_free_of,
        )
        found = Variant(bound)
        if known is not None and not known.warnings:
            signatures.write(identity, definition, found.signature)
        return found

    def _rank_free_of(self, variant: Variant) -> RankFree:
        """Return the executables that a definition of the CPU has at all ranks."""
        signature, machine = variant.signature, variant.machine
        assert isinstance(machine, Machine), "on a GPU each layout has its own"
        kept = variant.identity is not None
        if self.settings.general:
            return general(signature, machine, variant.threads, is_kept=kept)
        key = key_of(signature)
        with self._lock:
            found = self._rank_free.get(key)
            if found is None:
                threads = variant.threads
                found = RankFree(signature, machine, threads, is_kept=kept, is_general=False)
                self._rank_free = thinned(self._rank_free, _MAX_VARIANTS)
                self._rank_free[key] = found
            return found

    def program_with(self, definition: nodes.Def) -> nodes.Program:
        """Return the program with this definition in place of the one of its name."""
        defs = tuple(definition if d.name == definition.name else d for d in self.program.defs)
        return replace(self.program, defs=defs)

    def with_shapes(self, definition: nodes.Def, shapes: Shapes) -> tuple[Session, nodes.Def]:
        """Return a definition bound to the ranks of arguments, and a session in which it is that.

        Raises
        ------
        TCError
            If it has no meaning at these ranks.
        """
        bound = self.ranks.bound(definition, shapes)
        return Session(self.program_with(bound), self.settings, None, self.out_dims), bound

    def shapes_of_any_rank(
        self, definition: nodes.Def, generics: Mapping[str, Any]
    ) -> Shapes | None:
        """Return shapes of a rank that a definition of any rank has; None if it has one rank."""
        if not self.ranks.has_any(definition):
            return None
        return shapes_of_rank(definition, self.check_now(definition, generics))

    def check_all(self) -> None:
        """Report faults of all definitions.

        One whose calls multiply beyond all bounds is told before work is spent on others.
        """
        self._is_bounded = False
        for definition in self.program.defs:
            self.check_now(definition)

    def check_now(self, definition: nodes.Def, generics: Mapping[str, Any] | None = None) -> int:
        """Report faults that the text shows at `define`, not at the first call.

        A definition with generics that have no default can only be checked when it is bound. One of
        any rank is right if it is at some rank; else it has the faults of two dimensions.

        Returns
        -------
        int
            For how many dimensions `...` may stand in a definition of any rank: two, or else what
            the text allows.
        """
        given = generics or {}
        if any(g.default is None and g.name not in given for g in definition.generics):
            return _RANKS[0]
        is_open = self.ranks.has_any(definition)
        faults = []
        for rank in _RANKS if is_open else _RANKS[:1]:
            try:
                shapes = shapes_of_rank(definition, rank) if is_open else None
                self.variant(definition, given, None, shapes)
            except TCError as fault:
                faults.append(fault)
            else:
                return rank
        raise faults[0]

    def bind(
        self,
        definition: nodes.Def,
        arrays: Sequence[Operand | AbstractArray],
        generics: Mapping[str, Any],
        gpu: Gpu | None = None,
        each: Collection[str] = (),
    ) -> tuple[Variant, dict[str, int]]:
        """Return the variant that takes these arrays or forms, and the sizes they bring.

        gpu is where the arrays lie; None for the host. each: integers of which each element of a
        batch has its own, and no range depends on them; the kernel over the batch checks them.

        Raises
        ------
        TCError
            If generics, types, ranks or sizes do not fit the definition.
        """
        form = None if gpu or each else form_of(definition, arrays, generics)
        if form is None:
            return self._bind(definition, arrays, generics, gpu, each)
        found = self._met.find(form)
        if found is None:
            found = self._bind(definition, arrays, generics, gpu, each)
            self._met.keep(form, definition, *found)
        elif self.origin is not None:
            check_shapes(self.origin, definition, arrays, found[1])
        return found

    def _bind(
        self,
        definition: nodes.Def,
        arrays: Sequence[Operand | AbstractArray],
        generics: Mapping[str, Any],
        gpu: Gpu | None,
        each: Collection[str],
    ) -> tuple[Variant, dict[str, int]]:
        """Do what `bind` does, for forms of operands that are not known."""
        dtypes = types_of(definition, arrays)
        values = bind_generics(definition, dtypes, generic_values(definition, generics))
        shapes = [a.shape for a in arrays]
        variant = self.variant(definition, values, gpu, shapes)
        return variant, sizes_of(variant.signature, definition, arrays, dtypes, each, self.origin)

    @property
    def database(self) -> Path:
        """The SQLite file of tuned configs that calls look into."""
        return self.settings.cache or default_database()

    def tuned(self, variant: Variant) -> Callable[[Spec], Config | None]:
        """Return how to find the config of an exact specialisation; see `Variant.executable`."""
        if not self.has_configs:
            return lambda spec: None
        from tcdsl.calls.bindings.tuned import tuned_config  # on use: it needs SQLite

        return lambda spec: tuned_config(variant, spec, self.database, self.settings.configs)

    def advised(self, variant: Variant) -> Advised:
        """Return how to find another size's config that suits a specialisation."""

        def found(exact: Spec, left_open: Spec | None = None) -> Config | None:
            if not self.has_configs:
                return None
            from tcdsl.calls.bindings import tuned  # on use: it needs SQLite

            files = self.database, self.settings.configs
            if left_open is not None:
                return tuned.open_config(variant, exact, left_open, *files)
            return tuned.neighbour_config(variant, exact, *files)

        return found

    @property
    def has_configs(self) -> bool:
        """Whether calls look for tuned configs."""
        settings = self.settings
        return settings.tune != "off" and (bool(settings.configs) or self.database.exists())


@on_own_stack
def text_of(program: nodes.Program) -> tuple[str, str]:
    """Return a text that means a program, and the name of that text.

    It is the text as it was written where the program is that of a text; else a printed one.
    """
    sources = {d.span.source if d.span is not None else None for d in program.defs}
    written = sources.pop() if len(sources) == 1 else None
    if written is not None and parsed(written.text, written.name) == program:
        return written.text, written.name
    return format_program(program), written.name if written is not None else "<text>"


def _session(
    text: str,
    name: str,
    settings: Settings,
    origin: Gradient | None,
    out_dims: tuple[int | None, ...] | None = None,
) -> Session:
    return Session(parsed(text, name), settings, origin, out_dims)


# Pickles name it by a place that stays: one of today is read by versions to come.
_session.__module__ = "tcdsl.session"
