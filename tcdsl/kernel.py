"""The user's object: a definition that is called with arrays."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tcdsl.calls import record
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.settings import Tune, check_budget, shipped_in
from tcdsl.calls.operands.foreign import recording
from tcdsl.codegen.machine.config import Config
from tcdsl.derived.kernel import DerivableKernel
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.text.nodes import Def, Program
from tcdsl.text.names import with_defaults

if TYPE_CHECKING:
    from tcdsl.autotune.store.shipped import Shipped


class Kernel(DerivableKernel):
    """A definition as a callable on arrays.

    ``k(a, b)`` returns a fresh array, or a named tuple of arrays where the definition has several
    returns; ``k(a, b, out=c)`` (or ``outputs=``) writes into c. Arguments are NumPy arrays,
    anything with ``__dlpack__``, and numbers for parameters of rank 0. Integer generics come by
    keyword. Nothing is copied for its strides. Calls of forms seen before do not enter this class:
    the launcher under it runs them.

    Attributes
    ----------
    name : str
        Of the definition.
    definition : nodes.Def
        Its syntax tree.

    Parameters
    ----------
    backward : str
        The definition of the text that is the way back of recorded calls on tensors; "" where it
        is derived.
    """

    def __init__(self, session: Session, definition: Def, backward: str = "") -> None:
        super().__init__(session, definition)
        self._backward = backward
        record.exists(self)

    def derive(self, session: Session, definition: Def) -> Self:
        """Return a kernel of another session like this one: whatever is made of a kernel is."""
        has_backward = definition.name == self.name and session.has(self._backward)
        return self._with_way_back(session, definition, self._backward if has_backward else "")

    def _with_way_back(self, session: Session, definition: Def, backward: str) -> Self:
        """Return a kernel of another session like this one, with a way back of that session."""
        return type(self)(session, definition, backward)

    def __reduce__(self) -> tuple[Any, ...]:
        by_hand = (self._backward,) if self._backward else ()
        return restored, (type(self), self.session, self.name, *by_hand)

    def __copy__(self) -> Self:
        return self  # as a function's: nothing that a user can set differs between two

    def __deepcopy__(self, memo: object) -> Self:
        return self

    if not TYPE_CHECKING:  # to a checker a name that a kernel has not is a slip of the pen

        def __getattr__(self, name: str) -> Kernel:
            # `T = define(...)`, `T.fcrelu(...)` reads the same for one definition as for several
            if name == self.name:
                return self
            problem = f"no attribute or definition '{name}'; the text has {self.name}"
            raise AttributeError(problem, name=name, obj=self)  # Python adds what was meant

    def __getitem__(self, name: str) -> Kernel:
        """Return this kernel by its name, also where that is a member's: ``T["text"]``."""
        if name == self.name:
            return self
        raise KeyError(f"no definition '{name}'; the text has {self.name}")

    @property
    def database(self) -> Path:
        """The SQLite file of tuned configs that calls look into."""
        return self.session.database

    def with_tune(self, tune: Tune) -> Self:
        """Return this kernel with another setting of `tune`, and executables of its own."""
        return self._with_settings(tune=tune)

    def with_configs(self, configs: str | PathLike[str] | Shipped | None) -> Self:
        """Return this kernel with tuned configs that come with a model; see `define`.

        They take the place of those that it had; None takes them away. Besides a file it takes what
        one was read into, `tcdsl.autotune.store.shipped.Shipped`, which is text by `to_json`.
        """
        return self._with_settings(configs=shipped_in(configs))

    def with_backward(self, backward: str) -> Self:
        """Return this kernel with a definition of its text as its way back; see `define`.

        Raises
        ------
        TCError
            If there is none of that name, or the two do not fit together.
        """
        from tcdsl.derived import by_hand  # on use: most ways back are derived

        session = self.session
        if not session.has(backward):
            names = ", ".join(d.name for d in session.program.defs)
            raise TCTypeError(f"no definition '{backward}' for the way back; the text has {names}")
        by_hand.WayBack(session, self.definition, session.definition(backward))
        return self._with_way_back(session, self.definition, backward)

    def with_shapes(self, *shapes: tuple[int, ...]) -> Self:
        """Return this kernel, and its way back, for arguments of the ranks of these."""
        if not (self._backward and self.has_any_rank):
            return super().with_shapes(*shapes)
        from tcdsl.derived import by_hand  # on use: as above

        return self.derive(*by_hand.with_shapes(self, self._backward, shapes))

    def with_generics(self, values: Mapping[str, Any]) -> Self:
        """Return this kernel with other defaults of integer generics, for its way back too."""
        if not values:
            return self
        old = self.session
        names = {self.name, self._backward}
        defs = tuple(with_defaults(d, values) if d.name in names else d for d in old.program.defs)
        session = Session(Program(defs), old.settings, old.origin, old.out_dims)
        return self.derive(session, session.definition(self.name))

    def with_sizes(self, sizes: Mapping[str, int]) -> Self:
        """Return this kernel for an owner that knows these sizes of its calls.

        It shares nothing that is compiled with kernels for others, neither in a compiled graph.
        """
        listed = tuple(sorted(sizes.items()))
        return self if listed == self.session.settings.sizes else self._with_settings(sizes=listed)

    def _over_batch(self, *asked: Any) -> Self:
        if not self._backward:
            return super()._over_batch(*asked)
        from tcdsl.derived import by_hand  # on use: as above

        session, backward = by_hand.over_batch(self, self._backward, *asked)
        return self._with_way_back(session, session.program.defs[-1], backward)

    def _call_slowly(self, /, *args: Any, **keywords: Any) -> Any:
        if record.is_on() and recording((*args, *keywords.values())) is None:
            record.called(self, args, keywords)
        return super()._call_slowly(*args, **keywords)

    def _with_settings(self, **changes: Any) -> Self:
        old = self.session
        settings = replace(old.settings, **changes)
        session = Session(old.program, settings, old.origin, old.out_dims)
        return self.derive(session, self.definition)

    def tuned_config(self, /, *args: Any, **generics: Any) -> Config | None:
        """Return the config tuned for a call with these arguments, or None."""
        call = self.call(*args, **generics)
        return self.session.tuned(call.variant)(call.spec)

    def autotune(
        self,
        /,
        *args: Any,
        sizes: Sequence[Mapping[str, int]] | None = None,
        cache: str | PathLike[str] | None = None,
        seconds: float | None = None,
        trials: int | None = None,
        seed: int = 0,
        target: str | None = None,
        quiet: bool = False,
        **named: Any,
    ) -> Any:
        """Search the fastest config, keep it, and use it in later calls and processes.

        ``k.autotune(a, b)`` tunes for these arrays, their strides too; ``k.autotune((100, 128),
        (128, 10))`` for these shapes, ``k.autotune(B=range(1, 65), M=128)`` for every combination
        of these sizes, all in C order.

        Parameters
        ----------
        *args : arrays and numbers, or shapes
            One per parameter.
        sizes : sequence of mappings, optional
            Several sets of sizes, in place of sizes by keyword.
        cache : path, optional
            SQLite file; by default the one that calls look into.
        seconds : float, optional
            Budget for all sizes together, kept within a tenth (a first result has thirty seconds).
            Without seconds and trials a search ends when it no longer gains.
        trials : int, optional
            Budget of new trials for each size.
        seed : int
            The same seed takes the same path.
        target : "cpu", "cuda" or "cuda:sm_90", optional
            By default where the arrays lie, the CPU for shapes and sizes. A GPU has to be at hand:
            its first one, or the one where the arrays are, is what is measured. Candidates run
            in a process of their own, and what they break there ends with it.
        quiet : bool
            Show no progress.
        **named
            Sizes (an int, a range or a list each) and generics.

        Returns
        -------
        Config, or dict of Config
            For several sets of sizes a dict, by ``(("B", 1), ("M", 128))``. Shorter where the
            user stopped the search with Ctrl-C: what was found so far is kept.

        Raises
        ------
        TCError
            If the sizes do not fit, or the default itself does not run right, or there is no such
            target here.
        """
        begun = time.monotonic()
        from tcdsl.tuning import autotune  # on use: it needs SQLite

        check_budget(seconds, trials)
        known = {g.name for g in self.definition.generics}
        generics = {k: named.pop(k) for k in [*named] if k in known}
        database = self.database if cache is None else Path(cache)
        variant, found = autotune(
            self, args, sizes, named, generics, target, database, seconds, trials, seed, quiet,
            begun,
        )  # fmt: skip
        self._forget_choices(variant)
        return found


def restored(kind: type[Kernel], session: Session, name: str, backward: str = "") -> Kernel:
    """Return a kernel from what pickle has of it: its class, its session (a text), its names."""
    return kind(session, session.definition(name), backward)
